"""Reads of memory that nobody has written: which element, which thread, how many lanes, in every order; and their
repaired twins, of which nothing is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda, float32, float64, int8, int32

from simulator import simulate
from simulator.frontend import lower_kernel
from simulator.machine import launch
from simulator.machine.faults import Fault
from simulator.observers.initialisation import Initialisation
from tests.simulator.running import FIRST, VECTORS, WAVES, every_way, line_of, shape, zeros

Way = dict[str, Any]


def reads(kernel: Any, grid: Any, block: Any, *args: Any, **way: Any) -> list[Fault]:
    """What is said of reads of unwritten memory."""
    observer = Initialisation()
    launch(lower_kernel(kernel, args), shape(grid), shape(block), args, observers=(observer,), **way)
    return observer.faults()


def facts(fault: Fault, *names: str) -> tuple[Any, ...]:
    return tuple(fault.facts[name] for name in names)


# -- shared memory ------------------------------------------------------------------------------------------------


@cuda.jit
def half_a_tile(x, out):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t < 32:
        tile[t] = x[t]
    cuda.syncthreads()
    out[cuda.blockIdx.x, t] = tile[t]


@cuda.jit
def a_whole_tile(x, out):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t] if t < 32 else float32(0)
    cuda.syncthreads()
    out[cuda.blockIdx.x, t] = tile[t]


@every_way
def test_a_tile_of_which_half_is_written(way: Way) -> None:
    x, out = np.ones(64, np.float32), np.zeros((3, 64), np.float32)
    (fault,) = reads(half_a_tile, 3, 64, x, out, **way)
    assert facts(fault, "array", "space", "written", "elements", "count") == ("tile", "shared", 32, 64, 96)
    (thread,) = fault.places[0].threads
    assert fault.facts["at"] == (thread,) and 32 <= thread < 64
    assert fault.places[0].pos.line == line_of(half_a_tile, "= tile[t]")
    assert not reads(a_whole_tile, 3, 64, x, out, **way)


def test_the_message() -> None:
    x, out = np.ones(64, np.float32), np.zeros((1, 64), np.float32)
    trace = simulate(half_a_tile, check=True)[1, 64](x, out)
    (found,) = [one for one in trace.findings if one.kind == "uninitialized-read"]
    line = line_of(half_a_tile, "= tile[t]")
    assert found.message == (
        f"{__file__}:{line}: thread 32 of block 0 reads tile[32] (shared memory), which nobody has written; "
        "32 of its 64 elements are written so far (31 more of these lanes do too); "
        f"thread 32 stores it to out[0, 32] on line {line}"
    )
    assert (found.severity, found.array, found.element, found.count) == ("error", "tile", (32,), 32)
    assert "cuda.syncthreads()" in found.mend


@cuda.jit
def tally(x, out):
    bins = cuda.shared.array(8, int32)
    cuda.atomic.add(bins, x[cuda.threadIdx.x], 1)
    cuda.syncthreads()
    if cuda.threadIdx.x < 8:
        out[cuda.threadIdx.x] = bins[cuda.threadIdx.x]


@cuda.jit
def tally_from_zero(x, out):
    bins = cuda.shared.array(8, int32)
    if cuda.threadIdx.x < 8:
        bins[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, x[cuda.threadIdx.x], 1)
    cuda.syncthreads()
    if cuda.threadIdx.x < 8:
        out[cuda.threadIdx.x] = bins[cuda.threadIdx.x]


@every_way
def test_an_atomic_reads_what_it_adds_to(way: Way) -> None:
    x = np.arange(64) % 7
    atomic, plain = reads(tally, 1, 64, x, zeros(8, "i4"), **way)
    assert atomic.places[0].access == "atom"
    assert facts(plain, "element", "count") == ("bins[7]", 1)  # the others count as written once they are added to
    assert not reads(tally_from_zero, 1, 64, x, zeros(8, "i4"), **way)


@cuda.jit
def exchanges(x, out):
    last = cuda.shared.array(1, int32)
    cuda.atomic.exch(last, 0, x[cuda.threadIdx.x])
    cuda.syncthreads()
    out[0] = last[0]


@every_way
def test_an_exchange_whose_old_value_nobody_takes_reads_nothing(way: Way) -> None:
    assert not reads(exchanges, 1, 40, np.arange(40, dtype=np.int32), zeros(1, "i4"), **way)


@cuda.jit
def dynamic(x, out, count):
    tile = cuda.shared.array(0, float64)
    t = cuda.threadIdx.x
    if t < count:
        tile[t] = x[t]
    cuda.syncthreads()
    out[t] = tile[cuda.blockDim.x - 1 - t]


@every_way
@pytest.mark.parametrize("count", [32, 31, 1])
def test_dynamic_shared_memory(way: Way, count: int) -> None:
    found = reads(dynamic, 2, 32, np.ones(32), zeros(32, "f8"), count, dynamic_shared=256, **way)
    assert [facts(one, "written", "elements", "count") for one in found] == (
        [(count, 32, 2 * (32 - count))] if count < 32 else []
    )


@cuda.jit
def next_block_has_its_own(x, out):
    tile = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        tile[t] = x[t]
    cuda.syncthreads()
    out[cuda.blockIdx.x, t] = tile[t]


@every_way
def test_what_another_block_wrote_does_not_count(way: Way) -> None:
    (fault,) = reads(next_block_has_its_own, 3, 32, np.ones(32, "f4"), np.zeros((3, 32), "f4"), **way)
    assert fault.places[0].block in (1, 2)
    assert facts(fault, "written", "count") == (0, 64)


@cuda.jit
def scattered(writes, reads_at, out):
    tile = cuda.shared.array(96, float32)
    t = cuda.threadIdx.x
    if writes[t] >= 0:
        tile[writes[t]] = t
    cuda.syncthreads()
    if reads_at[t] >= 0:
        out[t] = tile[reads_at[t]]


places = st.lists(st.integers(-1, 95), min_size=1, max_size=70)


@settings(deadline=None, max_examples=25)
@given(places, places)
def test_lanes_are_exact(writes: list[int], reads_at: list[int]) -> None:
    threads = max(len(writes), len(reads_at))
    first, second = (np.array(given + [-1] * (threads - len(given))) for given in (writes, reads_at))
    bad = [t for t, place in enumerate(second) if place >= 0 and place not in first]
    for way in (WAVES, VECTORS, FIRST):
        found = reads(scattered, 1, threads, first, second, zeros(threads, "f4"), **way)
        assert [one.facts["count"] for one in found] == ([len(bad)] if bad else [])
        if bad:
            (thread,) = found[0].places[0].threads
            assert thread in bad and found[0].facts["at"] == (second[thread],)


# -- local memory -------------------------------------------------------------------------------------------------


@cuda.jit
def sums_in_a_local_array(x, out):
    acc = cuda.local.array(3, float64)
    t = cuda.threadIdx.x
    for k in range(x.shape[1]):
        acc[k % 3] += x[t, k]
    out[t] = acc[0] + acc[1] + acc[2]


@cuda.jit
def sums_from_zero(x, out):
    acc = cuda.local.array(3, float64)
    t = cuda.threadIdx.x
    for k in range(3):
        acc[k] = 0
    for k in range(x.shape[1]):
        acc[k % 3] += x[t, k]
    out[t] = acc[0] + acc[1] + acc[2]


@every_way
def test_a_local_array_does_not_start_at_zero(way: Way) -> None:
    x = np.ones((40, 2))
    first, second = reads(sums_in_a_local_array, 1, 40, x, zeros(40, "f8"), **way)
    assert facts(first, "element", "space", "written", "count") == ("acc[0]", "local", 0, 80)
    assert facts(second, "element", "written", "count") == ("acc[2]", 2, 40)
    assert not reads(sums_from_zero, 1, 40, x, zeros(40, "f8"), **way)


@cuda.jit
def bytes_in_words(writes, at, out):
    small = cuda.local.array(21, int8)
    wide = cuda.local.array(5, float64)
    t = cuda.threadIdx.x
    for k in range(writes.shape[1]):
        if writes[t, k] >= 0:
            small[writes[t, k]] = k
            wide[writes[t, k] % 5] = k
    out[t] = small[at[t]] + wide[at[t] % 5]


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 40), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_local_memory_is_asked_byte_by_byte_and_thread_by_thread(threads: int, count: int, seed: int) -> None:
    """The lanes' copies lie word by word: neither a lane's neighbour nor an element's counts."""
    rng = np.random.default_rng(seed)
    writes, at = rng.integers(-1, 21, (threads, count)), rng.integers(0, 21, threads)
    small = sum(at[t] not in writes[t] for t in range(threads))
    wide = sum(at[t] % 5 not in writes[t][writes[t] >= 0] % 5 for t in range(threads))
    for way in (WAVES, VECTORS, FIRST):
        found = reads(bytes_in_words, 1, threads, writes, at, zeros(threads, "f8"), **way)
        counts = {one.facts["array"]: one.facts["count"] for one in found}
        assert counts == {name: number for name, number in (("small", small), ("wide", wide)) if number}


