"""Conversions between dtypes (cvt) and reinterpretations of their bits (bitcast).

To integers: wrap from integers; from floats truncate and saturate, NaN gives 0 (PTX cvt.rzi).  To floats: round once,
to nearest even.  NumPy and ml_dtypes go through an intermediate float for some pairs; those pairs are done here, with
an intermediate that is rounded to odd, so that the second rounding is the only one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from simulator.machine.operations.integers import Unary
from simulator.machine.values import DT, RANGE, Affine, Value, array_of, collapse, fit
from simulator.program import FLOATS, SIZES

_EXACT = 2**53


@lru_cache(None)
def converter(to: str, source: str) -> Unary:
    """The conversion of a value of dtype ``source`` to dtype ``to``.

    >>> converter("i1", "f4")(np.float32(300)), converter("u1", "i4")(-1), converter("f4", "i4")(7)
    (127, 255, np.float32(7.0))
    """
    if to == source:
        return lambda x: x
    if to == "b1":
        return _to_predicate(source)
    if source == "b1":
        dtype, scalar = DT[to], int if to not in FLOATS else DT[to].type
        return lambda x: x.astype(dtype) if type(x) is np.ndarray else scalar(x)
    if source in FLOATS:
        return _float_to_float(to, source) if to in FLOATS else _float_to_integer(to, source)
    return _integer_to_float(to, source) if to in FLOATS else _integer_to_integer(to, source)


def _to_predicate(source: str) -> Unary:
    def nonzero(x: Value) -> Value:
        if type(x) is Affine:
            if x.lo > 0 or x.hi < 0:
                return True
            x = array_of(x, source)
        return collapse(x != 0)

    return nonzero


def _integer_to_integer(to: str, source: str) -> Unary:
    dtype = DT[to]
    if RANGE[to][0] <= RANGE[source][0] and RANGE[source][1] <= RANGE[to][1]:
        return lambda x: x.astype(dtype) if type(x) is np.ndarray else x
    low, high = RANGE[to]

    def convert(x: Value) -> Value:
        kind = type(x)
        if kind is np.ndarray:
            return x.astype(dtype)
        if kind is int and low <= x <= high:
            return x
        return fit(x, to)

    return convert


def _integer_to_float(to: str, source: str) -> Unary:
    lanes = _integers_to_floats(to, source)
    dtype = DT[to]
    direct = _EXACT if to in ("f8", "f4") else 2**24  # where the scalar constructor rounds once at most

    def convert(x: Value) -> Value:
        if type(x) is int:
            if -direct <= x <= direct:
                return dtype.type(x)
            return lanes(np.array([x], DT[source]))[0]
        return lanes(array_of(x, source))

    return convert


def _integers_to_floats(to: str, source: str) -> Callable[[np.ndarray], np.ndarray]:
    dtype = DT[to]
    if to in ("f4", "f8"):
        return lambda x: x.astype(dtype)
    if to == "f2" or SIZES[source] <= 2:  # exact in f4, or far past the largest f2
        return lambda x: x.astype(np.float32).astype(dtype)
    if SIZES[source] == 4:
        return lambda x: double_to_bfloat(x.astype(np.float64))
    return lambda x: double_to_bfloat(_sticky(x).astype(np.float64))


def _sticky(x: np.ndarray) -> np.ndarray:
    """64-bit integers made exact in f8: from 2**53 on, the low 12 bits become one that says whether any was set."""
    large = (x >= _EXACT) | (x <= -_EXACT) if x.dtype.kind == "i" else x >= np.uint64(_EXACT)
    if not np.count_nonzero(large):
        return x
    low = x & 0xFFF
    squashed = (x - low) | ((low != 0).astype(x.dtype) << 11)
    return np.where(large, squashed, x)


def _float_to_float(to: str, source: str) -> Unary:
    if source == "f8":
        return narrower(to)
    dtype, wide = DT[to], DT["f4"]
    if {to, source} & {"bf"} and source != "f4" and to != "f4":
        return lambda x: x.astype(wide).astype(dtype)  # f2 and bf are exact in f4
    return lambda x: x.astype(dtype)


@lru_cache(None)
def narrower(code: str) -> Unary:
    """The rounding of f8 scalars or arrays to another float dtype, once."""
    if code == "bf":
        return double_to_bfloat
    dtype = DT[code]
    return lambda x: x.astype(dtype)


def double_to_bfloat(x: Any) -> Any:
    """f8 to bf, rounded once.

    bf is f4 without its low 16 bits, so going through f4 goes wrong only where f4 stands exactly halfway between two
    bf and the f8 did not; f4 then moves to its neighbour on the side of the f8.
    """
    single = x.astype(np.float32)
    scalar = type(single) is not np.ndarray
    items = np.array([single]) if scalar else single
    halfway = (items.view(np.uint32) & 0xFFFF) == 0x8000
    if np.count_nonzero(halfway):
        given = np.array([x]) if scalar else x
        direction = np.where(given < items, -np.inf, np.where(given > items, np.inf, items)).astype(np.float32)
        items = np.where(halfway, np.nextafter(items, direction), items)
    found = items.astype(DT["bf"])
    return found[0] if scalar else found


def _float_to_integer(to: str, source: str) -> Unary:
    low, high = RANGE[to]
    limit = float(high + 1)
    dtype = DT[to]

    def lanes(x: np.ndarray) -> np.ndarray:
        if source in ("f2", "bf"):
            x = x.astype(np.float32)  # the bounds are powers of two: exact in f4, not in f2
        inside = (x >= low) & (x < limit)
        if np.count_nonzero(inside) == x.size:
            return x.astype(dtype)
        found = np.where(inside, x, x.dtype.type(0)).astype(dtype)
        found[x < low] = low
        found[x >= limit] = high
        return found

    def convert(x: Value) -> Value:
        if type(x) is np.ndarray:
            return lanes(x)
        number = float(x)
        if number != number:
            return 0
        if number >= high:
            return high
        return low if number <= low else int(number)

    return convert


@lru_cache(None)
def reinterpreter(to: str, source: str) -> Unary:
    """The same bits as another dtype of the same size.

    >>> hex(reinterpreter("u4", "f4")(np.float32(1)))
    '0x3f800000'
    """
    if SIZES[to] != SIZES[source] or (to != source and "b1" in (to, source)):
        raise ValueError(f"no reinterpretation of {source} as {to}")
    if to == source:
        return lambda x: x
    target, given = DT[to], DT[source]
    if to not in FLOATS and source not in FLOATS:
        return lambda x: x.view(target) if type(x) is np.ndarray else fit(x, to)

    def convert(x: Value) -> Value:
        if type(x) is np.ndarray:
            return x.view(target)
        if type(x) is Affine:
            return array_of(x, source).view(target)
        found = np.array(x, given).view(target)[()]
        return found if to in FLOATS else int(found)

    return convert
