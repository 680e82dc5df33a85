"""The log of a run: every access, in order, and the values of watched variables.

Rules of this file:

* A record holds what the machine handed over (lanes, mask, address value), never expanded lanes: logging costs a list
  append, and an affine record a few hundred bytes for sixteen thousand lanes.  Queries expand.
* The budget counts *requests* (one access of one warp).  It and ``keep`` limit what is recorded, never what runs.
* The log knows which blocks it holds completely.  What it does not hold, it never answers for.
* ``keep="auto"`` records everything until the budget is spent, then goes on with block 0 alone for as much again: the
  block that people look at first is there even in a long run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from simulator.machine.group import display_name
from simulator.machine.memory import Access, Allocation, Memory, View, numpy_of
from simulator.machine.observer import Observer
from simulator.machine.split import Split
from simulator.machine.values import DT, Lanes
from simulator.observers.warps import MaskCounts, one_block, requests
from simulator.program import Op, Program, Slot, c_strides

MAX_EVENTS = 1 << 20
"""Requests that a log holds by default; in the worst case (an address per lane) about 300 bytes each."""


class Target(NamedTuple):
    """The array that an access goes to: its view of an allocation, and the allocation's base address and space.

    The log keeps this instead of the allocation, and so keeps no memory of the run alive.
    """

    view: View
    base: int
    space: str


class Record(NamedTuple):
    """One access of a group of lanes.  ``address`` is an i8 value of the group, ``mask`` None when all are active."""

    step: int
    access: Access
    target: Target
    lanes: Lanes
    mask: np.ndarray | None
    address: Any


class Watched(NamedTuple):
    """A new value of a watched variable in a group of lanes."""

    name: str
    dtype: str
    line: int
    lanes: Lanes
    mask: np.ndarray | None
    value: Any


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """An array of the launch.  ``strides`` in bytes, ``dtype`` as NumPy names it, ``address`` of element [0, 0, …].

    ``space`` is global, shared, local or const.  ``address`` is None for an array that the kernel declares but never
    touched.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    space: str
    address: int | None


