"""What the lanes of one store write, byte by byte: asked only where stores meet."""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.machine.addresses import positions
from simulator.machine.memory import Access, Allocation
from simulator.machine.split import Split
from simulator.machine.values import Value, array_of


class Stored:
    """What the lanes of a store write, byte by byte."""

    def __init__(
        self,
        split: Split,
        access: Access,
        allocation: Allocation,
        address: Any,
        values: tuple[Value, ...],
        padded: int,
    ) -> None:
        self.split, self.access, self.allocation = split, access, allocation
        self.address, self.values, self.padded = address, values, padded
        self._bytes: np.ndarray | None = None

    def changes(self, threads: np.ndarray, first: np.ndarray, size: int) -> np.ndarray:
        """Where what threads write is not what the memory holds, (n,) as for ``bytes_at``."""
        there = self.allocation.data[first[:, None] + np.arange(size)]
        return np.asarray((self.bytes_at(threads, first, size) != there).any(1))

    def bytes_at(self, threads: np.ndarray, first: np.ndarray, size: int) -> np.ndarray:
        """What threads (n,) write to ``size`` bytes from ``first`` (n,) of the memory on: uint8 (n, size)."""
        split, access = self.split, self.access
        if self._bytes is None:
            items = [split.expand(array_of(value, access.dtype), access.dtype) for value in self.values]
            whole = np.stack([np.ascontiguousarray(item, access.numpy) for item in items], axis=-1)
            self._bytes = whole.view(np.uint8).reshape(-1, access.nbytes)
            start = positions(split, self.address, self.allocation, 0)
            self._start = split.expand(start, "i8").ravel()
        lanes = split.lanes
        block, thread = np.divmod(threads, self.padded)
        lane = (block - lanes.first_block) * lanes.P + thread - lanes.first_thread
        inside = (first - self._start[lane])[:, None] + np.arange(size)
        return np.asarray(self._bytes[lane[:, None], inside])
