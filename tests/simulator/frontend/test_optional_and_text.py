"""Values that may be None, 0-dimensional arrays, and NumPy's texts of fixed length."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import cuda

from simulator import simulate
from simulator.frontend import DoesNotCompile, lower_kernel

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


@cuda.jit(device=True)
def maybe(value, there):
    """The value, which may be None."""
    return value if there >= 0 else None


@cuda.jit(device=True)
def digits(x, y):
    return 10 * x + y


OPTIONAL = [
    "cuda.atomic.add(out, b, 1)", "cuda.atomic.add(square, (b, i), 1); out[i] = square[i, i]",
    "cuda.atomic.add(square, (i, f), b); out[i] = square[i, i]", "cuda.atomic.max(out, b, f)",
    "out[i] = cuda.atomic.cas(out, b, 0, b)", "out[i] = data[b:].size", "out[i] = b + f * b - (b < 2)",
    "out[i] = abs(c)", "out[i] = (c * c).imag + c.conjugate().real", "out[i] = abs(b) + max(b, 1) + min(b, f)",
    "out[i] = cuda.popc(b) + math.sqrt(f) + math.floor(f)", "out[i] = np.maximum(b, 1)", "out[i] = digits(b, y=b)",
    "for k in range(b): out[i] += k + 1", "for k in np.ndindex(b, 2): out[i] += k[1] + 1", "out[i] = p[b - 1]",
    "x, y = p; out[i] = x + 10 * y", "out[i] = len(p) + (p < (1, 3))", "for v in p: out[i] += v",
    "out[i] = b in (1, 2)", "out[i] = cuda.match_any_sync(7, b)", "cuda.stcg(out, i, b)", "out[i] = a[i] + a.size",
    "a[i] = 9; out[i] = data[i]", "a[1:] = 4; out[i] = data[i]", "out[i] = len(a) + a.sum()", "for v in a: out[i] += v",
    "out[i] = a.reshape(2, 3)[1, 0]", "for k, v in enumerate(a): out[i] += k * v", "out[i] = a[a[1]]",
]  # fmt: skip


def using(statement: str, none: bool) -> Any:
    """A kernel that uses values that may be None: b, f, c (numbers), p (a tuple) and a (an array); or plain ones."""
    lines = ["def kernel(data, square, out):", "    i = cuda.grid(1)"]
    for name, value in (("b", "i"), ("f", "np.float32(i)"), ("c", "i + 1j"), ("p", "(i, i + 1)"), ("a", "data")):
        lines.append(f"    {name} = maybe({value}, data[i])" if none else f"    {name} = {value}")
    text = "\n".join([*lines, f"    {statement}"])
    names = {"cuda": cuda, "np": np, "math": math, "maybe": maybe, "digits": digits}
    exec(text, names)
    return cuda.jit(names["kernel"])


@pytest.mark.parametrize("statement", OPTIONAL)
def test_what_may_be_none_is_used_like_any_value(run: Run, statement: str) -> None:
    data, square = np.arange(6), np.arange(9).reshape(3, 3).copy()
    found = [run(using(statement, none), 1, 3, data, square, np.zeros(6, int)).tolist() for none in (True, False)]
    assert found[0] == found[1]


@pytest.mark.parametrize("values", ["affine", "vector"])
@pytest.mark.parametrize("statement", ["cuda.atomic.add(out, b, 1)", "a[i] = 9", "out[i] = len(p)", "out[i] = abs(c)"])
def test_none_where_a_value_is_needed_raises(statement: str, values: str) -> None:
    kernel = cuda.jit(using(statement, none=True).py_func, debug=True, opt=False)
    data = np.array([0, -1, 0])
    with pytest.raises(TypeError, match=r"expected .*, got None"):
        simulate(kernel, values=values)[1, 3](data, np.zeros((3, 3)), np.zeros(3, int))


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("out[i] = cuda.shfl_sync(7, i, b)", "no code for cuda.shfl_sync on int64 or None"),
        ("out[i] = cuda.selp(maybe(i > 1, i), 1, 2)", "no code for cuda.selp on bool or None"),
        ("out[i] = p[0]", "no code for a constant index of tuple.int64, int64. or None"),
    ],
)
def test_what_numba_has_no_code_for_with_none(statement: str, reason: str) -> None:
    with pytest.raises(DoesNotCompile, match=reason):
        lower_kernel(using(statement, none=True), (np.arange(3), np.zeros((3, 3)), np.zeros(3)))


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
