"""Finds arithmetic in float64 that the author did not ask for, and what brought it.

Rules of this file:

* The program alone says it; nothing has to run.  Types are Numba's, so what is float64 here is float64 on the card,
  unless the compiler folds it back: ``x * 0.5`` stored to float32 is.  Where there is a compiler, its code decides: a
  chain without a float64 instruction is no finding.
* A *chain* are float64 values that flow into one another, up to where they are rounded to another type.
* Somebody asked for a chain that loads or stores float64 (an array of any space), or in which the source names the
  type, as ``float64(x)``.  Nobody asked for the others.
* What brought a chain: a literal (Python's are float64), an integer that meets a float32 or is divided by an integer, a
  variable that is another integer type on each path, an argument of type float64.  One fault for each line that did.
* Code of libraries is not the author's: chains that Numba's own files brought are left out.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from simulator.compiled import Line, MachineCode, NotCompiled
from simulator.kinds import KINDS
from simulator.machine.faults import Fault, Place
from simulator.observers.verdict import Verdict
from simulator.program import INTEGERS, Const, FromParam, Op, Pos, Program

CAPABILITY = (9, 0)
"""For which the code is compiled; whether float64 is left does not depend on it."""

_WORK = ("arithmetic", "math", "compare")


@dataclass(frozen=True, slots=True)
class Bringer:
    """What made something float64.  ``how``: literal, integer, variable, argument or operation.

    ``what`` is the literal, the variable or the argument; ``code`` the integer type; ``use`` the kind of operation,
    and ``beside`` says whether a float takes part in it.
    """

    how: str
    places: tuple[Pos, ...]
    what: Any = ""
    code: str = ""
    use: str = ""
    beside: bool = False


@dataclass(slots=True)
class Chain:
    """Float64 values that flow into one another: what brought them, where they are worked with."""

    bringers: list[Bringer] = field(default_factory=list)
    worked: list[Pos] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    asked: bool = False

    @property
    def lines(self) -> frozenset[Line]:
        """The lines where it computes."""
        return frozenset((PurePath(pos.file).name, pos.line) for pos in self.worked)


class Doubles(Verdict):
    """The float64 of a program that nobody asked for, as ``faults``."""

    def __init__(self) -> None:
        self._program: Program | None = None

    def launch(self, program: Program, grid: Any, block: Any, memory: Any) -> None:
        self._program = program

    def faults(self) -> list[Fault]:
        """One for each line that brings float64."""
        if self._program is None:
            return []
        kept: dict[str, list[Fault]] = self._program.derived
        if "doubles" not in kept:
            kept["doubles"] = list(_faults(self._program))
        return list(kept["doubles"])


def _faults(program: Program) -> Iterator[Fault]:
    unasked = [chain for chain in chains(program) if chain.worked and not chain.asked]
    if not unasked:
        return
    compiled = _compiled(program)
    told: set[tuple[str, int]] = set()
    for chain in unasked:
        if compiled is not None and not _is_left(chain, compiled):
            continue
        for bringer in chain.bringers:
            first, *others = bringer.places
            if (first.file, first.line) not in told:
                told.add((first.file, first.line))
                yield _fault(bringer, chain, compiled is not None, [first, *others])


def _fault(bringer: Bringer, chain: Chain, confirmed: bool, places: list[Pos]) -> Fault:
    lines = [(pos.file, pos.line) for pos in places]
    here = next((k for k, pos in enumerate(chain.worked) if (pos.file, pos.line) in lines), 0)
    work = next((pos for pos in chain.worked[here:] if (pos.file, pos.line) not in lines), None)
    return Fault(
        "float64",
        tuple(Place(pos, 0, ()) for pos in places),
        how=bringer.how,
        what=bringer.what,
        code=bringer.code,
        use=bringer.use,
        beside=bringer.beside,
        work=work,
        confirmed=confirmed,
    )


def _compiled(program: Program) -> MachineCode | None:
    """The compiled code; None where nothing can be compiled."""
    if program.machine_code is None:
        return None
    try:
        return program.machine_code(CAPABILITY)
    except NotCompiled:
        return None


def _is_left(chain: Chain, code: MachineCode) -> bool:
    """Does the compiled code still compute this chain in float64?  What it moved out of a loop is known by its kind."""
    if chain.lines & code.float64_lines():
        return True
    return any(moved in _COMPILED.get(kind, {kind}) for moved in code.float64_moved() for kind in chain.kinds)


_COMPILED = {
    "add": {"add", "sub", "fma"},
    "sub": {"add", "sub", "fma"},
    "mul": {"mul", "fma"},
    "div": {"div", "rcp", "mul"},
    "rsqrt": {"rsqrt", "sqrt", "rcp"},
    "cmp": {"setp", "set"},
    "math": {"fma"},
}
"""Kinds of operations and the instructions that may be left of them."""


# -- chains ---------------------------------------------------------------------------------------------------------


def chains(program: Program) -> list[Chain]:
    """The chains of a program, in the order of their first operations."""
    ops = [op for op in program.ops() if _touches_doubles(program, op)]
    leaders = _Leaders()
    for op in ops:
        leaders.join(_flowing(program, op))
    found: dict[int, Chain] = {}
    for op in ops:
        for slot in _flowing(program, op)[:1]:
            _enter(program, op, found.setdefault(leaders.of(slot), Chain()))
        if not _flowing(program, op):  # nothing but constants and arguments, rounded at once
            _enter(program, op, found.setdefault(-1 - len(found), Chain()))
    for chain in found.values():
        if chain.worked and not chain.bringers:
            chain.bringers.append(Bringer("operation", (chain.worked[0],)))
    return list(found.values())


class _Leaders:
    """Sets of slots that have joined; each has a leader."""

    def __init__(self) -> None:
        self._of: dict[int, int] = {}

    def of(self, slot: int) -> int:
        while (leader := self._of.setdefault(slot, slot)) != slot:
            slot = leader
        return slot

    def join(self, slots: list[int]) -> None:
        for slot in slots[1:]:
            self._of[self.of(slot)] = self.of(slots[0])


def _touches_doubles(program: Program, op: Op) -> bool:
    return any(program.slots[slot].dtype == "f8" for slot in (*op.src, *op.dst))


def _flowing(program: Program, op: Op) -> list[int]:
    """The float64 slots of an operation that hold what was computed; a constant belongs to no chain."""
    slots = (slot for slot in (*op.dst, *op.src) if program.slots[slot].dtype == "f8")
    return [slot for slot in slots if program.slots[slot].init is None]


def _enter(program: Program, op: Op, chain: Chain) -> None:
    """What an operation says of its chain."""
    if op.kind in ("ld", "st", "atom") and op.dtype == "f8":
        chain.asked = True
    if op.kind in ("cvt", "mov", "bitcast") and program.doubles & {op.pos, *op.dst, *op.src}:
        chain.asked = True
    if op.kind == "bitcast":  # its bits are meant: a trick with numbers, or a union
        chain.asked = True
    whole = op.kind == "cvt" and {op.dtype, op.attr["source"]} & set(INTEGERS)
    if whole or (KINDS[op.kind].group in _WORK and op.dtype == "f8"):
        chain.worked.append(op.pos)
        chain.kinds.add(op.kind)
    if not _in_library(op.pos):
        chain.bringers += _bringers(program, op)


def _bringers(program: Program, op: Op) -> Iterator[Bringer]:
    if op.kind == "cvt" and op.dtype == "f8" and op.attr["source"] in INTEGERS and not _meets_argument(program, op):
        yield _from_integer(program, op)
    if op.kind in ("select", "mov") or KINDS[op.kind].group in _WORK:
        for slot in op.src:
            found = program.slots[slot]
            if found.dtype == "f8" and isinstance(found.init, Const) and slot not in program.doubles:
                named = _named(program, op, slot)
                yield Bringer("literal", (named.pos,), found.init.value, program.slots[named.dst[0]].name, named.kind)
            if found.dtype == "f8" and isinstance(found.init, FromParam):
                yield Bringer("argument", (op.pos,), found.init.name)


def _meets_argument(program: Program, op: Op) -> bool:
    """Does an integer become float64 for an argument that is?  Then the argument brought it."""
    use = next((o for o in program.ops() if op.dst[0] in o.src), None)
    slots = [program.slots[slot] for slot in use.src] if use is not None else []
    return any(slot.dtype == "f8" and isinstance(slot.init, FromParam) for slot in slots)


def _named(program: Program, op: Op, slot: int) -> Op:
    """The operation that a constant is told of: this one, or that which gave it a name if the line does not show it."""
    init = program.slots[slot].init
    if isinstance(init, Const) and repr(init.value) not in linecache.getline(op.pos.file, op.pos.line):
        moves = (o for o in program.ops() if o.kind == "mov" and o.src == (slot,) and program.slots[o.dst[0]].name)
        return next(moves, op)
    return op


def _from_integer(program: Program, op: Op) -> Bringer:
    """An integer becomes float64: because it is divided, meets a float32, or shares a variable with another type."""
    (target,), source = op.dst, op.attr["source"]
    others = [o for o in program.ops() if target in o.dst and o.kind == "cvt" and o.attr["source"] in INTEGERS]
    if len({o.attr["source"] for o in others}) > 1:
        places = tuple(dict.fromkeys(o.pos for o in others))
        return Bringer("variable", places, program.slots[target].name, ", ".join(o.attr["source"] for o in others))
    use = next((o for o in program.ops() if target in o.src), None)
    beside = use is not None and any(_is_float(program, slot) for slot in use.src if slot != target)
    given = program.slots[op.src[0]]
    name = given.init.name if isinstance(given.init, FromParam) else given.name
    return Bringer("integer", (op.pos,), name, source, use.kind if use is not None else "", beside)


def _is_float(program: Program, slot: int) -> bool:
    """Does a float64 slot hold what was a float in the source?  A whole constant may have been an integer there."""
    init = program.slots[slot].init
    if isinstance(init, Const):
        return isinstance(init.value, float) and not init.value.is_integer()
    made = [op for op in program.ops() if slot in op.dst]
    return not all(op.kind == "cvt" and op.attr["source"] in INTEGERS for op in made)


def _in_library(pos: Pos) -> bool:
    return bool({"numba", "numba_cuda"} & set(PurePath(pos.file).parts[:-1])) and "site-packages" in pos.file
