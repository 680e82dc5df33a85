"""A split: some lanes at one place of the program, with their own view of every slot.

A divergence copies the list of values (values are immutable by rule) and both sides run unmasked; where lanes meet
again, the slots that are live there are merged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.machine.values import Affine, Lanes, expand, merge
from simulator.program import Op

if TYPE_CHECKING:
    from simulator.machine.group import Group


Box = tuple[int, int, int, int]
"""First and last block, first and last lane (both included)."""


def _first_last(flags: Any) -> tuple[int, int]:
    """Where the first and the last True of a row of flags is."""
    return int(flags.argmax()), len(flags) - 1 - int(flags[::-1].argmax())


class Split:
    """Lanes that stand together.

    ``block`` and ``segment`` say where; ``mask`` is None when every lane of ``lanes`` is here, else a bool array of
    shape (blocks, threads); ``waiting`` is the synchronising operation that it stands at.  ``rank`` is the number of
    its first active lane among those of the launch, and ``tired`` how often it has run without an end in sight, where a
    scheduler asks for it; ``points`` are where it expects lanes from which it has parted (see ``gathering``).
    """

    __slots__ = (
        "_box", "_boxed", "block", "group", "join", "lanes", "mask", "points", "rank", "segment", "tired", "values",
        "waiting", "warp",
    )  # fmt: skip

    def __init__(
        self,
        block: str,
        mask: np.ndarray | None,
        values: list[Any],
        lanes: Lanes,
        group: Group,
        join: Join | None = None,
    ) -> None:
        self.block = block
        self.segment = 0
        self.mask = mask
        self.values = values
        self.lanes = lanes
        self.group = group
        self.join = join
        self.waiting: Op | None = None
        self.points: tuple[tuple[str, int], ...] = ()
        self.rank = self.tired = 0
        self.warp = (lanes.first_block, lanes.first_thread // 32)
        self._boxed: np.ndarray | None = None
        self._box: Box = (0, lanes.nb - 1, 0, lanes.P - 1)

    def active(self) -> np.ndarray:
        """The active lanes as a bool array of shape (blocks, threads)."""
        if self.mask is not None:
            return self.mask
        return np.ones((self.lanes.nb, self.lanes.P), bool)

    def box(self) -> Box:
        """First and last block and lane with an active lane: affine values have their active bounds at its corners."""
        mask = self.mask
        if mask is None:
            return (0, self.lanes.nb - 1, 0, self.lanes.P - 1)
        if mask is not self._boxed:
            top, bottom = _first_last(mask.any(1)) if len(mask) > 1 else (0, 0)
            self._box = (top, bottom, *_first_last(mask.any(0) if len(mask) > 1 else mask[0]))
            self._boxed = mask
        return self._box

    def bounds(self, value: Affine) -> tuple[int, int]:
        """Bounds of an affine value over the box of active lanes (of lanes in rows: over all of them)."""
        if self.mask is None or self.lanes.ny > 1:
            return value.lo, value.hi
        top, bottom, left, right = self.box()
        low = high = value.b
        for step, first, last in ((value.a, top, bottom), (value.l, left, right)):
            low += step * (first if step > 0 else last)
            high += step * (last if step > 0 else first)
        return low, high

    def expand(self, value: Any, code: str) -> np.ndarray:
        """A value of this split with one item per lane, shape (blocks, threads)."""
        return expand(value, self.lanes, code)

    def absorb(self, other: Split, slots: Iterable[int]) -> None:
        """Take in the lanes of ``other``, which stands at the same place: merge ``slots`` and the masks."""
        mine, theirs, slot_of = self.values, other.values, self.group.program.slots
        assert self.mask is not None and other.mask is not None
        for slot in slots:
            a, b = mine[slot], theirs[slot]
            if a is b or b is None:
                continue
            mine[slot] = b if a is None else merge(self.mask, a, b, slot_of[slot].dtype, self.lanes)
        if (shadow := self.group.shadow) is not None:
            shadow.absorb(self, other, slots)
        mask = self.mask | other.mask
        self.mask = None if np.count_nonzero(mask) == mask.size else mask

    def threads(self, mask: np.ndarray | None = None, block: int = 0) -> tuple[int, ...]:
        """Thread numbers, within its block, of the lanes in ``mask`` (default: the active ones) of one block."""
        row = (self.active() if mask is None else mask)[block]
        return tuple(int(k) + self.lanes.first_thread for k in np.flatnonzero(row))


class Join:
    """Where the sides of a divergence meet (waves): ``expected`` sides are still out, ``arrived`` holds those here."""

    __slots__ = ("arrived", "block", "expected", "parent")

    def __init__(self, block: str, parent: Join | None) -> None:
        self.block = block
        self.parent = parent
        self.expected = 1
        self.arrived: Split | None = None
