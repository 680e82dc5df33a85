"""The footprint on an allocation: who touched each of its cells last.

Rules of this file:

* Of plain stores a cell remembers the last; of loads and of atomics two each, in *slots*.  The second differs from the
  first as much as there was a choice: in the block, else in the warp, else in the lane.  An access that happens before
  the one in the first slot needs no slot: whoever is ordered after the first is after it, too.
* So among accesses that no atomic orders, one that races with a third thread is never forgotten without another one
  that races with it, as long as whole warps meet.
* Loads of memory that nobody has written are kept as they came, and told when somebody does write.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from simulator.machine.memory import Access, Allocation
from simulator.machine.split import Split
from simulator.machine.values import Affine, Lanes
from simulator.observers.races.happens import EVENT, SHIFT, Meetings, Order
from simulator.observers.races.touches import Touch, steps

PENDING = 64 << 20
"""Bytes of addresses that loads of unwritten memory may hold before they are told after all."""


class Now(NamedTuple):
    """What orders a touch that happens now: threads of ``meetings``, by ``order``.

    Events up to ``known`` happen before it, whoever touches; threads that differ by ``apart`` or more (lane 1, warp 2,
    block 3) are ordered by nothing else.
    """

    order: Order
    meetings: Meetings
    known: int
    apart: int

    def past(self, marks: np.ndarray) -> bool:
        """Do all these marks' events happen before?  That is known without a look at the threads."""
        return bool((self.order.events.time.take(marks & EVENT) <= self.known).all())


class Slots:
    """Two marks per cell.  ``latest`` (blocks,) is the time of the last touch, by block where each has its own copy."""

    def __init__(self, cells: int, blocks: int) -> None:
        self.one = np.zeros(cells, np.int64)
        self.two: np.ndarray | None = None
        self.latest = np.zeros(blocks, np.int64)

    def note(self, touch: Touch, past: bool, now: Now) -> None:
        """``touch`` happens; ``past``: all that these blocks' cells hold happens before it.

        The first slot takes the last lane, the second whoever differs most from it.
        """
        mark, low, old = touch.marks, touch.low, touch.of(self.one)
        fresh = past or now.past(old)  # the second slot holds nothing later than the first
        if touch.alone and low is None and (fresh or ((old ^ mark) <= EVENT).all()):
            touch.put(self.one, mark)
            if fresh and self.two is not None:
                touch.put(self.two, 0)
            return
        others = [] if fresh else [np.array(touch.of(slot)) for slot in (self.one, self.two) if slot is not None]
        if not touch.alone:
            touch.put_reversed(self.one, mark)
            low = touch.of(self.one)
        touch.put(self.one, mark)
        self._note_second(touch, low, others, now)

    def _note_second(self, touch: Touch, low: np.ndarray | None, others: list[np.ndarray], now: Now) -> None:
        first = np.array(touch.of(self.one))
        best, chosen = np.zeros(first.shape, np.int8), np.zeros(first.shape, np.int64)
        if low is not None:
            best = _apart(low, first, now.meetings.padded)
            chosen = np.where(best > 0, low, 0)
        for marks in others:
            rank = _apart(marks, first, now.meetings.padded)
            rank[(marks == 0) | (now.order.events.time.take(marks & EVENT) <= now.known)] = 0
            doubtful = (rank > best) & (rank < now.apart)
            if doubtful.any():
                rank[doubtful] *= ~now.order.before(marks[doubtful], first[doubtful] >> SHIFT, now.meetings)
            better = rank > best
            best, chosen = np.where(better, rank, best), np.where(better, marks, chosen)
        if self.two is None:
            if not best.any():
                return
            self.two = np.zeros_like(self.one)
        touch.put(self.two, chosen)

    def refine(self, factor: int) -> None:
        """Every cell becomes several."""
        self.one = np.repeat(self.one, factor)
        self.two = None if self.two is None else np.repeat(self.two, factor)


def _apart(marks: np.ndarray, others: np.ndarray, padded: int) -> np.ndarray:
    """How far the threads of marks are apart: 0 if they are one, lane 1, warp 2, block 3; int8."""
    differ = marks ^ others
    rank = (differ > EVENT).astype(np.int8)
    warps = differ >> SHIFT + 5 != 0
    if warps.any():
        rank += warps
        rank += (marks >> SHIFT) // padded != (others >> SHIFT) // padded
    return rank


