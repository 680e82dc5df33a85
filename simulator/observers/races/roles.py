"""What a racing access is for, as the program alone tells: does a load spin, do a load and a store update one element?

Rules of this file: it looks at operations and blocks, at no run.  A wrong guess costs a mend, never a finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from simulator.kinds import MEMORY, SYNC
from simulator.machine.flow import flow_of
from simulator.program import Op, Program


def spins(program: Program, load: Op) -> bool:
    """Does a loop without barriers go round until this load, of a place that stays the same, gives another value?"""
    for body, condition in _exits(program):
        ops = [op for label in body for op in program.blocks[label].ops]
        if load not in ops or any(op.kind == "bar" for op in ops):
            continue
        defined = _definitions(ops)
        steers = load in _behind(condition, defined)
        if steers and _stays(load.src[0], defined):
            return True
    return False


def one_element(program: Program, load: Op, store: Op) -> bool:
    """Is the address that is stored to computed as the one that is loaded from: ``x[i] += 1``, not ``x[i] += x[j]``?"""
    defined = _definitions(program.ops())
    return _alike(load.src[0], store.src[0], defined)


def _exits(program: Program) -> Iterator[tuple[frozenset[str], int]]:
    """Each branch that leaves a loop: the blocks of the loop, and the condition."""
    for body in flow_of(program).loops.values():
        for label in sorted(body):
            term = program.blocks[label].term
            if term is not None and term.cond is not None and not set(term.to) <= body:
                yield body, term.cond


def _definitions(ops: Iterable[Op]) -> dict[int, list[Op]]:
    """Who writes each slot."""
    found: dict[int, list[Op]] = {}
    for op in ops:
        for slot in op.dst:
            found.setdefault(slot, []).append(op)
    return found


def _behind(slot: int, defined: dict[int, list[Op]]) -> set[Op]:
    """All operations that a value is computed from."""
    seen: set[Op] = set()
    todo = list(defined.get(slot, ()))
    while todo:
        op = todo.pop()
        if op not in seen:
            seen.add(op)
            todo += [other for source in op.src for other in defined.get(source, ())]
    return seen


def _stays(slot: int, defined: dict[int, list[Op]]) -> bool:
    """Is a value the same whenever the loop comes round: from nothing that the loop counts, loads or receives?"""
    behind = _behind(slot, defined)
    known = {op for ops in defined.values() for op in ops}
    return not any(
        op.kind in MEMORY | SYNC or op in {b for source in op.src for b in _behind(source, defined)}
        for op in behind & known
    )


def _alike(one: int, other: int, defined: dict[int, list[Op]]) -> bool:
    """Are two values computed the same way from the same slots?"""
    a, b = defined.get(one, []), defined.get(other, [])
    if one == other:
        return len(a) < 2  # else it may have changed in between
    if len(a) != 1 or len(b) != 1:
        return False
    this, that = a[0], b[0]
    if (this.kind, this.dtype, this.attr) != (that.kind, that.dtype, that.attr) or this.kind in MEMORY | SYNC:
        return False
    return len(this.src) == len(that.src) and all(
        _alike(x, y, defined) for x, y in zip(this.src, that.src, strict=True)
    )


def waits(program: Program) -> bool:
    """Does some thread wait in a loop for what another one stores?  It is worked out once."""
    found: bool | None = program.derived.get("waits")
    if found is None:
        loads = (op for op in program.ops() if op.kind in ("ld", "atom"))
        found = program.derived["waits"] = any(spins(program, op) for op in loads)
    return found
