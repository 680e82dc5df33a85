"""Values that may be None, 0-dimensional arrays, and NumPy's texts of fixed length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import cuda

from simulator import simulate

Run = Callable[..., Any]


def test_a_value_that_is_none_on_some_paths(run: Run) -> None:
    @cuda.jit(device=True)
    def positive(x):
        if x > 0:
            return x
        return None

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        found = positive(x[i])
        if found is None:
            out[i] = -1
        elif found is not None:
            out[i] = found * 2

    assert run(kernel, 1, 4, np.array([1.5, -2, 0, 3]), np.zeros(4)).tolist() == [3, -1, -1, 6]


@pytest.mark.parametrize("empty", [0j, 2.5, True])
def test_none_and_a_value_of_any_type(run: Run, empty: Any) -> None:
    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        value = None
        if i % 2:
            value = empty
        out[i] = 7 if value is None else value

    assert run(kernel, 1, 4, np.zeros(4, complex)).tolist() == [7, empty, 7, empty]


def test_using_none_as_a_number_ends_the_thread() -> None:
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        value = None
        if x[i] > 0:
            value = x[i]
        out[i] = value + 1

    out = np.zeros(3)
    simulate(kernel)[1, 3](np.array([1.0, -1, 2]), out)
    assert out.tolist() == [2, 0, 3]


def test_a_record_or_none(run: Run) -> None:
    dtype = np.dtype([("x", np.float64), ("y", np.int32)], align=True)

    @cuda.jit
    def kernel(a, out):
        i = cuda.grid(1)
        best = None
        for k in range(a.size):
            if a[k].x > i:
                best = a[k]
        if best is not None:
            out[i] = best.x + 1000 * best.y

    a = np.array([(1, 1), (3, 2), (2, 3)], dtype)
    assert run(kernel, 1, 4, a, np.zeros(4)).tolist() == [3002, 3002, 2003, 0]


def test_zero_dimensional_arrays() -> None:
    @cuda.jit
    def kernel(a, z, out):
        out[0] = a.ndim
        out[1] = a.size
        a[()] += 2.5
        z[()] = 1j
        out[2] = a[()]

    a, z, out = np.array(1.0), np.array(0j), np.zeros(3)
    trace = simulate(kernel)[1, 1](a, z, out)
    assert (float(a), complex(z), out.tolist()) == (3.5, 1j, [0, 1, 3.5])
    assert trace.thread(0).reads("a") == [0, 0]
    assert trace.thread(0).coords("z") == [()]


@pytest.mark.parametrize(("dtype", "text"), [("U5", "äx€"), ("S5", b"abc"), ("U2", "long"), ("S2", b"long")])
def test_texts_of_the_source(run: Run, dtype: str, text: Any) -> None:
    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        if i < out.size - 1:
            out[i] = text

    full = np.full(4, "zzzzz" if dtype[0] == "U" else b"zzzzz", dtype)
    expected = full.copy()
    expected[:3] = text
    assert run(kernel, 1, 4, full).tolist() == expected.tolist()


def test_texts_are_copied_and_cut(run: Run) -> None:
    @cuda.jit
    def kernel(a, out):
        i = cuda.grid(1)
        text = a[i]
        if i == 1:
            text = a[0]
        out[i] = text

    a = np.array(["abc", "", "de"], "U3")
    assert run(kernel, 1, 3, a, np.zeros(3, "U3")).tolist() == ["abc", "abc", "de"]


def test_texts_in_records(run: Run) -> None:
    dtype = np.dtype([("n", np.int32), ("name", "U4"), ("tag", "S3")])

    @cuda.jit
    def kernel(a):
        i = cuda.grid(1)
        a[i].n = i
        a[i]["name"] = "wörd"
        a[i].tag = a[2].tag

    a = np.zeros(3, dtype)
    a["tag"][2] = b"xyz"
    assert run(kernel, 1, 3, a).tolist() == [(k, "wörd", b"xyz") for k in range(3)]
