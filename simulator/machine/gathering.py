"""Where lanes that have parted meet again, for schedules that bring them together as hardware does.

A branch that parts lanes gives both sides a *point*: the nearest block that everybody passes behind it (its immediate
post-dominator), as the compiler's convergence barriers do on Volta and later.  Rules of this file:

* Who stands at its point lets those go first who have yet to come there; nobody waits for lanes that sleep, that wait
  for others or that have left.
* A point binds nobody: an order may let a split go past it.  It then looks for the others at the next such block.
* Who is behind may itself wait for somebody ahead, in a loop: a warp that goes on for long so scatters for a while, and
  sooner each time.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import takewhile
from typing import TypeAlias

from simulator.machine.flow import Flow
from simulator.machine.split import Split
from simulator.program import EXIT

Point: TypeAlias = tuple[str, int]
"""A block, and the number of the parting."""


LONG, SHORT = 512, 16
"""Turns for which a warp lets those go first who are behind: at the start, and at least."""
APART = 16
"""Turns for which it does not, thereafter."""


class Gathering:
    """The points of the splits of one group (``Split.points``, the innermost last)."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._partings = 0
        self._turns: dict[tuple[int, int], tuple[int, int]] = {}  # left (negative: apart), and how many there were

    def has_patience(self, warp: tuple[int, int]) -> bool:
        """Another turn of a warp: do those go first who are behind?"""
        left, most = self._turns.get(warp, (LONG, LONG))
        if left == -APART:
            left = most = max(SHORT, most // 2)
        self._turns[warp] = left - 1, most
        return left > 0

    def part(self, one: Split, other: Split, branch: str) -> None:
        """A branch parts two splits."""
        point = self._flow.ipdom[branch]
        if point != EXIT:
            self._partings += 1
            one.points = (*one.points, (point, self._partings))
        other.points = one.points

    def meet(self, stays: Split, comes: Split) -> None:
        """Two splits are one from now on: they look for whom both looked for, and their warp has patience again."""
        self._turns.pop(stays.warp, None)
        if stays.mask is None:
            stays.points = ()
        else:
            both = takewhile(lambda pair: pair[0] == pair[1], zip(stays.points, comes.points, strict=False))
            stays.points = tuple(point for point, _ in both)

    def behind(self, splits: Collection[Split]) -> Split:
        """Who of the splits of a warp that can go is behind."""
        sequence = self._flow.sequence
        free = [split for split in splits if not self._is_expecting(split, splits)]
        return min(free or splits, key=lambda split: (sequence[split.block], split.segment))

    def go_on(self, split: Split, mates: Collection[Split]) -> None:
        """A split gets a turn: if it stands at its point, that is behind it."""
        while split.points and _at(split, split.points[-1]):
            *outer, (point, parting) = split.points
            beyond = self._flow.ipdom[point]
            others = any(parting == number for mate in mates if mate is not split for _, number in mate.points)
            split.points = (*outer, (beyond, parting)) if others and beyond != EXIT else tuple(outer)

    def _is_expecting(self, split: Split, mates: Collection[Split]) -> bool:
        """Does a split stand at its point, and is somebody still on the way there?"""
        if not split.points or not _at(split, point := split.points[-1]):
            return False
        return any(point in mate.points and not _at(mate, point) for mate in mates)


def _at(split: Split, point: Point) -> bool:
    return split.block == point[0] and split.segment == 0
