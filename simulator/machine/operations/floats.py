"""Floating-point arithmetic: one rounding per operation, in the operation's own dtype.

A template (a string) is inlined into the generated code: NumPy scalars and arrays take the same operators, and add,
subtract, multiply, divide and square root are correctly rounded by IEEE 754 whichever loop NumPy picks.  (NumPy and
ml_dtypes compute f2 and bf through f4, which has more than twice their bits: the second rounding is innocuous.)

What comes out is the same for a scalar and for an array of any length, stride or alignment, with one exception: which
NaN results from an operation on NaNs is not specified.  The hardware's is the canonical one; NumPy's keeps a payload.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from simulator.machine.operations.conversions import narrower
from simulator.machine.operations.fma import in_chunks, two_product
from simulator.machine.operations.integers import Binary, Unary
from simulator.machine.values import DT, Value, collapse

INLINE = {
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "div": "({0} / {1})",
    "neg": "(-{0})",
    "abs": "abs({0})",
}
"""Kinds that are an expression of NumPy scalars and arrays alike."""

PLAIN: dict[str, Callable[..., Value]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
}  # fmt: skip
"""The same as functions, for what builds on them."""


@lru_cache(None)
def widened(code: str, compute: Callable[..., Any]) -> Callable[..., Value]:
    """``compute`` on f4 for f2 and bf, rounded back; for f4 and f8 as it is.  Only for exact or innocuous results."""
    if code not in ("f2", "bf"):
        return compute
    dtype, wide = DT[code], DT["f4"]
    return lambda *values: compute(*(value.astype(wide) for value in values)).astype(dtype)


@lru_cache(None)
def extremum(code: str, largest: bool, propagate: bool) -> Binary:
    """The smaller or larger of two floats.

    A NaN is ignored (fmin, fmax) or, with ``propagate``, wins.  -0.0 counts as smaller than +0.0, as the PTX manual
    says of min and max; NumPy's loops leave that case open.
    """
    names = {(False, False): "fmin", (True, False): "fmax", (False, True): "minimum", (True, True): "maximum"}
    pick = getattr(np, names[largest, propagate])
    sign = -1.0 if not largest else 1.0
    zero = DT[code].type(-0.0 if not largest else 0.0)

    def extreme(x: Value, y: Value) -> Value:
        found = pick(x, y)
        # only a result of zero can be the wrong zero
        if type(found) is not np.ndarray:
            if found == 0 and any(v == 0 and np.copysign(1.0, float(v)) == sign for v in (x, y)):
                return zero
            return found
        zeros = found == 0
        if np.count_nonzero(zeros):
            wanted = _zero_of_sign(x, largest) | _zero_of_sign(y, largest)
            found = np.where(zeros & wanted, zero, found)
        return found

    return extreme


def _zero_of_sign(x: Value, positive: bool) -> Any:
    sign = np.signbit(x)
    return (x == 0) & (~sign if positive else sign)


@lru_cache(None)
def remainder(code: str) -> Binary:
    """C's fmod: exact, with the sign of the dividend."""
    return widened(code, np.fmod)


@lru_cache(None)
def floor_divider(code: str, mod: bool) -> Binary:
    """Python's // and % of floats, by CPython's algorithm, which Numba compiles for CUDA.

    By zero, // is true division (inf or NaN) and % is NaN.  f2 and bf compute in f4.

    >>> [float(floor_divider("f8", mod)(np.float64(-7.5), np.float64(2))) for mod in (False, True)]
    [-4.0, 0.5]
    """
    half, one = (np.float64(0.5), np.float64(1)) if code == "f8" else (np.float32(0.5), np.float32(1))

    def modulo(x: Value, y: Value) -> Value:
        rest = np.fmod(x, y)
        moved = np.where((rest != 0) & ((y < 0) != (rest < 0)), rest + y, rest)
        return np.where((rest == 0) & (y != 0), np.copysign(rest, np.where(y < 0, -one, one)), moved)

    def quotient(x: Value, y: Value) -> Value:
        rest = np.fmod(x, y)
        ratio = (x - rest) / y
        ratio = np.where((rest != 0) & ((y < 0) != (rest < 0)), ratio - one, ratio)
        floor = np.floor(ratio)
        floor = np.where(ratio - floor > half, floor + one, floor)
        # a zero, or NaN, has the sign of the true quotient
        square = ratio * ratio
        found = np.where((ratio < 0) | (ratio > 0), floor, square * x / y)
        return np.where(y == 0, x / y, found)

    compute = modulo if mod else quotient
    return widened(code, lambda x, y: compute(x, y)[()])


@lru_cache(None)
def rounder(code: str, mode: str) -> Unary:
    """To an integral float: even, floor, ceil, trunc, or away (half away from zero)."""
    simple = {"even": np.rint, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}
    if mode in simple:
        return widened(code, simple[mode])
    if mode != "away":
        raise ValueError(f"unknown rounding mode {mode!r}")

    def away(x: Value) -> Value:
        whole = np.trunc(x)
        step = np.copysign((np.abs(x - whole) >= 0.5).astype(whole.dtype), x)
        return np.copysign(whole + step, x)

    return widened(code, away)


@lru_cache(None)
def square_root(code: str) -> Unary:
    """The square root, correctly rounded."""
    return widened(code, np.sqrt)


@lru_cache(None)
def copy_sign(code: str) -> Binary:
    """The magnitude of the first with the sign of the second."""
    return np.copysign


@lru_cache(None)
def reciprocal_square_root(code: str) -> Unary:
    """1/sqrt(x), correctly rounded for f2, bf and f4 (through f8: tested over all significands of f4), and for f8 by a
    Newton step in doubled precision (an error of 2**-100 before the last rounding).

    >>> float(reciprocal_square_root("f4")(np.float32(4)))
    0.5
    """
    if code == "f8":
        return _rsqrt_double
    narrow = narrower(code)
    one = np.float64(1)
    return lambda x: narrow(one / np.sqrt(x.astype(np.float64)))


@in_chunks
def _rsqrt_double(x: Value) -> Value:
    significand, exponent = np.frexp(x)
    odd = exponent & 1
    scaled = np.where(odd, significand * 0.5, significand)  # in [1/4, 1), times an even power of two
    half_exponent = (exponent + odd) // 2
    y = 1.0 / np.sqrt(scaled)
    square, square_low = two_product(y, y)
    high, low = two_product(scaled, square)
    residual = ((1.0 - high) - low) - scaled * square_low
    with_step = np.ldexp(y + 0.5 * y * residual, -half_exponent)
    plain = 1.0 / np.sqrt(x)
    return np.where((x > 0) & (x < np.inf), with_step, plain)[()]


_CLASSES: dict[str, Callable[[Any], Any]] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "signbit": np.signbit,
}


@lru_cache(None)
def classifier(fn: str) -> Unary:
    """isnan, isinf, isfinite or signbit, as a predicate."""
    test = _CLASSES[fn]
    return lambda x: collapse(test(x))
