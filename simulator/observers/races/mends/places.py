"""Where a barrier can stand between two accesses: what it has to cut, and which branches and loops are in its way.

Rules of this file:

* It follows the program's flow, not its lines.  Two accesses race *within* a round of a loop (or without a loop), or
  one races with the other's *next* round; a barrier between the two orders the former, one at the end of the round the
  latter.
* A barrier must be reached by all threads: it stands outside of branches that they take differently (``varying``) and
  in no loop that they go round differently often.  Where the program has a barrier already, all are taken to come.
* A branch past which some threads return at once is none: those count as arrived.
* It looks at no run.  A wrong guess costs a mend, never a finding.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from simulator.kinds import MEMORY, SYNC
from simulator.machine.flow import Flow, flow_of
from simulator.observers.races.mends.varying import varying
from simulator.program import Op, Program

Spot = tuple[str, int]
"""A block and the number of an operation in it."""


@dataclass(frozen=True, slots=True)
class Gap:
    """What is in the way of a barrier, as lines: ``inner``, branches that hold one of the accesses, to stay out of;
    ``outer``, branches that hold both (of a barrier at the end of a round: the whole loop); ``uneven``, loops whose
    rounds differ by thread.  Loops among ``inner`` are in ``loops``, too."""

    inner: tuple[int, ...] = ()
    outer: tuple[int, ...] = ()
    uneven: tuple[int, ...] = ()
    loops: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Order:
    """Two accesses as the flow has them: ``first`` and ``second`` of one round.  ``apart``: no way leads from one to
    the other within a round (arms of a branch).  ``within`` and ``again``: does a way without a barrier lead from the
    first to the second within a round, from the second to the first through the ``loop`` of this head?"""

    first: Op
    second: Op
    apart: bool
    within: bool
    again: bool
    loop: str | None


def spot(program: Program, op: Op) -> Spot:
    """Where an operation stands."""
    found: dict[Op, Spot] | None = program.derived.get("spots")
    if found is None:
        found = program.derived["spots"] = {
            op: (label, number) for label, block in program.blocks.items() for number, op in enumerate(block.ops)
        }
    return found[op]


def common_loops(flow: Flow, *labels: str) -> list[str]:
    """The heads of the loops that hold all these blocks, innermost first."""
    heads = [head for head, body in flow.loops.items() if body.issuperset(labels)]
    return sorted(heads, key=lambda head: len(flow.loops[head]))


def leads(
    program: Program,
    start: Spot,
    end: Spot,
    kinds: Iterable[str] = (),
    avoid: str | None = None,
    inside: frozenset[str] | None = None,
) -> bool:
    """Does a way lead from behind ``start`` to ``end``, past no operation of these kinds, not into block ``avoid`` and
    ``inside`` these blocks?"""
    flow, cut = flow_of(program), frozenset(kinds)

    def clear(label: str, first: int, last: int | None = None) -> bool:
        return not any(op.kind in cut for op in program.blocks[label].ops[first:last])

    (label, number), (goal, last) = start, end
    if label == goal and number < last and clear(label, number + 1, last):
        return True
    if not clear(label, number + 1):
        return False
    seen, todo = {avoid}, list(flow.successors[label])
    while todo:
        label = todo.pop()
        if label in seen or (inside is not None and label not in inside):
            continue
        seen.add(label)
        if label == goal and clear(label, 0, last):
            return True
        if clear(label, 0):
            todo += flow.successors[label]
    return False


def order(program: Program, one: Op, two: Op, near: bool) -> Order:
    """How the flow orders two accesses; ``near``: of lanes of one warp, which warp operations order, too."""
    flow, cut = flow_of(program), SYNC if near else ("bar",)
    a, b = spot(program, one), spot(program, two)
    loops = common_loops(flow, a[0], b[0])
    avoid = loops[0] if loops else None
    onward, back = leads(program, a, b, avoid=avoid), leads(program, b, a, avoid=avoid)
    if back and not onward:
        one, two, a, b = two, one, b, a
    apart = one is not two and not (onward or back)
    within = apart or (one is not two and leads(program, a, b, cut, avoid))
    for head in loops:
        body = flow.loops[head]
        if leads(program, b, (head, 0), cut, None, body) and leads(program, (head, -1), a, cut, None, body):
            return Order(one, two, apart, within, True, head)
    return Order(one, two, apart, within, False, avoid)


def between(program: Program, found: Order, near: bool) -> Gap:
    """What is in the way of a barrier between the two, within a round."""
    flow, parting = flow_of(program), _parting(program, near)
    labels = [spot(program, op)[0] for op in (found.first, found.second)]
    over = [[k for k in flow.controlling(label) if k in parting and not _guards(program, k, label)] for label in labels]
    both = [k for k in over[0] if k in over[1]]
    loops = [k for k in both if _leaves(flow, k, *labels)]
    alone = [next((k for k in those if k not in both), None) for those in over]
    return _gap(program, flow, alone, [k for k in both if k not in loops], loops, labels)


def at_the_end(program: Program, found: Order, near: bool) -> Gap:
    """What is in the way of a barrier behind the second access, before the first one's next round."""
    assert found.loop is not None
    flow, parting, label = flow_of(program), _parting(program, near), spot(program, found.second)[0]
    body = flow.loops[found.loop]
    over = [k for k in flow.controlling(label) if k in parting]
    outer = [k for k in over if k not in body and not _guards(program, k, label)]
    loops = [k for k in parting & body if not body.issuperset(flow.successors[k])]
    inner = [k for k in over if k in body and k not in loops]
    return _gap(program, flow, inner[:1], outer, loops, [label])


def _gap(
    program: Program, flow: Flow, inner: Iterable[str | None], outer: list[str], uneven: Iterable[str], held: list[str]
) -> Gap:
    def lines(labels: Iterable[str]) -> tuple[int, ...]:
        terms = (program.blocks[label].term for label in labels)
        return tuple(sorted({term.pos.line for term in terms if term is not None}))

    inside = [label for label in inner if label is not None]
    loops = [k for k in inside if any(_leaves(flow, k, label) for label in held)]
    return Gap(lines(inside), lines(outer), lines(uneven), lines(loops))


def _parting(program: Program, near: bool) -> frozenset[str]:
    """The branches behind which not all threads go on that a barrier needs."""
    flow = flow_of(program)
    kinds = SYNC if near else ("bar",)
    met = {
        k
        for label, block in program.blocks.items()
        if any(op.kind in kinds for op in block.ops)
        for k in flow.controlling(label)
    }
    return varying(program, "warp" if near else "block") - met


def _leaves(flow: Flow, branch: str, *labels: str) -> bool:
    """Does this branch lead out of a loop that holds all these blocks?"""
    return any(
        {branch, *labels} <= body and not body.issuperset(flow.successors[branch]) for body in flow.loops.values()
    )


def _guards(program: Program, branch: str, label: str) -> bool:
    """Do threads return at once where this branch is taken, as by ``if i >= n: return``, and others reach ``label``?"""
    flow, term = flow_of(program), program.blocks[branch].term
    assert term is not None
    at = term.to[0]
    if any(branch in body for body in flow.loops.values()):
        return False
    while not any(op.kind in MEMORY | SYNC for op in program.blocks[at].ops) and at != label:
        if not flow.successors[at]:
            return True
        if len(flow.successors[at]) > 1:
            return False
        at = flow.successors[at][0]
    return False
