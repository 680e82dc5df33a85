"""The one table of tolerances, with the reason of each figure.  Expected values are float64; nothing else is close.

``u`` is the unit roundoff: half a unit in the last place, relative.  A norm rounds once to the dtype of ``x``, which
costs ``u`` of that dtype and cannot be had cheaper; on top come the errors of statistics in the compute dtype, which
grow with the longest chain of additions that a value goes through (up to D / threads + 10 = 26 for the table of
threads, random in sign, so a dozen ``u`` is generous).  A wrong count, eps or element shows as 1 / D or more: the
largest D tested is 4097, so every figure below is far under 2e-4 except where the dtype itself is coarser.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

FLOAT16, BFLOAT16, FLOAT32, FLOAT64 = (np.dtype(d) for d in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64))
DTYPES = (FLOAT16, BFLOAT16, FLOAT32, FLOAT64)
NAMES = [dtype.name for dtype in DTYPES]

U = {FLOAT16: 2.0**-11, BFLOAT16: 2.0**-8, FLOAT32: 2.0**-24, FLOAT64: 2.0**-53}


@dataclass(frozen=True)
class Tolerance:
    """``|actual - expected| <= rtol * |expected| + atol``."""

    rtol: float
    atol: float
    why: str


def _row(rtol: float, atol: float, why: str) -> Tolerance:
    return Tolerance(rtol, atol, why)


U32, U64 = U[FLOAT32], U[FLOAT64]

RESULT = {
    FLOAT16: _row(U[FLOAT16] + 16 * U32, 32 * U32, "one rounding to float16; centring leaves float32 noise near 0"),
    BFLOAT16: _row(U[BFLOAT16] + 16 * U32, 32 * U32, "one rounding to bfloat16; centring leaves float32 noise near 0"),
    FLOAT32: _row(16 * U32, 32 * U32, "statistics and three roundings; x - mean and + bias cancel near 0: absolute"),
    FLOAT64: _row(16 * U64, 32 * U64, "the same in float64; the reference itself is off by some of it"),
}
"""y, for weight and bias about 1.  The absolute part is the error of the mean, times ``condition``."""

STATISTIC = {
    FLOAT32: _row(16 * U32, 16 * U32, "float32 statistics, whatever x is; a mean near 0 is the rest of a cancellation"),
    FLOAT64: _row(16 * U64, 16 * U64, "the same in float64"),
}
"""mean, rstd, variance and M2 / D, by their compute dtype."""

COMPUTE = {FLOAT16: FLOAT32, BFLOAT16: FLOAT32, FLOAT32: FLOAT32, FLOAT64: FLOAT64}


def between(tolerance: Tolerance) -> Tolerance:
    """For two results that are each within ``tolerance`` of the truth: so much may lie between them."""
    return Tolerance(2 * tolerance.rtol, 2 * tolerance.atol, f"twice, for two results: {tolerance.why}")


def condition(x: Any, eps: float, axis: int = -1) -> Any:
    """1 + |mean| / deviation of each row: by so much centring magnifies the relative error of the mean.

    With mean(x²) - mean² it would be the square of this: at a mean of 1e4 deviations, 1e8 u32, which is 6.
    """
    wide = np.asarray(x).astype(np.float64)
    return 1 + np.abs(wide.mean(axis, keepdims=True)) / np.sqrt(wide.var(axis, keepdims=True) + eps)


def assert_close(actual: Any, expected: Any, tolerance: Tolerance, condition: Any = 1.0) -> None:
    """Shapes equal, and everything finite and within the tolerance, whose absolute part is times ``condition``."""
    actual, expected = np.asarray(actual).astype(np.float64), np.asarray(expected, np.float64)
    assert actual.shape == expected.shape
    allowed = tolerance.rtol * np.abs(expected) + tolerance.atol * condition
    excess = np.abs(actual - expected) / allowed
    worst = np.unravel_index(excess.argmax(), excess.shape) if excess.size else ()
    assert (excess <= 1).all(), (
        f"at {worst}: {actual[worst]!r} instead of {expected[worst]!r}, {excess[worst]:.2f} times what is allowed"
        f" ({tolerance.why})"
    )


def same_bits(a: Any, b: Any) -> bool:
    """Equal dtype, shape and bits: tells -0.0 from 0.0, and NaN equals itself."""
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
