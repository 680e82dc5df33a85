"""Finds arithmetic in float64 that the author did not ask for, and what brought it.

Rules of this file:

* The program alone says it; nothing has to run.  Types are Numba's, so what is float64 here is float64 on the card,
  unless the compiler folds it back: ``x * 0.5`` stored to float32 is.  Where there is a compiler, its code decides: a
  chain without a float64 instruction is no finding.
* A *chain* are float64 values that flow into one another, up to where they are rounded to another type.
* Somebody asked for a chain that loads or stores float64 (an array of any space), or in which the source names the
  type, as ``float64(x)``.  Nobody asked for the others, unless all floats in memory are float64.
* What brought a chain: a literal (Python's are float64), an integer that meets a float32 or is divided by an integer, a
  variable that is another integer type on each path, an argument of type float64.  One fault for each line that did.
* The code of a device function may stand, when it is compiled, on the line of its call.
* Code of libraries is not the author's: chains that Numba's own files brought are left out.
"""

from __future__ import annotations

import linecache
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from simulator.compiled import NO_LINE, Line, MachineCode, NotCompiled
from simulator.kinds import KINDS, MEMORY
from simulator.machine.faults import Fault, Place
from simulator.observers.verdict import Verdict
from simulator.program import FLOATS, INTEGERS, Const, FromParam, Op, Pos, Program, Slot

CAPABILITY = (9, 0)
"""For which the code is compiled; whether float64 is left does not depend on it."""

_WORK = ("arithmetic", "math", "compare")
_SINGLE = ("f2", "bf", "f4")


@dataclass(frozen=True, slots=True)
class Bringer:
    """What made something float64.  ``how``: literal, integer, variable, argument or operation.

    ``what`` is the literal (as written), the variable or the argument; ``code`` the integer type; ``name`` the variable
    that a literal starts; ``use`` the kind of operation, and ``beside`` the float type that takes part in it.  An
    integer beside a float64 brought nothing, unless nothing else did.
    """

    how: str
    places: tuple[Pos, ...]
    what: str = ""
    code: str = ""
    name: str = ""
    use: str = ""
    beside: str = ""


@dataclass(slots=True)
class Chain:
    """Float64 values that flow into one another: what brought them, where they are worked with."""

    bringers: list[Bringer] = field(default_factory=list)
    work: list[Op] = field(default_factory=list)
    asked: bool = False


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
    unasked = [chain for chain in chains(program) if chain.work and not chain.asked]
    if not unasked or _is_of_doubles(program):
        return
    compiled = _compiled(program)
    told: set[tuple[str, int]] = set()
    for chain in unasked:
        if compiled is not None and not _is_left(chain, compiled):
            continue
        for bringer in [one for one in chain.bringers if one.beside != "f8"] or chain.bringers:
            first, *others = bringer.places
            if (first.file, first.line) not in told:
                told.add((first.file, first.line))
                yield _fault(bringer, chain, compiled is not None, [first, *others])


def _fault(bringer: Bringer, chain: Chain, confirmed: bool, places: list[Pos]) -> Fault:
    lines = [(pos.file, pos.line) for pos in places]
    work = None
    if not any((op.pos.file, op.pos.line) in lines for op in chain.work if op.kind != "cvt"):
        elsewhere = [op.pos for op in chain.work if (op.pos.file, op.pos.line) not in lines]
        after = (pos for pos in elsewhere if (pos.file, pos.line) > lines[0])
        work = next(after, elsewhere[0] if elsewhere else None)
    return Fault(
        "float64",
        tuple(Place(pos, 0, ()) for pos in places),
        how=bringer.how,
        what=bringer.what,
        code=bringer.code,
        name=bringer.name,
        use=bringer.use,
        beside=bringer.beside,
        work=work,
        confirmed=confirmed,
    )


def _is_of_doubles(program: Program) -> bool:
    """Are all floats in memory float64?"""
    return {op.dtype for op in program.ops() if op.kind in MEMORY and op.dtype in FLOATS} == {"f8"}


def _compiled(program: Program) -> MachineCode | None:
    """The compiled code; None where nothing can be compiled."""
    if program.machine_code is None:
        return None
    try:
        return program.machine_code(CAPABILITY)
    except NotCompiled:
        return None


def _is_left(chain: Chain, code: MachineCode) -> bool:
    """Does the compiled code still compute this chain in float64?  What it moved out of a loop has no line."""
    found = code.float64_instructions()
    return any(
        line in (NO_LINE, *_lines(op.pos)) and (op.kind not in _COMPILED or name in _COMPILED[op.kind])
        for op in chain.work
        for line, name in found
    )


def _lines(pos: Pos) -> Iterator[Line]:
    """Where the compiled code of a place may stand: there, or where its function is called."""
    place: Pos | None = pos
    while place is not None:
        yield PurePath(place.file).name, place.line
        place = place.via


_COMPILED = {
    "add": {"add", "sub", "fma", "mul"},
    "sub": {"add", "sub", "fma"},
    "mul": {"mul", "fma", "add"},
    "div": {"div", "rcp", "mul"},
    "fma": {"fma", "mul", "add"},
    "sqrt": {"sqrt"},
    "rsqrt": {"rsqrt", "sqrt", "rcp"},
    "cmp": {"setp", "set", "min", "max"},
    "min": {"min", "setp"},
    "max": {"max", "setp"},
    "cvt": {"cvt"},
}
"""Kinds of operations and the instructions that may be left of them; of others, any may."""


