"""Counts operations per source line, by kind and width, and the lanes that are active in them.

Rules of this file:

* What is counted are the operations of the program, as the source has them: for Numba's typed IR, before NVVM folds,
  fuses or removes any.
* *issued* counts warps, ``lanes`` their active lanes: ``lanes / issued`` of 32 are at work.
* Copies, selections and predicates are not counted; they rarely cost an instruction.
* Segments of straight-line code are counted, not operations: what a segment holds is multiplied out at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from simulator.kinds import KINDS, SYNC
from simulator.machine.observer import Observer, Span
from simulator.machine.split import Split
from simulator.observers.warps import MaskCounts
from simulator.program import FLOATS, SIZES, Op, Program

KIND_NAMES = ("float", "special", "integer", "conversion", "address", "memory", "warp", "barrier")
"""Kinds of operations.  ``special``: division, roots, exponentials and such, which take many instructions;
``address``: index arithmetic of one array element."""

_SPECIAL = frozenset({"div", "rem", "floordiv", "mod", "sqrt", "rsqrt", "math"})


@dataclass(slots=True)
class Issued:
    """How often something was done: by ``warps``, with so many active ``lanes`` in all."""

    warps: int = 0
    lanes: int = 0

    def add(self, warps: int, lanes: int) -> None:
        """Once more, by so many warps and lanes."""
        self.warps += warps
        self.lanes += lanes


OperationKey = tuple[str, int, str, str]
"""file, line, kind, dtype"""


def kind_of(op: Op) -> tuple[str, str] | None:
    """Kind and dtype under which an operation is counted; None if it is not."""
    group = KINDS[op.kind].group
    if op.kind == "cvt":
        # a conversion is as wide as the wider side, and costs what its float side costs
        sides = sorted((op.dtype, op.attr["source"]), key=lambda code: (code in FLOATS, SIZES[code]))
        return None if "b1" in sides else ("conversion", sides[-1])
    if group in ("arithmetic", "math", "compare", "bits"):
        if op.dtype == "b1":
            return None
        if op.dtype in FLOATS:
            return ("special" if op.kind in _SPECIAL else "float"), op.dtype
        return "integer", op.dtype
    if op.kind == "elem":
        return "address", op.dtype
    names = {"memory": "memory", "warp": "warp", "block": "barrier"}
    return (names[group], op.dtype) if group in names else None


class Operations(Observer):
    """Counts per (file, line, kind, dtype), in ``rows``, in program order once the launch is over."""

    def __init__(self) -> None:
        self.rows: dict[OperationKey, Issued] = {}
        self._program: Program | None = None
        self._segments: dict[Span, Issued] = {}
        self._waits: dict[Op, Issued] = {}
        self._counts = MaskCounts()

    def launch(self, program: Program, grid: Any, block: Any, memory: Any) -> None:
        self._program = program

    def segment(self, split: Split, segment: Span) -> None:
        found = self._segments.get(segment)
        if found is None:
            found = self._segments[segment] = Issued()
        self._count(found, split)

    def warp(self, split: Split, op: Op) -> None:
        self._count(self._waits.setdefault(op, Issued()), split)

    def barrier(self, split: Split, op: Op) -> None:
        self._count(self._waits.setdefault(op, Issued()), split)

    def finish(self) -> None:
        """Multiply out, in program order."""
        program = self._program
        if program is None:
            return
        done: dict[Op, Issued] = dict(self._waits)
        for span, times in self._segments.items():
            for op in program.blocks[span.block].ops[span.first : span.last]:
                if op.kind not in SYNC:
                    done.setdefault(op, Issued()).add(times.warps, times.lanes)
        for op in program.ops():
            if op in done and (kind := kind_of(op)) is not None:
                row = self.rows.setdefault((op.pos.file, op.pos.line, *kind), Issued())
                row.add(done[op].warps, done[op].lanes)
        self._program = None

    def _count(self, found: Issued, split: Split) -> None:
        lanes, mask = split.lanes, split.mask
        if mask is None:
            found.add(lanes.N // 32, lanes.N)
        else:
            count, warps = self._counts(mask, lanes)
            found.add(warps, count)
