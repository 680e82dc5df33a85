"""Counts memory traffic per source line and array, by Nsight Compute's rules.

Rules of this file:

* A *request* is one memory instruction of one warp with at least one active lane; a warp without one does not issue.
  An 8-byte or 16-byte access of a full warp is one request too.
* *sectors* are the distinct 32-byte pieces that a request touches, summed over the requests; *unique* are the
  distinct ones over the whole launch.
* *ideal* is the fewest sectors that could hold the distinct bytes a request asks for, were they packed and aligned:
  32 lanes x 4 bytes need 4, one element for all lanes needs 1.
* Only global memory has sectors here, only shared memory *wavefronts* (``observers.banks`` counts them).  Constant
  memory has a cache of its own and local memory is interleaved by the hardware: requests only.
* Counts are of the operations as the front end gives them: for Numba's typed IR, of the source as written.

An affine address (uniform stride over the lanes, blocks and rows of a group) is counted from its coefficients, without
looking at lanes.  Both ways give the same counts; the tests compare them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd
from typing import Any

import numpy as np

from simulator.machine.memory import Access, Allocation
from simulator.machine.observer import Observer
from simulator.machine.split import Split
from simulator.machine.values import Affine, Lanes
from simulator.observers.banks import Banks, wavefronts_of
from simulator.observers.warps import MaskCounts, active, of_active, words_of

SECTOR = 32
"""Bytes of a sector, the unit in which memory moves."""
SHIFT = 5

COSTLY = 4
"""Sectors against ideal from which on a request is a costly one, whose stride is kept."""

OPERATIONS = {"ld": "load", "st": "store", "atom": "atomic"}

RowKey = tuple[str, int, str, str, str]
"""file, line, array, operation, space"""


@dataclass(slots=True, eq=False)
class Counter:
    """The counts of one row.  ``touched`` maps an allocation's base address to a flag per sector of it.

    ``apart``: bytes from lane to lane in the first request that took much more than it had to; 0 if they differ.
    ``parts``: shape and strides (bytes) of the array.
    """

    requests: int = 0
    sectors: int = 0
    ideal: int = 0
    lanes: int = 0
    bytes: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    apart: int | None = None
    parts: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    touched: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def unique(self) -> int:
        """Distinct sectors over the whole launch."""
        return sum(int(np.count_nonzero(flags)) for flags in self.touched.values())


@dataclass(frozen=True, slots=True)
class Plan:
    """What an affine access of a full group costs.

    It depends on its coefficients and on its first address modulo 32 alone.  ``pieces`` are the sectors it touches:
    (first, shape, strides) in sectors, from the sector of the first address; None where lanes must be looked at.
    """

    sectors: int
    ideal: int
    pieces: tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...] | None


class Traffic(Observer):
    """Counters per (file, line, array, operation, space), in ``rows``, in the order of the program's operations."""

    def __init__(self) -> None:
        self.rows: dict[RowKey, Counter] = {}
        self._first: dict[RowKey, int] = {}
        self._known: dict[int, tuple[Allocation, Counter, np.ndarray | None]] = {}
        self._counts = MaskCounts()
        self._banks = Banks()

    def access(self, split: Split, access: Access, allocation: Allocation, address: Any) -> None:
        known = self._known.get(access.index)
        if known is None or known[0] is not allocation:
            known = self._known[access.index] = self._meet(access, allocation)
        _, counter, flags = known
        lanes, mask, nbytes = split.lanes, split.mask, access.nbytes
        if mask is None:
            counter.requests += lanes.N // 32
            counter.lanes += lanes.N
            counter.bytes += lanes.N * nbytes
            if flags is None:
                if allocation.space == "shared":
                    self._count_banks(counter, split, access, address)
                return
            if self._count_pattern(counter, flags, lanes, allocation.base, address, nbytes):
                return
        else:
            count, issued = self._counts(mask, lanes)
            counter.requests += issued
            counter.lanes += count
            counter.bytes += count * nbytes
            if flags is None:
                if count and allocation.space == "shared":
                    self._count_banks(counter, split, access, address)
                return
            if not count:
                return
        addresses = of_active(address, lanes, active(mask, lanes))
        _count_lanes(counter, flags, addresses, allocation.base, nbytes)

    def finish(self) -> None:
        self._known.clear()  # it holds allocations, and with them their copies of shared memory
        self.rows = {key: self.rows[key] for key in sorted(self.rows, key=self._first.__getitem__)}

    def _meet(self, access: Access, allocation: Allocation) -> tuple[Allocation, Counter, np.ndarray | None]:
        """The counter of an access, and the flags of the allocation's sectors if it is in global memory."""
        view = allocation.view(access.name)
        key = (access.pos.file, access.pos.line, view.name, OPERATIONS[access.kind], allocation.space)
        counter = self.rows.setdefault(key, Counter(parts=(view.shape, view.strides)))
        self._first[key] = min(access.index, self._first.get(key, access.index))
        if allocation.space != "global":
            return allocation, counter, None
        if allocation.base not in counter.touched:
            counter.touched[allocation.base] = np.zeros(-(-(allocation.end - allocation.base) // SECTOR), bool)
        return allocation, counter, counter.touched[allocation.base]

    def _count_banks(self, counter: Counter, split: Split, access: Access, address: Any) -> None:
        atomic = access.kind == "atom"
        wavefronts, ideal = self._banks.count(split.lanes, split.mask, address, access.nbytes, atomic)
        counter.wavefronts += wavefronts
        counter.ideal_wavefronts += ideal
        if counter.apart is None and wavefronts >= 2 * ideal and not atomic:
            lanes, mask = split.lanes, split.mask
            addresses = of_active(address, lanes, active(mask, lanes))
            taken, _ = wavefronts_of(addresses, np.ones(addresses.shape, bool), access.nbytes, False)
            counter.apart = apart(addresses[int(taken.argmax())])

    def _count_pattern(
        self, counter: Counter, flags: np.ndarray, lanes: Lanes, start: int, address: Any, nbytes: int
    ) -> bool:
        """Count a full group from the coefficients of its address; False if its lanes must be looked at."""
        if type(address) is Affine:
            base, block, column, row = address.b, address.a, address.l, address.y
        elif type(address) is int:
            base, block, column, row = address, 0, 0, 0
        else:
            return False
        plan = _plan(lanes.nb, lanes.nx, lanes.ny, base % SECTOR, block, column, row, nbytes)
        if plan is None or plan.pieces is None:
            return False
        counter.sectors += plan.sectors
        counter.ideal += plan.ideal
        if counter.apart is None and plan.sectors >= COSTLY * plan.ideal:
            counter.apart = column or row
        first = base // SECTOR - start // SECTOR
        for at, shape, strides in plan.pieces:
            np.ndarray(shape, bool, flags, first + at, strides)[...] = True
        return True


# -- from coefficients --------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _plan(nb: int, nx: int, ny: int, base: int, block: int, column: int, row: int, nbytes: int) -> Plan | None:
    """The plan of ``nb`` full blocks of ``ny`` rows of ``nx`` lanes that access ``base + block*b + column*x + row*y``.

    None if groups of this shape have none.
    """
    blocks = np.arange(nb) * block
    if nx % 32 == 0:  # each warp lies in one row, and 32 lanes of any stride keep the residue
        starts, repeat, width = blocks[:, None] + np.arange(ny) * row, nx // 32, 32
    elif ny > 1 and 32 % nx == 0:  # a warp is several whole rows
        starts, repeat, width = blocks[:, None] + np.arange(ny * nx // 32) * (32 // nx * row), 1, nx
    else:
        return None
    pieces = _pieces(base, [(nx, column), (ny, row), (nb, block)], nbytes)
    lane = np.arange(32)
    offsets = np.sort(lane % width * column + lane // width * row)
    sectors, ideal = _sectors(np.arange(SECTOR)[:, None] + offsets, nbytes)  # for each residue of the first address
    total = int(sectors[(starts + base) % SECTOR].sum()) * repeat
    return Plan(total, int(ideal[0]) * (nb * nx * ny // 32), pieces)


def _pieces(
    base: int, dims: list[tuple[int, int]], nbytes: int
) -> tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...] | None:
    """The sectors of bytes ``base + sum(k*stride) + [0, nbytes)``, k < count, for every (count, stride).

    None when that would take many pieces.
    """
    spread, steps = [], 1
    for count, stride in dims:
        if count == 1 or stride == 0:
            continue
        if stride < 0:
            base, stride = base + stride * (count - 1), -stride
        if stride <= max(nbytes, SECTOR):  # no gap of a whole sector: an interval
            nbytes += stride * (count - 1)
        else:
            period = SECTOR // gcd(stride, SECTOR)
            steps *= min(period, count)
            spread.append((count, stride, period))
    return tuple(_spread(base, spread, nbytes)) if steps <= 64 else None


def _spread(
    base: int, dims: list[tuple[int, int, int]], nbytes: int
) -> Iterator[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """Pieces where strides leave gaps: one for each combination of residues of the strides modulo the sector."""
    for place, (count, stride, period) in enumerate(dims):
        if period > 1:
            for k in range(min(period, count)):
                part = ((count - k - 1) // period + 1, stride * period, 1)
                yield from _spread(base + k * stride, [*dims[:place], part, *dims[place + 1 :]], nbytes)
            return
    width = (base + nbytes - 1) // SECTOR - base // SECTOR + 1
    shape = (*(count for count, _, _ in dims), width)
    yield base // SECTOR, shape, (*(stride // SECTOR for _, stride, _ in dims), 1)


def apart(addresses: np.ndarray) -> int:
    """Bytes from each lane to the next, if most of those that differ are equally far apart; else 0.

    >>> apart(np.arange(32) * 128), apart(np.arange(32) % 16 * -64), apart(np.arange(32) ** 2)
    (128, -64, 0)
    """
    steps = np.diff(addresses)
    found, counts = np.unique(steps[steps != 0], return_counts=True)
    if not counts.size or 2 * counts.max() <= counts.sum():
        return 0
    return int(found[counts.argmax()])


# -- from lanes ---------------------------------------------------------------------------------------------------


def _count_lanes(counter: Counter, flags: np.ndarray, addresses: np.ndarray, start: int, nbytes: int) -> None:
    """Count from the addresses of the active lanes, (requests, 32)."""
    in_order = addresses
    if (addresses[:, 1:] < addresses[:, :-1]).any():
        addresses = np.sort(addresses, axis=1)
    sectors, ideal = _sectors(addresses, nbytes)
    if counter.apart is None and int(sectors.sum()) >= COSTLY * int(ideal.sum()):
        counter.apart = apart(in_order[int((sectors / ideal).argmax())])
    counter.sectors += int(sectors.sum())
    counter.ideal += int(ideal.sum())
    offsets = addresses - start  # allocations start at multiples of a sector
    first = offsets >> SHIFT
    flags[first] = True
    if not _is_aligned(nbytes) or (offsets & (nbytes - 1)).any():
        last = (offsets + (nbytes - 1)) >> SHIFT
        while (first < last).any():
            first = np.minimum(first + 1, last)
            flags[first] = True


def _is_aligned(nbytes: int) -> bool:
    """Do accesses of this size lie in one sector, wherever they are multiples of it?"""
    return nbytes <= SECTOR and nbytes & (nbytes - 1) == 0


def _sectors(addresses: np.ndarray, nbytes: int) -> tuple[np.ndarray, np.ndarray]:
    """Distinct sectors and ideal sectors per row of 32 sorted addresses, each the start of ``nbytes`` bytes."""
    first = addresses >> SHIFT
    if _is_aligned(nbytes) and not (addresses & (nbytes - 1)).any():
        return _distinct(first), -(-nbytes * _distinct(addresses) // SECTOR)
    # Sorted intervals of one length: each adds what lies beyond the end of the one before it.
    last = (addresses + (nbytes - 1)) >> SHIFT
    fresh = np.minimum(last[:, 1:] - last[:, :-1], last[:, 1:] - first[:, 1:] + 1)
    distinct = nbytes + np.minimum(addresses[:, 1:] - addresses[:, :-1], nbytes).sum(axis=1)
    return np.asarray(last[:, 0] - first[:, 0] + 1 + fresh.sum(axis=1)), np.asarray(-(-distinct // SECTOR))


def _distinct(rows: np.ndarray) -> np.ndarray:
    """How many different numbers each sorted row of 32 holds."""
    changes = np.ones(rows.shape, bool)
    np.not_equal(rows[:, 1:], rows[:, :-1], out=changes[:, 1:])
    return np.bitwise_count(words_of(changes)).astype(np.int64)
