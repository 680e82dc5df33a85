"""Functions of floats: sin, exp, pow, erf, frexp ...

All are computed in f8 and rounded once to the operation's dtype, so f2, bf and f4 results are within half an ulp and a
trifle of the true value, whatever the CPU; the GPU's libdevice is within 1 to 4 ulp of it.  f8 results are those of
NumPy and the C library, an ulp or so.

NumPy has several loops per function (SIMD, and scalar ones for odd strides, overlaps and single items) whose results
differ in the last bit, and shortcuts for a power with one exponent for all lanes.  ``dense`` feeds every function
contiguous arrays of at least two items, so that a scalar, a warp and a wave of sixteen thousand lanes get the same
bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from simulator.machine.operations import special
from simulator.machine.operations.conversions import converter, narrower
from simulator.machine.operations.integers import power as integer_power
from simulator.machine.operations.integers import squaring
from simulator.machine.values import DT, Affine, Value, array_of
from simulator.program import INTEGERS

Items = np.ndarray
Function = Callable[..., Any]


def dense(compute: Function) -> Function:
    """``compute`` of f8 scalars and arrays, through contiguous f8 arrays of equal shape and at least two items."""

    def call(*values: Any) -> Any:
        shape = values[0].shape if len(values) == 1 else np.broadcast_shapes(*(value.shape for value in values))
        if math.prod(shape) > 1:
            return compute(*(np.ascontiguousarray(np.broadcast_to(value, shape)) for value in values))
        pairs = [np.empty(2) for _ in values]
        for pair, value in zip(pairs, values, strict=True):
            pair[:] = value.reshape(())
        found: np.ndarray = compute(*pairs)[:1].reshape(shape)
        return found if shape else found[()]

    return call


def per_lane(function: Callable[[float], float]) -> Function:
    """A function of Python floats, lane by lane: for one written in C as fast as some forty NumPy operations."""

    def compute(x: Items) -> Items:
        return np.fromiter(map(function, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)

    return compute


def _is_pole(x: Items) -> Items:
    """Where the gamma function has poles: 0 and the negative integers (and -inf)."""
    return (x <= 0) & (x == np.floor(x))


def _gamma(x: Items) -> Items:
    """Without math.gamma's exceptions: NaN at poles, an infinity (of the sign of x near 0) where it overflows."""
    pole, tiny = _is_pole(x), np.abs(x) < 5.5626846462680052e-309
    over = tiny | (x > 171.62437695630271)
    found = per_lane(math.gamma)(np.where(pole | over, 1.0, x))
    return np.where(over, np.copysign(np.inf, x), np.where(pole, np.nan, found))


def _lgamma(x: Items) -> Items:
    """Without math.lgamma's exceptions: infinite at poles and where it overflows."""
    over = _is_pole(x) | (x > 2.5563481638716905e305)
    return np.where(over, np.inf, per_lane(math.lgamma)(np.where(over, 1.0, x)))


def _sin_pi(x: Items) -> Items:
    """sin(pi*x) with the argument reduced exactly; integers give a zero of the sign of x."""
    turn = np.fmod(x, 2.0)
    half = np.rint(turn * 2.0)
    rest = (turn - half * 0.5) * math.pi
    quadrant = np.where(np.isfinite(half), half, 0).astype(np.int64) & 3
    found = np.where(quadrant & 1, np.cos(rest), np.sin(rest))
    found = np.where(quadrant & 2, -found, found)
    return np.where(turn == np.trunc(turn), np.copysign(0.0, x), found)


def _cos_pi(x: Items) -> Items:
    """cos(pi*x) with the argument reduced exactly; half-integers give +0."""
    turn = np.fmod(np.abs(x), 2.0)
    half = np.rint(turn * 2.0)
    rest = (turn - half * 0.5) * math.pi
    quadrant = np.where(np.isfinite(half), half, 0).astype(np.int64) & 3
    found = np.where(quadrant & 1, np.sin(rest), np.cos(rest))
    found = np.where((quadrant == 1) | (quadrant == 2), -found, found)
    return np.where(turn - np.floor(turn) == 0.5, 0.0, found)


def _remainder(x: Items, y: Items) -> Items:
    """IEEE remainder: x - n*y with n the integer nearest to x/y, the even one on ties.  Exact."""
    size = np.abs(y)
    small = size < 1.0  # where halving could lose a bit, doubling cannot overflow
    rest: np.ndarray = np.fmod(np.abs(x), size * 2.0)

    def past(take: Function) -> Any:
        return np.where(small, take(rest * 2.0, size), take(rest, size * 0.5))

    once = past(np.greater)
    rest = np.where(once, rest - size, rest)
    twice = once & past(np.greater_equal)
    rest = np.where(twice, rest - size, rest)
    return np.where(np.signbit(x), -rest, rest)


def _fdim(x: Items, y: Items) -> Items:
    return np.where(x <= y, 0.0, x - y)


def _logb(x: Items) -> Items:
    exponent = np.frexp(x)[1] - 1.0
    return np.where(x == 0, -np.inf, np.where(np.isfinite(x), exponent, np.abs(x)))


