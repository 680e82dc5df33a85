"""The typed SIMT program: what every front end produces and what the one machine runs.

Rules of this file:

* It imports neither NumPy, Numba nor the machine.  A program is plain data.
* Types are static.  Every slot has one dtype, every operation names the dtype it computes in;
  a value never decides a type.
* Every operand is a slot.  Constants, parameters, special registers and addresses of allocations are the
  *initial values* of slots, not operations.  Slots are not SSA: a reassigned variable keeps its slot.
* Aggregates (arrays, tuples, ranges) are scalarised by the front end, calls are inlined by it;
  ``Pos.via`` keeps the call stack for display.

A dtype is one of the codes in ``DTYPES``: ``b1`` (predicate), ``i1 i2 i4 i8 u1 u2 u4 u8`` (integers, size in
bytes), ``f2 bf f4 f8`` (IEEE half, bfloat16, single, double).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from simulator.compiled import MachineCode
from simulator.kinds import KINDS

INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
FLOATS = ("f2", "bf", "f4", "f8")
DTYPES = ("b1", *INTEGERS, *FLOATS)
SIZES = {code: 2 if code == "bf" else int(code[1]) for code in DTYPES}


def c_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Strides in bytes of a contiguous array, last axis fastest.

    >>> c_strides((2, 3), 4)
    (12, 4)
    """
    strides: list[int] = []
    for extent in reversed(shape):
        strides.insert(0, itemsize)
        itemsize *= extent
    return tuple(strides)


@dataclass(frozen=True, slots=True)
class Struct:
    """An element of an array that is no number: its bytes, and what to show of it.

    ``name`` is NumPy's (``complex64``, ``datetime64[D]``, ``S3``); a record has none, but fields: name, byte offset,
    element and extents (a field that is an array).

    >>> Struct("", 12, (("x", 0, "f4", ()), ("at", 4, "i4", (2,)))).fields[1][1]
    4
    """

    name: str
    size: int
    fields: tuple[tuple[str, int, Element, tuple[int, ...]], ...] = ()


Element = str | Struct
"""What an array holds: numbers of a dtype code, or structures."""


def size_of(element: Element) -> int:
    """The bytes of an element.

    >>> size_of("f4"), size_of(Struct("complex128", 16))
    (4, 16)
    """
    return SIZES[element] if isinstance(element, str) else element.size


EXIT = "<exit>"
"""Label of the virtual block behind every exit (post-dominates everything)."""
CALL_STACK = "call stack"
"""The array in which functions that call themselves keep where to return to: a thread that leaves it cannot go on."""


@dataclass(frozen=True, slots=True)
class Pos:
    """A place in the user's source.  ``via`` is the call site when the code was inlined from a device function."""

    file: str
    line: int
    column: int | None = None
    function: str = ""
    via: Pos | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Const:
    """A slot that starts with a constant: int, float or bool, already in the range of the slot's dtype.

    ``source`` is the dtype that it had in the source, where another dtype made it float64.
    """

    value: int | float | bool
    source: str = ""


@dataclass(frozen=True, slots=True)
class FromParam:
    """A slot that starts with the launch parameter of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class FromRegister:
    """A slot that starts with a special register, named as in PTX (see ``REGISTERS``)."""

    name: str


@dataclass(frozen=True, slots=True)
class FromAlloc:
    """A slot that starts with the address of ``Program.allocs[name]``."""

    name: str


Init = Const | FromParam | FromRegister | FromAlloc

REGISTERS = {
    **{f"{base}.{axis}": "i4" for base in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"},
    "laneid": "i4",
    "lanemask_lt": "u4",
    "dynamic_smem_size": "u4",
}
"""Special registers and their dtypes: thread and block index, their extents, lane, bytes of dynamic shared memory."""


@dataclass(slots=True)
class Slot:
    """One scalar per lane.  ``name`` is the user's variable name, "" for a temporary."""

    dtype: str
    name: str = ""
    init: Init | None = None


@dataclass(slots=True, eq=False)
class Op:
    """One operation.  ``dst`` and ``src`` are slot numbers, ``dtype`` is the type it computes in; see ``kinds``."""

    kind: str
    dtype: str
    dst: tuple[int, ...]
    src: tuple[int, ...]
    pos: Pos
    attr: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Term:
    """How a block ends: ``jump`` (to[0]), ``branch`` (cond ? to[0] : to[1]) or ``exit``."""

    kind: str
    pos: Pos
    to: tuple[str, ...] = ()
    cond: int | None = None


@dataclass(slots=True, eq=False)
class Block:
    """Straight-line operations and a terminator."""

    ops: list[Op] = field(default_factory=list)
    term: Term | None = None


@dataclass(slots=True)
class Alloc:
    """Memory that the program declares.

    ``space`` is ``shared`` (a copy per block), ``local`` (a copy per lane) or ``const`` (one copy, holding ``data``).
    ``size`` is in bytes; ``dynamic`` shared allocations take theirs from the launch and all share one address.
    """

    name: str
    space: str
    size: int
    align: int
    dtype: Element
    shape: tuple[int, ...]
    pos: Pos
    dynamic: bool = False
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Param:
    """One scalar that the launch hands over.

    ``path`` leads to the argument (``(2,)`` the third, ``(2, 0)`` the first item of a tuple).  ``role`` says what of
    it: ``value`` (the scalar itself; of a time its count of units), ``real`` or ``imag`` of a complex number, or of an
    array or record its ``address``, ``shape`` or ``stride`` (bytes) along ``axis``, its ``size`` (elements) or
    ``itemsize``; ``zero`` is a word that the ABI has but nobody reads.
    """

    name: str
    dtype: str
    role: str
    path: tuple[int, ...]
    axis: int = 0


