"""Arithmetic and conversions with a rounding mode other than to nearest: floor, ceil and trunc.

The result to nearest is at most one step from the one that is asked for.  Which side of it the exact result lies is
found lane by lane in exact arithmetic: kernels use these operations rarely, and they have every corner case.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from simulator.machine.values import DT, Affine, Value, array_of
from simulator.program import FLOATS

MODES = ("floor", "ceil", "trunc")


def _of_sum(r: Fraction, x: Fraction, y: Fraction) -> Fraction:
    return x + y - r


def _of_difference(r: Fraction, x: Fraction, y: Fraction) -> Fraction:
    return x - y - r


def _of_product(r: Fraction, x: Fraction, y: Fraction) -> Fraction:
    return x * y - r


def _of_quotient(r: Fraction, x: Fraction, y: Fraction) -> Fraction:
    return x / y - r


def _of_fused(r: Fraction, x: Fraction, y: Fraction, z: Fraction) -> Fraction:
    return x * y + z - r


def _of_root(r: Fraction, x: Fraction) -> Fraction:
    return x - r * r if r >= 0 else Fraction(0)


def _of_conversion(r: Fraction, x: Fraction) -> Fraction:
    return x - r


_LEFT: dict[str, Callable[..., Fraction]] = {
    "add": _of_sum, "sub": _of_difference, "mul": _of_product, "div": _of_quotient, "fma": _of_fused,
    "sqrt": _of_root, "cvt": _of_conversion,
}  # fmt: skip
"""Kind -> something with the sign of exact - r, for finite operands."""


def directed(kind: str, code: str, mode: str, nearest: Callable[..., Value], source: str = "") -> Callable[..., Value]:
    """The operation that ``nearest`` computes to nearest in ``code``, with the rounding of ``mode``.

    ``source`` is the dtype of the operands where it is another.

    >>> import operator
    >>> add = directed("add", "f4", "ceil", operator.add)
    >>> float(add(np.float32(1), np.float32(1e-9))) - 1 == 2**-23
    True
    """
    dtype, left, given = DT[code], _LEFT[kind], source or code

    def side(found: float, *operands: Any) -> int:
        """-1, 0 or 1: where the exact result lies, seen from the one to nearest."""
        if found != found or not all(abs(operand) < np.inf for operand in operands):
            return 0
        if abs(found) == np.inf:  # too large, unless it is a division by zero
            return 0 if kind == "div" and operands[1] == 0 else -1 if found > 0 else 1
        rest = left(Fraction(found), *map(Fraction, operands))
        return (rest > 0) - (rest < 0)

    def compute(*values: Value) -> Value:
        operands = [array_of(value, given) if type(value) in (int, Affine) else value for value in values]
        found = np.asarray(nearest(*values))
        shape = found.shape
        lanes = [np.broadcast_to(operand, shape).ravel().tolist() for operand in (found, *operands)]
        sides = np.fromiter(map(side, *lanes), np.int8, found.size).reshape(shape)
        positive = found > 0
        down = (sides < 0) & (positive if mode == "trunc" else mode == "floor")
        up = (sides > 0) & ((found < 0) if mode == "trunc" else mode == "ceil")
        found = np.where(down, np.nextafter(found, dtype.type(-np.inf)), found)
        found = np.where(up, np.nextafter(found, dtype.type(np.inf)), found)
        if mode == "floor" and kind in ("add", "sub", "fma"):
            found = np.where((found == 0) & (sides == 0) & _cancelled(kind, operands), -dtype.type(0), found)
        return found.astype(dtype)[()]

    return compute


def _cancelled(kind: str, operands: list[Any]) -> Any:
    """Where a zero sum is of terms of opposite signs: downwards it is -0."""
    first, second = operands[0], operands[-1]
    sign = np.signbit(first) ^ np.signbit(operands[1]) if kind == "fma" else np.signbit(first)
    return sign != (np.signbit(second) ^ (kind == "sub"))


def supports(kind: str, code: str, mode: str) -> bool:
    """Whether the operation has this rounding mode."""
    return kind in _LEFT and code in FLOATS and mode in MODES
