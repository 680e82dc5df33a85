"""Who sleeps: splits that spin (see ``spinning``), until what they read on the way round their loop changes.

When everybody in the launch sleeps, nobody ever will change it, unless the host does: a launch without a budget of
steps goes on.  Blocks that do not run together with these may, too.  Rules of this file:

* A sleeper watches *parts* of memory.  Where its loop hits little, these are the allocations that it hits; otherwise it
  goes round once more, *overheard*, to tell which bytes it reads.  So what others write elsewhere costs it nothing: of
  a thousand blocks that look back at each other, a store wakes one.
* A sleeper may watch too much, for it looks around when it wakes and sleeps on; never too little.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from simulator.machine.code import Code, Function
from simulator.machine.memory import Access, Allocation, Memory
from simulator.machine.spinning import Stand, stand_of
from simulator.machine.split import Split
from simulator.machine.values import Affine

Value = Any

SMALL = 64
"""Bytes of the allocations that a loop hits, up to which a sleeper watches them all: a lock, a pair of tickets."""
FEW = 4096
"""Bytes that are compared to see whether a sleeper has something new to read."""
GRAIN = 5
"""Who watches what is kept for each 2**5 bytes, a sector."""
MANY = 64
"""Sectors; who watches more of an allocation, or writes more, is taken to mean all of it."""


class Part(NamedTuple):
    """Some bytes of an allocation's ``data``."""

    allocation: Allocation
    first: int
    end: int

    @property
    def whole(self) -> bool:
        """Is it to be taken for all of the allocation?"""
        size = self.end - self.first
        return size == len(self.allocation.data) or size > MANY << GRAIN

    @property
    def sectors(self) -> range:
        """The numbers of its sectors."""
        return range(self.first >> GRAIN, (self.end - 1 >> GRAIN) + 1)

    def contents(self) -> bytes:
        """What lies there."""
        return self.allocation.data[self.first : self.end].tobytes()


def _all_of(allocation: Allocation) -> Part:
    return Part(allocation, 0, len(allocation.data))


def _part(allocation: Allocation, address: Value, nbytes: int) -> Part:
    """The bytes from the least address to the greatest; all copies where each block or lane has one."""
    if allocation.block_stride or allocation.lane_stride:
        return _all_of(allocation)
    kind = type(address)
    if kind is int:
        low = high = address
    elif kind is Affine:
        low, high = address.lo, address.hi
    else:
        low, high = int(address.min()), int(address.max())
    first, end = low - allocation.base, high + nbytes - allocation.base
    return Part(allocation, max(0, first), min(len(allocation.data), end))  # lanes that are off may be anywhere


class Nap(NamedTuple):
    """Since when a split sleeps, counted in changes of memory; what it watches; the bytes there, if they are few."""

    since: int
    parts: tuple[Part, ...]
    seen: bytes | None

    def disturbed(self) -> bool:
        """Has what the loop reads changed, and is it not as it was again?"""
        if self.parts and all(part.allocation.changed <= self.since for part in self.parts):
            return False
        return self.seen is None or self.seen != _contents(self.parts)


def _contents(parts: tuple[Part, ...]) -> bytes | None:
    if not parts or sum(part.end - part.first for part in parts) > FEW:
        return None
    return b"".join(part.contents() for part in parts)


class Eavesdropper:
    """Hears what splits read that go round a loop once more before they sleep."""

    def __init__(self) -> None:
        self.warps: dict[tuple[int, int], dict[Stand, dict[Part, None]]] = {}
        """What was heard since lanes set out, by the warp and where they did."""
        self._changes = -1

    def heard(self, split: Split) -> tuple[Part, ...] | None:
        """All that the split's warp has read since the split was here last; None if it sets out now.

        Other lanes of the warp count, too: a loop may part lanes that meet again at its head.
        """
        self._forget_the_old(split)
        stands, stand = self.warps.setdefault(split.warp, {}), stand_of(split)
        found = stands.pop(stand, None)
        if found is None:
            stands[stand] = {}
            return None
        if not stands:
            del self.warps[split.warp]
        return tuple(found)

    def run(self, function: Function, split: Split) -> None:
        """Run a segment of a split that somebody listens to."""
        self._forget_the_old(split)
        group, stands = split.group, self.warps.get(split.warp, {})
        tell = group.on_access

        def hear(split: Split, access: Access, allocation: Allocation, address: Value) -> None:
            if access.kind != "st":
                lanes = split.expand(address, "i8")[split.active()]
                part = _part(allocation, lanes, access.nbytes)
                for parts in stands.values():
                    parts[part] = None
            if tell is not None:
                tell(split, access, allocation, address)

        group.on_access = hear
        try:
            function(split, split.values)
        finally:
            group.on_access = tell

    def _forget_the_old(self, split: Split) -> None:
        """Whoever was on the way when memory changed does not come round as it was."""
        changes = split.group.memory.changes
        if changes != self._changes:
            self.warps.clear()
            self._changes = changes


