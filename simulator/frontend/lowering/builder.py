"""Appends operations to a program: the one place of the front end that makes slots, operations and blocks."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

from simulator.frontend import typed_ir as ir
from simulator.frontend.lowering.constants import constant, folds
from simulator.program import Block, Const, FromRegister, Op, Pos, Program, Term

_EXTENTS = {"ntid": 1024, "nctaid": 0x7FFFFFFF}
"""Special registers that are never 0, and how large they get."""


Library = Callable[[Callable[..., Any], tuple[str, ...]], ir.Function]
"""Types a function of the simulator's own for arguments of these dtypes."""


class Builder:
    """The program in the making, the block that grows and the position of what comes next."""

    def __init__(self, program: Program, library: Library) -> None:
        self.program = program
        self.library = library
        self.pos = program.pos
        self.block = Block()
        self._prologue: list[Op] = []
        self._launch_casts: dict[tuple[int, str], int] = {}
        self._bounds: dict[int, int] = {}
        self.declared: dict[object, str] = {}
        self.families: dict[object, frozenset[Any]] = {}
        self._labels = 0

    # ------------------------------------------------------------------------------------------------ blocks

    def label(self, stem: str) -> str:
        """A new label; the counter keeps the copies of an inlined function apart."""
        self._labels += 1
        return f"{stem}#{self._labels}"

    def start(self, label: str) -> None:
        """Go on in a new block."""
        self.block = self.program.blocks[label] = Block()

    def jump(self, to: str) -> None:
        """End the block: go to another."""
        self.block.term = Term("jump", self.pos, (to,))

    def branch(self, condition: int, yes: str, no: str) -> None:
        """End the block: go to one of two."""
        self.block.term = Term("branch", self.pos, (yes, no), condition)

    def exit(self) -> None:
        """End the block: the thread is done."""
        self.block.term = Term("exit", self.pos)

    def trap(self, kind: type[BaseException], *args: Any) -> None:
        """End the block: an exception was raised.  Numba's kernels return then (and tell, with ``debug=True``)."""
        said = f"({', '.join(map(repr, args))})" if args else ""
        self.do("trap", "b1", message=f"{kind.__name__}{said}", raised=(kind, args))
        self.exit()

    # -------------------------------------------------------------------------------------------- operations

    def dtype(self, slot: int) -> str:
        """The dtype of a slot."""
        return self.program.slots[slot].dtype

    def const(self, code: str, value: Any) -> int:
        """A slot with a constant, wrapped or rounded to the dtype."""
        return self.program.const(code, constant(value, code))

    def known(self, slot: int) -> int | float | bool | None:
        """The value of a constant slot, None for any other."""
        init = self.program.slots[slot].init
        return init.value if isinstance(init, Const) else None

    def new(self, code: str, name: str = "") -> int:
        """A slot that something will be moved into."""
        return self.program.slot(code, name)

    def op(self, kind: str, code: str, *sources: int, result: str | None = None, **attr: Any) -> int:
        """An operation with one result, of dtype ``result`` (the operation's own unless given)."""
        target = self.program.slot(result or code)
        self.block.ops.append(Op(kind, code, (target,), sources, self.pos, attr))
        if kind == "mul" and code == "i8":
            a, b = map(self.bound, sources)
            if a is not None and b is not None and a * b < 1 << 63:
                self._bounds[target] = a * b
        return target

    def ops(self, kind: str, code: str, *sources: int, results: tuple[str, ...], **attr: Any) -> tuple[int, ...]:
        """An operation with several results."""
        targets = tuple(self.program.slot(result) for result in results)
        self.block.ops.append(Op(kind, code, targets, sources, self.pos, attr))
        return targets

    def do(self, kind: str, code: str, *sources: int, **attr: Any) -> None:
        """An operation without a result."""
        self.block.ops.append(Op(kind, code, (), sources, self.pos, attr))

    def move(self, source: int, target: int) -> None:
        """Copy a slot into another of the same dtype."""
        if source != target:
            self.block.ops.append(Op("mov", self.dtype(target), (target,), (source,), self.pos))

    def cast(self, slot: int, code: str) -> int:
        """The slot converted to a dtype, if it has another."""
        source = self.dtype(slot)
        if source == code:
            return slot
        value = self.known(slot)
        if value is not None and folds(source, code):
            return self.program.const(code, constant(value, code), self._written(slot) if code == "f8" else "")
        if self.program.slots[slot].init is not None:
            return self._launch_cast(slot, code)
        return self.op("cvt", code, slot, source=source)

    def _written(self, slot: int) -> str:
        """The dtype that a constant has in the source."""
        init = self.program.slots[slot].init
        return (isinstance(init, Const) and init.source) or self.dtype(slot)

    def _launch_cast(self, slot: int, code: str) -> int:
        """A conversion of a parameter or register is done once, when the kernel starts."""
        if (slot, code) not in self._launch_casts:
            target = self._launch_casts[slot, code] = self.program.slot(code)
            limit = self.bound(slot)
            if limit is not None and code in ("i8", "u8"):
                self._bounds[target] = limit
            self._prologue.append(Op("cvt", code, (target,), (slot,), self.pos, {"source": self.dtype(slot)}))
        return self._launch_casts[slot, code]

    def finish(self, entry: str) -> None:
        """Put what is done once at the start of the entry block."""
        block = self.program.blocks[entry]
        block.ops[:0] = self._prologue

    def bound(self, slot: int) -> int | None:
        """The largest value of a slot that is surely positive: extents of the launch and their products."""
        known = self.known(slot)
        if known is not None:
            return int(known) if known > 0 and isfinite(known) else None
        match self.program.slots[slot].init:
            case FromRegister(name):
                return _EXTENTS.get(name[:-2])
        return self._bounds.get(slot)

    def retarget(self, source: int, target: int) -> bool:
        """Let the operation that has just made ``source`` write ``target`` instead, if it can."""
        if not self.block.ops or self.block.ops[-1].dst != (source,) or self.dtype(source) != self.dtype(target):
            return False
        self.block.ops[-1].dst = (target,)
        self._bounds.pop(source, None)
        return True

    def into(self, source: int, target: int) -> int:
        """The slot where a value is after trying to have it made in ``target`` at once."""
        return target if self.retarget(source, target) else source

    def position(self, pos: Pos) -> None:
        """Where the next operations come from."""
        self.pos = pos
