"""Functions that the simulator lowers from Python, because numba-cuda implements them in Python too.

They are typed and inlined like the user's device functions; their operations bear the position of the call.  The
arithmetic (order, dtypes, rounding) is what numba-cuda does, so that results agree to the bit.  A ``number`` is a
NumPy scalar class: the dtype that Numba computes in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

_LARGE = 0x10000  # from here on Numba takes the library's pow


@cache
def real_power(number: Any) -> Callable[..., Any]:
    """A float to an integer power: repeated squaring in ``number``, inverted in double."""

    def power(base, exponent):  # type: ignore[no-untyped-def]
        result = number(1)
        square = number(base)
        count = -exponent if exponent < 0 else exponent
        if count > _LARGE:
            return math.pow(square, float(exponent))
        while count != 0:
            if count & 1:
                result *= square
            count >>= 1
            square *= square
        return 1.0 / result if exponent < 0 else result

    return power


@cache
def integer_power(number: Any, smallest: int) -> Callable[..., Any]:
    """An integer to an integer power; 0 to a negative power is ``smallest``, other bases than 1 and -1 give 0."""

    def power(base, exponent):  # type: ignore[no-untyped-def]
        result = number(1)
        square = number(base)
        count = exponent
        if exponent < 0:
            count = -exponent
            if square == 0:
                return number(smallest)
            if square != 1 and square != -1:
                return number(0)
        if count > _LARGE:
            return number(math.pow(float(square), float(exponent)))
        while count != 0:
            if count & 1:
                result *= square
            count >>= 1
            square *= square
        return number(result)

    return power


def round_digits(value, digits):  # type: ignore[no-untyped-def]
    """``round(value, digits)``: scaled by a power of ten in double, rounded half to even, scaled back."""
    if math.isinf(value) or math.isnan(value):
        return value
    extra = 1.0
    if digits > 22:
        scale = 10.0 ** (digits - 22)
        extra = 1e22
    elif digits >= 0:
        scale = 10.0**digits
    else:
        scale = 10.0 ** (-digits)
    scaled = (value * scale) * extra if digits >= 0 else value / scale
    if digits >= 0 and math.isinf(scaled):
        return value
    whole = float(round(scaled))
    if math.fabs(scaled - whole) == 0.5:
        whole = 2.0 * round(scaled / 2.0)
    return (whole / extra) / scale if digits >= 0 else whole * scale
