"""The machine: atomics, of lanes that meet and lanes that do not, in waves and in splits of any order."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numba import cuda, int32

from tests.simulator.running import every_way, run, zeros

Way = dict[str, Any]


ATOMIC = """
@cuda.jit
def kernel(x, slots, seen):
    t = cuda.grid(1)
    if t < x.size:
        seen[t] = cuda.atomic.{name}(slots, t % slots.size, x[t])
"""


@cache
def atomic_kernel(name: str) -> Any:
    space: dict[str, Any] = {"cuda": cuda}
    exec(ATOMIC.format(name=name), space)
    return space["kernel"]


def sequentially(name: str, x: np.ndarray, slots: np.ndarray) -> np.ndarray:
    result = [int(v) for v in slots]
    fold: dict[str, Any] = {
        "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "max": max, "min": min,
        "and_": lambda a, b: a & b, "or_": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
        "inc": lambda a, b: 0 if a >= b else a + 1, "dec": lambda a, b: b if a == 0 or a > b else a - 1,
    }  # fmt: skip
    for t, value in enumerate(x):
        result[t % len(result)] = fold[name](result[t % len(result)], int(value))
    return np.array(result).astype(slots.dtype)


@every_way
@pytest.mark.parametrize("slots", [1, 3, 64])
@pytest.mark.parametrize("name", ["add", "sub", "max", "min", "and_", "or_", "xor", "inc", "dec"])
def test_atomics_of_colliding_lanes(way: Way, name: str, slots: int) -> None:
    dtype = "u4" if name in ("inc", "dec") else "i4"
    x = np.full(90, 1000, dtype) if name in ("inc", "dec") else (np.arange(90) * 37 % 101 + 1).astype(dtype)
    memory = (np.arange(slots) + 64).astype(dtype)
    before, seen = memory.copy(), zeros(90, dtype)
    run(atomic_kernel(name), 3, 32, x, memory, seen, **way)
    np.testing.assert_array_equal(memory, sequentially(name, x, before))
    for k in range(slots):
        assert before[k] in seen[k::slots]  # somebody came first
        if name in ("add", "sub", "inc", "dec"):
            assert len(set(seen[k::slots].tolist())) == len(seen[k::slots])  # and no two saw the same


@every_way
@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("name", ["add", "sub"])
def test_sums_wrap(way: Way, name: str, dtype: str, slots: int) -> None:
    numbers = np.random.default_rng(1).integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 90, dtype)
    memory, seen = numbers[:slots].copy(), zeros(90, dtype)
    run(atomic_kernel(name), 3, 32, numbers, memory, seen, **way)
    sign = 1 if name == "add" else -1
    bits = 8 * memory.itemsize
    for k in range(slots):
        total = int(numbers[k]) + sign * sum(map(int, numbers[k::slots]))
        assert (int(memory[k]) - total) % 2**bits == 0
        saw = np.append(seen[k::slots], memory[k]).astype(f"u{memory.itemsize}")
        assert numbers[k].astype(saw.dtype) in saw


@cuda.jit
def exchanged(x, slot, seen):
    t = cuda.grid(1)
    seen[t] = cuda.atomic.exch(slot, 0, x[t])


@every_way
def test_exchange_hands_every_value_on(way: Way) -> None:
    x, slot, seen = np.arange(1, 65), zeros(1), zeros(64)
    run(exchanged, 2, 32, x, slot, seen, **way)
    assert sorted([*seen.tolist(), int(slot[0])]) == list(range(65))


@cuda.jit
def claimed(slots, winners):
    t = cuda.grid(1)
    if cuda.atomic.cas(slots, t % 5, 0, t + 1) == 0:
        winners[t] = 1


@every_way
def test_compare_and_swap_has_one_winner_each(way: Way) -> None:
    slots, winners = zeros(5, "i4"), zeros(96)
    run(claimed, 2, 48, slots, winners, **way)
    assert winners.sum() == 5
    assert sorted((slots - 1).tolist()) == np.flatnonzero(winners).tolist()


@cuda.jit
def here_and_there(left, right, seen):
    mine = cuda.shared.array(3, int32)
    t = cuda.threadIdx.x
    if t < 3:
        mine[t] = 10 * t
    cuda.syncthreads()
    counts = left if t % 3 == 0 else mine if t % 3 == 1 else right
    if t < 75:
        seen[cuda.grid(1)] = cuda.atomic.add(counts, t % 2, 1)
    cuda.atomic.cas(counts, 2, 20, t)
    cuda.syncthreads()
    if t == 0:
        cuda.atomic.add(left, 2, mine[0] + mine[1])


@every_way
def test_lanes_that_reach_into_several_arrays(way: Way) -> None:
    left, right, seen = zeros(4, "i4"), zeros(3, "i4") + 100, zeros(160, "i4") - 1
    run(here_and_there, 2, 80, left, right, seen, **way)
    assert left.tolist() == [2 * 13, 2 * 12, 2 * (12 + 10 + 13), 0]
    assert right.tolist() == [100 + 2 * 13, 100 + 2 * 12, 100]
    for first in range(6):  # who meets sees each count once: in both blocks, but shared memory is a block's own
        own = first % 3 == 1
        for block in (0, 1) if own else (slice(None),):
            here = np.sort(seen.reshape(2, 80)[block, first:75:6], axis=None)
            start = {0: 0, 1: 10 * (first % 2), 2: 100}[first % 3]
            np.testing.assert_array_equal(here, start + np.arange(here.size))
    assert (seen.reshape(2, 80)[:, 75:] == -1).all()


@cuda.jit
def float_atomics(x, out):
    t = cuda.grid(1)
    cuda.atomic.add(out, 0, x[t])
    cuda.atomic.max(out, 1, x[t])
    cuda.atomic.min(out, 2, x[t])
    cuda.atomic.nanmax(out, 3, x[t])
    cuda.atomic.nanmin(out, 4, x[t])


@every_way
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_atomics_on_floats(way: Way, dtype: str) -> None:
    x = np.arange(64).astype(dtype) - 20
    out = np.array([0, 0, 0, np.nan, np.nan], dtype)
    run(float_atomics, 2, 32, x, out, **way)
    assert out.tolist() == [x.sum(), 43, -20, 43, -20]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_atomic_sums_of_floats_go_lane_after_lane(dtype: str) -> None:
    x = np.random.default_rng(3).standard_normal(200).astype(dtype)
    out = np.array([0, -100, 100, -100, 100], dtype)
    run(float_atomics, 2, 100, x, out)
    total = out.dtype.type(0)
    for value in x:
        total += value
    assert out.tolist() == [total, x.max(), x.min(), x.max(), x.min()]


@cuda.jit
def shared_histogram(x, out):
    counts = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    if t < 16:
        counts[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    while i < x.size:
        cuda.atomic.add(counts, x[i] & 15, 1)
        i += cuda.gridsize(1)
    cuda.syncthreads()
    if t < 16:
        cuda.atomic.add(out, t, counts[t])


@every_way
def test_histogram(way: Way) -> None:
    x = np.random.default_rng(2).integers(0, 1000, 777).astype(np.int32)
    out = zeros(16, "i4")
    run(shared_histogram, 3, 50, x, out, **way)
    np.testing.assert_array_equal(out, np.bincount(x & 15, minlength=16))
