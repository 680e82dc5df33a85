"""Where the active lanes of an access are: allocation by allocation, down to the byte behind each lane's address."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.machine.memory import Allocation
from simulator.machine.split import Split


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Lanes that touch one allocation: numbers among the active ones, offsets in its window, bytes of its data."""

    allocation: Allocation
    lanes: np.ndarray
    offsets: np.ndarray
    bytes: np.ndarray


def places(split: Split, active: np.ndarray, address: Any, size: int, shift: int = 0) -> Iterator[Places]:
    """Per allocation: which lanes of ``active`` touch it and where, ``size`` bytes each, ``shift`` past ``address``."""
    rows, columns = np.nonzero(active)
    addresses = split.expand(address, "i8")[active] + shift
    left = np.ones(len(addresses), bool)
    while left.any():
        first = int(addresses[left][0])
        found = split.group.memory.find(first, first + size)
        assert found is not None
        here = left & (addresses >= found.base) & (addresses < found.end)
        left &= ~here
        offsets = addresses[here] - found.base
        block = rows[here] + split.lanes.first_block - split.group.first_block
        thread = columns[here] + split.lanes.first_thread
        copy = block * found.block_stride + thread * found.lane_stride
        yield Places(found, np.flatnonzero(here), offsets, found.inner(offsets) + copy)
