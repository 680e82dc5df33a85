"""A value domain that a launch carries along: what stands behind each value, and is computed beside it.

The machine owns this interface and names no domain.  A split's list of values is twice as long as the program's slots:
``values[n + slot]`` is what the domain keeps behind ``slot``, None or an array of *numbers* per lane (int64, of shape
(blocks, threads), ``NOTHING`` where there is none).  Values that merge, split or are handed over take theirs along.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.program import Op, Program, Term

if TYPE_CHECKING:
    from simulator.machine.memory import Memory
    from simulator.machine.split import Split

NOTHING = -1
"""In place of a number: nothing stands behind this lane's value."""


class Shadow:
    """A domain with nothing behind any value.  The generated code tells it of every operation."""

    def __init__(self) -> None:
        self._slots = 0

    def launch(self, program: Program, memory: Memory) -> None:
        """A launch begins."""
        self._slots = len(program.slots)

    def before(self, split: Split, op: Op) -> None:
        """An address (``elem``) is about to be worked out of the values of its sources."""

    def after(self, split: Split, op: Op, given: tuple[Any, ...], made: tuple[Any, ...]) -> None:
        """An operation ran for the active lanes: ``given`` and ``made`` are the values of its sources and results."""

    def branch(self, split: Split, term: Term) -> None:
        """The active lanes go where the condition of ``term`` sends them."""

    def behind(self, split: Split, slot: int) -> np.ndarray | None:
        """The numbers behind a slot's value."""
        found: np.ndarray | None = split.values[self._slots + slot]
        return found

    def absorb(self, split: Split, other: Split, slots: Iterable[int]) -> None:
        """Two splits meet: merge the numbers behind ``slots``."""
        mine, theirs, n = split.values, other.values, self._slots
        for slot in slots:
            a, b = mine[n + slot], theirs[n + slot]
            if a is b:
                continue
            assert split.mask is not None
            shape = (split.lanes.nb, split.lanes.P)
            merged = np.where(split.mask, NOTHING if a is None else a, NOTHING if b is None else b)
            mine[n + slot] = np.broadcast_to(merged, shape)
