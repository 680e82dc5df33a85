"""What happens before what: who is sure to see an earlier access of another thread.

Rules of this file:

* Time is a counter that moves on whenever threads synchronise.  An access is an *event* with the time at which it ran;
  a thread knows of another thread's events up to some time, and those happen before whatever it does next.
* Known are: a thread's own events; those of its block up to the block's last barrier; those of its warp up to the last
  warp operation (``syncwarp``, shuffle, vote, match) in which both took part; all up to the last barrier of the grid;
  and what came with an atomic (see ``releases``).
* CUDA promises the order of memory for ``syncwarp`` alone.  Shuffles, votes and matches count here, too: their lanes
  meet, and code in the field relies on it.
* Threads are numbered through the grid, ``block * padded + thread`` (``padded``: a block's threads rounded up to
  warps).  A *mark* is a thread and an event in one int64; 0 is nobody's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.machine.memory import Access
from simulator.machine.split import Split
from simulator.machine.warp import FULL, LANE

if TYPE_CHECKING:
    from simulator.machine.group import Group
    from simulator.observers.races.releases import Releases

SHIFT = 27
EVENT = (1 << SHIFT) - 1
"""A mark is ``thread << SHIFT | event``; events are numbered from 1."""


class Events:
    """The accesses that have run: when (``time``), and by which operation (``site``)."""

    def __init__(self) -> None:
        self.now = 1
        self.accesses: list[Access] = []
        self.time = np.zeros(1024, np.int64)
        self.site = np.zeros(1024, np.int32)
        self._count = 0
        self._sites: dict[Access, int] = {}
        self._last: dict[Access, tuple[int, int]] = {}

    def number(self, access: Access, time: int = 0) -> int:
        """The event of an access that runs now, or ran at some time.

        One operation's accesses between two synchronisations are one event.
        """
        time = time or self.now
        last = self._last.get(access)
        if last is not None and last[0] == time:
            return last[1]
        self._count = number = self._count + 1
        if number >= len(self.time):
            if number > EVENT:
                raise OverflowError(f"more than {EVENT} memory operations in one launch")
            self.time, self.site = (np.concatenate([old, np.zeros_like(old)]) for old in (self.time, self.site))
        site = self._sites.get(access)
        if site is None:
            site = self._sites[access] = len(self.accesses)
            self.accesses.append(access)
        self.time[number], self.site[number] = time, site
        self._last[access] = time, number
        return number


class Meetings:
    """When the threads of one group of blocks last met: per block at a barrier, per warp in a warp operation.

    ``barrier`` (blocks,) and ``warps`` (blocks, warps) are times; ``lanes`` (blocks * warps, 32, 32) is what each lane
    knows of each other one, once a part of a warp has met without the rest.
    """

    def __init__(self, group: Group) -> None:
        self.first_block = group.first_block
        self.padded = group.geometry.padded
        self.barrier = np.zeros(group.nb, np.int64)
        self.warps = np.zeros((group.nb, self.padded // 32), np.int64)
        self.lanes: np.ndarray | None = None

    def rows(self, split: Split) -> slice:
        """The split's blocks, counted within the group."""
        first = split.lanes.first_block - self.first_block
        return slice(first, first + split.lanes.nb)

    def meet_in_block(self, split: Split, now: int) -> None:
        """The blocks of which lanes of ``split`` pass a barrier."""
        rows = self.rows(split)
        if split.mask is None:
            self.barrier[rows] = now
        else:
            self.barrier[rows][split.mask.any(1)] = now

    def meet_in_warp(self, split: Split, mask: Any, now: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Lanes meet as ``mask`` names them.

        Gives the warps that did, numbered over the split's blocks, and who met whom, bool (those warps, 32, 32); None
        if all met all.
        """
        rows, first = self.rows(split), split.lanes.first_thread // 32
        warps = self.warps[rows, first : first + split.lanes.P // 32]
        uniform = type(mask) is int
        if split.mask is None and uniform and mask & FULL == FULL:
            warps[...] = now
            return np.arange(warps.size), None
        active = split.active().reshape(-1, 32)
        words = split.expand(mask, "u4").reshape(-1, 32)
        live = split.group.live(split).reshape(-1, 32)
        whole = (
            (active == live).all(1) & live.any(1) & (~live | _named(words[:, :1] if uniform else words, live)).all(1)
        )
        warps[whole.reshape(warps.shape)] = now
        partly = active.any(1) & ~whole
        if not partly.any():
            return np.flatnonzero(whole), None
        acting = np.flatnonzero(whole | partly)
        here, words = active[acting], words[acting]
        met = here[:, :, None] & here[:, None, :] & ((words[:, :, None] >> LANE.astype(np.uint32)) & 1 != 0)
        self._meet_partly(rows, first, partly.reshape(warps.shape), met[partly[acting]], now)
        return acting, met

    def _meet_partly(self, rows: slice, first: int, partly: np.ndarray, met: np.ndarray, now: int) -> None:
        if self.lanes is None:
            self.lanes = np.zeros((*self.warps.shape, 32, 32), np.int64)
        block, warp = np.nonzero(partly)
        block, warp = block + rows.start, warp + first
        known = self.lanes[block, warp]
        np.maximum(known, self.warps[block, warp][:, None, None], out=known)
        told = known.copy()
        told[:, LANE, LANE] = now  # of itself a lane knows everything
        learned = known.copy()
        for lane in range(32):
            heard = np.where(met[:, lane, :, None], told, 0).max(axis=1)
            np.maximum(learned[:, lane], heard, out=learned[:, lane])
        self.lanes[block, warp] = learned

    def before(self, time: np.ndarray, other: np.ndarray, thread: np.ndarray) -> np.ndarray:
        """Do events at ``time`` of the threads ``other`` happen before what ``thread``, of this group, does now?"""
        block = thread // self.padded
        row = block - self.first_block
        same = other // self.padded == block
        known = same & (time <= self.barrier[row])
        near = same & ~known & (other >> 5 == thread >> 5)
        if near.any():
            row, warp = row[near], (thread[near] % self.padded) >> 5
            last = self.warps[row, warp]
            if self.lanes is not None:
                last = np.maximum(last, self.lanes[row, warp, thread[near] & 31, other[near] & 31])
            known[near] = time[near] <= last
        return known


def _named(words: np.ndarray, live: np.ndarray) -> np.ndarray:
    """Which lanes do all live lanes of a warp name?  ``words`` are their masks (warps, 1 or 32); bool (warps, 32)."""
    if words.shape[1] > 1:
        words = np.bitwise_and.reduce(np.where(live, words, np.uint32(FULL)), axis=1)[:, None]
    return np.asarray((words >> LANE.astype(np.uint32)) & 1 != 0)


class Order:
    """Answers whether an event happens before what a thread does now."""

    def __init__(self, events: Events, releases: Releases) -> None:
        self.events = events
        self.releases = releases
        self.grid = 0
        """The time of the last barrier of the whole grid."""

    def before(self, marks: np.ndarray, threads: np.ndarray, meetings: Meetings) -> np.ndarray:
        """Per pair (1-d): does the event of ``marks`` happen before what the thread of ``meetings``'s group does?"""
        time, other = self.events.time[marks & EVENT], marks >> SHIFT
        known = meetings.before(time, other, threads)
        known |= time <= self.grid
        if self.releases.any and not known.all():
            left = np.flatnonzero(~known)
            known[left] = self.releases.before(time[left], other[left], threads[left])
        return known