class Load(NamedTuple):
    """A load of memory that nobody has written so far: what its split was when it ran, and no more of it."""

    lanes: Lanes
    mask: np.ndarray | None
    group: Any
    access: Access
    address: Any
    time: int
    meetings: Meetings

    @property
    def split(self) -> Split:
        """The split as it stood then."""
        return Split("", self.mask, [], self.lanes, self.group)


class Footprint:
    """What the cells of one allocation remember: ``writes`` (the last plain store), ``reads`` and ``atomics``."""

    def __init__(self, allocation: Allocation, blocks: int) -> None:
        self.allocation = allocation
        self.skew = allocation.base & 15
        self.shift = 3
        self.blocks = blocks if allocation.block_stride else 1
        self.per_block = bool(allocation.block_stride)
        self.writes: Slots | None = None
        self.reads: Slots | None = None
        self.atomics: Slots | None = None
        self.pending: list[Load] | None = []
        self._held = 0

    def slots(self) -> Slots:
        """New slots for this memory."""
        return Slots(((len(self.allocation.data) + self.skew) >> self.shift) + 1, self.blocks)

    def fit(self, access: Access) -> None:
        """Make cells small enough for this access: whatever it touches, it touches cells as a whole."""
        bits = access.align | access.nbytes
        shift = (bits & -bits).bit_length() - 1
        if shift < self.shift:
            for slots in (self.writes, self.reads, self.atomics):
                if slots is not None:
                    slots.refine(1 << (self.shift - shift))
            self.shift = shift

    def rows(self, rows: slice) -> slice:
        """The blocks of a touch in ``Slots.latest``."""
        return rows if self.per_block else slice(0, 1)

    def bytes_of(self, cells: np.ndarray) -> np.ndarray:
        """The first byte of each cell in the allocation's data."""
        return (cells << self.shift) - self.skew

    def put_off(self, split: Split, access: Access, address: Any, time: int, meetings: Meetings) -> bool:
        """Keep a load for later; False if there is no room for more."""
        assert self.pending is not None
        group = split.group if self.per_block else None  # it would hold its blocks' memory
        self.pending.append(Load(split.lanes, split.mask, group, access, address, time, meetings))
        if type(address) is not np.ndarray:
            return True
        self._held += address.nbytes
        return self._held < PENDING

    # -- the usual case: one block's lanes, side by side, where nobody else has been of late --------------------

    def take_row(self, split: Split, access: Access, address: Any, first: int, known: int, time: np.ndarray) -> bool:
        """Take a load or a store in the usual case; False in any other, and nothing is taken.

        ``first`` is the mark of the first lane; events up to ``known`` happen before, ``time`` has that of each event.
        """
        found = self._row_of(split, access, address)
        if found is None:
            return False
        row, cells, each = found
        marks = steps(split.lanes.P) + first
        if each > 1:
            marks = np.repeat(marks, each)
        for slots in (self.writes, self.reads, self.atomics):
            if not _is_own(slots, row, cells, marks, known, time):
                return False
        taken = self.reads if access.kind == "ld" else self.writes
        assert taken is not None
        taken.one[cells] = marks
        if taken.two is not None:
            taken.two[cells] = 0
        return True

    def _row_of(self, split: Split, access: Access, address: Any) -> tuple[int, slice, int] | None:
        """Block (within the group), cells and cells per lane."""
        lanes = split.lanes
        if type(address) is not Affine or split.mask is not None or lanes.nb > 1 or lanes.ny > 1:
            return None
        if address.l != access.nbytes:
            return None
        offset, row = address.b - self.allocation.base + self.skew, 0
        if self.per_block:
            row = lanes.first_block - split.group.first_block
            offset += row * self.allocation.block_stride
        start, each = offset >> self.shift, access.nbytes >> self.shift
        return row, slice(start, start + lanes.P * each), each


def _is_own(slots: Slots | None, row: int, cells: slice, marks: np.ndarray, known: int, time: np.ndarray) -> bool:
    """Has nobody but the threads of ``marks`` touched the cells since ``known``, as far as is seen at a glance?"""
    if slots is None or slots.latest[row] <= known:
        return True
    one = slots.one[cells]
    if not one.any():
        return True
    late = time.take(one & EVENT) > known
    if not late.any():
        return True
    if (late & ((one ^ marks) > EVENT)).any():
        return False
    return slots.two is None or not slots.two[cells].any()
