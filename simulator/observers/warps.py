"""A group's values, seen warp by warp and lane by lane.

The machine hands observers values of a whole group: ``nb`` blocks of ``P`` lanes.  Observers think in warps.  This
file is the only one here that knows the three forms of an integer value: int, affine, array.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from simulator.machine.values import Affine, Lanes

ALL = np.ones(32, bool)


class Active(NamedTuple):
    """Which lanes of a group are active.

    ``numbers`` (n,) are the warps that have one, counted over the group block by block; ``masks`` is (n, 32) bool,
    ``last`` (n,) the last active lane of each; ``lanes`` how many lanes there are.
    """

    lanes: int
    numbers: np.ndarray
    masks: np.ndarray
    last: np.ndarray


def active(mask: np.ndarray | None, lanes: Lanes) -> Active:
    """What the mask of a group (None: all) says about its warps."""
    if mask is None:
        warps = lanes.N // 32
        return Active(lanes.N, np.arange(warps), np.broadcast_to(ALL, (warps, 32)), np.full(warps, 31))
    words = words_of(mask)
    numbers = np.flatnonzero(words)
    masks = mask.reshape(-1, 32)[numbers]
    # The highest bit of a word of 32 bits, exactly: float64 has 52 bits and its exponent is the place of the first.
    last = np.frexp(words[numbers].astype(np.float64))[1] - 1
    return Active(int(np.count_nonzero(mask)), numbers, masks, last)


def requests(mask: np.ndarray | None, lanes: Lanes) -> int:
    """How many warps of the group have an active lane."""
    if mask is None:
        return lanes.N // 32
    return int(np.count_nonzero(words_of(mask)))


class MaskCounts:
    """Lanes and requests of a mask, counted once: the accesses of a branch share its mask, and masks never change."""

    def __init__(self) -> None:
        self._mask: np.ndarray | None = None
        self._counts = (0, 0)

    def __call__(self, mask: np.ndarray, lanes: Lanes) -> tuple[int, int]:
        """(active lanes, warps that have one)."""
        if mask is not self._mask:
            self._mask, self._counts = mask, (int(np.count_nonzero(mask)), requests(mask, lanes))
        return self._counts


def words_of(mask: np.ndarray) -> np.ndarray:
    """The mask as one 32-bit word per warp, lane 0 in the lowest bit."""
    return np.packbits(mask, bitorder="little").view("<u4")


def of_warps(value: Any, lanes: Lanes, numbers: np.ndarray) -> np.ndarray:
    """An i8 value in the lanes of some warps of a group: shape (n, 32)."""
    block, warp = np.divmod(numbers, lanes.P // 32)
    if isinstance(value, Affine):
        lane = warp[:, None] * 32 + np.arange(32)
        along = lane * value.l if lanes.ny == 1 else lane % lanes.nx * value.l + lane // lanes.nx * value.y
        return along + (value.b + value.a * block)[:, None]
    if not isinstance(value, np.ndarray):
        return np.full((len(numbers), 32), value, np.int64)
    if value.shape[1] == 1:
        return np.broadcast_to(value[block] if value.shape[0] > 1 else value, (len(numbers), 32))
    warps: np.ndarray = value.reshape(value.shape[0], -1, 32)
    return np.asarray(warps[block if value.shape[0] > 1 else 0, warp])


def of_active(value: Any, lanes: Lanes, chosen: Active) -> np.ndarray:
    """An i8 value in the active lanes: shape (n, 32).

    An inactive lane shows the value of the last active lane of its warp, so that it adds nothing to a set of addresses.
    """
    found = of_warps(value, lanes, chosen.numbers)
    if chosen.lanes == found.size:
        return found
    stand_in = found[np.arange(len(found)), chosen.last]
    return np.where(chosen.masks, found, stand_in[:, None])


def lane_value(value: Any, lanes: Lanes, block: int, lane: int) -> Any:
    """The value in one lane: ``block`` and ``lane`` count within the group."""
    if type(value) is Affine:
        return value.b + value.a * block + value.l * (lane % lanes.nx) + value.y * (lane // lanes.nx)
    if isinstance(value, np.ndarray):
        return value[block if value.shape[0] > 1 else 0, lane if value.shape[1] > 1 else 0]
    return value


def is_active(mask: np.ndarray | None, block: int, lane: int) -> bool:
    """Is this lane of the group active?"""
    return mask is None or bool(mask[block, lane])


def one_block(lanes: Lanes, mask: np.ndarray | None, value: Any, block: int) -> tuple[Lanes, np.ndarray | None, Any]:
    """Lanes, mask and value of one block of a group (``block`` counts within it), holding nothing of the others."""
    if lanes.nb == 1:
        return lanes, mask, value
    alone = Lanes(1, lanes.P, lanes.first_thread, lanes.first_block + block, lanes.values, lanes.nx)
    if type(value) is Affine:
        value = alone.affine(value.b + value.a * block, 0, value.l, "i8", value.y)
    elif isinstance(value, np.ndarray) and value.shape[0] > 1:
        value = value[block : block + 1].copy()
    return alone, None if mask is None else mask[block : block + 1].copy(), value