class Steps(Observer):
    """Records accesses and watched values of the blocks in ``keep`` (linear block numbers; None: see "auto")."""

    def __init__(
        self, keep: Iterable[int] | None = None, max_events: int = MAX_EVENTS, watch: Iterable[str] = ()
    ) -> None:
        self.watch = tuple(watch)
        self.arrays: dict[str, ArrayInfo] = {}
        self._targets: dict[int, tuple[Allocation, Target]] = {}
        self.keep = None if keep is None else frozenset(keep)
        self.max_events = max_events
        self.records: list[Record] = []
        self.watched: list[Watched] = []
        self.missing = np.zeros(0, bool)
        self._program: Program | None = None
        self._counts = MaskCounts()
        self._left = max_events if keep is None else 0
        self._left_kept = max_events
        self._step = 0

    def launch(self, program: Program, grid: tuple[int, int, int], block: tuple[int, int, int], memory: Memory) -> None:
        self._program = program
        self.missing = np.zeros(grid[0] * grid[1] * grid[2], bool)
        if self.keep is not None:
            self.missing[:] = True
            self.missing[list(self.keep)] = False
        for allocation in memory.allocations:
            for view in allocation.views:
                self.arrays[view.name] = _describe(allocation, view)
        for alloc in program.allocs.values():
            name, dtype = display_name(alloc.name), numpy_of(alloc.dtype)
            if name not in self.arrays:
                self.arrays[name] = ArrayInfo(
                    name,
                    dtype_name(dtype),
                    alloc.shape,
                    c_strides(alloc.shape, dtype.itemsize),
                    alloc.space,
                    None,
                )

    def access(self, split: Split, access: Access, allocation: Allocation, address: Any) -> None:
        known = self._targets.get(access.index)
        if known is None or known[0] is not allocation:
            known = self._targets[access.index] = (allocation, self._target(access, allocation))
        step = self._step
        self._step = step + 1
        if self._left > 0:  # the common case, without a detour
            mask = split.mask
            self._left -= split.lanes.N // 32 if mask is None else self._counts(mask, split.lanes)[1]
            self.records.append(Record(step, access, known[1], split.lanes, mask, address))
            return
        for lanes, mask, value in self._admit(split, address):
            self.records.append(Record(step, access, known[1], lanes, mask, value))

    def value(self, split: Split, op: Op, slot: int, value: Any) -> None:
        assert self._program is not None
        found = self._program.slots[slot]
        if self._is_copy(op, found):
            return
        for lanes, mask, part in self._admit(split, value):
            self.watched.append(Watched(found.name, found.dtype, op.pos.line, lanes, mask, part))

    def finish(self) -> None:
        self._targets.clear()

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: the log without the program, which nobody asks it for after the run."""
        return {**self.__dict__, "_program": None, "_targets": {}}

    @property
    def launched(self) -> bool:
        """Did a launch begin?  Every launch has a block; one without is refused before it begins."""
        return bool(self.missing.size)

    @property
    def truncated(self) -> bool:
        """Is any block of the launch not recorded to its end?"""
        return bool(self.missing.any()) or not self.launched

    def holds(self, block: int) -> bool:
        """Is every access of this block in the log?"""
        return block < self.missing.size and not self.missing[block]

    def _target(self, access: Access, allocation: Allocation) -> Target:
        view = allocation.view(access.name)
        self.arrays[view.name] = _describe(allocation, view)
        return Target(view, allocation.base, allocation.space)

    def _is_copy(self, op: Op, to: Slot) -> bool:
        """Does the operation only carry a variable on under its own name, as where two branches meet?"""
        assert self._program is not None
        if op.kind not in ("mov", "cvt") or self._program.slots[op.src[0]].name != to.name:
            return False
        return op.kind == "mov" or np.can_cast(DT[op.attr["source"]], DT[to.dtype], "safe")

    def _admit(self, split: Split, value: Any) -> list[tuple[Lanes, np.ndarray | None, Any]]:
        """What of this event is recorded: all of it, some of its blocks, or nothing."""
        lanes, mask = split.lanes, split.mask
        if self._left > 0:
            self._left -= requests(mask, lanes)
            return [(lanes, mask, value)]
        if self.keep is None:
            wanted = [0] if lanes.first_block == 0 else []
        else:
            wanted = [b - lanes.first_block for b in self.keep if 0 <= b - lanes.first_block < lanes.nb]
        parts = []
        for b in sorted(wanted):
            part = one_block(lanes, mask, value, b)
            if not (count := requests(part[1], part[0])):
                continue
            if self._left_kept > 0:
                self._left_kept -= count
                parts.append(part)
            else:
                wanted.remove(b)
        gone: np.ndarray = np.ones(lanes.nb, bool) if mask is None else np.asarray(mask.any(axis=1))
        gone[wanted] = False
        self.missing[lanes.first_block : lanes.first_block + lanes.nb] |= gone
        return parts


def _describe(allocation: Allocation, view: View) -> ArrayInfo:
    address = allocation.base + view.offset
    return ArrayInfo(view.name, dtype_name(view.dtype), view.shape, view.strides, allocation.space, address)


def dtype_name(dtype: np.dtype[Any]) -> str:
    """What a dtype is called: by NumPy, or a record with its fields.

    >>> dtype_name(np.dtype("c8")), dtype_name(np.dtype([("x", "f4"), ("at", "i4", 2)]))
    ('complex64', 'record(x: float32, at: int32[2])')
    """
    if dtype.fields is None:
        base, shape = dtype.subdtype or (dtype, ())
        return (base.name if base.fields is None else dtype_name(base)) + (f"{list(shape)}" if shape else "")
    return f"record({', '.join(f'{name}: {dtype_name(field[0])}' for name, field in dtype.fields.items())})"
