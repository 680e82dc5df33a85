"""What the machine must know of a program's control flow: liveness, dominators, post-dominators.

Plain iterative data flow; programs have tens of blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from simulator.kinds import SYNC
from simulator.program import EXIT, Program

COMPANY = ("activemask", "bar")
"""Operations that tell a lane where others are."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Facts per block label: slots live at its entry, where its divergent lanes meet again, who dominates it."""

    live_in: dict[str, frozenset[int]]
    ipdom: dict[str, str]
    postdominators: dict[str, frozenset[str]]
    dominators: dict[str, frozenset[str]]
    steering: dict[str, tuple[str, ...]]
    """Per block with an operation that waits: the branches that decide whether it is reached, outermost first."""
    direct: dict[str, frozenset[str]]
    """Per block: the branches of which one side surely leads to it and another one need not."""
    successors: dict[str, list[str]]
    predecessors: dict[str, list[str]]
    loops: dict[str, frozenset[str]]
    """Per head of a loop (a block to which a block that it dominates goes back): the blocks of the loop."""
    alone: frozenset[str]
    """The heads of loops in which lanes neither ask who is with them nor meet at a barrier: what they do there hangs on
    their variables and on memory alone."""
    sequence: dict[str, int]
    """A number per block, such that lanes come to a smaller one first, and leave a loop to a greater one."""

    def live_before(self, program: Program, label: str, index: int) -> frozenset[int]:
        """Slots live before operation ``index`` of a block."""
        block = program.blocks[label]
        assert block.term is not None
        live = set[int]()
        for to in block.term.to:
            live |= self.live_in[to]
        if block.term.cond is not None:
            live.add(block.term.cond)
        for op in reversed(block.ops[index:]):
            live -= set(op.dst)
            live |= set(op.src)
        return frozenset(slot for slot in live if program.slots[slot].init is None)

    def controlling(self, label: str) -> tuple[str, ...]:
        """The branches that decide whether a block is reached, outermost first: control dependence, with all that it
        depends on itself."""
        found, todo = set[str](), [label]
        while todo:
            new = self.direct[todo.pop()] - found
            found |= new
            todo += new
        return tuple(sorted(found, key=lambda k: (len(self.dominators[k]), k)))

    def way_round(self, head: str) -> frozenset[str]:
        """All blocks through which lanes that stand at ``head`` can come back there: of outer loops, too."""
        return _reached(head, self.successors) & _reached(head, self.predecessors)

    def skipped(self, barrier: str, exit_block: str) -> bool:
        """Did lanes that left through ``exit_block`` go past a barrier in block ``barrier`` without executing it?

        They did if they surely ran a block that everybody runs after the barrier; lanes that returned early did not.
        A block that everybody also runs before the barrier, such as the head of its loop, tells nothing.
        """
        after = self.postdominators[barrier] - {EXIT} - self.dominators[barrier]
        return bool(after & self.dominators[exit_block])


def flow_of(program: Program) -> Flow:
    """What is known of a finished program; it is worked out once."""
    found: Flow | None = program.derived.get("flow")
    if found is None:
        found = program.derived["flow"] = _analyse(program)
    return found


def _analyse(program: Program) -> Flow:
    successors = {label: _successors(program, label) for label in program.blocks}
    predecessors: dict[str, list[str]] = {label: [] for label in program.blocks}
    for label, targets in successors.items():
        for to in targets:
            predecessors[to].append(label)
    after = {label: targets or [EXIT] for label, targets in successors.items()}
    postdominators = _dominators(list(reversed(program.blocks)), after, EXIT)
    before = {label: found for label, found in predecessors.items() if label != program.entry}
    dominators = _dominators(list(program.blocks), before, program.entry)
    ipdom = {label: _nearest(postdominators, label) for label in program.blocks}
    direct = _direct(successors, postdominators)
    loops = _loops(predecessors, dominators)
    company = {label for label, block in program.blocks.items() if any(op.kind in COMPANY for op in block.ops)}
    alone = frozenset(head for head, body in loops.items() if not body & company)
    live_in = _live_in(program, successors)
    steering: dict[str, tuple[str, ...]] = {}
    flow = Flow(
        live_in=live_in,
        ipdom=ipdom,
        postdominators=postdominators,
        dominators=dominators,
        steering=steering,
        direct=direct,
        successors=successors,
        predecessors=predecessors,
        loops=loops,
        alone=alone,
        sequence=_sequence(program.entry, successors, loops),
    )
    waiting = (label for label, block in program.blocks.items() if any(op.kind in SYNC for op in block.ops))
    steering.update({label: flow.controlling(label) for label in waiting})
    return flow


