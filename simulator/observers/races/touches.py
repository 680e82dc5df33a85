"""Which cells of a footprint an access touches, and by which threads.

Rules of this file:

* A footprint has one *cell* per 1, 2, 4 or 8 bytes of an allocation's memory, all copies of it.
* Where an address is affine and every lane touches cells of its own, a touch is a *box*: a strided view of the
  footprint, without looking at lanes.  Otherwise it is a list of cells.  Both say the same.
* Where all lanes of a block read one place, the first and the last of them stand for all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from simulator.machine.access import disjoint
from simulator.machine.addresses import positions, strides
from simulator.machine.memory import Allocation
from simulator.machine.split import Split
from simulator.observers.races.happens import SHIFT

_STEPS = [np.arange(1 << 14, dtype=np.int64) << SHIFT]


def steps(count: int) -> np.ndarray:
    """0, 1, 2 … as threads of marks."""
    if count > len(_STEPS[0]):
        _STEPS[0] = np.arange(2 * count, dtype=np.int64) << SHIFT
    return _STEPS[0][:count]


class Where(NamedTuple):
    """What a touch must know of the memory and of the event: the size of a cell as a power of two, how many bytes the
    memory starts behind a multiple of 16, a block's threads rounded up to warps, the number of the event."""

    allocation: Allocation
    shift: int
    skew: int
    padded: int
    event: int


