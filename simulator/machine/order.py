"""Orders of the split scheduler: who goes next.

Rules of this file: the same choices every time, from the splits that can go and a seed; nobody starves.
"""

from __future__ import annotations

import random
from operator import attrgetter

from simulator.machine.split import Split

PATIENCE = 1_000
"""Segments that ``first`` and ``last`` let one split run before another gets a turn: lanes must not starve behind a
loop that waits for them and of which that cannot be proved (see ``simulator.machine.spinning``)."""
SHORTEST = 16
"""The least that patience falls to."""

_rank = attrgetter("rank")


SCATTER = 64
"""One turn in so many, ``round-robin`` and ``random`` let a split go ahead of others of its warp that are behind."""


class Pick:
    """Chooses who goes next: ``first``, ``last``, ``round-robin`` (everybody in turn) or ``random`` with a seed.

    ``first`` lets the lowest lane run as far as it can, ``last`` the highest.  The others choose a split and, mostly,
    let the one of its warp that is farthest behind go in its place, as hardware brings lanes together again: else each
    would go the whole way alone.
    """

    def __init__(self, order: str, seed: int = 0) -> None:
        self.order = order
        self._random = random.Random(seed)
        self._best = max if order == "last" else min
        self._favourite: Split | None = None
        self._turns = 0
        self._patience = PATIENCE
        self._resting: set[Split] = set()

    def __call__(self, awake: list[Split]) -> Split:
        if self.order == "random":
            return awake[int(self._random.random() * len(awake))]
        if self.order == "round-robin":
            self._turns += 1
            return awake[self._turns % len(awake)]
        if self._favourite is not None and self._turns >= self._limit(self._favourite):
            # Spinning lanes lose patience sooner each time: all of them until somebody waits or leaves, and whoever
            # has spun until it waits itself.
            self._resting.add(self._favourite)
            self._favourite.tired += 1
            self._patience //= 2
            self._turns = 0
        rested = [split for split in awake if split not in self._resting] if self._resting else awake
        if not rested:
            self._resting.clear()
            rested = awake
        chosen: Split = self._best(rested, key=_rank)
        if chosen is not self._favourite:
            self._favourite, self._turns = chosen, 0
        self._turns += 1
        return chosen

    def gathers(self) -> bool:
        """Shall who is behind go in place of who was chosen?  Not always: who is behind may wait for others."""
        if self.order == "random":
            return self._random.random() * SCATTER > 1
        return self.order == "round-robin" and self._turns % SCATTER != 0

    def progress(self) -> None:
        """Somebody waits or has left: nobody rests any more."""
        self._patience = PATIENCE
        self._resting.clear()

    def _limit(self, split: Split) -> int:
        return max(min(self._patience, PATIENCE >> split.tired), SHORTEST)
