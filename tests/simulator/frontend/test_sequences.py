"""Tuples, and everything that is gone through item by item: arrays, zip, enumerate, positions, next."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda
from numba.cuda.misc.special import literal_unroll

from simulator.errors import Unsupported
from simulator.frontend import DoesNotCompile, lower_kernel
from simulator.machine.launch import launch
from tests.simulator.frontend.conftest import run_kernel

PAIRS = ((1, 2.5), (3, 4.5), (5, 6.5))


def test_an_array_is_gone_through_element_by_element(run):
    @cuda.jit
    def kernel(x, y):
        for v in x:
            if v < 0:
                break
            y[cuda.threadIdx.x] += v * (cuda.threadIdx.x + 1)

    x = np.array([3.0, 4.0, 5.0, -1.0, 100.0])
    assert run(kernel, 1, 33, x, np.zeros(33)).tolist() == [12.0 * (k + 1) for k in range(33)]


def test_lanes_that_go_through_rows_of_different_lengths(run):
    @cuda.jit
    def kernel(x, y):
        t = cuda.threadIdx.x
        for v in x[t, : t % 5]:
            y[t] += v

    x = np.arange(35 * 6.0).reshape(35, 6)
    assert run(kernel, 1, 35, x, np.zeros(35)).tolist() == [x[t, : t % 5].sum() for t in range(35)]


def test_a_two_dimensional_array_gives_rows(run):
    @cuda.jit
    def kernel(x, y):
        for i, row in enumerate(x):
            row[0] = -1
            for v in row:
                y[i] += v

    x = np.arange(12.0).reshape(3, 4)
    x[:, 0] = -1
    assert run(kernel, 1, 1, np.arange(12.0).reshape(3, 4).copy(), np.zeros(3)).tolist() == x.sum(1).tolist()


def test_nothing_to_go_through(run):
    @cuda.jit
    def kernel(x, y):
        for v in x:
            y[0] = v
        for v, _ in zip(x, y):  # noqa: B905
            y[0] = v

    assert run(kernel, 1, 2, np.zeros(0), np.full(1, 7.0)).tolist() == [7.0]


def test_zip_and_enumerate_inside_each_other(run):
    @cuda.jit
    def kernel(x, z, y):
        for i, (a, b, k) in enumerate(zip(x, z, range(10, 100, 10)), 2):  # noqa: B905
            y[i] = a * b + k
        for (i, a), b in zip(enumerate(z), x):  # noqa: B905
            y[i] += 1000 * (a - b)

    x, z = np.arange(1.0, 6.0), np.arange(5.0, 0.0, -1.0)[:4]
    expected = np.zeros(9)
    for i, (a, b, k) in enumerate(zip(x, z, range(10, 100, 10), strict=False), 2):
        expected[i] = a * b + k
    expected[:4] += 1000 * (z - x[:4])
    assert run(kernel, 1, 1, x, z, np.zeros(9)).tolist() == expected.tolist()


def test_zip_stops_where_python_does(run):
    """What comes before the source that is at its end has gone one further."""

    @cuda.jit
    def kernel(x, z, y):
        first = iter(x)
        for a, b in zip(first, z):  # noqa: B905
            y[0] += a + b
        y[1] = next(first)

    x, z = np.arange(10.0, 16.0), np.arange(2.0)
    first = iter(x)
    list(zip(first, z, strict=False))
    assert run(kernel, 1, 1, x, z, np.zeros(2)).tolist() == [22.0, next(first)]


def test_next_past_the_end_ends_the_thread():
    @cuda.jit
    def kernel(x, y):
        it = iter(x)
        for _ in range(cuda.threadIdx.x):
            next(it)
        y[cuda.threadIdx.x] = next(it)
        y[cuda.threadIdx.x] += 100

    assert run_kernel(kernel, 1, 5, np.arange(3.0), np.zeros(5)).tolist() == [100, 101, 102, 0, 0]


def test_tuples_of_one_type_are_gone_through_and_indexed(run):
    @cuda.jit
    def kernel(y):
        t = cuda.threadIdx.x
        for a, b in PAIRS:
            y[t] += a * b
        y[t] += PAIRS[t % 3][1] + PAIRS[-1 - t % 3][0]

    def python(t):
        return sum(a * b for a, b in PAIRS) + PAIRS[t % 3][1] + PAIRS[-1 - t % 3][0]

    assert run(kernel, 1, 7, np.zeros(7)).tolist() == [python(t) for t in range(7)]


def test_an_index_past_a_tuple_ends_the_thread(run):
    @cuda.jit
    def kernel(y):
        t = cuda.threadIdx.x
        y[t] = PAIRS[t - 4][0]

    assert run(kernel, 1, 8, np.zeros(8)).tolist() == [0, 1, 3, 5, 1, 3, 5, 0]


def test_a_tuple_of_arrays(run):
    @cuda.jit
    def kernel(arrays, y):
        t = cuda.threadIdx.x
        for x in arrays:
            y[t] += x[t]
        y[t] += 1000 * arrays[t % 2][0]

    a, b = np.arange(8.0), np.arange(8.0, 16.0)
    expected = a + b + 1000 * np.where(np.arange(8) % 2, b[0], a[0])
    assert run(kernel, 1, 8, (a, b), np.zeros(8)).tolist() == expected.tolist()


def test_one_of_two_arrays_is_written(run):
    @cuda.jit
    def kernel(x, y):
        t = cuda.threadIdx.x
        target = x if t % 3 == 0 else y
        target[t] = t
        (x, y)[t % 2][t] += 100

    t = np.arange(40)
    expected = np.where(t % 3, t, 0.0) + np.where(t % 2, 100.0, 0.0)
    assert run(kernel, 1, 40, np.zeros(40), np.zeros(40)).tolist() == expected.tolist()


@pytest.mark.parametrize("other", [(1, 2), (1, 3), (1, 2, 0), (1,), (0, 9, 9), ()])
def test_comparing_tuples(other, run):
    @cuda.jit
    def kernel(y):
        one = (1, 2.0)
        y[0] = one < other
        y[1] = one <= other
        y[2] = one > other
        y[3] = one >= other
        y[4] = one == other
        y[5] = one != other

    one = (1, 2.0)
    expected = [one < other, one <= other, one > other, one >= other, one == other, one != other]
    assert run(kernel, 1, 1, np.zeros(6, bool)).tolist() == expected


def test_membership(run):
    @cuda.jit
    def kernel(x, y):
        t = cuda.threadIdx.x
        y[t, 0] = t in x
        y[t, 1] = t in (1, 5, 7)
        y[t, 2] = t not in (1, 5, 7)

    x = np.array([0, 3, 5])
    expected = [[t in x, t in (1, 5, 7), t not in (1, 5, 7)] for t in range(8)]
    assert run(kernel, 1, 8, x, np.zeros((8, 3), bool)).tolist() == expected


def test_unpacking_an_array_checks_its_length(run):
    @cuda.jit
    def kernel(x, y):
        t = cuda.threadIdx.x
        a, b = x[:t]
        y[t] = a + 10 * b

    assert run(kernel, 1, 4, np.array([3.0, 4.0, 5.0]), np.zeros(4)).tolist() == [0, 0, 43, 0]


def test_tuples_through_device_functions(run):
    @cuda.jit(device=True)
    def swapped(pair):
        return pair[1], (pair[0], 7)

    @cuda.jit(device=True)
    def many(first, *rest):
        total = first
        for k in range(len(rest)):
            total += rest[k] * len(rest)
        return total

    @cuda.jit
    def kernel(x, y):
        a, (b, c) = swapped((x[0], x[1]))
        both = (a, b) + (c,)  # noqa: RUF005
        y[0], y[1], y[2] = both
        y[3] = many(*(a, b, 7.0))
        y[4] = len(both[1:]) + both[-1]

    y = run(kernel, 1, 1, np.array([2.0, 3.0]), np.zeros(5))
    assert y.tolist() == [3.0, 2.0, 7.0, 3.0 + 2 * 2.0 + 2 * 7.0, 9.0]


@pytest.mark.parametrize("order", ["C", "F"])
def test_positions_of_an_array(order, run):
    @cuda.jit
    def kernel(x, y):
        n = 0
        for (i, j), v in np.ndenumerate(x):
            y[n] = 100 * i + 10 * j + v
            n += 1
        for i, j in np.ndindex(x.shape):
            y[n] = x[i, j]
            n += 1
        for v in x.flat:
            y[n] = v
            n += 1
        for v in np.nditer(x):
            y[n] = v.item()
            n += 1

    x = np.asarray(np.arange(6.0).reshape(2, 3), order=order)
    expected = [100 * i + 10 * j + v for (i, j), v in np.ndenumerate(x)]
    expected += [x[i] for i in np.ndindex(*x.shape)] + list(x.flat) + [v.item() for v in np.nditer(x)]
    assert run(kernel, 1, 1, x, np.zeros(24)).tolist() == expected


def test_sums(run):
    @cuda.jit
    def kernel(x, y):
        y[0] = x.sum()
        y[1] = np.sum(x)
        y[2] = sum((1, 2, x[0, 1]))
        y[3] = max((x[0, 1], x[1, 2], 3))

    x = np.arange(6.0).reshape(2, 3)
    assert run(kernel, 1, 1, x, np.zeros(4)).tolist() == [15, 15, 4, 5]


def test_a_tuple_of_several_types_is_unrolled(run):
    arrays = (np.arange(3.0), np.arange(4).reshape(2, 2)[::-1], np.float32([5]))

    @cuda.jit
    def kernel(x, y):
        n = 0
        for v in literal_unroll(arrays):
            y[n] = np.sum(v)
            n += 1
        for v in literal_unroll((1, x[1], 2.5)):
            y[n] = v / 2
            n += 1

    assert run(kernel, 1, 1, np.arange(3), np.zeros(6)).tolist() == [3, 6, 5, 0.5, 0.5, 1.25]


def test_what_cannot_be_gone_through():
    def mixed(y):
        for v in (1, 2.0, y):
            y[0] = v

    def item_of_mixed(y):
        y[0] = (1, y)[int(y[0])]

    for kernel in (mixed, item_of_mixed):
        with pytest.raises((Unsupported, DoesNotCompile)):
            lower_kernel(kernel, (np.zeros(1),))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(-3, 3), max_size=6), st.lists(st.integers(-3, 3), max_size=6), st.integers(-5, 5))
def test_zip_of_any_lengths(x, z, start):
    program = lower_kernel(_zipped, (np.zeros(0, np.int64), np.zeros(0, np.int64), 0, np.zeros(0, np.int64)))
    y = np.zeros(12, np.int64)
    launch(program, (1, 1, 1), (1, 1, 1), (np.array(x, np.int64), np.array(z, np.int64), start, y))
    expected = [0] * 12
    for n, (i, (a, b)) in enumerate(enumerate(zip(x, z, strict=False), start)):
        expected[n] = 100 * i + 10 * a + b
    assert y.tolist() == expected


@cuda.jit
def _zipped(x, z, start, y):
    n = 0
    for i, (a, b) in enumerate(zip(x, z), start):  # noqa: B905
        y[n] = 100 * i + 10 * a + b
        n += 1
