"""Bit operations on integers, and the logic of predicates.

An affine value keeps its form under a mask, a shift or an ``or`` where the bits say so: ``tid & 31`` within a warp,
``(block * 256 + tid) >> 8``, ``row * 64 | lane``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from simulator.machine.operations.integers import Binary, Unary, adder, multiplier, subtracter
from simulator.machine.values import DT, RANGE, Affine, Value, array_of, collapse
from simulator.program import SIZES


def _unsigned(code: str) -> tuple[np.dtype[Any], int]:
    """The unsigned dtype of the same size, and its largest value (the mask of all bits)."""
    return DT[f"u{SIZES[code]}"], RANGE[f"u{SIZES[code]}"][1]


@lru_cache(None)
def conjunction(code: str) -> Binary:
    """x & y.

    >>> from simulator.machine.values import Lanes
    >>> conjunction("i4")(Lanes(4, 32).affine(0, 32, 1, "i4"), 31)
    Affine(0 + 0*block + 1*column + 0*row, 0..31)
    """
    everything = -1 if RANGE[code][0] < 0 else RANGE[code][1]

    def masked(x: Affine, mask: int) -> Value:
        """x & mask, if it is affine; mask is of the form 2**k - 1, or its complement."""
        inverse = everything ^ mask if everything > 0 else ~mask
        if mask == 0 or mask == everything:
            return x if mask else 0
        for low, wanted in ((mask, 1), (inverse, 0)):
            if low > 0 and low & (low + 1) == 0:
                found = x.divide(low + 1)
                if found is None:
                    return None
                return found[1] if wanted else x - found[1]
        # a mask that covers every bit x can have, or none
        if x.lo >= 0:
            span = (1 << x.hi.bit_length()) - 1
            if mask & span == span:
                return x
            if mask & span == 0:
                return 0
        return None

    def conjoin(x: Value, y: Value) -> Value:
        left, right = type(x), type(y)
        if left is int:
            if right is int:
                return x & y
            x, y, left, right = y, x, right, left
        if right is int and left is Affine:
            found = masked(x, y)
            if found is not None:
                return found
        return array_of(x, code) & array_of(y, code)

    return conjoin


def _apart(x: Value, y: Value) -> bool:
    """Do x (affine) and y (affine or int) surely have no bit in common?"""
    low, high = (y, y) if type(y) is int else (y.lo, y.hi)
    if low < 0:
        return False
    everywhere = x.b | x.a | x.l | x.y
    return high < (everywhere & -everywhere)  # below the lowest bit that x can have


@lru_cache(None)
def disjunction(code: str, exclusive: bool) -> Binary:
    """x | y, or x ^ y; bits apart make it a sum."""
    add = adder(code)

    def disjoin(x: Value, y: Value) -> Value:
        left, right = type(x), type(y)
        if left is int and right is int:
            return x ^ y if exclusive else x | y
        uniform = left is not np.ndarray and right is not np.ndarray
        if uniform and ((left is Affine and _apart(x, y)) or (right is Affine and _apart(y, x))):
            return add(x, y)
        p, q = array_of(x, code), array_of(y, code)
        return p ^ q if exclusive else p | q

    return disjoin


@lru_cache(None)
def complement(code: str) -> Unary:
    """~x."""
    subtract = subtracter(code)
    everything = -1 if RANGE[code][0] < 0 else RANGE[code][1]
    return lambda x: ~x if type(x) is np.ndarray else subtract(everything, x)


@lru_cache(None)
def left_shift(code: str, amount: str) -> Binary:
    """x << k; amounts past the width (and negative ones, which are huge as unsigned) give 0."""
    dtype, width = DT[code], 8 * SIZES[code]
    multiply = multiplier(code)

    def shift(x: Value, k: Value) -> Value:
        if type(k) is int:
            if not 0 <= k < width:
                return 0
            if type(x) is np.ndarray:
                return x << dtype.type(k)
            return multiply(x, 1 << k)
        far, amounts = _amounts(k, amount, width, dtype)
        found = array_of(x, code) << amounts
        return found if far is None else np.where(far, dtype.type(0), found)

    return shift


@lru_cache(None)
def right_shift(code: str, amount: str) -> Binary:
    """x >> k, arithmetic for signed dtypes; amounts past the width give the sign, or 0."""
    dtype, width, signed = DT[code], 8 * SIZES[code], RANGE[code][0] < 0

    def shift(x: Value, k: Value) -> Value:
        if type(k) is int:
            if not 0 <= k < width:
                if not signed:
                    return 0
                k = width - 1
            if type(x) is int:
                return x >> k
            if type(x) is Affine:
                found = x.divide(1 << k)
                if found is not None:
                    return found[0]
            return array_of(x, code) >> dtype.type(k)
        far, amounts = _amounts(k, amount, width, dtype)
        found = array_of(x, code) >> amounts
        return found if far is None or signed else np.where(far, dtype.type(0), found)

    return shift


def _amounts(k: Value, code: str, width: int, dtype: np.dtype[Any]) -> tuple[np.ndarray | None, np.ndarray]:
    """Per-lane shift amounts clamped to width - 1, in the dtype that is shifted, and where they were past it."""
    amounts = array_of(k, code).view(_unsigned(code)[0])
    far = amounts >= width
    if not np.count_nonzero(far):
        return None, amounts.astype(dtype)
    return far, np.minimum(amounts, amounts.dtype.type(width - 1)).astype(dtype)


@lru_cache(None)
def population_count(code: str) -> Unary:
    """The number of set bits, u4."""
    dtype, mask = _unsigned(code)

    def count(x: Value) -> Value:
        if type(x) is int:
            return (x & mask).bit_count()
        return np.bitwise_count(array_of(x, code).view(dtype)).astype(np.uint32)

    return count


@lru_cache(None)
def leading_zeros(code: str) -> Unary:
    """The number of zero bits above the highest set bit, u4; the width for 0."""
    dtype, mask = _unsigned(code)
    width = 8 * SIZES[code]

    def length(x: np.ndarray) -> np.ndarray:
        return np.frexp(x.astype(np.float64))[1]

    def count(x: Value) -> Value:
        if type(x) is int:
            return width - (x & mask).bit_length()
        items = array_of(x, code).view(dtype)
        if width == 64:
            top, low = items >> np.uint64(32), items & np.uint64(0xFFFFFFFF)
            found = np.where(top != 0, length(top) + 32, length(low))
        else:
            found = length(items)
        return (width - found).astype(np.uint32)

    return count


_REVERSED = np.array([int(f"{byte:08b}"[::-1], 2) for byte in range(256)], np.uint8)


@lru_cache(None)
def reverse(code: str) -> Unary:
    """The bits in reverse order.

    >>> reverse("u1")(0b00000110)
    96
    """
    dtype = DT[code]

    def swap(x: Value) -> Value:
        items = np.ascontiguousarray(array_of(x, code))
        found = _REVERSED[items.view(np.uint8).reshape(-1, dtype.itemsize)[:, ::-1]].view(dtype)
        return int(found[0, 0]) if type(x) is int else found.reshape(items.shape)

    return swap


def both(x: Value, y: Value) -> Value:
    """Predicates: x and y."""
    if type(x) is bool:
        return y if x else False
    if type(y) is bool:
        return x if y else False
    return collapse(x & y)


def either(x: Value, y: Value) -> Value:
    """Predicates: x or y."""
    if type(x) is bool:
        return True if x else y
    if type(y) is bool:
        return True if y else x
    return collapse(x | y)


def differ(x: Value, y: Value) -> Value:
    """Predicates: x xor y."""
    if type(x) is bool:
        return opposite(y) if x else y
    if type(y) is bool:
        return opposite(x) if y else x
    return collapse(x ^ y)


def opposite(x: Value) -> Value:
    """Predicates: not x."""
    return not x if type(x) is bool else ~x
