"""Who spins: lanes that come round a loop as they were, while memory stayed as it was, will come round for ever.

That is proof, no guess: what a lane does next follows from where it stands, its live values and what lies in memory
(what other lanes of its warp do shows in warp operations alone, and those start the proof anew).  Such lanes *sleep*:
they get no turn until somebody changes memory.  When everybody in the launch sleeps, nobody ever will, unless the
host does: a launch without a budget of steps goes on.  Blocks that do not run together with these may, too.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from simulator.machine.code import Code
from simulator.machine.memory import Access, Allocation
from simulator.machine.split import Split
from simulator.machine.values import same

Stand: TypeAlias = tuple[str, bytes | None]
"""The head of a loop, and the lanes that stand there together."""

FEW = 4096
"""Bytes that are compared to see whether a split that spins has something new to read."""


class Rounds:
    """What lanes of a group looked like at the heads of loops since memory last changed."""

    def __init__(self, code: Code) -> None:
        self._slots = code.program.slots
        self._flow = code.flow
        self._seen: dict[tuple[int, int], dict[Stand, list[Any]]] = {}
        self._changes = -1

    def comes_round(self, split: Split) -> bool:
        """Do these lanes stand at the head of a loop as they did before, and memory with them?"""
        if split.block not in self._flow.alone:
            return False
        live = self._flow.live_in[split.block]
        changes = split.group.memory.changes
        if changes != self._changes:
            self._seen.clear()
            self._changes = changes
        seen = self._seen.setdefault(split.warp, {})
        stand = (split.block, None if split.mask is None else split.mask.tobytes())
        before, now = seen.get(stand), [split.values[slot] for slot in live]
        seen[stand] = now
        return before is not None and all(map(self._unchanged, before, now, live))

    def start_anew(self, split: Split) -> None:
        """Lanes have met in an operation: what they do next may come from each other."""
        self._seen.pop(split.warp, None)

    def _unchanged(self, before: Any, now: Any, slot: int) -> bool:
        if type(before) is type(now) is np.ndarray:
            return before is now or (before.shape == now.shape and before.tobytes() == now.tobytes())
        return same(before, now, self._slots[slot].dtype)


class Nap(NamedTuple):
    """Since when a split sleeps, counted in changes of memory; all that anybody has read on the way round its loop, and
    the bytes that lie there, if they are few."""

    since: int
    reads: tuple[Allocation, ...]
    seen: bytes | None

    def disturbed(self) -> bool:
        """Has what the loop reads changed, and is it not as it was again?"""
        if self.reads and all(found.changed <= self.since for found in self.reads):
            return False
        return self.seen is None or self.seen != _contents(self.reads)


def _contents(reads: tuple[Allocation, ...]) -> bytes | None:
    if not reads or sum(len(found.data) for found in reads) > FEW:
        return None
    return b"".join(found.data.tobytes() for found in reads)


class Sleepers:
    """Splits that spin, until what they read changes."""

    def __init__(self, code: Code) -> None:
        self.naps: dict[Split, Nap] = {}
        self.woken: dict[Split, Nap] = {}
        """Who has not had a turn since."""
        self._code = code
        self._accesses: dict[str, list[Access]] = {}
        self._looked = -1

    def add(self, split: Split) -> None:
        """A split at the head of a loop has come round."""
        found = self._accesses.get(split.block)
        if found is None:
            way = self._code.flow.way_round(split.block)
            found = self._accesses[split.block] = [access for label in way for access in self._code.reads[label]]
        reads = tuple(dict.fromkeys(hit for access in found for hit in access.hit))
        self.naps[split] = Nap(split.group.memory.changes, reads, _contents(reads))

    def wake(self, changes: int) -> list[Split]:
        """Who wakes, now that memory has changed so often: those whose loop reads something new."""
        if changes == self._looked:
            return []
        self._looked = changes
        found = {split: nap for split, nap in self.naps.items() if nap.disturbed()}
        self.woken.update(found)
        return self._rouse(found)

    def stir(self, changes: int) -> list[Split]:
        """Who wakes when everybody sleeps: those since whom anything at all has changed."""
        return self._rouse([split for split, nap in self.naps.items() if nap.since != changes])

    def sleeps_on(self, split: Split) -> bool:
        """A split that has woken gets a turn: is all that it reads as it was, so that it would come round again?"""
        nap = self.woken.pop(split, None)
        if nap is None or nap.disturbed():
            return False
        self.naps[split] = nap
        return True

    def forget(self, split: Split) -> bool:
        """A split is not as it was any more; did it sleep?"""
        self.woken.pop(split, None)
        return self.naps.pop(split, None) is not None

    def _rouse(self, splits: Collection[Split]) -> list[Split]:
        for split in splits:
            del self.naps[split]
        return list(splits)
