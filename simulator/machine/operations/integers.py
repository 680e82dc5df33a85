"""Integer arithmetic on uniform, affine and per-lane values.  Everything wraps modulo 2**bits.

Every maker takes a dtype code and returns a function of values; makers are cached, so equal operations share one
function.  The order of tests is the order of frequency: ints, affine values, arrays.

Where the field leaves a case open, this file decides as the hardware or Numba does:

* ``div`` and ``rem`` are C's: by zero all ones, and the dividend; smallest // -1 wraps to the smallest.
* ``floordiv`` and ``mod`` are Numba's: by zero 0 and 0; smallest // -1 gives 0 (Numba guards it so).
* ``pow`` is Numba's ``int_power``: 0 to a negative power gives the smallest signed value; exponents beyond 65536 go
  through the float64 power and saturate.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from simulator.machine.values import DT, RANGE, Affine, Value, array_of, fit, wrap

Unary = Callable[[Value], Value]
Binary = Callable[[Value, Value], Value]


@lru_cache(None)
def adder(code: str) -> Binary:
    """The sum.

    >>> adder("i1")(100, 100)
    -56
    """
    low, high = RANGE[code]

    def add(x: Value, y: Value) -> Value:
        found = x + y
        kind = type(found)
        if kind is np.ndarray:
            return found
        if kind is int:
            return found if low <= found <= high else wrap(found, low, high)
        return found if low <= found.lo and found.hi <= high else fit(found, code)

    return add


@lru_cache(None)
def subtracter(code: str) -> Binary:
    """The difference."""
    low, high = RANGE[code]

    def subtract(x: Value, y: Value) -> Value:
        found = x - y
        kind = type(found)
        if kind is np.ndarray:
            return found
        if kind is int:
            return found if low <= found <= high else wrap(found, low, high)
        return found if low <= found.lo and found.hi <= high else fit(found, code)

    return subtract


@lru_cache(None)
def multiplier(code: str) -> Binary:
    """The product; affine times uniform stays affine."""
    low, high = RANGE[code]

    def multiply(x: Value, y: Value) -> Value:
        left, right = type(x), type(y)
        if left is int and right is int:
            found: Any = x * y
            return found if low <= found <= high else wrap(found, low, high)
        if left is Affine and right is int:
            found = x.times(y)
        elif right is Affine and left is int:
            found = y.times(x)
        else:
            return array_of(x, code) * array_of(y, code)
        return fit(found, code)

    return multiply


@lru_cache(None)
def multiply_adder(code: str) -> Callable[[Value, Value, Value], Value]:
    """x*y + z."""
    multiply, add = multiplier(code), adder(code)
    return lambda x, y, z: add(multiply(x, y), z)


@lru_cache(None)
def negater(code: str) -> Unary:
    """Minus x, modulo 2**bits."""

    def negate(x: Value) -> Value:
        return -x if type(x) is np.ndarray else fit(0 - x, code)

    return negate


@lru_cache(None)
def absolute(code: str) -> Unary:
    """The absolute value; that of the smallest signed number is itself."""
    if RANGE[code][0] == 0:
        return _identity

    def magnitude(x: Value) -> Value:
        kind = type(x)
        if kind is int:
            return fit(abs(x), code)
        if kind is Affine:
            if x.lo >= 0:
                return x
            if x.hi <= 0:
                return fit(0 - x, code)
            x = array_of(x, code)
        return np.abs(x)

    return magnitude


def _identity(x: Value) -> Value:
    return x


@lru_cache(None)
def extremum(code: str, largest: bool) -> Binary:
    """The smaller, or the larger, of two; decided from the bounds of the difference where they suffice."""
    pick, pick_uniform = (np.maximum, max) if largest else (np.minimum, min)

    def extreme(x: Value, y: Value) -> Value:
        left, right = type(x), type(y)
        if left is int and right is int:
            return pick_uniform(x, y)
        if left is not np.ndarray and right is not np.ndarray:
            gap = x - y
            lo, hi = (gap, gap) if type(gap) is int else (gap.lo, gap.hi)
            if lo >= 0:
                return x if largest else y
            if hi <= 0:
                return y if largest else x
        return pick(array_of(x, code), array_of(y, code))

    return extreme


@lru_cache(None)
def divider(code: str, kind: str) -> Binary:
    """``kind`` is div, rem (as in C), floordiv or mod (as in Python).

    >>> [divider("i4", kind)(-7, 2) for kind in ("div", "rem", "floordiv", "mod")]
    [-3, -1, -4, 1]
    """
    floor, remainder = kind in ("floordiv", "mod"), kind in ("rem", "mod")
    per_lane = (_floor_lanes if floor else _truncate_lanes)(code, remainder)

    def divide(x: Value, y: Value) -> Value:
        if type(y) is int:
            if type(x) is int:
                return _divide_ints(x, y, code, floor, remainder)
            if type(x) is Affine and y > 0 and (floor or x.lo >= 0):
                found = x.divide(y)
                if found is not None:
                    return found[1] if remainder else found[0]
        return per_lane(array_of(x, code), array_of(y, code))

    return divide


def _divide_ints(x: int, y: int, code: str, floor: bool, remainder: bool) -> int:
    low, high = RANGE[code]
    if y == 0:
        if floor:
            return 0
        return x if remainder else wrap(-1, low, high)
    if floor:
        if remainder:
            return x % y
        return 0 if x == low and y == -1 and low < 0 else x // y
    quotient = abs(x) // abs(y)
    if (x < 0) != (y < 0):
        quotient = -quotient
    return x - quotient * y if remainder else fit(quotient, code)


def _floor_lanes(code: str, remainder: bool) -> Callable[[Any, Any], np.ndarray]:
    # NumPy gives 0 for division by zero, and the smallest number for smallest // -1
    if remainder:
        return np.remainder
    low = RANGE[code][0]
    if low == 0:
        return np.floor_divide

    def floor_divide(x: Any, y: Any) -> np.ndarray:
        quotient: np.ndarray = np.floor_divide(x, y)
        if type(y) is np.ndarray or y == -1:
            overflow = (x == low) & (y == -1)
            if np.count_nonzero(overflow):
                quotient[overflow] = 0
        return quotient

    return floor_divide


def _truncate_lanes(code: str, remainder: bool) -> Callable[[Any, Any], np.ndarray]:
    dtype = DT[code]
    signed = RANGE[code][0] < 0
    ones = dtype.type(wrap(-1, *RANGE[code]))

    def truncate(x: Any, y: Any) -> np.ndarray:
        zero = y == 0
        if remainder:
            found = np.fmod(x, y)
            return np.where(zero, x, found) if np.count_nonzero(zero) else found
        found = np.floor_divide(x, y)
        if signed:
            rest = x - found * y
            found = found + ((rest != 0) & ((x < 0) != (y < 0))).astype(dtype)
        return np.where(zero, ones, found) if np.count_nonzero(zero) else found

    return truncate


@lru_cache(None)
def power(code: str) -> Binary:
    """x**y for integers of one dtype, as Numba's ``int_power``.

    >>> power("i4")(3, 4), power("i4")(2, 40), power("i4")(0, -1), power("i4")(-1, -3)
    (81, 0, -2147483648, -1)
    """
    low, high = RANGE[code]

    def raise_ints(x: int, y: int) -> int:
        if y < 0:
            if x == 0:
                return low
            return (-1 if y & 1 else 1) if x == -1 else int(x == 1)
        if y <= 0x10000:
            return wrap(pow(x, y, high - low + 1), low, high)
        try:
            return min(max(int(float(x) ** float(y)), low), high)
        except OverflowError:
            return low if x < 0 and _odd_float(y) else high

    def raise_lanes(x: Value, y: Value) -> Value:
        if type(x) is int and type(y) is int:
            return raise_ints(x, y)
        base, exponent = np.broadcast_arrays(array_of(x, code), array_of(y, code))
        if (exponent < 0).any() or (exponent > 0x10000).any():
            pairs = zip(base.ravel().tolist(), exponent.ravel().tolist(), strict=True)
            flat = [raise_ints(p, q) for p, q in pairs]
            return np.array(flat, DT[code]).reshape(base.shape)
        return squaring(base, exponent, DT[code].type(1))

    return raise_lanes


def _odd_float(y: int) -> bool:
    return float(y) % 2.0 == 1.0


def squaring(base: np.ndarray, exponent: np.ndarray, one: Any) -> np.ndarray:
    """base**exponent for exponents >= 0 by repeated squaring, in the order (and rounding) of Numba's loop."""
    found = np.full(base.shape, one)
    left = int(exponent.max(initial=0))
    while left:
        found = np.where((exponent & 1) != 0, found * base, found)
        exponent = exponent >> 1
        left >>= 1
        base = base * base
    return found
