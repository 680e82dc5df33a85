"""What threads learn of each other through atomics: locks, tickets and flags.

Rules of this file, after the PTX memory model:

* A thread *releases* by a fence and, later, an atomic that changes memory.  With it goes all that it knew at the fence.
* A fence is carried on by a barrier: what the threads of a block fenced before it, any of them may release after it
  (all write and fence, meet, and thread 0 counts the block).  The same holds for lanes that meet in a warp operation.
* A thread *acquires* by an atomic on the same place that runs later: atomics on one place form a chain.  A fence after
  it is not asked for; the examples of NVIDIA leave it out.
* An atomic without a fence before it releases nothing: Numba's atomics are relaxed.
* ``threadfence_block`` releases to threads of the same block.

Nothing here is vectorised over threads: kernels have few that release, and most have none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simulator.observers.races.happens import Meetings


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What somebody knows of one block of ``padded`` threads: the events of each up to a time, and those of all threads
    of the grid up to ``grid``.  The times are ``near`` (n,) for the threads from ``first`` on, ``rest`` for others."""

    padded: int
    rest: int
    first: int
    near: np.ndarray
    grid: int

    def times(self) -> np.ndarray:
        """The time for each thread (padded,)."""
        if len(self.near) == self.padded:
            return self.near
        times = np.full(self.padded, self.rest)
        times[self.first : self.first + len(self.near)] = self.near
        return times

    def with_all_of(self, other: Known) -> Known:
        """What both know; one of the two if that is no more: who hands a lock on then holds the same objects, and
        ``_learn_all`` need not look inside."""
        mine, others = self.times(), other.times()
        if other.grid <= self.grid and (others <= mine).all():
            return self
        if self.grid <= other.grid and (mine <= others).all():
            return other
        return Known(self.padded, 0, 0, np.maximum(mine, others), max(self.grid, other.grid))


Lore = dict[int, Known]
"""What somebody knows, by block."""
DEVICE = -1
Scopes = dict[int, Lore]
"""What was fenced, by scope: ``DEVICE``, or the number of the block that a fence reaches."""
Place = Any
"""An address in global memory, (block, address) in shared memory."""


@dataclass(slots=True)
class _Released:
    """What atomics left at a place; ``version`` counts how often it grew."""

    scopes: Scopes = field(default_factory=dict)
    version: int = 0


