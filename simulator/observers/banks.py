"""Counts the wavefronts of shared memory: how often its banks must be asked before a request is served.

Rules of this file (NVIDIA's CUDA programming guide, "Shared Memory"; Nsight Compute's profiling guide for the words;
for wide accesses NVIDIA's engineers in the developer forum, thread 77228):

* Shared memory has 32 banks.  Successive 4-byte words lie in successive banks; a bank serves one word a wavefront.
* Lanes that want the same word share it, wherever they are in the warp (broadcast, multicast), and so do lanes that
  want different bytes of it, as neighbours in float16 do.  Stores to one word take one wavefront: one of them wins.
* 128 bytes come back a wavefront.  A request of 8 bytes a lane is served in two halves of the warp, one of 16 bytes in
  four quarters; lanes conflict within their part only.  A part without an active lane takes nothing.
* *wavefronts* of a part are the most different words that it wants of one bank; *ideal* is 1 for each part: what the
  same lanes would take without a conflict.  Where lanes of several parts read one place (a broadcast of a float64)
  hardware may need fewer than both; the excess is right all the same.
* An atomic operation takes a word for itself: lanes that update the same word take turns.  Counted as one native
  operation; a float32 addition, which hardware repeats until it succeeds, as well.

An affine address costs one look-up for each different mask of a warp: where a warp's lanes start does not matter,
except for their place in a word.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from simulator.machine.values import Affine, Lanes
from simulator.observers.warps import ALL, active, of_warps, words_of

BANKS = 32
WORD = 4
"""Bytes of a word, the width of a bank."""

FULL = (1 << 32) - 1

Count = tuple[int, int]
"""Wavefronts, and the fewest that would do."""


class Banks:
    """The wavefronts of accesses to shared memory."""

    def __init__(self) -> None:
        self._mask: np.ndarray | None = None
        self._at: int | None = None
        self._listed: list[tuple[int, int, int]] = []

    def count(self, lanes: Lanes, mask: np.ndarray | None, address: Any, nbytes: int, atomic: bool) -> Count:
        """What the active lanes of a group take that ask for ``nbytes`` bytes each at ``address``."""
        form = _form(address, lanes)
        if form is None:
            return _count_lanes(lanes, mask, address, nbytes, atomic)
        start = _start(address)
        if mask is None and start is not None:
            wavefronts, ideal = _warp(FULL, start, *form, nbytes, atomic)
            return wavefronts * (lanes.N // 32), ideal * (lanes.N // 32)
        wavefronts = ideal = 0
        for word, start, warps in self._kinds(lanes, mask, address):
            once = _warp(word, start, *form, nbytes, atomic)
            wavefronts += once[0] * warps
            ideal += once[1] * warps
        return wavefronts, ideal

    def _kinds(self, lanes: Lanes, mask: np.ndarray | None, address: Any) -> list[tuple[int, int, int]]:
        """The different warps of a group: mask, place of lane 0 in its word, and how many are so."""
        start = _start(address)
        if mask is not None and mask is self._mask and start is not None and start == self._at:
            return self._listed  # the accesses of a branch share its mask, and masks never change
        warps = lanes.N // 32
        words = np.full(warps, FULL, np.uint32) if mask is None else words_of(mask)
        starts = of_warps(address, lanes, np.arange(warps))[:, 0] % WORD if start is None else start
        found, counts = np.unique(words.astype(np.int64) << 2 | starts, return_counts=True)
        pairs = zip(found.tolist(), counts.tolist(), strict=True)
        self._mask, self._at = mask, start
        self._listed = [(kind >> 2, kind & 3, count) for kind, count in pairs if kind >> 2]
        return self._listed


def _start(address: Any) -> int | None:
    """Where in a word lane 0 of every warp stands; None if that differs."""
    if type(address) is int:
        return address % WORD
    return None if (address.a | address.l | address.y) % WORD else int(address.b % WORD)


def _form(address: Any, lanes: Lanes) -> tuple[int, int, int] | None:
    """Strides along columns and rows and the columns of a row, if they say where the lanes of every warp lie."""
    if type(address) is int:
        return 0, 0, 32
    if type(address) is not Affine:
        return None
    if lanes.nx % 32 == 0:
        return address.l, 0, 32
    return (address.l, address.y, lanes.nx) if 32 % lanes.nx == 0 else None


@lru_cache(maxsize=4096)
def _warp(word: int, start: int, column: int, row: int, width: int, nbytes: int, atomic: bool) -> Count:
    """One warp with the active lanes of ``word``, whose lane 0 stands at ``start``."""
    lane = np.arange(32)
    mask = (word >> lane & 1).astype(bool)
    places = start + lane % width * column + lane // width * row
    places -= min(0, int(places.min()) // (BANKS * WORD)) * BANKS * WORD  # none below 0, in the same banks
    wavefronts, ideal = wavefronts_of(places[None], mask[None], nbytes, atomic)
    return int(wavefronts[0]), int(ideal[0])


def _count_lanes(lanes: Lanes, mask: np.ndarray | None, address: Any, nbytes: int, atomic: bool) -> Count:
    """From the address of each lane; blocks that do the same are looked at once."""
    times = 1
    if mask is None and isinstance(address, np.ndarray) and address.shape == (1, lanes.P):
        times, numbers, masks = lanes.nb, np.arange(lanes.P // 32), np.broadcast_to(ALL, (lanes.P // 32, 32))
    else:
        _, numbers, masks, _ = active(mask, lanes)
    wavefronts, ideal = wavefronts_of(of_warps(address, lanes, numbers), masks, nbytes, atomic)
    return int(wavefronts.sum()) * times, int(ideal.sum()) * times


def wavefronts_of(addresses: np.ndarray, masks: np.ndarray, nbytes: int, atomic: bool) -> tuple[np.ndarray, np.ndarray]:
    """Wavefronts and the fewest that would do, (n,) each, of n requests: addresses and masks of shape (n, 32).

    >>> row = np.arange(32)[None]
    >>> [int(wavefronts_of(row * stride * 4, row >= 0, 4, False)[0][0]) for stride in (0, 1, 2, 32, 33)]
    [1, 1, 2, 32, 1]
    """
    parts = min(32, 1 << ((nbytes - 1) // WORD).bit_length())
    first, last = addresses >> 2, (addresses + (nbytes - 1)) >> 2
    words = first[:, :, None] + np.arange(1 + (nbytes + WORD - 2) // WORD)  # one more where they are not aligned
    wanted = np.where(masks[:, :, None] & (words <= last[:, :, None]), words, -1).reshape(len(addresses) * parts, -1)
    if atomic:
        counted = wanted >= 0
    else:
        wanted.sort(axis=1)
        counted = wanted >= 0
        counted[:, 1:] &= wanted[:, 1:] != wanted[:, :-1]
    banks = (wanted & (BANKS - 1)) + np.arange(len(wanted))[:, None] * BANKS
    loads = np.bincount(banks[counted], minlength=len(wanted) * BANKS).reshape(-1, parts, BANKS)
    most = loads.max(axis=2)
    return most.sum(axis=1), np.count_nonzero(most, axis=1)
