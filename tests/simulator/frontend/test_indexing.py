"""Subscripts: layouts, signs, rows, slices, tuples, shared, local and constant memory."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda, float32, int32, uint32

from simulator.frontend import lower_kernel
from simulator.machine.faults import Fault
from simulator.machine.launch import launch

TABLE = np.array([[3.0, 1.0, 4.0], [1.0, 5.0, 9.0]], np.float32)
WEIGHTS = (2, 3.5, np.float32(0.25))
SHAPE = (4, 3)


@pytest.mark.parametrize("view", ["C", "F", "strided", "negative", "broadcast", "readonly"])
def test_every_layout(view, run):
    @cuda.jit
    def kernel(x, y):
        for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
            for j in range(x.shape[1]):
                y[i, j] = x[i, j] * 2 + x.strides[0] * 0 + x.ndim

    x = np.arange(24.0).reshape(4, 6)
    match view:
        case "F":
            x = np.asfortranarray(x)
        case "strided":
            x = x[:, ::2]
        case "negative":
            x = x[::-1, ::-2]
        case "broadcast":
            x = np.broadcast_to(x[1], (5, 6))
        case "readonly":
            x.flags.writeable = False
    np.testing.assert_array_equal(run(kernel, 1, 3, x, np.zeros(x.shape)), x * 2 + 2)


def test_array_attributes(run):
    @cuda.jit
    def kernel(x, y):
        y[0] = x.size
        y[1] = x.ndim
        y[2] = x.itemsize
        y[3] = x.nbytes
        y[4] = x.strides[0]
        y[5] = len(x)
        a, b = x.shape
        y[6] = a * 100 + b
        y[7] = x.T[2, 1]
        y[8] = len(x.shape)
        y[9] = x.T.shape[0]

    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert run(kernel, 1, 1, x, np.zeros(10, np.int64)).tolist() == [12, 2, 4, 48, 16, 3, 304, x[1, 2], 2, 4]


def test_negative_indices_wrap_and_unsigned_ones_do_not(run):
    @cuda.jit
    def kernel(x, y):
        y[0] = x[-1]
        y[1] = x[int32(-2)]
        y[2] = x[uint32(2)]
        y[-1] = 7

    x = np.array([10, 11, 12, 13])
    assert run(kernel, 1, 1, x, np.zeros(5, np.int64)).tolist() == [13, 12, 12, 0, 7]

    @cuda.jit
    def outside(x, y):
        y[0] = x[uint32(1) - uint32(2)]

    program = lower_kernel(outside, (x, x))
    with pytest.raises(Fault) as caught:
        launch(program, (1, 1, 1), (1, 1, 1), (x, x.copy()))
    assert caught.value.kind == "out-of-bounds"


def test_rows_and_slices(run):
    @cuda.jit(device=True)
    def total(row):
        s = 0.0
        for k in range(row.size):
            s += row[k]
        return s

    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        n = x.shape[1]
        row = x[i]
        y[i, 0] = total(row)
        y[i, 1] = total(x[i, 2:5])
        y[i, 2] = total(x[:, i % n])
        y[i, 3] = total(row[::-1][:3])
        y[i, 4] = total(x[i, i:100:2])
        y[i, 5] = total(x[i, -3:])
        y[i, 6] = x[1:, 1:][1, 1]
        y[i, 7] = total(row[n - 2 : 1 : -2])
        y[i, 8] = total(row[5:2])
        y[i, 9] = row[-1]

    x = np.random.default_rng(0).standard_normal((4, 7))
    y = run(kernel, 1, 4, x, np.zeros((4, 10)))
    for i, row in enumerate(x):
        parts = [row, row[2:5], x[:, i], row[::-1][:3], row[i:100:2], row[-3:], [x[2, 2]], row[5:1:-2], [], [row[-1]]]
        np.testing.assert_allclose(y[i], [float(np.sum(part)) for part in parts], rtol=1e-13)


def test_an_array_chosen_per_thread(run):
    @cuda.jit
    def kernel(a, b, y):
        i = cuda.grid(1)
        x = a if i % 3 == 0 else b
        if i > 4:
            x = a
        y[i] = x[i % x.size] * 10 + x.size

    a, b = np.arange(5.0), -np.arange(1.0, 4.0)
    expected = [(a if i % 3 == 0 or i > 4 else b) for i in range(8)]
    expected = [float(x[i % len(x)] * 10 + len(x)) for i, x in enumerate(expected)]
    assert run(kernel, 1, 8, a, b, np.zeros(8)).tolist() == expected


def test_tuples(run):
    @cuda.jit(device=True)
    def both(a, b):
        return a + b, a - b

    @cuda.jit
    def kernel(t, y):
        i = cuda.grid(1)
        x, n = t
        s, d = both(x[i], n)
        y[i, 0] = s
        y[i, 1] = d
        pair = (i, i * i, 7)
        y[i, 2] = pair[i]
        y[i, 3] = pair[-1 - i]
        triple = pair + (n,)  # noqa: RUF005
        y[i, 4] = triple[3] + len(triple)
        if i == 1:
            pair = (5, 6, 8)
        a, b, c = pair
        y[i, 5] = a * 100 + b * 10 + c
        y[i, 6] = t[0][i] + WEIGHTS[1] + WEIGHTS[2]
        y[i, 7] = (1, 2, 3, 4)[1:3][1]

    x = np.array([1.5, 2.5, 3.5])
    y = run(kernel, 1, 3, (x, 4), np.zeros((3, 8)))
    for i in range(3):
        pair = (i, i * i, 7)
        a, b, c = (5, 6, 8) if i == 1 else pair
        expected = [x[i] + 4, x[i] - 4, pair[i], pair[-1 - i], 8, a * 100 + b * 10 + c, x[i] + 3.75, 3]
        np.testing.assert_array_equal(y[i], expected)


def test_a_tuple_index_out_of_range_ends_the_thread(run):
    @cuda.jit
    def kernel(y):
        i = cuda.grid(1)
        y[i] = 1
        y[i] = (10, 20)[i - 2]

    assert run(kernel, 1, 6, np.zeros(6, np.int64)).tolist() == [10, 20, 10, 20, 1, 1]


def test_shared_arrays_of_every_form(run):
    tile = 8

    @cuda.jit(device=True)
    def exchange(t, v):
        mail = cuda.shared.array(8, int32)  # the same memory at every call
        before = mail[7 - t]
        cuda.syncthreads()
        mail[t] = v
        cuda.syncthreads()
        return before

    @cuda.jit
    def kernel(y):
        t = cuda.threadIdx.x
        a = cuda.shared.array(8, int32)
        b = cuda.shared.array(shape=(2, 4), dtype=np.float64)
        c = cuda.shared.array(tile, dtype=y.dtype, alignment=16)
        d = cuda.shared.array(SHAPE, float32)
        a[t] = t
        b[t // 4, t % 4] = t * 0.5
        c[t] = 3 * t
        d[t % 4, t // 4] = t
        exchange(t, 100 * t)
        r = 7 - t
        y[t] = a[r] + 10 * b[r // 4, r % 4] + c[r] + d[r % 4, r // 4] + exchange(t, 0 * t)

    r = 7 - np.arange(8)
    np.testing.assert_array_equal(run(kernel, 1, 8, np.zeros(8)), r + 5 * r + 3 * r + r + 100 * r)


def test_dynamic_shared_memory_is_one_memory(run):
    @cuda.jit
    def kernel(y):
        t = cuda.threadIdx.x
        words = cuda.shared.array(0, int32)
        singles = cuda.shared.array(shape=0, dtype=float32)
        singles[t] = t + 0.5
        cuda.syncthreads()
        y[t, 0] = words[t]
        y[t, 1] = words.size * 1000 + singles.shape[0]
        upper = cuda.shared.array(0, np.int8)
        y[t, 2] = upper.size

    y = run(kernel, 1, 8, np.zeros((8, 3), np.int64), dynamic_shared=48)
    np.testing.assert_array_equal(y[:, 0], (np.arange(8) + np.float32(0.5)).astype("f4").view("i4"))
    assert (y[:, 1:] == [12012, 48]).all()


def test_local_arrays_belong_to_a_thread(run):
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        mine = cuda.local.array(5, np.float64)
        for k in range(5):
            mine[k] = x[i] + k
        for k in range(5):
            y[i] += mine[(k * 3) % 5] * k

    x = np.arange(40.0)
    expected = [sum((v + k * 3 % 5) * k for k in range(5)) for v in x]
    np.testing.assert_array_equal(run(kernel, 2, 20, x, np.zeros(40)), expected)


def test_constant_arrays_are_frozen(run):
    table = np.array([1, 2, 3], np.int16)

    @cuda.jit
    def kernel(y):
        i = cuda.grid(1)
        c = cuda.const.array_like(TABLE)
        y[i] = c[i % 2, i] + TABLE[1, i] + table[i]

    expected = [TABLE[i % 2, i] + TABLE[1, i] + i + 1 for i in range(3)]
    assert run(kernel, 1, 3, np.zeros(3)).tolist() == expected
    table[:] = 100
    assert run(kernel, 1, 3, np.zeros(3)).tolist() == expected


def test_two_arrays_share_memory(run):
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        x[i] = 5
        y[i] += x[i + 1] * 0

    base = np.zeros(9)
    program = lower_kernel(kernel, (base[:8], base[1:]))
    launch(program, (1, 1, 1), (4, 1, 1), (base[:8], base[1:]))
    assert base.tolist() == [5] * 4 + [0] * 5


@pytest.mark.parametrize("step", [1, 2, 3, -1, -2])
def test_slices_with_every_pair_of_bounds(step, run):
    @cuda.jit
    def kernel(x, bounds, y):
        i = cuda.grid(1)
        if i < bounds.shape[0]:
            parts = (x[bounds[i, 0] : bounds[i, 1] : step], x[bounds[i, 0] :: step], x[: bounds[i, 1] : step])
            for k in range(3):
                part = parts[0]
                if k == 1:
                    part = parts[1]
                elif k == 2:
                    part = parts[2]
                total = 0
                for j in range(part.size):
                    total = total * 7 + part[j]
                y[i, k] = total

    x = np.arange(1, 6)
    bounds = np.array([(a, b) for a in range(-7, 8) for b in range(-7, 8)])

    def total(part: np.ndarray) -> int:
        found = 0
        for value in part.tolist():
            found = found * 7 + value
        return found

    found = run(kernel, 4, 64, x, bounds, np.zeros((len(bounds), 3), np.int64))
    expected = [[total(x[a:b:step]), total(x[a::step]), total(x[:b:step])] for a, b in bounds.tolist()]
    assert found.tolist() == expected
