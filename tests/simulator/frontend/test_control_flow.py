"""Branches, loops, early returns and inlined calls, against the same function in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import cuda

N = 70  # ragged: two warps and a bit


@cuda.jit
def if_else(x, y):
    i = cuda.grid(1)
    if i < x.size:
        if x[i] > 10:
            y[i] = x[i] * 2
        elif x[i] < 0:
            y[i] = -x[i]
        else:
            y[i] = 7


@cuda.jit
def while_break_continue_else(x, y):
    i = cuda.grid(1)
    n = x[i]
    steps = 0
    while n != 1:
        if steps > 20:
            break
        steps += 1
        if n % 2 == 0:
            n //= 2
            continue
        n = 3 * n + 1
    else:
        steps += 1000
    y[i] = steps


@cuda.jit
def for_else_negative_step(x, y):
    i = cuda.grid(1)
    found = -1
    for k in range(x[i], -10, -3):
        if k % 5 == 0:
            found = k
            break
    else:
        found = -100
    y[i] = found


@cuda.jit
def variable_step(x, y):
    i = cuda.grid(1)
    step = x[i] % 7 - 3
    total = 0
    if step != 0:
        for k in range(i, i + 5 * step, step):
            total = total * 3 + k
    y[i] = total


@cuda.jit
def loop_variable_survives(x, y):
    i = cuda.grid(1)
    last = -5
    for k in range(x[i] % 9):
        last = k
        if k == 4:
            break
    for k in range(3):
        last += k
    y[i] = last * 10 + k


@cuda.jit
def early_return(x, y):
    i = cuda.grid(1)
    if i % 3 == 0:
        y[i] = -1
        return
    for k in range(5):
        if x[i] == k:
            y[i] = 100 + k
            return
    y[i] = x[i]


@cuda.jit
def and_or_not(x, y):
    i = cuda.grid(1)
    a = x[i]
    score = 0
    if a > 3 and (a < 9 or a == 12) and not a == 5:
        score += 1
    if not (a > 3 or a < -3):
        score += 2
    score += 4 if 0 < a <= 7 < a + 3 else 8
    y[i] = score


@cuda.jit
def swap_in_loop(x, y):
    i = cuda.grid(1)
    a, b = 0, 1
    for _ in range(x[i] % 12):
        a, b = b, a + b
    y[i] = a * 1000 + b


@cuda.jit
def copies_before_change(x, y):
    i = cuda.grid(1)
    a = x[i]
    kept = a
    for k in range(4):
        previous = a
        a = a * 2 + k
        if k == 2:
            kept = previous
    y[i] = kept * 100 + (a + previous) % 100


@cuda.jit
def assigned_on_one_path(x, y):
    i = cuda.grid(1)
    if x[i] > 5:
        late = x[i] * 3
    if x[i] > 5:
        y[i] = late
    else:
        y[i] = 1


@cuda.jit
def nested_loops(x, y):
    i = cuda.grid(1)
    total = 0
    for a in range(x[i] % 4):
        for b in range(a, 4):
            if (a + b) % 3 == 0:
                continue
            k = b
            while k > 0:
                total += a * k + 1
                k -= 2
                if total > 50:
                    break
    y[i] = total


KERNELS = [
    if_else, while_break_continue_else, for_else_negative_step, variable_step, loop_variable_survives, early_return,
    and_or_not, swap_in_loop, copies_before_change, assigned_on_one_path, nested_loops,
]  # fmt: skip


def in_python(kernel: Any, x: np.ndarray, y: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Run a kernel's Python function once per thread."""
    values = x.tolist()
    reader = np.empty(len(x), object)
    reader[:] = values
    for i in range(len(x)):
        monkeypatch.setattr(cuda, "grid", lambda axes, i=i: i)
        kernel.py_func(reader, y)
    return y


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.py_func.__name__)
def test_control_flow_agrees_with_python(kernel, run, monkeypatch):
    x = np.random.default_rng(3).integers(-15, 30, N)
    x[x == 0] = 1
    if kernel is while_break_continue_else:
        x = np.abs(x) + 1
    found = run(kernel, 1, N, x, np.zeros(N, np.int64))
    assert found.tolist() == in_python(kernel, x, np.zeros(N, np.int64), monkeypatch).tolist()


def test_raise_ends_the_thread(run):
    source = """
def kernel(x, y):
    i = cuda.grid(1)
    assert x[i] != 3, "three"
    if x[i] == 4:
        raise ValueError("four")
    y[i] = 1
"""
    namespace = {"cuda": cuda}
    exec(compile(source, "raises.py", "exec"), namespace)  # pytest rewrites assert statements of test files
    kernel = cuda.jit(namespace["kernel"])
    assert run(kernel, 1, 8, np.arange(8), np.zeros(8, np.int64)).tolist() == [1, 1, 1, 0, 0, 1, 1, 1]


def test_division_by_zero_raises_with_debug_only(run):
    def kernel(x, y):
        i = cuda.grid(1)
        y[i] = -7
        y[i] = 6 // x[i]

    x, y = np.arange(4), np.zeros(4, np.int64)
    assert run(cuda.jit(kernel), 1, 4, x, y).tolist() == [0, 6, 3, 2]
    assert run(cuda.jit(kernel, debug=True, opt=False), 1, 4, x, y).tolist() == [-7, 6, 3, 2]


def test_range_near_the_end_of_int32(run):
    @cuda.jit
    def kernel(bounds, y):
        for k in range(bounds[0], bounds[1], bounds[2]):
            y[0] += 1
            y[1] = k

    y = run(kernel, 1, 1, np.array([2**31 - 8, 2**31 - 1, 5], np.int32), np.zeros(2, np.int64))
    assert y.tolist() == [2, 2**31 - 3]


def test_range_with_step_zero_ends_the_thread(run):
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        for _ in range(0, 3, x[i]):
            y[i] += 1
        y[i] += 10

    assert run(kernel, 1, 3, np.array([0, 1, 2]), np.zeros(3, np.int64)).tolist() == [0, 13, 12]
