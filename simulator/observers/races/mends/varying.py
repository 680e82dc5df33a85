"""Which branches may threads of one block, or lanes of one warp, take differently?

Rules of this file: it looks at the program alone, at no run.  What is not sure counts as different, but for loads: what
lies at one address is one value for all.  A wrong guess costs a mend, never a finding.
"""

from __future__ import annotations

from simulator.machine.flow import Flow, flow_of
from simulator.program import Const, FromRegister, Op, Program

_OWN = frozenset({"atom", "shfl", "match", "activemask"})
"""Operations that give each lane a result of its own."""
WARP = 32


def varying(program: Program, scope: str) -> frozenset[str]:
    """The blocks that end with a branch which threads of one ``scope``, a "block" or a "warp", may take differently."""
    found: frozenset[str] | None = program.derived.get(("varying", scope))
    if found is None:
        found = program.derived["varying", scope] = _varying(program, scope)
    return found


def _varying(program: Program, scope: str) -> frozenset[str]:
    flow = flow_of(program)
    differs = {
        slot
        for slot, known in enumerate(program.slots)
        if isinstance(known.init, FromRegister) and known.init.name.startswith(("tid", "lane"))
    }
    writers: dict[int, int] = {}
    for op in program.ops():
        for slot in op.dst:
            writers[slot] = writers.get(slot, 0) + 1
    numbers = _numbers(program) if scope == "warp" else frozenset()
    branches, count = frozenset[str](), -1
    while count != len(differs) + len(branches):
        count = len(differs) + len(branches)
        for label, block in program.blocks.items():
            kept = _kept(flow, branches.intersection(flow.controlling(label)))
            for op in block.ops:
                if _differs(program, op, differs, scope, numbers):
                    differs |= set(op.dst)
                else:
                    differs |= {slot for slot in op.dst if slot in kept and writers[slot] > 1}
        branches = _branches(program, flow, differs)
    return branches


def _kept(flow: Flow, branches: frozenset[str]) -> frozenset[int]:
    """The slots that are used where lanes meet again: some of them have kept what was there before the branch."""
    meetings = (flow.live_in.get(flow.ipdom[label], frozenset()) for label in branches)
    return frozenset().union(*meetings)


def _branches(program: Program, flow: Flow, differs: set[int]) -> frozenset[str]:
    terms = {label: program.blocks[label].term for label, targets in flow.successors.items() if len(targets) > 1}
    return frozenset(label for label, term in terms.items() if term is not None and term.cond in differs)


def _differs(program: Program, op: Op, differs: set[int], scope: str, numbers: frozenset[int]) -> bool:
    """May the threads of a scope get different results?"""
    if op.kind == "bar":
        return False
    if op.kind in _OWN:
        return True
    if op.kind == "vote":
        return scope == "block"
    if (
        op.kind == "ld"
        and (alloc := program.allocs.get(op.attr.get("name", ""))) is not None
        and alloc.space == "local"
    ):
        return True
    return not differs.isdisjoint(op.src) and not _one_per_warp(program, op, numbers)


def _numbers(program: Program) -> frozenset[int]:
    """The slots that hold the thread's number along x."""
    found = {slot for slot, known in enumerate(program.slots) if known.init == FromRegister("tid.x")}
    defined: dict[int, list[Op]] = {}
    for op in program.ops():
        for slot in op.dst:
            defined.setdefault(slot, []).append(op)
    count = 0
    while count != len(found):
        count = len(found)
        copies = (ops[0] for ops in defined.values() if len(ops) == 1 and ops[0].kind in ("mov", "cvt"))
        found |= {op.dst[0] for op in copies if op.src[0] in found}
    return frozenset(found)


def _one_per_warp(program: Program, op: Op, numbers: frozenset[int]) -> bool:
    """Is it the number of the warp, or the question whether a thread's number is below a multiple of 32?

    Blocks are taken to be rows of whole warps.
    """
    if len(op.src) != 2 or numbers.isdisjoint(op.src):
        return False
    one, two = op.src
    known = program.slots[two if one in numbers else one].init
    if not isinstance(known, Const) or not isinstance(known.value, int):
        return False
    value = known.value
    match op.kind:
        case "shr":
            return one in numbers and value >= 5
        case "div" | "floordiv":
            return one in numbers and value > 0 and value % WARP == 0
        case "cmp":
            how = op.attr["how"]
            below = how in (("lt", "ge") if one in numbers else ("gt", "le"))
            return how not in ("eq", "ne") and value % WARP == (0 if below else WARP - 1)
    return False
