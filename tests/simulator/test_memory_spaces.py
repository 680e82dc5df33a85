"""The machine: local, shared, dynamic and constant arrays, views, and arguments that share memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import cuda, float64, int8, int32
from numba.types import float16

from tests.simulator.running import every_way, run, zeros

Way = dict[str, Any]


@cuda.jit
def sorted_in_registers(x, out):
    t = cuda.grid(1)
    mine = cuda.local.array(5, int32)
    for k in range(5):
        mine[k] = x[t, k]
    for i in range(5):
        for j in range(4 - i):
            if mine[j] > mine[j + 1]:
                mine[j], mine[j + 1] = mine[j + 1], mine[j]
    for k in range(5):
        out[t, k] = mine[k]


@every_way
def test_local_arrays_are_each_lanes_own(way: Way) -> None:
    x = np.random.default_rng(1).integers(-9, 9, (70, 5)).astype(np.int32)
    out = np.zeros_like(x)
    run(sorted_in_registers, 2, 35, x, out, **way)
    np.testing.assert_array_equal(out, np.sort(x, axis=1))


@cuda.jit
def four_local_arrays(x, out):
    t = cuda.grid(1)
    small, wide = cuda.local.array(3, int8), cuda.local.array((2, 3), float64)
    half, word = cuda.local.array(5, float16), cuda.local.array(3, int32)
    for k in range(6):
        wide[k // 3, k % 3] = x[t] * k
    for k in range(5):
        half[k] = x[t] - k
    for k in range(3):
        small[(t + k) % 3] = t + k
        word[(k * t) % 3] = 1000 * t + k
    out[t, 0] = wide[t % 2, 2] + wide[1, t % 3]
    out[t, 1] = half[t % 5] + small[t % 3]
    out[t, 2] = word[0] + small[2]


@every_way
def test_local_arrays_of_several_sizes_keep_apart(way: Way) -> None:
    x, out = np.arange(70) % 50.0, np.zeros((70, 3))
    run(four_local_arrays, 2, 35, x, out, **way)
    t = np.arange(70)
    small = np.array([[n + (i - n) % 3 for i in range(3)] for n in range(70)]).astype("i1")
    word = np.where(t % 3 == 0, 1000 * t + 2, 1000 * t)
    np.testing.assert_array_equal(out[:, 0], x * (3 * (t % 2) + 2) + x * (3 + t % 3))
    np.testing.assert_array_equal(out[:, 1], x - t % 5 + small[t, t % 3])
    np.testing.assert_array_equal(out[:, 2], word + small[:, 2])


@cuda.jit
def two_views(x, out):
    numbers = cuda.shared.array(0, int32)
    halves = cuda.shared.array(0, np.uint16)
    t = cuda.threadIdx.x
    numbers[t] = x[t]
    cuda.syncthreads()
    other = cuda.blockDim.x - 1 - t
    out[t] = halves[2 * other] * 65536 + halves[2 * other + 1]


@every_way
def test_dynamic_shared_arrays_are_views_of_one_memory(way: Way) -> None:
    x = np.arange(48, dtype=np.int32) * 70001
    out = zeros(48, "i8")
    run(two_views, 1, 48, x, out, dynamic_shared=4 * 48, **way)
    swapped = x[::-1].astype("i8")
    np.testing.assert_array_equal(out, (swapped & 0xFFFF) * 65536 + (swapped >> 16))


WEIGHTS = np.array([[1, 10, 100], [2, 20, 200]], np.int64)


@cuda.jit
def weighted(x, out):
    weights = cuda.const.array_like(WEIGHTS)
    t = cuda.grid(1)
    out[t] = x[t] * weights[t % 2, t % 3]


@every_way
def test_constant_arrays(way: Way) -> None:
    out = zeros(64)
    run(weighted, 2, 32, np.arange(64), out, **way)
    t = np.arange(64)
    np.testing.assert_array_equal(out, t * WEIGHTS[t % 2, t % 3])


@cuda.jit
def one_of_two(x, y, out):
    t = cuda.grid(1)
    array = x if t % 3 == 0 else y
    out[t] = array[t] + array.shape[0]
    array[t] = -1


@every_way
def test_lanes_choose_between_arrays(way: Way) -> None:
    x, y, out = np.arange(64), np.arange(100) * 1000, zeros(64)
    run(one_of_two, 2, 32, x, y, out, **way)
    t = np.arange(64)
    np.testing.assert_array_equal(out, np.where(t % 3 == 0, t + 64, t * 1000 + 100))
    np.testing.assert_array_equal(x, np.where(t % 3 == 0, -1, t))
    np.testing.assert_array_equal(y[:64], np.where(t % 3 == 0, t * 1000, -1))


@cuda.jit
def shifted(x, by):
    t = cuda.threadIdx.x
    value = x[t]
    cuda.syncthreads()
    x[t + by] = value


@every_way
@pytest.mark.parametrize("step", [1, 3, -1])
def test_strided_views_write_through(way: Way, step: int) -> None:
    memory = np.arange(400)
    view = memory[::step][:104]
    expected = view[:96].copy()
    run(shifted, 1, 96, view, 8, **way)
    np.testing.assert_array_equal(view[8:], expected)
    assert memory.base is None


@cuda.jit
def overlapping(x, y):
    t = cuda.threadIdx.x
    value = x[t]
    cuda.syncthreads()
    y[t] = value


@every_way
def test_arguments_that_share_memory(way: Way) -> None:
    memory = np.arange(70)
    run(overlapping, 1, 64, memory[:64], memory[5:69], **way)
    assert memory.tolist() == [0, 1, 2, 3, 4, *range(64), 69]
