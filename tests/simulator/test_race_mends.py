"""What would mend a race: the sentence fits what the two accesses are for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import cuda, float32

from simulator import simulate
from simulator.findings import Finding


@cuda.jit
def plain_flag(flag, data, out):
    t = cuda.threadIdx.x
    if t == 0:
        data[0] = 7.0
        cuda.threadfence_block()
        flag[0] = 1
    elif t == 32:
        while flag[0] == 0:
            pass
        out[0] = data[0]


@cuda.jit
def look_back(flag, x):
    block = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        if block > 0:
            while True:
                seen = flag[block - 1]
                if seen != 0:
                    break
        x[block] = 1.0
        cuda.threadfence()
        flag[block] = 1


@cuda.jit
def scan_without_barrier(x):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    step = 1
    while step < 64:
        if t >= step:
            tile[t] += tile[t - step]
        cuda.syncthreads()
        step *= 2
    x[t] = tile[t]


@cuda.jit
def histogram(bins, values):
    i = cuda.grid(1)
    if i < values.size:
        bins[values[i]] += 1


@cuda.jit
def histogram_by_two_names(bins, values):
    i = cuda.grid(1)
    if i < values.size:
        j = values[i]
        bins[j] = bins[j] + 1


@cuda.jit
def neighbours(x):
    i = cuda.grid(1)
    if i > 0:
        x[i] = 0.5 * (x[i] + x[i - 1])


@cuda.jit
def last_wins(out):
    out[0] = cuda.grid(1)


@cuda.jit
def waits_at_a_barrier(done, x):
    t = cuda.threadIdx.x
    while done[0] == 0:
        x[t] += 1.0
        if t == 0 and x[0] > 3.0:
            done[0] = 1
        cuda.syncthreads()


def race_on(array: str, kernel: Any, grid: int, block: int, *args: Any) -> Finding:
    """The one race on an array, in waves."""
    trace = simulate(kernel, check=True, orders=("waves",))[grid, block](*args)
    found = [one for one in trace.findings if one.kind.startswith("race-") and one.array == array]
    assert len(found) == 1, found
    return found[0]


def zeros(count: int, dtype: str) -> np.ndarray:
    return np.zeros(count, dtype)


SPINS = "a loop waits for flag: read it by an atomic (as cuda.atomic.add(flag, i, 0)) and write it by one"


def test_a_flag_that_a_warp_waits_for() -> None:
    mend = race_on("flag", plain_flag, 1, 64, zeros(1, "i4"), zeros(1, "f4"), zeros(1, "f4")).mend
    assert mend.startswith(SPINS) and "cuda.threadfence_block()" in mend and "syncthreads" not in mend


def test_a_flag_that_a_block_waits_for() -> None:
    mend = race_on("flag", look_back, 4, 32, zeros(4, "i4"), zeros(4, "f4")).mend
    assert mend.startswith(SPINS) and "cuda.threadfence()" in mend and "launches" not in mend


def test_a_loop_with_a_barrier_does_not_spin() -> None:
    mend = race_on("done", waits_at_a_barrier, 1, 64, zeros(1, "i4"), zeros(64, "f4")).mend
    assert mend.startswith("put cuda.syncthreads()")


def test_a_read_of_a_neighbour_wants_a_barrier_and_no_atomic() -> None:
    mend = race_on("tile", scan_without_barrier, 1, 64, np.ones(64, "f4")).mend
    assert mend == "put a barrier between the read and the write, or write to another array"


@pytest.mark.parametrize("kernel", [histogram, histogram_by_two_names])
def test_an_update_wants_an_atomic(kernel: Any) -> None:
    values = np.array([1, 2] * 50, "i4")
    mend = race_on("bins", kernel, 4, 32, zeros(4, "i4"), values).mend
    assert mend == "use an atomic such as cuda.atomic.add, or give each thread an element of its own"


def test_neighbours_of_another_block_want_another_array() -> None:
    assert race_on("x", neighbours, 2, 32, np.ones(64, "f4")).mend == "write to another array"


def test_threads_that_store_to_one_place() -> None:
    assert race_on("out", last_wins, 1, 64, zeros(1, "i4")).mend.startswith("let one thread write it")


# -- one deadlock a launch -----------------------------------------------------------------------------------------


@cuda.jit
def crossed_locks(locks, out):
    t = cuda.threadIdx.x
    if t % 32 == 0:
        first = t // 32
        while cuda.atomic.cas(locks, first, 0, 1) != 0:
            pass
        cuda.atomic.add(out, 0, 1)
        while cuda.atomic.add(out, 0, 0) < 2:
            pass
        while cuda.atomic.cas(locks, 1 - first, 0, 1) != 0:
            pass
        out[1] = 1


@cuda.jit
def never_told(flag, x):
    t = cuda.threadIdx.x
    if t < 32:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        x[t] = 1
    else:
        while cuda.atomic.add(flag, 1, 0) == 0:
            pass
        x[t] = 2


@pytest.mark.parametrize(("kernel", "args"), [(crossed_locks, (2, 2)), (never_told, (2, 64))])
def test_a_deadlock_is_told_once_whichever_order_leaves_the_threads_where(kernel: Any, args: tuple[int, int]) -> None:
    trace = simulate(kernel, check=True, orders=("first", "last", "round-robin", "random"), max_steps=3000)
    found = trace[1, 64](*(zeros(count, "i4") for count in args)).findings
    assert [one.kind for one in found].count("deadlock") == 1