class Touch:
    """Cells and who touches them.

    ``marks`` are the threads with the event, of a shape that broadcasts to the cells'; ``low``, where one lane stands
    for many, are other lanes that touch the same cells.  ``alone``: no two lanes touch the same cell.  The cells are a
    list, or else a box: its first cell, extents and strides in bytes of marks; ``run`` if they lie side by side.
    """

    __slots__ = ("alone", "cells", "first", "low", "marks", "run", "shape", "stride")

    def __init__(
        self,
        marks: np.ndarray,
        cells: np.ndarray | None = None,
        box: tuple[int, tuple[int, ...], tuple[int, ...]] = (0, (), ()),
        alone: bool = True,
        low: np.ndarray | None = None,
        run: int = 0,
    ) -> None:
        self.marks = marks
        self.cells = cells
        self.first, self.shape, self.stride = box
        self.alone = alone
        self.low = low
        self.run = run

    def of(self, marks: np.ndarray) -> np.ndarray:
        """The marks that the cells hold: of a box a view, of a list a copy."""
        if self.run:
            return marks[self.first : self.first + self.run]
        if self.cells is None:
            return np.ndarray(self.shape, np.int64, marks, 8 * self.first, self.stride)
        return np.asarray(marks.take(self.cells))

    def put(self, marks: np.ndarray, values: Any) -> None:
        """Set the marks of the cells; of lanes at one cell the last one wins."""
        if self.cells is None:
            self.of(marks)[...] = values
        else:
            marks[self.cells] = values

    def put_reversed(self, marks: np.ndarray, values: np.ndarray) -> None:
        """Set the marks of a list; of lanes at one cell the first one wins."""
        assert self.cells is not None
        marks[self.cells[::-1].ravel()] = np.broadcast_to(values, self.cells.shape)[::-1].ravel()

    def cells_at(self, where: np.ndarray) -> np.ndarray:
        """The cells at True places of a bool array of the cells' shape."""
        if self.cells is not None:
            return self.cells[where]
        found: np.ndarray = np.full(np.count_nonzero(where), self.first, np.int64)
        for numbers, stride in zip(np.nonzero(where), self.stride, strict=True):
            found += numbers * (stride // 8)
        return found


def touch(split: Split, nbytes: int, address: Any, where: Where, brief: bool) -> Touch:
    """The touch of an access of ``nbytes`` per active lane.  ``brief``: two lanes may stand for all at one place."""
    per_lane = nbytes >> where.shift
    if type(address) is not np.ndarray:
        first, block, row, column = strides(split, address, where.allocation)
        lanes = split.lanes
        span = _full_box(split)
        if span is not None and disjoint(lanes, block, row, column, nbytes):
            return _box_of(split, span, (first + where.skew, block, row, column), per_lane, where)
        if brief and not row and not column and (lanes.nb == 1 or not block or abs(block) >= nbytes):
            return _ends_of(split, first + where.skew, block if lanes.nb > 1 else 0, per_lane, where)
    start = positions(split, address, where.allocation, 0)
    return _list_of(split, split.expand(start, "i8"), per_lane, where)


def _full_box(split: Split) -> tuple[int, int, int, int] | None:
    """First and last block and lane, if all lanes between them are active."""
    mask = split.mask
    if mask is None:
        return 0, split.lanes.nb - 1, 0, split.lanes.P - 1
    if split.lanes.ny > 1:
        return None
    top, bottom, left, right = split.box()
    full = np.count_nonzero(mask) == (bottom - top + 1) * (right - left + 1)
    return (top, bottom, left, right) if full else None


def _box_of(
    split: Split, span: tuple[int, int, int, int], strides: tuple[int, int, int, int], per_lane: int, where: Where
) -> Touch:
    lanes, padded = split.lanes, where.padded
    top, bottom, left, right = span
    shift = where.shift
    first, block, row, column = strides[0] >> shift, strides[1] >> shift, strides[2] >> shift, strides[3] >> shift
    height, width = bottom - top + 1, right - left + 1
    start = (lanes.first_block + top) * padded + lanes.first_thread + left << SHIFT | where.event
    if height == 1 or width == padded:
        marks = steps(height * width) + start
    else:
        marks = steps(height * padded)[::padded, None] + (steps(width) + start)
    if lanes.ny == 1:
        first += top * block * (lanes.nb > 1) + left * column
        if height == 1 and column == per_lane == 1:
            return Touch(marks, box=(first, (width,), (8,)), run=width)
        shape: tuple[int, ...] = (height, width, per_lane)
        stride: tuple[int, ...] = (8 * block if height > 1 else 0, 8 * column, 8)
    else:
        shape = (height, lanes.ny, lanes.nx, per_lane)
        stride = (8 * block if height > 1 else 0, 8 * row, 8 * column, 8)
    return Touch(marks.reshape(*shape[:-1], 1), box=(first, shape, stride))


def _ends_of(split: Split, first: int, block: int, per_lane: int, where: Where) -> Touch:
    """All lanes of a block at one place: the first and the last active one of each block, or of all blocks."""
    lanes = split.lanes
    if split.mask is None:
        rows = np.arange(lanes.nb)
        low, high = np.zeros(lanes.nb, np.int64), np.full(lanes.nb, lanes.P - 1)
    else:
        rows = np.flatnonzero(split.mask.any(1))
        low = split.mask[rows].argmax(1)
        high = lanes.P - 1 - split.mask[rows, ::-1].argmax(1)
    start = (lanes.first_block + rows) * where.padded + lanes.first_thread
    low, high = start + low, start + high
    if not block:
        rows, low, high = rows[:1], low[:1], high[-1:]
    cells = ((first + rows * block) >> where.shift)[:, None] + np.arange(per_lane)
    event = where.event
    return Touch((high << SHIFT | event)[:, None], cells, low=(low << SHIFT | event)[:, None])


def _list_of(split: Split, start: np.ndarray, per_lane: int, where: Where) -> Touch:
    lanes, padded = split.lanes, where.padded
    if split.mask is None:
        rows, columns = lanes.block, lanes.lane
        who = ((lanes.first_block + rows) * padded + lanes.first_thread + columns).ravel()
        start = start.ravel()
    else:
        rows, columns = np.nonzero(split.mask)
        who = (lanes.first_block + rows) * padded + lanes.first_thread + columns
        start = start[rows, columns]
    cells = ((start + where.skew) >> where.shift)[:, None]
    if per_lane > 1:
        cells = cells + np.arange(per_lane)
    return Touch((who << SHIFT | where.event)[:, None], cells, alone=len(who) == 1)