@dataclass(eq=False)
class Program:
    """A kernel, flat: slots, blocks, declared memory and the parameters that a launch must bind.

    ``arguments`` names the kernel's arguments in call order; ``debug``: what the kernel raises reaches the host;
    ``captured`` are arrays of the device that the kernel names as globals, the last ones of ``arguments``.
    ``cooperative``: it asks for the group of all threads of the grid.
    """

    name: str
    front: str
    pos: Pos
    arguments: tuple[str, ...] = ()
    debug: bool = False
    cooperative: bool = False
    captured: list[Any] = field(default_factory=list)
    params: list[Param] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    blocks: dict[str, Block] = field(default_factory=dict)
    entry: str = ""
    allocs: dict[str, Alloc] = field(default_factory=dict)
    doubles: set[int | Pos] = field(default_factory=set)
    """What the source casts to float64 by name, as ``float64(x)``: the slots of the results, and where."""
    floats: set[int] = field(default_factory=set)
    """What the source makes float64 without its name, by ``float(x)``: the slots of the results."""
    uncalled: list[tuple[str, Pos]] = field(default_factory=list)
    """Synchronising functions that the source names and does not call: ``cuda.syncthreads`` without parentheses."""
    machine_code: Callable[[tuple[int, int]], MachineCode] | None = field(default=None, repr=False)
    """Compiles the kernel for a compute capability, if the front end can; raises ``NotCompiled``."""
    derived: dict[Any, Any] = field(default_factory=dict, repr=False)
    """What the machine works out of the finished program and keeps with it (control flow, generated code)."""
    _initial: dict[tuple[str, Init, str], int] = field(default_factory=dict, repr=False)

    def slot(self, dtype: str, name: str = "", init: Init | None = None) -> int:
        """A new slot; slots with the same initial value are shared (they are never written)."""
        if init is not None:
            # repr tells -0.0 from 0.0 and True from 1, which compare equal
            key = (dtype + repr(init), init, "" if isinstance(init, Const) else name)
            if key in self._initial:
                return self._initial[key]
            self._initial[key] = len(self.slots)
        self.slots.append(Slot(dtype, name, init))
        return len(self.slots) - 1

    def const(self, dtype: str, value: int | float | bool, source: str = "") -> int:
        """The slot that holds this constant."""
        return self.slot(dtype, "", Const(value, source))

    def ops(self) -> Iterator[Op]:
        """All operations, block by block."""
        for block in self.blocks.values():
            yield from block.ops

    def describe(self, slot: int) -> str:
        """A slot in words, for the printed program."""
        found = self.slots[slot]
        match found.init:
            case None:
                return f"{found.name or 't'}.{slot}"
            case Const(value):
                return f"{value!r}:{found.dtype}"
            case FromParam(name) | FromRegister(name) | FromAlloc(name):
                return f"{name}:{found.dtype}"

    def __str__(self) -> str:
        lines = [f"program {self.name} ({self.front})"]
        for label, block in self.blocks.items():
            lines.append(f" block {label}:")
            for op in block.ops:
                attrs = " ".join(f"{key}={value}" for key, value in op.attr.items())
                left = ", ".join(map(self.describe, op.dst))
                right = ", ".join(map(self.describe, op.src))
                lines.append(f"  {op.pos.line:4d}  {left:24s} = {op.kind}.{op.dtype} {right}  {attrs}".rstrip())
            if block.term is not None:
                cond = "" if block.term.cond is None else self.describe(block.term.cond)
                lines.append(f"        {block.term.kind} {cond} {' '.join(block.term.to)}".rstrip())
        return "\n".join(lines)


def validate(program: Program) -> Program:
    """Check that a front end kept the rules; a breach is that front end's bug.  Returns the program."""
    for label, block in program.blocks.items():
        for op in block.ops:
            _check_op(program, op)
        term = block.term
        if term is None:
            raise ValueError(f"block {label} has no terminator")
        if term.kind not in ("jump", "branch", "exit") or len(term.to) != ("exit", "jump", "branch").index(term.kind):
            raise ValueError(f"block {label} ends with {term}")
        if term.kind == "branch" and (term.cond is None or program.slots[term.cond].dtype != "b1"):
            raise ValueError(f"block {label} branches on something that is not a predicate")
        if missing := [to for to in term.to if to not in program.blocks]:
            raise ValueError(f"block {label} goes to {missing[0]}, which does not exist")
    if program.entry not in program.blocks:
        raise ValueError("the program has no entry block")
    return program


def _check_op(program: Program, op: Op) -> None:
    kind = KINDS.get(op.kind)
    if kind is None:
        raise ValueError(f"{op.pos}: unknown operation kind {op.kind!r}")
    if op.dtype not in DTYPES:
        raise ValueError(f"{op.pos}: unknown dtype {op.dtype!r}")
    for count, found, side in ((kind.src, op.src, "sources"), (kind.dst, op.dst, "results")):
        if count is not None and len(found) != count:
            raise ValueError(f"{op.pos}: {op.kind} has {len(found)} {side} instead of {count}")
    if extra := set(op.attr) - set(kind.attrs):
        raise ValueError(f"{op.pos}: {op.kind} knows no attribute {sorted(extra)}")
    if written := [slot for slot in op.dst if program.slots[slot].init is not None]:
        raise ValueError(f"{op.pos}: {op.kind} writes {program.describe(written[0])}, which is constant")
    plain = kind.group in ("arithmetic", "math") or op.kind in ("mov", "and", "or", "xor", "not", "brev")
    if plain and op.kind != "math":
        for slot in (*op.src, *op.dst):
            if program.slots[slot].dtype != op.dtype:
                raise ValueError(f"{op.pos}: {op.kind}.{op.dtype} has an operand of dtype {program.slots[slot].dtype}")
