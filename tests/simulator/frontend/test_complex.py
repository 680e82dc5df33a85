"""Complex numbers: arithmetic as Numba's other compiler has it, ``cmath`` within rounding, how wide accesses are."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda, float32

from simulator import simulate
from tests.simulator.frontend.conftest import run_kernel

Run = Callable[..., Any]
BOTH = pytest.mark.parametrize("dtype", ["c8", "c16"])

MODERATE = st.floats(-1e6, 1e6, width=32).filter(lambda x: x == 0 or abs(x) > 1e-6)
NUMBERS = st.builds(complex, MODERATE, MODERATE)
TABLE = np.array([1 + 2j, -3.5j, 4], np.complex64)


def body(a, b, out, flags):
    out[0] = a + b
    out[1] = a - b
    out[2] = a * b
    out[3] = -a
    out[4] = +b
    out[5] = a.conjugate()
    out[6] = a * b.real + 2
    out[7] = b.imag - a * 1j
    out[8] = a / b if b else a
    c = a
    c += b
    c *= c
    out[9] = c
    out[10] = complex(a.imag, b.real)
    flags[0] = a == b
    flags[1] = a != b
    flags[2] = not a
    flags[3] = bool(b)
    flags[4] = a == a


def kernels() -> tuple[Any, Any]:
    """The body as a kernel, and compiled for the CPU, where Numba has the same rules."""
    on_cpu, on_device = numba.njit(body, error_model="numpy"), cuda.jit(body, device=True)

    @cuda.jit
    def kernel(a, b, flags, out):
        i = cuda.grid(1)
        on_device(a[i], b[i], out[i], flags[i])

    return kernel, on_cpu


KERNEL, ON_CPU = kernels()


@BOTH
@settings(max_examples=20, deadline=None)
@given(pairs=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=8))
def test_arithmetic_is_that_of_numba(dtype: str, pairs: list[tuple[complex, complex]]) -> None:
    a, b = (np.array(column, dtype) for column in zip(*pairs, strict=True))
    flags, expected_flags = (np.zeros((len(a), 5), bool) for _ in range(2))
    out, expected = (np.zeros((len(a), 11), dtype) for _ in range(2))
    for k in range(len(a)):
        ON_CPU(a[k], b[k], expected[k], expected_flags[k])
    simulate(KERNEL)[1, len(a)](a, b, flags, out)
    np.testing.assert_array_equal(flags, expected_flags)
    if dtype == "c16":  # LLVM contracts no double multiplication here; a single one it may compute wider
        np.testing.assert_array_equal(out.view("f8"), expected.view("f8"))
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_mixed_operands_take_numbas_type(run: Run) -> None:
    @cuda.jit
    def kernel(z, n, x, out):
        third = np.complex64(1) / np.complex64(3)
        out[0] = third  # single: rounded
        out[1] = third * x  # float32 keeps it single
        out[2] = z / n  # int64 makes it double
        out[3] = z * 0.1
        out[4] = x
        out[5] = n

    out = run(kernel, 1, 1, np.complex64(1), np.int64(3), np.float32(1), np.zeros(6, np.complex128))
    single = np.float32(1) / np.float32(3)
    assert out.tolist() == [single, single, 1 / 3, 0.1, 1, 3]


def test_a_division_by_zero_ends_the_thread(run: Run) -> None:
    @cuda.jit
    def kernel(a, out):
        i = cuda.grid(1)
        out[i] = 1 / a[i]

    out = run(kernel, 1, 5, np.array([1, 0, 2j, 0, -4], np.complex64), np.full(5, 9, np.complex64))
    assert out.tolist() == [1, 9, -0.5j, 9, -0.25]


@BOTH
def test_powers(run: Run, dtype: str) -> None:
    @cuda.jit
    def kernel(a, b, out):
        i = cuda.grid(1)
        out[i, 0] = a[i] ** b[i]
        out[i, 1] = pow(a[i], b[i])
        out[i, 2] = a[i] ** 2
        out[i, 3] = a[i] ** 0.5
        out[i, 4] = a[i] ** -1

    a = np.array([1 + 2j, 3, -2, 1j, 0.5 - 0.25j], dtype)
    b = np.array([2 - 1j, 0, 0.5, 1j, -3], dtype)
    out = run(kernel, 1, 5, a, b, np.zeros((5, 5), dtype))
    expected = np.stack([a**b, a**b, a**2, a**0.5, 1 / a], axis=1)
    expected[3, :2] = 0  # numba-cuda takes two imaginary numbers for 0 ** 0j
    np.testing.assert_allclose(out, expected, rtol=1e-5 if dtype == "c8" else 1e-13, atol=1e-7)


ONE = {name: getattr(cmath, name) for name in (
    "exp", "log", "log10", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
    "acosh", "atanh",
)}  # fmt: skip
PARTS = (-math.inf, -1e30, -2.5, -1.0, -0.0, 0.0, 0.3, 1.0, 7.0, math.inf, math.nan)


def function_kernel(function: Any) -> Any:
    @cuda.jit
    def kernel(z, out):
        i = cuda.grid(1)
        out[i] = function(z[i])

    return kernel


@BOTH
@pytest.mark.parametrize("name", ONE)
def test_cmath(run: Run, name: str, dtype: str) -> None:
    z = np.array([complex(x, y) for x in PARTS for y in PARTS], dtype)
    expected = np.full(len(z), complex(math.nan, math.nan), np.complex128)
    for k, value in enumerate(z.tolist()):
        try:
            expected[k] = ONE[name](value)
        except (ValueError, OverflowError):
            z[k], expected[k] = 1, ONE[name](1) if name != "atanh" else 0
            if name == "atanh":
                z[k] = 0
    if name == "atan":  # as numba-cuda's own tests: NaN is another story there
        keep = ~np.isnan(z)
        z, expected = z[keep], expected[keep]
    out = run(function_kernel(ONE[name]), 1, len(z), z, np.zeros(len(z), dtype))
    with np.errstate(over="ignore"):
        expected = expected.astype(dtype)
    rtol = 2e-5 if dtype == "c8" else 1e-13
    moderate = np.isfinite(expected) & (np.abs(z) < 1e3)
    np.testing.assert_allclose(out[moderate], expected[moderate], rtol=rtol, atol=rtol)


def test_the_rest_of_cmath(run: Run) -> None:
    @cuda.jit
    def kernel(z, flags, out):
        i = cuda.grid(1)
        flags[i, 0] = cmath.isnan(z[i])
        flags[i, 1] = cmath.isinf(z[i])
        flags[i, 2] = cmath.isfinite(z[i])
        out[i, 0] = cmath.phase(z[i])
        out[i, 1] = complex(*cmath.polar(z[i]))
        out[i, 2] = cmath.rect(abs(z[i]), cmath.phase(z[i]))
        out[i, 3] = cmath.log(z[i], 3 + 0j)
        out[i, 4] = abs(z[i])

    z = np.array([3 + 4j, -1j, 2, complex(math.inf, 1), complex(1, math.nan)])
    flags = np.zeros((5, 3), bool)
    simulate(kernel)[1, 5](z, flags, np.zeros((5, 5), complex))
    out = run(kernel, 1, 5, z, np.zeros((5, 3), bool), np.zeros((5, 5), complex))
    assert flags.T.tolist() == [np.isnan(z).tolist(), np.isinf(z).tolist(), np.isfinite(z).tolist()]
    finite = z[:3]
    np.testing.assert_allclose(out[:3, 0], np.angle(finite))
    np.testing.assert_allclose(out[:3, 1], np.abs(finite) + 1j * np.angle(finite))
    np.testing.assert_allclose(out[:3, 2], finite, atol=1e-15)
    np.testing.assert_allclose(out[:3, 3], np.log(finite) / np.log(3))
    np.testing.assert_allclose(out[:3, 4], np.abs(finite))


def test_values_that_meet_after_a_branch_and_in_a_loop(run: Run) -> None:
    @cuda.jit(device=True)
    def choose(z, n):
        if n % 2:
            return z
        return 1j

    @cuda.jit
    def kernel(z, out):
        i = cuda.grid(1)
        sum = 0j
        w = z[i]
        for k in range(i):
            sum += choose(w, k)
            w = sum if k == 2 else w * 2
        out[i] = sum

    z = np.array([1, 2j, 3 + 1j, -1, 0.5j, 2])
    expected = []
    for i, w in enumerate(z.tolist()):
        total = 0j
        for k in range(i):
            total += w if k % 2 else 1j
            w = total if k == 2 else w * 2
        expected.append(total)
    assert run(kernel, 1, 6, z, np.zeros(6, complex)).tolist() == expected


def test_shared_local_and_constant_arrays(run: Run) -> None:
    @cuda.jit
    def kernel(z, out):
        i = cuda.threadIdx.x
        tile = cuda.shared.array(40, np.complex128)
        mine = cuda.local.array((2, 2), np.complex64)
        table = cuda.const.array_like(TABLE)
        tile[i] = z[i]
        mine[1, 0] = z[i] * 2
        mine[0, 1] = mine[1, 0] + table[i % 3]
        cuda.syncthreads()
        out[i] = tile[39 - i] + mine[0, 1]

    z = (np.arange(40) - 1j * np.arange(40)).astype(np.complex64)
    out = run(kernel, 1, 40, z, np.zeros(40, np.complex64))
    np.testing.assert_array_equal(out, z[::-1] + z * 2 + TABLE[np.arange(40) % 3])


def test_real_and_imag_of_an_array_are_views(run: Run) -> None:
    @cuda.jit
    def kernel(x, z):
        i = cuda.grid(1)
        z.real[i] = x.real[i]
        z.imag[i] -= i
        cuda.atomic.add(z[::2].imag, i // 2, float32(100))

    out = run(kernel, 1, 4, np.arange(4.0), np.full(4, 5 + 5j, np.complex64))
    assert out.tolist() == [0 + 205j, 1 + 4j, 2 + 203j, 3 + 2j]


@pytest.mark.parametrize(("dtype", "nbytes"), [("c8", 8), ("c16", 16)])
def test_an_element_is_one_access(dtype: str, nbytes: int) -> None:
    @cuda.jit
    def kernel(z, out):
        i = cuda.grid(1)
        out[i] = z[i].imag

    z, out = np.arange(64).astype(dtype) * 1j, np.zeros(64, np.float32)
    trace = simulate(kernel)[2, 32](z, out)
    row = trace.total("z")
    assert (row.requests, row.sectors, row.ideal, row.bytes) == (2, 2 * nbytes, 2 * nbytes, 64 * nbytes)
    assert trace.arrays["z"].dtype == np.dtype(dtype).name
    assert trace.thread(5, block=1).reads("z") == [37]
    assert trace.thread(5, block=1).coords("z") == [(37,)]
    (first, _) = trace.accesses("z")
    assert (first.nbytes, first.itemsize, first.elements[3]) == (nbytes, nbytes, 3)


@pytest.mark.parametrize("values", ["affine", "vector"])
def test_an_element_need_not_lie_at_a_multiple_of_its_size(values: str) -> None:
    """The parts are accessed one by one: those must be aligned, and are."""

    @cuda.jit
    def kernel(z, out):
        i = cuda.grid(1)
        out[i] = z[i]
        out[40 - i] = z[i // 2]

    parts = np.arange(84, dtype=np.float32)
    z = parts[1:-1].view(np.complex64)
    out = np.zeros(41, np.complex64)
    trace = simulate(kernel, values=values)[1, 20](z, out)
    expected = np.zeros(41, np.complex64)
    expected[:20] = z[:20]
    expected[40 - np.arange(20)] = z[np.arange(20) // 2]
    np.testing.assert_array_equal(out, expected)
    # 160 bytes from the fifth on: the last element reaches into a sixth sector
    first = next(trace.accesses("z"))
    assert first.addresses[0] % 8 == 4
    assert trace.total("z", operation="load").sectors == 6 + 3


def test_scalar_arguments(run: Run) -> None:
    @cuda.jit
    def kernel(a, pair, out):
        out[0] = a
        out[1] = pair[0] * pair[1]

    assert run(kernel, 1, 1, 2 - 1j, (np.complex64(1j), 3), np.zeros(2, complex)).tolist() == [2 - 1j, 3j]


def test_orders_and_values_agree() -> None:
    z = np.array([1 + 1j, 2, -1j, 0.5], np.complex64)
    out = run_kernel(function_kernel(cmath.sqrt), 1, 4, z, np.zeros(4, np.complex64))
    np.testing.assert_allclose(out, np.sqrt(z), rtol=1e-6)
