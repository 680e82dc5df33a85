"""Races: two threads touch the same bytes, at least one of them stores, and nothing orders the two.

Rules of this file:

* What orders is told in ``happens``: barriers, warp operations, barriers of the grid, and atomics behind a fence.  The
  order in which the machine happens to run threads does not count, so lock step finds races, too.
* Two atomics on one place are no race; an atomic and a plain access are.
* Two plain stores of the same value are none: whichever comes last, the memory holds it.  A store and a load are.
* Lanes of one instruction race if they store different values to one place.
* Bytes count, not elements, in shared and global memory; local memory is one thread's, and constants stay as they are.
* One finding per array and pair of source lines, with the first pair of threads that was seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.machine.access import Value
from simulator.machine.faults import Fault
from simulator.machine.grids import of_grid
from simulator.machine.group import Group
from simulator.machine.memory import Access, Allocation, Memory
from simulator.machine.split import Split
from simulator.observers.lost import Astray
from simulator.observers.races.footprints import Footprint, Now, Slots
from simulator.observers.races.happens import EVENT, SHIFT, Events, Meetings, Order
from simulator.observers.races.pairs import Pairs
from simulator.observers.races.releases import Releases
from simulator.observers.races.stores import Stored
from simulator.observers.races.touches import Touch, Where, touch
from simulator.observers.verdict import Verdict
from simulator.program import Op, Program

SPACES = ("shared", "global")


class Races(Verdict):
    """Finds races; see the rules of the file."""

    def __init__(self) -> None:
        self._events = Events()
        self._releases = Releases()
        self._order = Order(self._events, self._releases)
        self._astray = Astray()
        self._pairs = Pairs(self._events, self._astray)
        self._padded = 32
        self._group: Group | None = None
        self._known: dict[int, tuple[Group, Meetings, dict[Allocation, Footprint]]] = {}
        self._global: dict[Allocation, Footprint] = {}
        self._meetings: Meetings
        self._shared: dict[Allocation, Footprint] = {}

    def faults(self) -> list[Fault]:
        """One fault per array and pair of lines, in the order in which they were found."""
        return self._pairs.faults()

    # -- the launch -------------------------------------------------------------------------------------------

    def launch(self, program: Program, grid: tuple[int, int, int], block: tuple[int, int, int], memory: Memory) -> None:
        self._padded = -(-block[0] * block[1] * block[2] // 32) * 32
        self._releases.padded = self._padded
        self._pairs.launch(program, self._padded)

    def finish(self) -> None:
        self._pairs.finish()
        self._known, self._global, self._shared, self._group = {}, {}, {}, None

    def _enter(self, group: Group) -> None:
        """Another group of blocks goes on.  Groups that are alive at once take turns; closed ones are forgotten."""
        if id(group) not in self._known:
            self._known = {key: one for key, one in self._known.items() if one[0].alive}
            self._known[id(group)] = (group, Meetings(group), {})
        self._group = group
        _, self._meetings, self._shared = self._known[id(group)]

    # -- synchronisation --------------------------------------------------------------------------------------

    def barrier(self, split: Split, op: Op) -> None:
        if split.group is not self._group:
            self._enter(split.group)
        events = self._events
        self._meetings.meet_in_block(split, events.now)
        if of_grid(op):
            self._order.grid = events.now
        if self._releases.waiting:
            rows = range(split.lanes.nb) if split.mask is None else np.flatnonzero(split.mask.any(1)).tolist()
            self._releases.meet_in_blocks([split.lanes.first_block + row for row in rows])
        events.now += 1

    def warp(self, split: Split, op: Op) -> None:
        if split.group is not self._group:
            self._enter(split.group)
        events = self._events
        warps, met = self._meetings.meet_in_warp(split, split.values[op.src[-1]], events.now)
        if self._releases.waiting:
            block, warp = np.divmod(warps, split.lanes.P // 32)
            first = (split.lanes.first_block + block) * self._padded + split.lanes.first_thread + 32 * warp
            self._releases.meet_in_warps(first, met)
        events.now += 1

    def fence(self, split: Split, op: Op) -> None:
        if split.group is not self._group:
            self._enter(split.group)
        threads = (_first_threads(split, self._padded) + np.arange(split.lanes.P))[split.active()].tolist()
        whole = op.attr.get("scope") != "block"
        self._releases.fence(threads, whole, self._meetings, self._events.now, self._order.grid)
        self._events.now += 1

    def atomic(self, split: Split, access: Access, allocation: Allocation, address: Any, wrote: np.ndarray) -> None:
        if not self._releases.waiting:
            return
        active = split.active()
        threads = _first_threads(split, self._padded) + np.arange(split.lanes.P)
        at = split.expand(address, "i8")[active].tolist()
        numbers = threads[active].tolist()
        if allocation.block_stride:
            at = [(thread // self._padded, where) for thread, where in zip(numbers, at, strict=True)]
        self._releases.atomic(numbers, at, wrote[active].tolist())
        self._events.now += 1

    # -- accesses ---------------------------------------------------------------------------------------------

    def lost(self, split: Split, access: Access, lanes: np.ndarray) -> None:
        self._astray.lost(split, access, lanes)

    def access(self, split: Split, access: Access, allocation: Allocation, address: Any) -> None:
        kind = access.kind
        if allocation.space not in SPACES:
            return
        self._pairs.ran(split, access, address)
        if kind == "st":
            return
        footprint = self._footprint(split, allocation)
        if kind == "atom":
            self._update(footprint, split, access, address)
        elif footprint.pending is None:
            self._load(footprint, split, access, address, self._events.number(access), self._meetings)
        elif not footprint.put_off(split, access, address, self._events.now, self._meetings):
            self._catch_up(footprint)

    def store(
        self, split: Split, access: Access, allocation: Allocation, address: Any, values: tuple[Value, ...]
    ) -> None:
        if allocation.space not in SPACES:
            return
        footprint = self._footprint(split, allocation)
        self._prepare(footprint, access)
        event = self._events.number(access)
        if footprint.writes is None:
            footprint.writes = footprint.slots()
        rows = footprint.rows(self._meetings.rows(split))
        first = (split.lanes.first_block * self._padded + split.lanes.first_thread) << SHIFT | event
        known = self._known_in(footprint, rows.start)
        if footprint.take_row(split, access, address, first, known, self._events.time):
            footprint.writes.latest[rows.start] = self._events.now
            return
        touched = self._touch(footprint, split, access, address, event, brief=False)
        self._compare(footprint, footprint.atomics, touched, rows)
        self._compare(footprint, footprint.reads, touched, rows)
        stored = Stored(split, access, allocation, address, values, self._padded)
        self._compare(footprint, footprint.writes, touched, rows, stored)
        touched.put(footprint.writes.one, touched.marks)
        footprint.writes.latest[rows] = self._events.now
        if not touched.alone:
            self._compare_lanes(footprint, touched, stored)

    def _update(self, footprint: Footprint, split: Split, access: Access, address: Any) -> None:
        """An atomic."""
        self._prepare(footprint, access)
        touched = self._touch(footprint, split, access, address, self._events.number(access), brief=False)
        rows = footprint.rows(self._meetings.rows(split))
        self._compare(footprint, footprint.writes, touched, rows)
        self._compare(footprint, footprint.reads, touched, rows)
        if footprint.atomics is None:
            footprint.atomics = footprint.slots()
        self._note(footprint, footprint.atomics, touched, rows, self._meetings)

    def _load(
        self, footprint: Footprint, split: Split, access: Access, address: Any, event: int, meetings: Meetings
    ) -> None:
        footprint.fit(access)
        if footprint.reads is None:
            footprint.reads = footprint.slots()
        rows = footprint.rows(meetings.rows(split))
        if meetings is self._meetings:
            first = (split.lanes.first_block * self._padded + split.lanes.first_thread) << SHIFT | event
            known = self._known_in(footprint, rows.start)
            if footprint.take_row(split, access, address, first, known, self._events.time):
                footprint.reads.latest[rows.start] = self._events.now
                return
        brief = meetings.lanes is None and not self._releases.any
        touched = self._touch(footprint, split, access, address, event, brief)
        self._compare(footprint, footprint.writes, touched, rows)
        self._compare(footprint, footprint.atomics, touched, rows)
        self._note(footprint, footprint.reads, touched, rows, meetings)

    def _footprint(self, split: Split, allocation: Allocation) -> Footprint:
        group = split.group
        if group is not self._group:
            self._enter(group)
        footprints = self._shared if allocation.block_stride else self._global
        found = footprints.get(allocation)
        if found is None:
            found = footprints[allocation] = Footprint(allocation, group.nb)
        return found

    def _touch(
        self, footprint: Footprint, split: Split, access: Access, address: Any, event: int, brief: bool
    ) -> Touch:
        where = Where(footprint.allocation, footprint.shift, footprint.skew, self._padded, event)
        return touch(split, access.nbytes, address, where, brief)

    def _prepare(self, footprint: Footprint, access: Access) -> None:
        """Somebody writes: loads that were put off are told now."""
        if footprint.pending is not None:
            self._catch_up(footprint)
        footprint.fit(access)

    def _catch_up(self, footprint: Footprint) -> None:
        loads, footprint.pending = footprint.pending or [], None
        for load in loads:
            event = self._events.number(load.access, load.time)
            self._load(footprint, load.split, load.access, load.address, event, load.meetings)

    def _known_in(self, footprint: Footprint, row: int) -> int:
        """The time up to which all events happen before what a block does now; ``row`` counts within the group."""
        return int(self._meetings.barrier[row]) if footprint.per_block else self._order.grid

    # -- comparing --------------------------------------------------------------------------------------------

    def _now(self, footprint: Footprint, rows: slice, meetings: Meetings) -> Now:
        known, apart = self._order.grid, 3
        if footprint.per_block:
            passed = meetings.barrier[rows]
            known, apart = int(passed[0] if len(passed) == 1 else passed.min()), 2
        return Now(self._order, meetings, known, 4 if self._releases.any else apart)

    def _note(self, footprint: Footprint, slots: Slots, touched: Touch, rows: slice, meetings: Meetings) -> None:
        now = self._now(footprint, rows, meetings)
        slots.note(touched, bool((slots.latest[rows] <= now.known).all()), now)
        slots.latest[rows] = self._events.now

    def _compare(
        self, footprint: Footprint, slots: Slots | None, touched: Touch, rows: slice, stored: Stored | None = None
    ) -> None:
        """Report where the cells' marks do not happen before the touch."""
        if slots is None:
            return
        now = self._now(footprint, rows, self._meetings)
        if (slots.latest[rows] <= now.known).all():
            return
        for marks in (slots.one, slots.two):
            if marks is None or now.past(old := touched.of(marks)):
                continue
            for mine in (touched.marks,) if touched.low is None else (touched.marks, touched.low):
                other = ((old ^ mine) > EVENT) & (old != 0)
                if other.any():
                    mine = np.broadcast_to(mine, old.shape)[other]
                    self._report(footprint, touched.cells_at(other), old[other], mine, stored)

    def _report(
        self, footprint: Footprint, cells: np.ndarray, old: np.ndarray, mine: np.ndarray, stored: Stored | None
    ) -> None:
        """Other threads touched ``cells`` before, as the marks ``old`` tell: where nothing orders the two is a race."""
        racing = ~self._order.before(old, mine >> SHIFT, self._meetings)
        if stored is not None and racing.any():
            racing &= stored.changes(mine >> SHIFT, footprint.bytes_of(cells), 1 << footprint.shift)
        if racing.any():
            self._pairs.add(footprint, old[racing], mine[racing], cells[racing])

    def _compare_lanes(self, footprint: Footprint, touched: Touch, stored: Stored) -> None:
        """Lanes of one store at one cell: the last one's value stays."""
        assert footprint.writes is not None
        last = touched.of(footprint.writes.one)
        lost = last != touched.marks
        if not lost.any():
            return
        cells, winners = touched.cells_at(lost), last[lost]
        losers = np.broadcast_to(touched.marks, last.shape)[lost]
        first, size = footprint.bytes_of(cells), 1 << footprint.shift
        differ = stored.bytes_at(losers >> SHIFT, first, size) != stored.bytes_at(winners >> SHIFT, first, size)
        wrong = differ.any(1)
        if wrong.any():
            self._pairs.add(footprint, winners[wrong], losers[wrong], cells[wrong], at_once=True)


def _first_threads(split: Split, padded: int) -> np.ndarray:
    """The number, through the grid, of the first thread of each of the split's blocks: (blocks, 1)."""
    return (split.lanes.first_block + split.lanes.block) * padded + split.lanes.first_thread
