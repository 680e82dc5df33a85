"""Where the lanes of an access are: which act, allocation by allocation, down to the byte behind each one's address."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.machine.addresses import well_placed
from simulator.machine.memory import Allocation, make_access
from simulator.machine.split import Split
from simulator.program import Op


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Lanes that touch one allocation: numbers among the active ones, offsets in its window, bytes of its data."""

    allocation: Allocation
    lanes: np.ndarray
    offsets: np.ndarray
    bytes: np.ndarray


def acting(split: Split, op: Op, given: tuple[Any, ...]) -> np.ndarray:
    """The lanes (bool, one per lane) for which a load, store or atomic that ran on ``given`` has acted."""
    active = split.active()
    if op.attr.get("guarded"):
        active = active & split.expand(given[-1], "b1")
    if split.group.hooks.forgiving:
        active = active & well_placed(split, given[0], make_access(op, 0))
    return active


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