class Releases:
    """What was released where, and who has acquired it.  ``padded``: a block's threads rounded up to warps."""

    def __init__(self, padded: int = 32) -> None:
        self.padded = padded
        self.any = False
        """Has anybody acquired anything?"""
        self._fences: dict[int, dict[int, Scopes]] = {}  # by block, by thread: since the last barrier
        self._fenced: dict[int, Scopes] = {}  # by block: before it
        self._released: dict[Place, _Released] = {}
        self._seen: dict[tuple[int, Place], int] = {}  # by thread: the version that it acquired last
        self._threads: dict[int, dict[int, Lore]] = {}  # by block, by thread
        self._blocks: dict[int, Lore] = {}

    @property
    def waiting(self) -> bool:
        """Has anybody passed a fence, so that atomics and meetings matter?"""
        return bool(self._fences or self._fenced)

    # -- events -----------------------------------------------------------------------------------------------

    def fence(self, threads: list[int], whole_device: bool, meetings: Meetings, now: int, grid: int) -> None:
        """Threads pass a fence: what they know now goes with their atomics from here on."""
        for thread in threads:
            block, number = divmod(thread, self.padded)
            row, warp, lane = block - meetings.first_block, number >> 5, number & 31
            near = np.full(32, meetings.warps[row, warp])
            if meetings.lanes is not None:
                np.maximum(near, meetings.lanes[row, warp, lane], out=near)
            np.maximum(near, meetings.barrier[row], out=near)
            near[lane] = now
            lore: Lore = {block: Known(self.padded, int(meetings.barrier[row]), 32 * warp, near, grid)}
            _learn_all(lore, self._blocks.get(block, {}))
            _learn_all(lore, self._threads.get(block, {}).get(thread, {}))
            self._fences.setdefault(block, {}).setdefault(thread, {})[DEVICE if whole_device else block] = lore

    def atomic(self, threads: list[int], places: list[Place], wrote: list[bool]) -> None:
        """Atomics of threads at places, one after the other."""
        for thread, place, changed in zip(threads, places, wrote, strict=True):
            block = thread // self.padded
            released = self._released.get(place)
            if released is not None and self._seen.get((thread, place)) != released.version:
                self._acquire(thread, block, released)
                self._seen[thread, place] = released.version
            if not changed:
                continue
            for fenced in (self._fences.get(block, {}).get(thread), self._fenced.get(block)):
                if fenced:
                    released = self._released.setdefault(place, _Released())
                    released.version += _merge(released.scopes, fenced)

    def _acquire(self, thread: int, block: int, released: _Released) -> None:
        self.any = True
        lore = self._threads.setdefault(block, {}).setdefault(thread, {})
        for scope in (DEVICE, block):
            _learn_all(lore, released.scopes.get(scope, {}))

    def meet_in_blocks(self, blocks: Iterable[int]) -> None:
        """All threads of these blocks pass a barrier: what one knows, all do, and what one fenced, all did."""
        for block in blocks:
            for lore in self._threads.pop(block, {}).values():
                _learn_all(self._blocks.setdefault(block, {}), lore)
            for fenced in self._fences.pop(block, {}).values():
                _merge(self._fenced.setdefault(block, {}), fenced)

    def meet_in_warps(self, first: np.ndarray, met: np.ndarray | None) -> None:
        """Lanes of warps meet; ``first`` (warps,) are the warps' first threads, ``met`` who met whom (None: all)."""
        wanted = {thread >> 5 for table in (self._threads, self._fences) for some in table.values() for thread in some}
        for row, start in enumerate(first.tolist()):
            if start >> 5 not in wanted:
                continue
            block = start // self.padded
            lores, fences = self._threads.setdefault(block, {}), self._fences.setdefault(block, {})
            knew = {lane: dict(lores[start + lane]) for lane in range(32) if start + lane in lores}
            fenced = {lane: _copy(fences[start + lane]) for lane in range(32) if start + lane in fences}
            for lane in range(32):
                for other in knew.keys() | fenced.keys():
                    if other == lane or not (met is None or met[row, lane, other]):
                        continue
                    if other in knew:
                        _learn_all(lores.setdefault(start + lane, {}), knew[other])
                    if other in fenced:
                        _merge(fences.setdefault(start + lane, {}), fenced[other])

    # -- the question -----------------------------------------------------------------------------------------

    def before(self, time: np.ndarray, other: np.ndarray, threads: np.ndarray) -> np.ndarray:
        """Per event (time, thread ``other``): has ``threads`` acquired it?"""
        found: np.ndarray = np.zeros(time.shape, bool)
        blocks = threads // self.padded
        for block in np.unique(blocks).tolist():
            here = np.flatnonzero(blocks == block)
            self._look_up(self._blocks.get(block, {}), here, time, other, found)
            if lores := self._threads.get(block):
                for thread in np.unique(threads[here]).tolist():
                    self._look_up(lores.get(thread, {}), here[threads[here] == thread], time, other, found)
        return found

    def _look_up(self, lore: Lore, here: np.ndarray, time: np.ndarray, other: np.ndarray, found: np.ndarray) -> None:
        """Mark in ``found`` which of the events numbered ``here`` are in ``lore``."""
        if not lore:
            return
        found[here] |= time[here] <= max(known.grid for known in lore.values())
        block, thread = np.divmod(other[here], self.padded)
        for of in np.unique(block).tolist():
            if (known := lore.get(of)) is not None:
                those = block == of
                found[here[those]] |= time[here[those]] <= known.times()[thread[those]]


def _learn_all(lore: Lore, more: Lore) -> bool:
    """Add what ``more`` knows; gives whether that was news."""
    news = False
    for block, known in more.items():
        old = lore.get(block)
        new = known if old is None or old is known else old.with_all_of(known)
        if new is not old:
            lore[block], news = new, True
    return news


def _merge(scopes: Scopes, more: Scopes) -> bool:
    """Add what was fenced elsewhere; gives whether that was news."""
    news = False
    for scope, lore in more.items():
        news |= _learn_all(scopes.setdefault(scope, {}), lore)
    return news


def _copy(scopes: Scopes) -> Scopes:
    return {scope: dict(lore) for scope, lore in scopes.items()}
