"""Accesses out of bounds or misaligned, which a check goes past, and the threads that go on with a 0 instead.

Rules of this file:

* One fault per operation and axis.
* A thread that reads out of bounds gets a 0 that nobody wrote, and is *astray* from then on: where it goes with that
  is no evidence of anything.
"""

from __future__ import annotations

import numpy as np

from simulator.machine.faults import Fault
from simulator.machine.memory import Access
from simulator.machine.split import Split
from simulator.observers.firsts import Firsts
from simulator.observers.verdict import Verdict


class Lost(Verdict):
    """Collects the faults of accesses in a launch that goes on without the lanes that had them."""

    def __init__(self) -> None:
        self._firsts = Firsts()

    def fault(self, split: Split, access: Access, fault: Fault, lanes: np.ndarray) -> None:
        key = (access.op, fault.kind, fault.facts.get("axis"))
        if not self._firsts.known(key, lanes):
            plain = Fault(fault.kind, fault.places, **fault.facts)  # the one that was raised holds on to the run
            self._firsts.add(key, lanes, plain)

    def faults(self) -> list[Fault]:
        """The faults, as the machine would have raised the first of each."""
        return self._firsts.faults()


class Astray:
    """Which threads of a launch are astray.  Threads are numbered through the grid, blocks are whole warps."""

    def __init__(self) -> None:
        self._flags: np.ndarray | None = None

    def lost(self, split: Split, access: Access, lanes: np.ndarray) -> None:
        """The hook of an observer: these lanes do not act."""
        if access.kind != "st":
            if self._flags is None:
                geometry = split.group.geometry
                self._flags = np.zeros(geometry.blocks * geometry.padded, bool)
            self._flags[_numbers(split)[lanes]] = True

    def among(self, numbers: np.ndarray) -> np.ndarray | None:
        """Which of these threads are; None if there are none in all the launch."""
        return None if self._flags is None else self._flags[numbers]

    def without(self, split: Split, lanes: np.ndarray) -> np.ndarray:
        """The lanes that are not."""
        return lanes if self._flags is None else lanes & ~self._flags[_numbers(split)]


def _numbers(split: Split) -> np.ndarray:
    """The number of each lane's thread, shape (blocks, threads)."""
    lanes = split.lanes
    return (lanes.first_block + lanes.block) * split.group.geometry.padded + lanes.first_thread + lanes.lane