# -- chains ---------------------------------------------------------------------------------------------------------


def chains(program: Program) -> list[Chain]:
    """The chains of a program, in the order of their first operations."""
    ops = [op for op in program.ops() if _touches_doubles(program, op) and not op.attr.get("implied")]
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
        if chain.work and not chain.bringers:
            chain.bringers.append(Bringer("operation", (chain.work[0].pos,)))
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
        chain.work.append(op)
    if not _in_library(op.pos):
        chain.bringers += _bringers(program, op)


def _bringers(program: Program, op: Op) -> Iterator[Bringer]:
    if op.kind == "cvt" and op.dtype == "f8" and op.attr["source"] in INTEGERS and not _meets_argument(program, op):
        yield _from_integer(program, op)
    if op.kind in ("select", "mov") or KINDS[op.kind].group in _WORK:
        for slot in op.src:
            match program.slots[slot]:
                case Slot("f8", _, Const() as init) if slot not in program.doubles:
                    if init.source not in _SINGLE:
                        yield _from_literal(program, op, slot, init)
                case Slot("f8", _, FromParam(name)):
                    yield Bringer("argument", (op.pos,), name)


def _meets_argument(program: Program, op: Op) -> bool:
    """Does an integer become float64 for an argument that is?  Then the argument brought it."""
    use = _use(program, op.dst[0])
    slots = [program.slots[slot] for slot in use.src] if use is not None else []
    return any(slot.dtype == "f8" and isinstance(slot.init, FromParam) for slot in slots)


def _use(program: Program, slot: int) -> Op | None:
    """The first operation of the source that takes a value."""
    return next((op for op in program.ops() if slot in op.src and not op.attr.get("implied")), None)


def _from_literal(program: Program, op: Op, slot: int, init: Const) -> Bringer:
    """A constant is told where it stands; where the line does not show it, of the operation that gave it a name."""
    whole = init.source in INTEGERS
    value = int(init.value) if whole else init.value
    text = _written(value, op.pos)
    if text is None:
        moves = (o for o in program.ops() if o.kind == "mov" and o.src == (slot,) and program.slots[o.dst[0]].name)
        op = next(moves, op)
        text = _written(value, op.pos) or (repr(value) if math.isfinite(value) else _NOT_FINITE[str(value)])
    name = program.slots[op.dst[0]].name if op.kind == "mov" else ""
    beside = _beside(program, op, slot) if whole else ""
    return Bringer("literal", (op.pos,), text, init.source if whole else "", name, op.kind, beside)


_NOT_FINITE = {"inf": "math.inf", "-inf": "-math.inf", "nan": "math.nan"}


def _written(value: float, pos: Pos) -> str | None:
    """A literal as a line of the source has it; None if it is not there."""
    line = linecache.getline(pos.file, pos.line)
    if math.isfinite(value):
        text = repr(value)
        return text if re.search(rf"(?<![\w.]){re.escape(text.lstrip('-'))}(?![\w.])", line) else None
    sign = "-" if value < 0 else ""
    found = re.search(rf"{sign}((math|np|numpy)\.)?{str(value).lstrip('-')}\b", line)
    return found[0] if found is not None else None


def _from_integer(program: Program, op: Op) -> Bringer:
    """An integer becomes float64: because it is divided, meets a float32, or shares a variable with another type."""
    (target,), source = op.dst, op.attr["source"]
    if target in program.floats:
        return Bringer("operation", (op.pos,))
    others = [o for o in program.ops() if target in o.dst and o.kind == "cvt" and o.attr["source"] in INTEGERS]
    if len({o.attr["source"] for o in others}) > 1:
        places = tuple(dict.fromkeys(o.pos for o in others))
        return Bringer("variable", places, program.slots[target].name, ", ".join(o.attr["source"] for o in others))
    use, given = _use(program, target), program.slots[op.src[0]]
    name = given.init.name if isinstance(given.init, FromParam) else given.name
    if use is None:
        return Bringer("integer", (op.pos,), name, source)
    return Bringer("integer", (op.pos,), name, source, use=use.kind, beside=_beside(program, use, target))


def _beside(program: Program, use: Op, slot: int) -> str:
    """The float type of the source that meets a number in an operation: single precision, if any does; "" if none."""
    met = {code for other in use.src if other != slot for code in _written_as(program, other)} & set(FLOATS)
    return min(met, key=lambda code: (code not in _SINGLE, code), default="")


def _written_as(program: Program, slot: int) -> set[str]:
    """The types in the source of what a float64 slot holds; what is computed may have been anything."""
    init = program.slots[slot].init
    if init is not None:
        return {(isinstance(init, Const) and init.source) or "f8"}
    if slot in program.floats:
        return {"f8"}
    made = [op for op in program.ops() if slot in op.dst]
    started = {
        code for op in made if op.kind == "mov" and _is_const(program, op) for code in _written_as(program, op.src[0])
    }
    return started or {op.attr["source"] if op.kind == "cvt" else "f8" for op in made}


def _is_const(program: Program, op: Op) -> bool:
    return isinstance(program.slots[op.src[0]].init, Const)


def _in_library(pos: Pos) -> bool:
    return bool({"numba", "numba_cuda"} & set(PurePath(pos.file).parts[:-1])) and "site-packages" in pos.file