Watchers: TypeAlias = dict[Split, None]
"""Splits, in the order in which they fell asleep."""


class Sleepers:
    """Splits that spin, until what they read changes."""

    def __init__(self, code: Code, memory: Memory) -> None:
        self.naps: dict[Split, Nap] = {}
        self.woken: dict[Split, Nap] = {}
        """Who has not had a turn since."""
        self.eavesdropper = Eavesdropper()
        self._code = code
        self._memory = memory
        self._accesses: dict[str, list[Access]] = {}
        self._anything: Watchers = {}
        self._whole: dict[Allocation, Watchers] = {}
        self._sectors: dict[Allocation, dict[int, Watchers]] = {}

    def add(self, split: Split) -> bool:
        """A split at the head of a loop has come round: it sleeps, if it is known what it reads."""
        found = self._accesses.get(split.block)
        if found is None:
            way = self._code.flow.way_round(split.block)
            found = self._accesses[split.block] = [access for label in way for access in self._code.reads[label]]
        hit = dict.fromkeys(hit for access in found for hit in access.hit)
        parts: tuple[Part, ...] | None = tuple(map(_all_of, hit))
        if sum(len(allocation.data) for allocation in hit) > SMALL:
            parts = self.eavesdropper.heard(split)
        if parts is None:
            return False
        self._lie_down(split, Nap(self._memory.changes, parts, _contents(parts)))
        return True

    def wake(self) -> list[Split]:
        """Who wakes, now that memory has changed: those whose loop reads something new."""
        news = self._memory.news
        if not news:
            return []
        self._memory.news = []
        watching = dict.fromkeys(split for write in news for split in self._watching(*write))
        disturbed = {split: nap for split in watching if (nap := self.naps[split]).disturbed()}
        self.woken.update(disturbed)
        return self._rouse(disturbed)

    def stir(self, changes: int) -> list[Split]:
        """Who wakes when everybody sleeps: those since whom anything at all has changed."""
        return self._rouse([split for split, nap in self.naps.items() if nap.since != changes])

    def sleeps_on(self, split: Split) -> bool:
        """A split that has woken gets a turn: is all that it reads as it was, so that it would come round again?"""
        nap = self.woken.pop(split, None)
        if nap is None or nap.disturbed():
            return False
        self._lie_down(split, nap)
        return True

    def forget(self, split: Split) -> bool:
        """A split is not as it was any more; did it sleep?"""
        self.woken.pop(split, None)
        return bool(split in self.naps and self._rouse([split]))

    # -- who watches what -------------------------------------------------------------------------------------

    def _lie_down(self, split: Split, nap: Nap) -> None:
        self.naps[split] = nap
        for watchers in self._places(nap):
            watchers[split] = None
        if self._memory.news is None:
            self._memory.news = []

    def _rouse(self, splits: Iterable[Split]) -> list[Split]:
        roused = list(splits)
        for split in roused:
            for watchers in self._places(self.naps.pop(split)):
                watchers.pop(split, None)
        if not self.naps:
            self._memory.news = None
        return roused

    def _places(self, nap: Nap) -> Iterable[Watchers]:
        """Where a sleeper is entered."""
        if not nap.parts:
            yield self._anything
        for part in nap.parts:
            if part.whole:
                yield self._whole.setdefault(part.allocation, {})
            else:
                sectors = self._sectors.setdefault(part.allocation, {})
                for number in part.sectors:
                    yield sectors.setdefault(number, {})

    def _watching(self, allocation: Allocation, address: Value, nbytes: int) -> Iterable[Split]:
        """Who may watch bytes that were written."""
        yield from self._anything
        yield from self._whole.get(allocation, ())
        if sectors := self._sectors.get(allocation):
            part = _part(allocation, address, nbytes)
            for watchers in sectors.values() if part.whole else (sectors.get(number, ()) for number in part.sectors):
                yield from watchers
