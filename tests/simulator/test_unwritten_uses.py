"""What becomes of a value that was read of memory which nobody has written: an error where it is used, else nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda, float32, int32

from simulator import simulate
from simulator.findings import Finding
from simulator.frontend import lower_kernel
from simulator.machine import Fault, launch
from simulator.observers.definedness import Definedness
from simulator.observers.initialisation import Initialisation
from simulator.runs import agreement
from tests.simulator.running import FIRST, VECTORS, WAVES, every_way, line_of, shape, zeros

Way = dict[str, Any]
FULL = 0xFFFFFFFF


def uses(kernel: Any, grid: Any, block: Any, *args: Any, **way: Any) -> list[Fault]:
    """What is said of unwritten memory whose contents are used."""
    definedness = Definedness()
    observers = (Initialisation(definedness.unwritten),)
    program = lower_kernel(kernel, args)
    launch(program, shape(grid), shape(block), args, observers=observers, shadow=definedness, **way)
    return definedness.faults()


def told(kernel: Any, grid: Any, block: Any, *args: Any, **options: Any) -> list[Finding]:
    trace = simulate(kernel, check=True, **options)[grid, block](*args)
    return [one for one in trace.findings if one.kind == "uninitialized-read"]


# -- tiles with an open edge --------------------------------------------------------------------------------------


@cuda.jit
def product(a, b, out, n):
    left = cuda.shared.array((3, 3), float32)
    right = cuda.shared.array((3, 3), float32)
    i, j = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for k in range(0, n, 3):
        if i < n and k + y < n:
            left[x, y] = a[i, k + y]
        if j < n and k + x < n:
            right[x, y] = b[k + x, j]
        cuda.syncthreads()
        for q in range(min(3, n - k)):
            total += left[x, q] * right[q, y]
        cuda.syncthreads()
    if i < n and j < n:
        out[i, j] = total


@cuda.jit
def product_of_whole_tiles(a, b, out, n):
    left = cuda.shared.array((3, 3), float32)
    right = cuda.shared.array((3, 3), float32)
    i, j = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for k in range(0, n, 3):
        if i < n and k + y < n:
            left[x, y] = a[i, k + y]
        if j < n and k + x < n:
            right[x, y] = b[k + x, j]
        cuda.syncthreads()
        for q in range(3):
            total += left[x, q] * right[q, y]
        cuda.syncthreads()
    if i < n and j < n:
        out[i, j] = total


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8])
def test_lanes_past_the_edge_drop_what_they_read(n: int) -> None:
    a = np.random.default_rng(n).random((n, n), np.float32)
    out = np.zeros((n, n), np.float32)
    blocks = -(-n // 3)
    assert not told(product, (blocks, blocks), (3, 3), a, a, out, n)
    assert np.allclose(out, a @ a)


def test_lanes_inside_use_what_they_read() -> None:
    """Of each tile a lane is named whose sum is stored, though the first that reads is one that drops it."""
    a, out = np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)
    found = told(product_of_whole_tiles, 1, (3, 3), a, a, out, 2, orders=("waves",))
    line, store = line_of(product_of_whole_tiles, "total +="), line_of(product_of_whole_tiles, "out[i, j]")
    assert [(one.array, one.lines) for one in found] == [("left", (line,)), ("right", (line,))]
    for one in found:
        assert one.threads[0] in (0, 1, 3, 4)
        assert one.message.endswith(f"stores it to out[0, 0] on line {store}")


# -- ways to use a value, and to drop it ----------------------------------------------------------------------------
#
# Each kernel reads tile[t], of which the first 20 elements are written by the 32 threads of the block.


@cuda.jit(device=True)
def ragged(x):
    tile = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    if t < 20:
        tile[t] = x[t]
    cuda.syncthreads()
    return tile[t]


@cuda.jit
def stored(x, out):
    out[cuda.threadIdx.x] = ragged(x)


@cuda.jit
def as_a_condition(x, out):
    if ragged(x) > 3:
        out[cuda.threadIdx.x] = 1


@cuda.jit
def as_an_index(x, out):
    out[cuda.threadIdx.x] = x[ragged(x) & 7]


@cuda.jit
def in_an_atomic(x, out):
    cuda.atomic.add(out, 0, ragged(x))


@cuda.jit
def in_a_vote(x, out):
    out[cuda.threadIdx.x] = cuda.any_sync(FULL, ragged(x) > 100)


@cuda.jit
def in_a_count(x, out):
    out[cuda.threadIdx.x] = cuda.syncthreads_count(ragged(x))


@cuda.jit
def by_another_lane(x, out):
    value = cuda.shfl_down_sync(FULL, ragged(x), 12)
    if cuda.threadIdx.x < 20:
        out[cuda.threadIdx.x] = value


@cuda.jit
def through_memory(x, out):
    mine = cuda.local.array(2, int32)
    other = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    mine[t % 2] = ragged(x)
    other[t] = mine[t % 2] + 1
    cuda.syncthreads()
    if t < 20:
        out[t] = other[t + 12]


@cuda.jit
def found_by_an_atomic(x, out):
    other = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    other[t] = ragged(x)
    cuda.syncthreads()
    out[t] = cuda.atomic.add(other, t, 1)


USED = {
    stored: "store",
    as_a_condition: "branch",
    as_an_index: "address",
    in_an_atomic: "atomic",
    in_a_vote: "any_sync",
    in_a_count: "syncthreads_count",
    by_another_lane: "store",
    through_memory: "store",
    found_by_an_atomic: "store",
}


@pytest.mark.parametrize("kernel", USED, ids=lambda kernel: kernel.__name__)
@every_way
def test_ways_to_use_a_value(kernel: Any, way: Way) -> None:
    (fault,) = uses(kernel, 1, 32, np.arange(32, dtype=np.int32), zeros(32, "i4"), **way)
    (thread,) = fault.places[0].threads
    assert fault.places[0].pos.line == line_of(ragged, "return tile[t]")
    assert (fault.facts["at"], fault.facts["count"]) == ((thread,), 12)
    assert thread >= 20
    assert fault.facts["use"]["used"] == USED[kernel]


@cuda.jit
def guarded(x, out):
    value = ragged(x) * 2 + 1
    if cuda.threadIdx.x < 20:
        out[cuda.threadIdx.x] = value


@cuda.jit
def chosen_away(x, out):
    t = cuda.threadIdx.x
    value = ragged(x)
    out[t] = value if t < 20 else 0


@cuda.jit
def not_asked(x, out):
    t = cuda.threadIdx.x
    if (t < 20) & (ragged(x) > 3):
        out[t] = 1


@cuda.jit
def read_by_a_lane_that_drops_it(x, out):
    t = cuda.threadIdx.x
    value = cuda.shfl_down_sync(FULL, ragged(x), 4)
    if t < 16 or t > 31:
        out[t] = value


@cuda.jit
def overwritten(x, out):
    mine = cuda.local.array(2, int32)
    other = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    mine[0] = ragged(x)
    other[t] = mine[0]
    mine[0] = t
    cuda.syncthreads()
    if t >= 20:
        other[t] = 0
    cuda.syncthreads()
    out[t] = other[31 - t] + mine[0]


@cuda.jit
def exchanged(x, out):
    other = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    other[t] = ragged(x)
    cuda.syncthreads()
    cuda.atomic.exch(other, t, 1)
    cuda.syncthreads()
    out[t] = cuda.atomic.add(other, t, 1)


DROPPED = [guarded, chosen_away, not_asked, read_by_a_lane_that_drops_it, overwritten, exchanged]


@pytest.mark.parametrize("kernel", DROPPED, ids=lambda kernel: kernel.__name__)
@every_way
def test_ways_to_drop_a_value(kernel: Any, way: Way) -> None:
    args = np.arange(32, dtype=np.int32), zeros(32, "i4")
    assert not uses(kernel, 3, 32, *args, **way)
    assert not told(kernel, 3, 32, *args)


@cuda.jit
def of_two_arrays(out, kept):
    mine = cuda.local.array(4, float32)
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for k in range(4):
        total += mine[k] * tile[(t + k) % 64]
    if kept[t]:
        out[t] = total


@every_way
def test_a_value_of_two_reads_tells_of_both(way: Way) -> None:
    kept = np.zeros(40, bool)
    assert not uses(of_two_arrays, 1, 40, zeros(40, "f4"), kept, **way)
    kept[33] = True
    found = uses(of_two_arrays, 1, 40, zeros(40, "f4"), kept, **way)
    assert [(one.facts["array"], one.places[0].threads) for one in found] == [("mine", (33,)), ("tile", (33,))]


@cuda.jit
def scattered(writes, reads_at, moves_by, kept, out):
    tile = cuda.shared.array(96, float32)
    t = cuda.threadIdx.x
    if writes[t] >= 0:
        tile[writes[t]] = t
    cuda.syncthreads()
    value = cuda.shfl_xor_sync(FULL, tile[reads_at[t]], moves_by)
    if kept[t]:
        out[t] = value


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 31), st.integers(0, 2**32 - 1))
def test_lanes_are_exact(moves_by: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    writes, reads_at, kept = rng.integers(-1, 96, 64), rng.integers(0, 96, 64), rng.integers(0, 12, 64) == 0
    reads_at[rng.random(64) < 0.8] = max(writes.max(), 0)
    bad = [t for t in range(64) if reads_at[t] not in writes and kept[t ^ moves_by]]
    for way in (WAVES, VECTORS, FIRST):
        found = uses(scattered, 1, 64, writes, reads_at, moves_by, kept, zeros(64, "f4"), **way)
        assert len(found) == bool(bad)
        for one in found:
            (reader,), (user,) = one.places[0].threads, one.facts["user"].threads
            assert reader in bad and user == reader ^ moves_by
            assert one.facts["at"] == (reads_at[reader],)


# -- in a check ---------------------------------------------------------------------------------------------------


class Bare:
    """An array of the stand-in device that nobody has written."""

    def __init__(self, array: np.ndarray) -> None:
        self.__simulator_array__ = (array, np.zeros(array.nbytes, bool))


@cuda.jit
def copies_some(x, out, count):
    t = cuda.threadIdx.x
    value = x[t]
    if t < count:
        out[t] = value


@pytest.mark.parametrize("orders", [None, ("waves",), ("last",)])
def test_an_argument_without_contents(orders: Any) -> None:
    assert not told(copies_some, 1, 32, Bare(zeros(32)), zeros(32), 0, orders=orders)
    (found,) = told(copies_some, 1, 32, Bare(zeros(32)), zeros(32), 1, orders=orders)
    assert (found.array, found.element, found.count) == ("x", (0,), 32)
    assert found.message.endswith(f"thread 0 stores it to out[0] on line {line_of(copies_some, 'out[t]')}")


def test_results_are_those_of_the_run_that_is_told_of() -> None:
    x, out, flags = np.arange(32, dtype=np.int32), zeros(32, "i4"), np.zeros(128, bool)
    bare = Bare(out)
    bare.__simulator_array__ = (out, flags)
    assert not told(guarded, 1, 32, x, bare)
    assert out[:20].tolist() == [2 * t + 1 for t in range(20)] and not out[20:].any()
    assert flags.tolist() == [True] * 80 + [False] * 48


def test_nothing_is_followed_where_everything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwanted(*_: Any) -> list[Finding]:
        raise AssertionError("a second run, for nothing")

    monkeypatch.setattr(agreement, "undefined_values", unwanted)
    n = 6
    a, out = np.ones((n, n), np.float32), np.zeros((n, n), np.float32)
    assert not told(product, (2, 2), (3, 3), a, a, out, n)
