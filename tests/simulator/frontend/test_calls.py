"""The callables of tier 1, one by one, against Python and NumPy."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from numba import cuda, float32, float64, int32, uint32
from numba.cuda import libdevice

X = np.array([0.25, 0.5, 0.75, -0.5, 1.0, 0.0, 3.5, -2.5, 17.0, 1e-3, -0.0, np.nan, np.inf, -np.inf])
UNARY = [
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "gamma", "lgamma", "fabs", "degrees", "radians",
    "floor", "ceil", "trunc", "isnan", "isinf", "isfinite",
]  # fmt: skip


def _reference(name: str, *args: float) -> float:
    try:
        return getattr(math, name)(*args)
    except ValueError:
        return math.inf if name == "lgamma" else -math.inf if "log" in name and args[0] == 0 else math.nan
    except OverflowError:
        return math.inf


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
def test_math_of_one_argument(name, dtype, run):
    function = getattr(math, name)

    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        y[i] = function(x[i])

    x = np.array([0, 1, 2, 5, -3], dtype) if dtype == "i8" else X.astype(dtype)
    if name in ("floor", "ceil", "trunc", "isnan", "isinf", "isfinite"):
        x = x[np.isfinite(x)] if name in ("floor", "ceil", "trunc") else x
    if name in ("gamma", "atanh"):
        x = x[(x > 0) & (x != 1)]
    found = run(kernel, 1, len(x), x, np.zeros(len(x)))
    with np.errstate(all="ignore"):
        expected = np.array([_reference(name, value) for value in x.tolist()], float)
        expected = expected.astype("f4").astype(float) if dtype == "f4" else expected
    np.testing.assert_allclose(found, expected, rtol=3e-7 if dtype == "f4" else 1e-14, atol=1e-30)


def test_math_of_two_arguments(run):
    @cuda.jit
    def kernel(x, w, y):
        i = cuda.grid(1)
        y[i, 0] = math.atan2(x[i], w[i])
        y[i, 1] = math.hypot(x[i], w[i])
        y[i, 2] = math.copysign(x[i], w[i])
        y[i, 3] = math.fmod(x[i], w[i])
        y[i, 4] = math.remainder(x[i], w[i])
        y[i, 5] = math.pow(x[i], 3.0)
        y[i, 6] = math.pow(x[i], int32(2))
        y[i, 7] = math.nextafter(x[i], w[i])
        y[i, 8] = math.ldexp(x[i], int32(3))
        a, e = math.frexp(x[i])
        y[i, 9] = a * 100 + e
        f, n = math.modf(x[i])
        y[i, 10] = f * 100 + n
        y[i, 11] = x[i] ** w[i]

    x, w = np.array([2.5, -3.75, 0.5, 7.0]), np.array([2.0, 3.0, -1.5, -2.0])
    y = run(kernel, 1, 4, x, w, np.zeros((4, 12)))
    for a, b, row in zip(x.tolist(), w.tolist(), y.tolist(), strict=True):
        m, e = math.frexp(a)
        f, n = math.modf(a)
        power = a**b if a > 0 or b == int(b) else math.nan
        expected = [math.atan2(a, b), math.hypot(a, b), math.copysign(a, b), math.fmod(a, b), math.remainder(a, b),
                    a**3, a**2, math.nextafter(a, b), a * 8, m * 100 + e, f * 100 + n, power]  # fmt: skip
        np.testing.assert_allclose(row, expected, rtol=1e-14)


def test_powers(run):
    @cuda.jit
    def kernel(x, k, y):
        i = cuda.grid(1)
        y[i, 0] = x[i] ** 2
        y[i, 1] = x[i] ** 5
        y[i, 2] = x[i] ** -3
        y[i, 3] = x[i] ** k[i]
        y[i, 4] = x[i] ** 0
        y[i, 5] = abs(x[i]) ** float32(1.5)
        y[i, 6] = pow(x[i], 3)
        y[i, 7] = k[i] ** (k[i] - k[i] + 3)
        y[i, 8] = 2 ** (k[i] + 5)

    x, k = np.array([1.5, 2.25, -0.7, 3.0], "f4"), np.array([-3, 0, 2, 5])
    y = run(kernel, 1, 4, x, k, np.zeros((4, 9)))
    one = np.float32(1)
    np.testing.assert_array_equal(y[:, 0], x * x)
    np.testing.assert_array_equal(y[:, 1], x * ((x * x) * (x * x)))
    np.testing.assert_array_equal(y[:, 2], one / (x * (x * x)))
    np.testing.assert_array_equal(y[:, 4], 1)
    np.testing.assert_array_equal(y[:, 6], x * (x * x))
    np.testing.assert_allclose(y[:, 3], x.astype(float) ** k, rtol=3e-7)
    np.testing.assert_allclose(y[:, 5], np.power(np.abs(x), np.float32(1.5)), rtol=2e-7)
    np.testing.assert_array_equal(y[:, 7], k**3)
    np.testing.assert_array_equal(y[:, 8], 2.0 ** (k + 5))


def test_round(run):
    @cuda.jit
    def kernel(x, digits, y):
        i = cuda.grid(1)
        y[i, 0] = round(x[i])
        y[i, 1] = round(x[i], 2)
        y[i, 2] = round(x[i], -1)
        y[i, 3] = round(x[i], digits[i])

    x = np.array([0.5, 1.5, 2.5, -0.5, 123.455, 2.675, 1e300, np.nan, 17.25])
    digits = np.array([0, 1, 2, 3, -2, 1, 30, 2, 1])
    x, digits = x[[0, 1, 2, 3, 4, 5, 8]], digits[[0, 1, 2, 3, 4, 5, 8]]
    y = run(kernel, 1, len(x), x, digits, np.zeros((len(x), 4)))
    np.testing.assert_array_equal(y[:, 0], [round(v) for v in x])
    np.testing.assert_allclose(y[:, 1], [0.5, 1.5, 2.5, -0.5, 123.46, 2.68, 17.25], rtol=1e-15)
    np.testing.assert_array_equal(y[:, 2], [round(v, -1) for v in x])
    np.testing.assert_allclose(y[:, 3], [0, 1.5, 2.5, -0.5, 100, 2.7, 17.2], rtol=1e-15)


def test_min_max_abs_and_nan(run):
    @cuda.jit
    def kernel(x, w, y):
        i = cuda.grid(1)
        y[i, 0] = min(x[i], w[i])
        y[i, 1] = max(x[i], w[i])
        y[i, 2] = max(x[i], w[i], x[i] - w[i])
        y[i, 3] = abs(x[i])
        y[i, 4] = min((x[i], w[i]))
        y[i, 5] = max(int32(i), 2)
        y[i, 6] = min(i, 2.5)

    x, w = np.array([1.0, np.nan, -3.0, 0.0], "f4"), np.array([2.0, 5.0, np.nan, -0.0], "f4")
    y = run(kernel, 1, 4, x, w, np.zeros((4, 7)))
    np.testing.assert_array_equal(y[:, 0], np.fmin(x, w))
    np.testing.assert_array_equal(y[:, 1], np.fmax(x, w))
    np.testing.assert_array_equal(y[:, 3], np.abs(x))
    np.testing.assert_array_equal(y[:, 5], [2, 2, 2, 3])
    np.testing.assert_array_equal(y[:, 6], [0, 1, 2, 2.5])
    assert np.isnan(y[1, 2])  # a fold of comparisons keeps the first: Python's max(nan, 5, nan)
    assert y[0, 2] == 2


def test_integer_helpers(run):
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        v = x[i]
        y[i, 0] = cuda.popc(v)
        y[i, 1] = cuda.clz(v)
        y[i, 2] = cuda.ffs(v)
        y[i, 3] = cuda.brev(uint32(v))
        q, r = divmod(v, 7)
        y[i, 4] = q * 10 + r
        y[i, 5] = v % -5
        y[i, 6] = cuda.selp(v > 5, v, int32(-v))
        y[i, 7] = cuda.popc(np.int64(v))
        y[i, 8] = cuda.ffs(np.int64(v))

    x = np.array([0, 1, 6, 96, -8, 2**31 - 1], np.int32)
    y = run(kernel, 1, len(x), x, np.zeros((len(x), 9), np.int64))
    for v, row in zip(x.tolist(), y.tolist(), strict=True):
        u, wide = v & 0xFFFFFFFF, v & 0xFFFFFFFFFFFFFFFF
        low = (u & -u).bit_length()
        expected = [u.bit_count(), 32 - u.bit_length(), low, int(f"{u:032b}"[::-1], 2), v // 7 * 10 + v % 7,
                    v % -5, v if v > 5 else -v, wide.bit_count(), (wide & -wide).bit_length()]  # fmt: skip
        assert row == expected


def test_libdevice(run):
    @cuda.jit
    def kernel(x, w, y):
        i = cuda.grid(1)
        y[i, 0] = libdevice.rsqrtf(x[i])
        y[i, 1] = libdevice.rsqrt(float64(x[i]))
        y[i, 2] = libdevice.fmaf(x[i], w[i], x[i])
        y[i, 3] = libdevice.fminf(x[i], w[i])
        y[i, 4] = libdevice.rintf(w[i])
        y[i, 5] = libdevice.roundf(w[i])
        y[i, 6] = libdevice.expf(w[i])
        y[i, 7] = cuda.fma(x[i], w[i], w[i])
        y[i, 8] = cuda.cbrt(x[i])

    x, w = np.array([4, 0.3, 7], "f4"), np.array([2.5, -0.5, 1.1], "f4")
    y = run(kernel, 1, 3, x, w, np.zeros((3, 9)))
    x8, w8 = x.astype("f8"), w.astype("f8")
    columns = [1 / np.sqrt(x8), None, x8 * w8 + x8, np.fmin(x, w), np.rint(w), [3, -1, 1], np.exp(w8), x8 * w8 + w8,
               np.cbrt(x8)]  # fmt: skip
    for k, column in enumerate(columns):
        expected = 1 / np.sqrt(x8) if column is None else np.asarray(column, "f8").astype("f4")
        np.testing.assert_allclose(y[:, k], expected, rtol=1.2e-7)


def test_grid_functions_in_three_dimensions(run):
    @cuda.jit
    def kernel(y):
        i, j, k = cuda.grid(3)
        a, b, c = cuda.gridsize(3)
        flat = (k * b + j) * a + i
        y[flat, 0] = i + 100 * j + 10000 * k
        y[flat, 1] = a + 100 * b + 10000 * c
        y[flat, 2] = cuda.threadIdx.x + 10 * cuda.threadIdx.y + 100 * cuda.threadIdx.z
        y[flat, 3] = cuda.blockIdx.x + 10 * cuda.blockIdx.y + 100 * cuda.blockIdx.z
        y[flat, 4] = cuda.blockDim.x + 10 * cuda.blockDim.y + 100 * cuda.blockDim.z
        y[flat, 5] = cuda.gridDim.x + 10 * cuda.gridDim.y + 100 * cuda.gridDim.z
        y[flat, 6] = cuda.laneid + 100 * cuda.warpsize

    y = run(kernel, (2, 3, 2), (4, 2, 3), np.zeros((8 * 6 * 6, 7), np.int64))
    flat = np.arange(len(y))
    i, j, k = flat % 8, flat // 8 % 6, flat // 48
    thread = i % 4 + 4 * (j % 2) + 8 * (k % 3)
    np.testing.assert_array_equal(y[:, 0], i + 100 * j + 10000 * k)
    assert (y[:, 1] == 8 + 600 + 60000).all()
    np.testing.assert_array_equal(y[:, 2], i % 4 + 10 * (j % 2) + 100 * (k % 3))
    np.testing.assert_array_equal(y[:, 3], i // 4 + 10 * (j // 2) + 100 * (k // 3))
    assert (y[:, 4] == 4 + 20 + 300).all()
    assert (y[:, 5] == 2 + 30 + 200).all()
    np.testing.assert_array_equal(y[:, 6], thread % 32 + 3200)


@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8"])
def test_shuffles(dtype, run):
    @cuda.jit
    def kernel(x, y):
        t = cuda.threadIdx.x
        full = 0xFFFFFFFF
        y[t, 0] = cuda.shfl_sync(full, x[t], 5)
        y[t, 1] = cuda.shfl_sync(full, x[t], (t * 7) % 32)
        y[t, 2] = cuda.shfl_up_sync(full, x[t], 3)
        y[t, 3] = cuda.shfl_down_sync(full, x[t], 3)
        y[t, 4] = cuda.shfl_xor_sync(full, x[t], 9)

    x = (np.random.default_rng(1).standard_normal(64) * 1e8).astype(dtype)
    y = run(kernel, 1, 64, x, np.zeros((64, 5), dtype))
    t = np.arange(64)
    base, lane = t // 32 * 32, t % 32
    np.testing.assert_array_equal(y[:, 0], x[base + 5])
    np.testing.assert_array_equal(y[:, 1], x[base + t * 7 % 32])
    np.testing.assert_array_equal(y[:, 2], x[np.where(lane >= 3, t - 3, t)])
    np.testing.assert_array_equal(y[:, 3], x[np.where(lane < 29, t + 3, t)])
    np.testing.assert_array_equal(y[:, 4], x[base + (lane ^ 9)])


def test_votes_and_matches(run):
    @cuda.jit
    def kernel(x, y):
        t = cuda.threadIdx.x
        full = 0xFFFFFFFF
        y[t, 0] = cuda.all_sync(full, x[t] >= 0)
        y[t, 1] = cuda.any_sync(full, x[t] == 3)
        y[t, 2] = cuda.eq_sync(full, x[t] > 2)
        y[t, 3] = cuda.ballot_sync(full, x[t] & 1)
        y[t, 4] = cuda.match_any_sync(full, x[t])
        mask, same = cuda.match_all_sync(full, x[t] * 0)
        y[t, 5] = mask
        y[t, 6] = same
        y[t, 7] = cuda.activemask()
        y[t, 8] = cuda.lanemask_lt()
        y[t, 9] = cuda.popc(cuda.ballot_sync(full, x[t] > 1) & cuda.lanemask_lt())

    x = np.random.default_rng(2).integers(0, 4, 32).astype(np.int32)
    y = run(kernel, 1, 32, x, np.zeros((32, 10), np.int64))

    def signed(mask: int) -> int:
        return mask - (1 << 32) if mask >> 31 else mask

    def bits(choose: np.ndarray) -> int:
        return sum(1 << k for k in range(32) if choose[k])

    for t, row in enumerate(y.tolist()):
        expected = [1, int((x == 3).any()), int((x > 2).all() or not (x > 2).any()), signed(bits(x & 1)),
                    signed(bits(x == x[t])), -1, 1, 0xFFFFFFFF, (1 << t) - 1, int((x[:t] > 1).sum())]  # fmt: skip
        assert row == expected


def test_block_votes_and_fences(run):
    @cuda.jit
    def kernel(x, y):
        t = cuda.threadIdx.x
        y[t, 0] = cuda.syncthreads_count(int(x[t] > 2))
        y[t, 1] = cuda.syncthreads_and(int(x[t] >= 0))
        y[t, 2] = cuda.syncthreads_or(int(x[t] == 99))
        cuda.threadfence()
        cuda.threadfence_block()
        cuda.threadfence_system()
        cuda.nanosleep(uint32(10))
        cuda.syncwarp()
        cuda.syncwarp(0xFFFFFFFF)
        cuda.syncthreads()

    x = np.random.default_rng(2).integers(0, 5, 64)
    y = run(kernel, 1, 64, x, np.zeros((64, 3), np.int64))
    assert (y == [(x > 2).sum(), 1, 0]).all()


def test_atomics(run):
    @cuda.jit
    def kernel(x, n, f):
        i = cuda.grid(1)
        old = cuda.atomic.add(n, 0, x[i])
        cuda.atomic.add(n, 1, old * 0 + 1)
        cuda.atomic.sub(n, 2, x[i])
        cuda.atomic.max(n, 3, x[i])
        cuda.atomic.min(n, 4, x[i])
        cuda.atomic.and_(n, 5, x[i])
        cuda.atomic.or_(n, 6, x[i])
        cuda.atomic.xor(n, 7, x[i])
        cuda.atomic.add(f, (0, 0), float32(x[i]))
        cuda.atomic.nanmax(f, (0, 1), float32(x[i]))
        cuda.atomic.nanmin(f, (0, 2), float32(x[i]))
        cuda.atomic.max(f, (1, 0), float32(x[i]))

    x = np.random.default_rng(5).integers(-50, 50, 70).astype(np.int32)
    n = np.array([0, 0, 0, -1000, 1000, -1, 0, 0], np.int32)
    f = np.zeros((2, 3), "f4")
    found = run(kernel, 2, 35, x, n, f)
    np.testing.assert_array_equal(found, [[x.sum(), x.max(), x.min()], [x.max(), 0, 0]])


def test_atomic_exchanges(run):
    @cuda.jit
    def kernel(u, n):
        n[1] = cuda.atomic.exch(n, 8, 5)
        n[2] = cuda.atomic.cas(n, 9, 7, 6)
        n[3] = cuda.atomic.cas(n, 9, 7, 1)
        n[4] = cuda.atomic.compare_and_swap(n, 0, 77)
        n[5] = cuda.atomic.inc(u, 0, uint32(3))
        n[6] = cuda.atomic.inc(u, 0, uint32(3))
        n[7] = cuda.atomic.dec(u, 1, uint32(3))

    n = np.array([0, 0, 0, 0, 0, 0, 0, 0, 4, 7], np.int32)
    found = run(kernel, 1, 1, np.array([2, 0], np.uint32), n)
    assert found.tolist() == [77, 4, 7, 6, 0, 2, 3, 0, 5, 6]


def test_atomics_sum_a_histogram_in_shared_memory(run):
    @cuda.jit
    def kernel(x, y):
        counts = cuda.shared.array(8, int32)
        t = cuda.threadIdx.x
        if t < 8:
            counts[t] = 0
        cuda.syncthreads()
        for k in range(t, x.size, cuda.blockDim.x):
            cuda.atomic.add(counts, x[k], 1)
        cuda.syncthreads()
        if t < 8:
            y[t] = counts[t]

    x = np.random.default_rng(0).integers(0, 8, 500)
    np.testing.assert_array_equal(run(kernel, 1, 45, x, np.zeros(8, np.int64)), np.bincount(x, minlength=8))


@pytest.mark.parametrize("code", ["f2", "bf"])
def test_intrinsics_of_half_precision(code, run):
    from numba.cuda import bf16, fp16

    half = fp16 if code == "f2" else bf16
    dtype = np.dtype(np.float16 if code == "f2" else ml_dtypes.bfloat16)

    @cuda.jit
    def kernel(x, w, y):
        i = cuda.grid(1)
        y[i, 0] = half.hadd(x[i], w[i])
        y[i, 1] = half.hmul(x[i], w[i])
        y[i, 2] = half.hfma(x[i], w[i], w[i])
        y[i, 3] = half.hmax(x[i], w[i])
        y[i, 4] = half.habs(x[i])
        y[i, 5] = math.sqrt(half.habs(x[i]))
        y[i, 6] = math.exp(x[i])
        if half.hlt(x[i], w[i]):
            y[i, 7] = half.hneg(w[i])

    rng = np.random.default_rng(7)
    x, w = (rng.standard_normal(32).astype(dtype) for _ in range(2))
    y = run(kernel, 1, 32, x, w, np.zeros((32, 8), dtype)).astype("f8")
    x8, w8 = x.astype("f8"), w.astype("f8")
    columns = [x8 + w8, x8 * w8, x8 * w8 + w8, np.maximum(x8, w8), abs(x8), np.sqrt(abs(x8)), np.exp(x8),
               np.where(x8 < w8, -w8, 0)]  # fmt: skip
    for k, column in enumerate(columns):
        np.testing.assert_array_equal(y[:, k], column.astype(dtype).astype("f8"))


def test_bfloat16_conversions(run):
    from numba.cuda import bf16

    @cuda.jit
    def kernel(x, b, y):
        i = cuda.grid(1)
        tile = cuda.shared.array(8, bf16.bfloat16)
        tile[i] = x[i]
        y[i, 0] = float32(tile[i])
        y[i, 1] = bf16.bfloat162float(bf16.float2bfloat16(x[i]))
        y[i, 2] = float32(bf16.bfloat16(x[i])) + float32(b[i])
        y[i, 3] = bf16.bfloat162int_rz(b[i])

    x = np.linspace(-3, 300, 8, dtype="f4")
    b = x[::-1].astype(ml_dtypes.bfloat16)
    y = run(kernel, 1, 8, x, b, np.zeros((8, 4), "f4"))
    rounded = x.astype(ml_dtypes.bfloat16).astype("f4")
    np.testing.assert_array_equal(y[:, :2], np.stack([rounded, rounded], 1))
    np.testing.assert_array_equal(y[:, 2], rounded + b.astype("f4"))
    np.testing.assert_array_equal(y[:, 3], np.trunc(b.astype("f4")))
