"""Functions that call themselves or each other: lowered once, with a stack in local memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda, float32

from simulator import OutOfBounds, simulate
from simulator.errors import Unsupported
from simulator.frontend import DoesNotCompile, lower_kernel
from simulator.frontend.lowering.recursion import WORDS
from tests.simulator.frontend.conftest import run_kernel


@cuda.jit(device=True)
def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


@cuda.jit
def fibonaccis(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = fibonacci(x[i])


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(-2, 9), min_size=1, max_size=40))
def test_each_thread_has_a_depth_of_its_own(numbers):
    def python(n):
        return n if n < 2 else python(n - 1) + python(n - 2)

    found = run_kernel(fibonaccis, 2, 33, np.array(numbers), np.zeros(len(numbers), np.int64))
    assert found.tolist() == list(map(python, numbers))


@cuda.jit(device=True)
def is_even(n):
    if n == 0:
        return True
    return is_odd(n - 1)


@cuda.jit(device=True)
def is_odd(n):
    if n == 0:
        return False
    return is_even(n - 1)


def test_functions_that_call_each_other(run):
    @cuda.jit
    def kernel(y):
        i = cuda.grid(1)
        y[i] = is_even(i) * 10 + is_odd(i)

    assert run(kernel, 1, 37, np.zeros(37)).tolist() == [1.0 if i % 2 else 10.0 for i in range(37)]


@cuda.jit(device=True)
def sort(x, low, high):
    if low < high:
        pivot = x[high]
        i = low
        for j in range(low, high):
            if x[j] < pivot:
                x[i], x[j] = x[j], x[i]
                i += 1
        x[i], x[high] = x[high], x[i]
        sort(x, low, i - 1)
        sort(x, i + 1, high)


def test_sorting_rows_in_place(run):
    @cuda.jit
    def kernel(x):
        sort(x[cuda.grid(1)], 0, x.shape[1] - 1)

    x = np.random.default_rng(0).permutation(33 * 12).reshape(33, 12)
    assert (run(kernel, 1, 33, x.copy()) == np.sort(x)).all()


@cuda.jit(device=True)
def tree(n, weights, factor=3.0):
    """Loops, an array, a default, a tuple and a result that is used twice, all needed past the call."""
    total = float32(0)
    pair = (n, n * factor)
    for i in range(n):
        below = tree(n - 1, weights)
        total += below[0] * i + weights[i] + pair[1]
        if below[1] > 40:
            break
    return total, total + pair[0]


def test_what_is_needed_afterwards_is_kept(run):
    def python(n, weights, factor=3.0):
        total = np.float32(0)
        pair = (n, n * factor)
        for i in range(n):
            below = python(n - 1, weights)
            total = np.float64(total) + below[0] * i + weights[i] + pair[1]
            if below[1] > 40:
                break
        return total, total + pair[0]

    @cuda.jit
    def kernel(weights, y):
        t = cuda.threadIdx.x
        a, b = tree(t % 5, weights)
        y[t] = a + 1000 * b

    weights = np.arange(5.0) / 8
    expected = [a + 1000 * b for a, b in (python(t % 5, weights) for t in range(35))]
    np.testing.assert_allclose(run(kernel, 1, 35, weights, np.zeros(35)), expected, rtol=1e-12)


def test_two_recursions_in_one_kernel(run):
    @cuda.jit
    def kernel(y):
        i = cuda.grid(1)
        y[i] = fibonacci(i % 7) + 100 * fibonacci(fibonacci(i % 5)) + is_odd(i)

    fib = [0, 1, 1, 2, 3, 5, 8]
    expected = [fib[i % 7] + 100 * fib[fib[i % 5]] + i % 2 for i in range(20)]
    assert run(kernel, 1, 20, np.zeros(20)).tolist() == expected


@cuda.jit(device=True)
def depth(n):
    if n == 0:
        return 0
    return 1 + depth(n - 1)


@cuda.jit
def deep(y):
    y[0] = depth(y[0])


def test_a_thousand_calls_deep():
    y = np.array([1000])
    simulate(deep)[1, 1](y)
    assert y[0] == 1000


def test_too_deep_is_out_of_the_stack_s_bounds():
    with pytest.raises(OutOfBounds, match=f"call stack at index {WORDS} ") as caught:
        simulate(deep)[1, 1](np.array([WORDS]))
    assert caught.value.findings[0].lines == (depth.py_func.__code__.co_firstlineno + 4,)


def test_the_stack_is_seen_in_the_trace():
    trace = simulate(deep)[1, 1](np.array([3]))
    rows = [row for row in trace.lines if row.array == "call stack"]
    assert {row.space for row in rows} == {"local"}
    assert {row.operation for row in rows} == {"load", "store"}


@cuda.jit(device=True)
def endless(x):
    return endless(x)


@cuda.jit(device=True)
def growing(n):
    if n <= 0:
        return None
    return (n, growing(n - 1))


@pytest.mark.parametrize("function", [endless, growing], ids=["endless", "growing"])
def test_what_numba_cannot_type(function):
    def kernel(y):
        function(1)
        y[0] = 1

    with pytest.raises(DoesNotCompile):
        lower_kernel(kernel, (np.zeros(1),))


def test_local_memory_of_each_call_is_refused():
    @cuda.jit(device=True)
    def uses(n):
        mine = cuda.local.array(2, float32)
        mine[0] = n
        return mine[0] if n == 0 else uses_again(n - 1) + mine[0]

    @cuda.jit(device=True)
    def uses_again(n):
        return uses(n) if n > 0 else float32(0)

    def kernel(y):
        y[0] = uses(3)

    with pytest.raises((Unsupported, DoesNotCompile)):
        lower_kernel(kernel, (np.zeros(1),))