FUNCTIONS: dict[str, tuple[int, Function]] = {
    "acos": (1, np.arccos), "acosh": (1, np.arccosh), "asin": (1, np.arcsin), "asinh": (1, np.arcsinh),
    "atan": (1, np.arctan), "atanh": (1, np.arctanh), "atan2": (2, np.arctan2),
    "cbrt": (1, np.cbrt), "rcbrt": (1, lambda x: 1.0 / np.cbrt(x)),
    "cos": (1, np.cos), "cosh": (1, np.cosh), "cospi": (1, _cos_pi),
    "sin": (1, np.sin), "sinh": (1, np.sinh), "sinpi": (1, _sin_pi),
    "tan": (1, np.tan), "tanh": (1, np.tanh),
    "erf": (1, per_lane(math.erf)), "erfc": (1, per_lane(math.erfc)),
    "normcdf": (1, per_lane(lambda x: 0.5 * math.erfc(-x * math.sqrt(0.5)))),
    "exp": (1, np.exp), "exp2": (1, np.exp2), "exp10": (1, lambda x: np.power(np.full_like(x, 10.0), x)),
    "expm1": (1, np.expm1),
    "erfcx": (1, special.erfcx), "erfinv": (1, special.erfinv), "erfcinv": (1, special.erfcinv),
    "normcdfinv": (1, special.normcdfinv),
    "gamma": (1, _gamma), "lgamma": (1, _lgamma),
    "hypot": (2, np.hypot),
    "log": (1, np.log), "log10": (1, np.log10), "log1p": (1, np.log1p), "log2": (1, np.log2), "logb": (1, _logb),
    "pow": (2, np.power), "remainder": (2, _remainder), "fdim": (2, _fdim), "fmod": (2, np.fmod),
    "fabs": (1, np.abs),
}  # fmt: skip
"""Name -> number of operands and the function of contiguous f8 arrays."""


@lru_cache(None)
def function(fn: str, code: str) -> Function | None:
    """The operation ``fn`` on values of dtype ``code``; None if there is none of that name.

    >>> float(function("exp2", "f2")(np.float16(3)))
    8.0
    """
    if code in INTEGERS:
        return integer_power(code) if fn == "pow" else None
    if fn in _SPECIAL:
        return _SPECIAL[fn](code)
    if fn not in FUNCTIONS:
        return None
    operands, compute = FUNCTIONS[fn]
    narrow, run = narrower(code), dense(compute)
    if code == "f8":
        return run
    wide = DT["f8"]
    if operands == 1:
        return lambda x: narrow(run(x.astype(wide)))
    return lambda x, y: narrow(run(x.astype(wide), y.astype(wide)))


def _next_after(code: str) -> Function:
    return np.nextafter


def _load_exponent(code: str) -> Function:
    """ldexp(x, n): exact in f8 but for f8's own underflow, where it rounds once."""
    narrow = narrower(code)

    def call(x: Value, n: Value) -> Value:
        exponent = np.clip(_exponents(n), -5000, 5000).astype(np.int32)
        return narrow(np.ldexp(x.astype(np.float64), exponent)[()])

    return call


def _exponents(n: Value) -> np.ndarray:
    """An integer value of any dtype as an int64 array; u8 values past its range become its largest."""
    if type(n) is int:
        return np.array(min(n, 2**63 - 1), np.int64)
    items: np.ndarray = array_of(n, "i8") if type(n) is Affine else n
    if items.dtype == np.uint64:
        items = np.minimum(items, np.uint64(2**63 - 1))
    return items.astype(np.int64)


def _fraction_exponent(code: str) -> Function:
    """frexp: (significand in [1/2, 1), exponent i4); the exponent of zero, inf and NaN is 0."""
    narrow = narrower(code)

    def call(x: Value) -> tuple[Value, Value]:
        wide = x.astype(np.float64)
        significand, exponent = np.frexp(wide)
        exponent = np.where(np.isfinite(wide), exponent, 0).astype(np.int32)
        return narrow(significand), exponent if type(x) is np.ndarray else int(exponent)

    return call


def _fraction_whole(code: str) -> Function:
    """modf: (fraction, whole), both with the sign of x, as C and libdevice."""
    narrow = narrower(code)

    def call(x: Value) -> tuple[Value, Value]:
        fraction, whole = np.modf(x.astype(np.float64))
        return narrow(fraction), narrow(whole)

    return call


def _integer_exponent(code: str) -> Function:
    """powi: x**n for an integer n, by Numba's loop of multiplications in the dtype; beyond 65536 by pow."""
    dtype = DT[code]
    one = dtype.type(1)
    power = function("pow", code)
    to_float = converter(code, "i8")
    assert power is not None

    def call(x: Value, n: Value) -> Value:
        base, exponents = np.broadcast_arrays(x, _exponents(n))
        far = (exponents < -0x10000) | (exponents > 0x10000)
        found = squaring(base, np.where(far, 0, np.abs(exponents)), one)
        found = np.where(exponents < 0, one / found, found)
        if np.count_nonzero(far):
            found = np.where(far, power(base, to_float(exponents)), found)
        return found[()]

    return call


def _times(factor: float) -> Callable[[str], Function]:
    def make(code: str) -> Function:
        constant = DT[code].type(factor)
        return lambda x: x * constant

    return make


_SPECIAL: dict[str, Callable[[str], Function]] = {
    "nextafter": _next_after,
    "ldexp": _load_exponent,
    "frexp": _fraction_exponent,
    "modf": _fraction_whole,
    "powi": _integer_exponent,
    "degrees": _times(180 / math.pi),
    "radians": _times(math.pi / 180),
}
