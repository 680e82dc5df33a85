"""datetime64 and timedelta64: NumPy is the reference, units mix, and nothing is a time that was none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda

from simulator.frontend.lowering.times import days_before_month
from tests.simulator.frontend.conftest import run_kernel

Run = Callable[..., Any]
NAT = np.iinfo(np.int64).min
EPOCH = np.datetime64("1999-12-31", "D")
DATES = ("Y", "M", "W", "D", "h", "s", "ms")
SPANS = ("W", "D", "h", "m", "s", "ns")
COUNTS = st.one_of(st.integers(-2000, 2000), st.just(NAT))


@cuda.jit
def of_dates(a, b, flags, out):
    i = cuda.grid(1)
    flags[i, 0] = a[i] < b[i]
    flags[i, 1] = a[i] <= b[i]
    flags[i, 2] = a[i] > b[i]
    flags[i, 3] = a[i] >= b[i]
    flags[i, 4] = a[i] == b[i]
    flags[i, 5] = a[i] != b[i]
    out[i] = a[i] - b[i]


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(DATES), st.sampled_from(DATES), st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=6))
def test_dates_of_any_units(one: str, other: str, counts: list[tuple[int, int]]) -> None:
    a, b = (np.array(column, np.int64) for column in zip(*counts, strict=True))
    a, b = a.view(f"M8[{one}]"), b.view(f"M8[{other}]")
    expected = a - b
    flags = np.zeros((len(a), 6), bool)
    out = run_kernel(of_dates, 1, len(a), a, b, flags, np.zeros(len(a), expected.dtype))
    assert out.dtype == expected.dtype
    np.testing.assert_array_equal(out.view(np.int64), expected.view(np.int64))
    out = run_kernel(flags_of, 1, len(a), a, b, flags)
    np.testing.assert_array_equal(out, np.stack([a < b, a <= b, a > b, a >= b, a == b, a != b], axis=1))


@cuda.jit
def flags_of(a, b, flags):
    i = cuda.grid(1)
    flags[i, 0] = a[i] < b[i]
    flags[i, 1] = a[i] <= b[i]
    flags[i, 2] = a[i] > b[i]
    flags[i, 3] = a[i] >= b[i]
    flags[i, 4] = a[i] == b[i]
    flags[i, 5] = a[i] != b[i]


@cuda.jit
def shifted(a, b, out):
    i = cuda.grid(1)
    out[i, 0] = a[i] + b[i]
    out[i, 1] = a[i] - b[i]
    out[i, 2] = b[i] + a[i]


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(DATES), st.sampled_from(SPANS), st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=5))
def test_dates_and_spans(date: str, span: str, counts: list[tuple[int, int]]) -> None:
    a, b = (np.array(column, np.int64) for column in zip(*counts, strict=True))
    a, b = a.view(f"M8[{date}]"), b.view(f"m8[{span}]")
    expected = np.stack([a + b, a - b, b + a], axis=1)
    out = run_kernel(shifted, 1, len(a), a, b, np.zeros((len(a), 3), expected.dtype))
    np.testing.assert_array_equal(out.view(np.int64), expected.view(np.int64))


def test_spans_and_numbers(run: Run) -> None:
    @cuda.jit
    def kernel(a, b, n, x, ratio, out):
        i = cuda.grid(1)
        out[i, 0] = a[i] * n[i]
        out[i, 1] = n[i] * a[i]
        out[i, 2] = a[i] // n[i]
        out[i, 3] = a[i] * x[i]
        out[i, 4] = a[i] / x[i]
        out[i, 5] = -a[i]
        out[i, 6] = abs(a[i])
        out[i, 7] = a[i] + a[i] - a[0]
        ratio[i] = a[i] / b[i]

    a = np.array([7, -7, 0, NAT, 5]).view("m8[s]")
    b = np.array([2, 3, 1, 1, NAT]).view("m8[m]")
    n = np.array([2, 2, -3, 4, 0])
    x = np.array([0.5, -1.5, np.nan, 2.0, 0.0])
    out = run(kernel, 1, 5, a, b, n, x, np.zeros(5), np.zeros((5, 8), "m8[s]"))
    truncated = [3, -3, 0, NAT, NAT]  # C's division, as numba-cuda has it; by zero there is no time
    expected = [a * n, n * a, np.array(truncated).view("m8[s]"), np.array([3, 10, NAT, NAT, 0]).view("m8[s]"),
                np.array([14, 4, NAT, NAT, NAT]).view("m8[s]"), -a, abs(a), a + a - a[0]]  # fmt: skip
    np.testing.assert_array_equal(out.view(np.int64), np.stack(expected, axis=1).view(np.int64))


def test_scalars_constants_and_casts(run: Run) -> None:
    @cuda.jit
    def kernel(when, span, out):
        out[0] = int(when - EPOCH)
        out[1] = when + span > EPOCH
        t = when
        if span > span * 2:
            t = when + span
        out[2] = int(t - EPOCH)

    when, span = EPOCH + np.timedelta64(3, "D"), np.timedelta64(-1, "D")
    assert run(kernel, 1, 1, when, span, np.zeros(3, np.int64)).tolist() == [3, 1, 2]


@settings(max_examples=50)
@given(st.integers(-30_000, 30_000))
def test_the_calendar(month: int) -> None:
    assert days_before_month(month) == int(np.datetime64(month, "M").astype("M8[D]").astype(np.int64))
