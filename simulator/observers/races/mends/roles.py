"""What a racing access is for, as the program alone tells: does a load spin, does an atomic tell of a store?

Rules of this file: it looks at operations and blocks, at no run.  A wrong guess costs a mend, never a finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulator.kinds import MEMORY, SYNC
from simulator.machine.flow import flow_of
from simulator.observers.races.mends.places import leads, spot
from simulator.observers.races.mends.updates import Definitions, behind, defined, definitions
from simulator.observers.races.mends.varying import varying
from simulator.program import Const, Op, Program


def spins(program: Program, load: Op) -> bool:
    """Does a loop without barriers go round until this load, of a place that stays the same, gives another value?"""
    for body, condition in _exits(program):
        ops = [op for label in body for op in program.blocks[label].ops]
        if load not in ops or any(op.kind == "bar" for op in ops):
            continue
        inside = definitions(ops)
        if load in behind(condition, inside) and _stays(load.src[0], inside):
            return True
    return False


def waits(program: Program) -> bool:
    """Does some thread wait in a loop for what another one stores?  It is worked out once."""
    found: bool | None = program.derived.get("waits")
    if found is None:
        loads = (op for op in program.ops() if op.kind in ("ld", "atom"))
        found = program.derived["waits"] = any(spins(program, op) for op in loads)
    return found


def told_by(program: Program, before: Op, after: Op) -> Op | None:
    """The atomic by which the thread of ``before`` tells that of ``after`` to go on, if no fence lies ahead of it.

    ``after`` comes behind a branch on what an atomic found in the same array.
    """
    flow, start, end = flow_of(program), spot(program, before), spot(program, after)
    heard: set[str] = set()
    for label in flow.dominators[end[0]] - {end[0]}:
        term = program.blocks[label].term
        if term is not None and term.cond is not None:
            sources = behind(term.cond, defined(program), MEMORY)
            heard |= {op.attr["name"] for op in sources if op.kind == "atom"}
    if not heard:
        return None
    parting = varying(program, "block")
    mine = parting.intersection(flow.controlling(start[0]))
    for op in program.ops():
        if op.kind != "atom" or op.attr["name"] not in heard or _only_reads(program, op):
            continue
        at = spot(program, op)
        if parting.intersection(flow.controlling(at[0])) <= mine and leads(program, start, at, ("bar", "fence")):
            return op
    return None


def _only_reads(program: Program, atomic: Op) -> bool:
    """Does it leave what it finds: ``cuda.atomic.add(flag, 0, 0)``?"""
    operand = program.slots[atomic.src[1]].init
    return atomic.attr["op"] in ("add", "sub", "or", "xor") and isinstance(operand, Const) and not operand.value


def _exits(program: Program) -> Iterator[tuple[frozenset[str], int]]:
    """Each branch that leaves a loop: the blocks of the loop, and the condition."""
    for body in flow_of(program).loops.values():
        for label in sorted(body):
            term = program.blocks[label].term
            if term is not None and term.cond is not None and not set(term.to) <= body:
                yield body, term.cond


def _stays(slot: int, inside: Definitions) -> bool:
    """Is a value the same whenever the loop comes round: from nothing that the loop counts, loads or receives?"""
    sources = behind(slot, inside)
    known = {op for ops in inside.values() for op in ops}
    return not any(
        op.kind in MEMORY | SYNC or op in {b for source in op.src for b in behind(source, inside)}
        for op in sources & known
    )
