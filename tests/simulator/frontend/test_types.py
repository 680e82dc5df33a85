"""Operators on all pairs of dtypes: values and result dtypes are Numba's.

The reference is ``numba.njit``, which has the same promotions and is another compiler.  The result dtype shows in
float64 cells (a double keeps what a single would have rounded) and in wrapped integers.
"""

from __future__ import annotations

import itertools
from typing import Any

import numba
import numpy as np
import pytest
from numba import cuda, float32, int8, uint32

BODY = """
def body(a, b, f, n, p):
    f[0] = a + b
    f[1] = a - b
    f[2] = a * b
    f[3] = a / b
    f[4] = a // b
    f[5] = a % b
    f[6] = -a
    f[7] = +b
    f[8] = abs(a)
    f[9] = a ** 2
    f[10] = a ** 3 - b ** 1
    p[0] = a < b
    p[1] = a <= b
    p[2] = a > b
    p[3] = a >= b
    p[4] = a == b
    p[5] = a != b
    p[6] = not a
    p[7] = bool(b)
    p[8] = a and b
    p[9] = (a < b) is (b > a)
    n[0] = int(a)
    n[1] = a // b
    n[2] = a + b
    n[3] = a - b
"""
INTEGER = """
    n[4] = a & b
    n[5] = a | b
    n[6] = a ^ b
    n[7] = ~a
    n[8] = a << (b & 7)
    n[9] = a >> (b & 7)
    n[10] = a * b
    c = a
    c += b
    c *= a
    c -= 3
    n[11] = c
    c <<= 2
    c |= 5
    n[12] = c
    n[13] = a ** (b & 3)
"""
CODES = ["i1", "i4", "i8", "u1", "u4", "u8", "f4", "f8"]
PAIRS = [*((code, code) for code in CODES), *"i1u8 u8i8 i8u8 u4i8 u1u4 i4u4 u4f4 f4f8 i8f4 f8u8".split()]
VALUES = {
    "i": [-128, -7, -1, 0, 1, 3, 100, 127],
    "u": [0, 1, 2, 7, 100, 200, 255, 128],
    "f": [-2.5, -0.0, 0.0, 0.1, 1.0, 3.75, 1e10, -1e-3],
}


def _function(source: str) -> Any:
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    return namespace["body"]


@pytest.mark.parametrize(("left", "right"), [(p[:2], p[2:]) if isinstance(p, str) else p for p in PAIRS])
def test_operators_agree_with_numba_on_the_cpu(left, right, run):
    integers = left[0] in "iu" and right[0] in "iu"
    body = _function(BODY + (INTEGER if integers else ""))
    reference = numba.njit(body, error_model="numpy")
    device = cuda.jit(body, device=True)

    @cuda.jit
    def kernel(a, b, f, n, p, out):
        i = cuda.grid(1)
        device(a[i], b[i], f[i], n[i], p[i])
        for k in range(14):
            out[i, k] = f[i, k]
            out[i, 14 + k] = n[i, k]
            out[i, 28 + k] = p[i, k]

    a, b = (np.array(VALUES[code[0]]).astype(code) for code in (left, right))
    pairs = np.array(list(itertools.product(range(8), range(8))))
    a, b = a[pairs[:, 0]], b[pairs[:, 1]]
    if left[0] == "f" or right[0] == "f":  # conversion of NaN and infinity to integers differs between CPU and GPU
        keep = (np.abs(a.astype("f8")) < 1e9) & (b != 0) & (np.abs(b.astype("f8")) < 1e9)
        a, b = a[keep], b[keep]
    shape = (len(a), 14)
    found = run(kernel, 1, len(a), a, b, np.zeros(shape), np.zeros(shape, "i8"), np.zeros(shape, "?"),
                np.zeros((len(a), 42)))  # fmt: skip
    f, n, p = np.zeros(shape), np.zeros(shape, "i8"), np.zeros(shape, "?")
    for k in range(len(a)):
        reference(a[k], b[k], f[k], n[k], p[k])
    np.testing.assert_array_equal(found, np.hstack([f, n, p]))


def test_a_stray_literal_makes_double(run):
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        y[i, 0] = x[i] * 0.1
        y[i, 1] = x[i] * float32(0.1)
        y[i, 2] = x[i] / x.shape[0]

    x = np.linspace(1, 2, 8, dtype="f4")
    y = run(kernel, 1, 8, x, np.zeros((8, 3)))
    np.testing.assert_array_equal(y[:, 0], x.astype("f8") * 0.1)
    np.testing.assert_array_equal(y[:, 1], x * np.float32(0.1))
    np.testing.assert_array_equal(y[:, 2], x.astype("f8") / 8)


