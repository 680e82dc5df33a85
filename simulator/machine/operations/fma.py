"""Fused multiply-add with one rounding, on machines and dtypes that have none in NumPy.

Round to odd is the idea behind all of it (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008):
an intermediate with at least two more bits than the result, rounded so that an inexact value has an odd last bit, can
be rounded again without harm.

* f2: product and sum fit into f8 as far as they matter; one conversion.
* bf, f4: the product is exact in f8; the sum is rounded to f8, to odd where it looks like a tie, then to the dtype.
* f8: error-free products and sums, the low parts added with rounding to odd.  Lanes whose exponents leave the range
  where those are error-free are computed with Python's exact integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from simulator.machine.operations.conversions import narrower
from simulator.machine.values import Value

Ternary = Callable[[Value, Value, Value], Value]

_SPLITTER = np.float64(2**27 + 1)
_SAFE_HIGH, _SAFE_LOW = 2.0**450, 2.0**-450
_TINY_SINGLE = 2.0**-126
_CHUNK = 4096


@lru_cache(None)
def fused(code: str) -> Ternary:
    """x*y + z, correctly rounded.

    >>> x = np.float32(1 + 2**-23)
    >>> float(fused("f4")(x, x, np.float32(-1 - 2**-22))) == 2**-46
    True
    """
    if code == "f8":
        return _fused_double
    narrow, wide = narrower(code), np.float64
    if code == "f2":
        return lambda x, y, z: narrow(x.astype(wide) * y.astype(wide) + z.astype(wide))
    dropped = {"f4": 29, "bf": 45}[code]  # bits of an f8 significand that the dtype has not

    def fuse(x: Value, y: Value, z: Value) -> Value:
        product, addend = x.astype(wide) * y.astype(wide), z.astype(wide)
        return narrow(_sum_to_round(product, addend, dropped))

    return fuse


def _sum_to_round(x: Any, y: Any, dropped: int) -> Any:
    """x + y as an f8 that can be rounded once more.  Only a sum that looks like a tie needs rounding to odd."""
    total, error = two_sum(x, y) if type(x) is type(y) is np.float64 else (x + y, 1.0)
    if type(total) is not np.ndarray:
        return to_odd(total, error) if error else total
    tie = (total.view(np.int64) & ((1 << dropped) - 1)) == 1 << (dropped - 1)
    suspect = tie | (np.abs(total) < _TINY_SINGLE)
    if np.count_nonzero(suspect):
        total[suspect] = add_to_odd(*(np.broadcast_to(value, total.shape)[suspect] for value in (x, y)))
    return total


def add_to_odd(x: Any, y: Any) -> Any:
    """x + y of f8 values, rounded to odd: exact, or the neighbour whose last bit is set."""
    total, error = two_sum(x, y)
    return to_odd(total, error)


def to_odd(total: Any, error: Any) -> Any:
    """``total``, the nearest f8 to total + error, moved to the odd neighbour on the side of the error if it is even."""
    pattern = np.asarray(total).view(np.int64)
    away = ((pattern ^ np.asarray(error).view(np.int64)) >> 63) | 1  # -1 where the error points towards zero
    inexact = np.abs(error) > 0  # false for NaN, the error of an infinity
    return (pattern + away * (inexact & (~pattern & 1))).view(np.float64)[()]


def two_sum(x: Any, y: Any) -> tuple[Any, Any]:
    """Knuth: the rounded sum and its exact error."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


def two_product(x: Any, y: Any) -> tuple[Any, Any]:
    """Dekker and Veltkamp: the rounded product of f8 values and its exact error."""
    product = x * y
    x_high, y_high = _upper_half(x), _upper_half(y)
    x_low, y_low = x - x_high, y - y_high
    return product, ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low


def _upper_half(x: Any) -> Any:
    scaled = x * _SPLITTER
    return scaled - (scaled - x)


def in_chunks(compute: Callable[..., Any]) -> Callable[..., Value]:
    """A long sequence of elementwise f8 steps, run on chunks whose temporaries stay in the cache (5 times faster)."""

    def call(*values: Value) -> Value:
        shape = np.broadcast_shapes(*(value.shape for value in values))
        if math.prod(shape) <= _CHUNK:
            return compute(*values)
        flat = [np.broadcast_to(value, shape).reshape(-1) for value in values]
        found = np.empty(flat[0].size)
        for first in range(0, found.size, _CHUNK):
            piece = slice(first, first + _CHUNK)
            found[piece] = compute(*(value[piece] for value in flat))
        return found.reshape(shape)

    return call


@in_chunks
def _fused_double(x: Value, y: Value, z: Value) -> Value:
    product_size = np.abs(x * y)
    simple = ((product_size <= _SAFE_HIGH) & (product_size >= _SAFE_LOW) & (np.abs(z) <= _SAFE_HIGH)) & (
        (np.abs(x) <= _SAFE_HIGH) & (np.abs(y) <= _SAFE_HIGH)
    )
    product, product_error = two_product(x, y)
    middle, middle_error = two_sum(z, product_error)
    total, total_error = two_sum(product, middle)
    low = add_to_odd(middle_error, total_error)
    found = total + low
    if np.count_nonzero(simple) == np.size(simple):
        return found
    return _exact_lanes(x, y, z, found, ~np.asarray(simple))


def _exact_lanes(x: Value, y: Value, z: Value, found: Any, hard: np.ndarray) -> Value:
    """Replace the lanes ``hard`` of ``found``; zero factors and non-finite operands take the plain expression."""
    found = np.array(np.broadcast_to(found, hard.shape))
    x, y, z = (np.broadcast_to(v, hard.shape) for v in (x, y, z))
    plain = hard & ((x == 0) | (y == 0) | ~np.isfinite(x) | ~np.isfinite(y))
    found = np.where(plain, x * y + z, found)
    for place in np.argwhere(hard & ~plain):
        k = tuple(place)
        found[k] = exact_fma(float(x[k]), float(y[k]), float(z[k]))
    return found[()]


def exact_fma(x: float, y: float, z: float) -> float:
    """x*y + z of Python floats with one rounding, for finite x and y other than zero.

    >>> exact_fma(2.0**-600, 2.0**-600, 1.0)
    1.0
    """
    if not math.isfinite(z):
        return z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    sign = -1.0 if exact < 0 else 1.0
    try:
        return sign * abs(exact.numerator / exact.denominator)
    except OverflowError:
        return sign * math.inf