def _reached(start: str, neighbours: dict[str, list[str]]) -> frozenset[str]:
    """The blocks to which some way leads from ``start``, and itself."""
    found, todo = {start}, [start]
    while todo:
        new = set(neighbours[todo.pop()]) - found
        found |= new
        todo += new
    return frozenset(found)


def _sequence(entry: str, successors: dict[str, list[str]], loops: dict[str, frozenset[str]]) -> dict[str, int]:
    """Blocks in reverse post-order; ways out of loops are followed first, so that they come last."""

    def ways(label: str) -> Iterator[str]:
        around = [body for body in loops.values() if label in body]
        return iter(sorted(successors[label], key=lambda to: sum(to in body for body in around)))

    order: list[str] = []
    seen = {entry}
    stack = [(entry, ways(entry))]
    while stack:
        label, left = stack[-1]
        to = next((to for to in left if to not in seen), None)
        if to is None:
            order.append(label)
            stack.pop()
        else:
            seen.add(to)
            stack.append((to, ways(to)))
    return {label: number for number, label in enumerate(reversed(order))}


def _loops(predecessors: dict[str, list[str]], dominators: dict[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Natural loops, by their heads."""
    found = {}
    for head, before in predecessors.items():
        todo = [label for label in before if head in dominators[label]]
        if todo:
            body = {head}
            while todo:
                label = todo.pop()
                if label not in body:
                    body.add(label)
                    todo += predecessors[label]
            found[head] = frozenset(body)
    return found


def _direct(successors: dict[str, list[str]], postdominators: dict[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Control dependence."""
    found: dict[str, set[str]] = {label: set() for label in successors}
    for branch, targets in successors.items():
        if len(targets) > 1:
            for to in targets:
                for label in postdominators[to] - {EXIT}:
                    if label == branch or label not in postdominators[branch]:
                        found[label].add(branch)
    return {label: frozenset(branches) for label, branches in found.items()}


def _successors(program: Program, label: str) -> list[str]:
    term = program.blocks[label].term
    assert term is not None
    return list(dict.fromkeys(term.to))


def _live_in(program: Program, successors: dict[str, list[str]]) -> dict[str, frozenset[int]]:
    used, defined = {}, {}
    for label, block in program.blocks.items():
        gen, kill = set[int](), set[int]()
        for op in block.ops:
            gen |= {slot for slot in op.src if slot not in kill}
            kill |= set(op.dst)
        assert block.term is not None
        if block.term.cond is not None and block.term.cond not in kill:
            gen.add(block.term.cond)
        used[label], defined[label] = gen, kill
    live: dict[str, set[int]] = {label: set() for label in program.blocks}
    changed = True
    while changed:
        changed = False
        for label in reversed(program.blocks):
            out = set[int]().union(*(live[to] for to in successors[label]))
            new = used[label] | (out - defined[label])
            if new != live[label]:
                live[label], changed = new, True
    variable = {slot for slot, found in enumerate(program.slots) if found.init is None}
    return {label: frozenset(found & variable) for label, found in live.items()}


def _dominators(order: list[str], before: dict[str, list[str]], root: str) -> dict[str, frozenset[str]]:
    """Who dominates whom, given for each node its neighbours nearer to the root (``before``)."""
    everything = frozenset([*order, root])
    found = dict.fromkeys(order, everything)
    found[root] = frozenset({root})
    changed = True
    while changed:
        changed = False
        for label in order:
            if label == root:
                continue
            near = [found[k] for k in before.get(label, ())]
            new = (frozenset.intersection(*near) if near else everything) | {label}
            if new != found[label]:
                found[label], changed = new, True
    return found


def _nearest(postdominators: dict[str, frozenset[str]], label: str) -> str:
    strict = postdominators[label] - {label}
    return max(strict, key=lambda k: len(postdominators.get(k, ())), default=EXIT)