# -- arguments without contents -----------------------------------------------------------------------------------


class Bare:
    """An array of the stand-in device that nobody has written."""

    def __init__(self, array: np.ndarray, flags: np.ndarray | None) -> None:
        self.__simulator_array__ = (array, flags)


@cuda.jit
def adds_to(total, x):
    t = cuda.grid(1)
    if t < x.size:
        total[t] = total[t] + x[t]


@cuda.jit
def stores_to(total, x):
    t = cuda.grid(1)
    if t < x.size:
        total[t] = x[t]


def test_an_argument_without_contents() -> None:
    total, flags, x = zeros(10), np.zeros(80, bool), np.arange(10)
    bare = Bare(total, flags)
    found = [one for one in simulate(adds_to, check=True)[1, 32](bare, x).findings if one.severity == "error"]
    assert [(one.kind, one.array, one.element, one.count) for one in found] == [
        ("uninitialized-read", "total", (0,), 10)
    ]
    assert "cuda.device_array" in found[0].mend


@pytest.mark.parametrize("check", [False, True])
def test_a_launch_tells_the_next_one_what_it_wrote(check: bool) -> None:
    total, flags, x = zeros(10), np.zeros(80, bool), np.arange(6)
    bare = Bare(total, flags)
    assert not [one for one in simulate(stores_to, check=check)[1, 32](bare, x).findings if one.severity == "error"]
    assert flags.tolist() == [True] * 48 + [False] * 32
    x = np.arange(10)
    (found,) = [one for one in simulate(adds_to, check=True)[1, 32](bare, x).findings if one.severity == "error"]
    assert (found.element, found.count) == ((6,), 4)
    assert flags.all()
    assert not [one for one in simulate(adds_to, check=True)[1, 32](bare, x).findings if one.severity == "error"]


def test_views_of_an_array_without_contents_share_its_flags() -> None:
    total, flags = zeros((4, 6), "i4"), np.zeros(96, bool)
    odd = Bare(total[:, 1::2].T, flags[4 : 4 + 92])  # from its first byte to its last
    x = np.arange(4)
    simulate(_fills_first_row)[1, 32](odd, x)
    assert flags.reshape(4, 6, 4).all(2).tolist() == [[False, True, False, False, False, False]] * 4


@cuda.jit
def _fills_first_row(total, x):
    t = cuda.threadIdx.x
    if t < x.size:
        total[0, t] = x[t]


def test_flags_of_the_wrong_size_are_refused() -> None:
    with pytest.raises(ValueError, match="80 bytes"):
        simulate(stores_to)[1, 32](Bare(zeros(10), np.zeros(10, bool)), np.arange(10))