def test_unsigned_products_are_64_bits_wide(run):
    @cuda.jit
    def kernel(x, y):
        y[0] = x[0] * x[0]
        y[1] = uint32(x[0] * x[0])

    y = run(kernel, 1, 1, np.array([0xFFFFFFFF], "u4"), np.zeros(2, "u8"))
    assert y.tolist() == [0xFFFFFFFF**2, 1]


def test_float_to_integer_saturates(run):
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        y[i, 0] = np.int32(x[i])
        y[i, 1] = np.uint32(x[i])
        y[i, 2] = int(x[i])

    x = np.array([1e30, -1e30, np.nan, -1.9, 3e9], "f4")
    y = run(kernel, 1, 5, x, np.zeros((5, 3), "i8"))
    assert y[:, 0].tolist() == [2**31 - 1, -(2**31), 0, -1, 2**31 - 1]
    assert y[:, 1].tolist() == [2**32 - 1, 0, 0, 0, 3000000000 // 256 * 256]
    assert y[:3, 2].tolist() == [2**63 - 1, -(2**63), 0]


def test_casts_of_every_kind(run):
    number = np.float32
    half = numba.types.float16

    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        y[i, 0] = int8(x[i])
        y[i, 1] = number(x[i])
        y[i, 2] = np.uint8(int(x[i]))
        y[i, 3] = bool(x[i])
        y[i, 4] = half(x[i])
        y[i, 5] = float(np.float16(x[i]))

    x = np.array([3.7, -100.2, 0.0, 127.0, 0.1])
    y = run(kernel, 1, 5, x, np.zeros((5, 6)))
    np.testing.assert_array_equal(y[:, 0], np.trunc(x))
    np.testing.assert_array_equal(y[:, 1], x.astype("f4"))
    np.testing.assert_array_equal(y[:, 2], np.trunc(x).astype(int) % 256)
    np.testing.assert_array_equal(y[:, 3], x != 0)
    np.testing.assert_array_equal(y[:, 4], x.astype("f2"))
    np.testing.assert_array_equal(y[:, 5], x.astype("f2"))


def test_booleans(run):
    @cuda.jit
    def kernel(p, q, y):
        i = cuda.grid(1)
        y[i, 0] = p[i] is q[i]
        y[i, 1] = p[i] is not q[i]
        y[i, 2] = p[i] + q[i]
        y[i, 3] = -p[i]
        y[i, 4] = ~p[i]
        y[i, 5] = p[i] & q[i] | p[i] ^ q[i]
        y[i, 6] = p[i] < q[i]
        y[i, 7] = p[i] * 3.5
        y[i, 8] = None is None
        y[i, 9] = p[i] is None

    p, q = np.array([0, 0, 1, 1], "?"), np.array([0, 1, 0, 1], "?")
    y = run(kernel, 1, 4, p, q, np.zeros((4, 10)))
    expected = [p == q, p != q, p + 0 + q, -(p + 0), ~p, p | q, p < q, p * 3.5, p | True, p & False]
    np.testing.assert_array_equal(y, np.array(expected, float).T)


@pytest.mark.parametrize("code", ["f2", "bf"])
def test_half_precision_rounds_every_operation(code, run):
    import ml_dtypes

    dtype = np.dtype(np.float16 if code == "f2" else ml_dtypes.bfloat16)

    @cuda.jit
    def kernel(x, w, y):
        i = cuda.grid(1)
        y[i, 0] = x[i] + w[i]
        y[i, 1] = x[i] * w[i] - w[i]
        y[i, 2] = x[i] / w[i]
        y[i, 3] = -x[i]
        y[i, 4] = float32(x[i]) * float32(w[i])
        if x[i] > w[i]:
            y[i, 5] = x[i]

    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(40).astype(dtype) for _ in range(2))
    y = run(kernel, 2, 20, x, w, np.zeros((40, 6), dtype))
    columns = [x + w, x * w - w, x / w, -x, (x.astype("f4") * w.astype("f4")).astype(dtype),
               np.where(x > w, x, np.zeros_like(x))]  # fmt: skip
    np.testing.assert_array_equal(y.astype("f4"), np.stack(columns, 1).astype("f4"))
