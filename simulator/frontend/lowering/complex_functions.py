"""Functions of complex numbers that the simulator lowers from Python (see ``library_functions``).

numba-cuda implements these in Python too; the formulas and the dtypes of their steps are the same here, so that results
agree to the bit: a literal is a double, and what it meets becomes one.  Its other functions of ``cmath`` are overloads,
whose own Python is lowered.  A ``number`` is a NumPy class of floats, the dtype of a part.

Where the formulas come from: the quotient is Smith's (1962), the square root CACM algorithm 312 (1967), the inverse
functions are Kahan's, "Branch cuts for complex elementary functions" (1987).
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

_HUGE = float(np.finfo(np.float32).max) / 4  # numba-cuda takes the limits of single precision for both
_LN_4 = math.log(4)
_NAN = float("nan")
_ATANH_LARGE = math.sqrt(_HUGE)
_ATANH_SMALL = math.sqrt(float(np.finfo(np.float32).tiny))


def quotient(a, b):  # type: ignore[no-untyped-def]
    """``a / b``; by zero raises."""
    c, d = b.real, b.imag
    if not c and not d:
        raise ZeroDivisionError("complex division by zero")
    if abs(c) >= abs(d):
        ratio = d / c
        scale = c + d * ratio
        return complex((a.real + a.imag * ratio) / scale, (a.imag - a.real * ratio) / scale)
    if not d:  # the other part is NaN
        return complex(_NAN, _NAN)
    ratio = c / d
    scale = c * ratio + d
    return complex((a.real * ratio + a.imag) / scale, (a.imag * ratio - a.real) / scale)


def modulus(z):  # type: ignore[no-untyped-def]
    """``abs(z)``."""
    return math.hypot(z.real, z.imag)


@cache
def power(number: Any, pair: Any) -> Callable[..., Any]:
    """``a ** b`` in polar coordinates; ``pair`` is the class of complex numbers with parts of class ``number``."""

    def power(a, b):  # type: ignore[no-untyped-def]
        if b.real == number(0) and b.imag == number(0):
            return pair(1)
        if a.real == number(0) and b.real == number(0):
            return pair(0)
        radius = math.hypot(a.real, a.imag)
        length = math.pow(radius, b.real)
        angle = math.atan2(a.imag, a.real)
        phase = angle * b.real
        if b.imag != number(0):
            length /= math.exp(angle * b.imag)
            phase += b.imag * math.log(radius)
        return length * (pair(math.cos(phase)) + pair(math.sin(phase) * pair(1j)))

    return power


def exp(z):  # type: ignore[no-untyped-def]
    """The exponential; infinite arguments by the rules of C99, annex G."""
    x, y = z.real, z.imag
    if math.isnan(x):
        return complex(x, x) if y else complex(x, y)
    if not math.isfinite(y):
        if math.isfinite(x):
            return complex(_NAN, _NAN)
        return complex(x, _NAN) if x > 0.0 else complex(0, 0)
    real, imag = math.cos(y), math.sin(y)
    if math.isfinite(x) or x < 0.0:
        length = math.exp(x)
        return complex(length * real, length * imag)
    if real != 0:
        real *= x
    if imag != 0:
        imag *= x
    return complex(real, imag)


def log(z):  # type: ignore[no-untyped-def]
    """The natural logarithm."""
    return complex(math.log(math.hypot(z.real, z.imag)), math.atan2(z.imag, z.real))


def log_to(z, base):  # type: ignore[no-untyped-def]
    """The logarithm to a base."""
    return cmath.log(z) / cmath.log(base)


@cache
def square_root(number: Any) -> Callable[..., Any]:
    """The square root; arguments are scaled where a part is so large that the modulus might overflow."""
    threshold = float(np.finfo(number).max) / (1.0 + 1.414213562373095)

    def square_root(z):  # type: ignore[no-untyped-def]
        a, b = z.real, z.imag
        if (a == 0.0 and b == 0.0) or math.isinf(b):
            return complex(abs(b), b)
        if math.isnan(a):
            return complex(a, a)
        if math.isinf(a):
            if a < 0.0:
                return complex(abs(b - b), math.copysign(a, b))
            return complex(a, math.copysign(b - b, b))
        large = abs(a) >= threshold or abs(b) >= threshold
        if large:
            a *= 0.25
            b *= 0.25
        if a >= 0:
            t = math.sqrt((a + math.hypot(a, b)) * 0.5)
            real, imag = t, b / (2 * t)
        else:
            t = math.sqrt((-a + math.hypot(a, b)) * 0.5)
            real, imag = abs(b) / (2 * t), math.copysign(t, b)
        return complex(real * 2, imag) if large else complex(real, imag)

    return square_root


def cos(z):  # type: ignore[no-untyped-def]
    """cos z = cosh iz."""
    return cmath.cosh(complex(-z.imag, z.real))


def sin(z):  # type: ignore[no-untyped-def]
    """sin z = -i sinh iz."""
    turned = cmath.sinh(complex(-z.imag, z.real))
    return complex(turned.imag, -turned.real)


def tan(z):  # type: ignore[no-untyped-def]
    """tan z = -i tanh iz."""
    turned = cmath.tanh(complex(-z.imag, z.real))
    return complex(turned.imag, -turned.real)


def asin(z):  # type: ignore[no-untyped-def]
    """asin z = -i asinh iz."""
    turned = cmath.asinh(complex(-z.imag, z.real))
    return complex(turned.imag, -turned.real)


def atan(z):  # type: ignore[no-untyped-def]
    """atan z = -i atanh iz."""
    turned = cmath.atanh(complex(-z.imag, z.real))
    if math.isinf(z.real) and math.isnan(z.imag):
        return complex(turned.imag, turned.real)
    return complex(turned.imag, -turned.real)


def acos(z):  # type: ignore[no-untyped-def]
    """From square roots, so that nothing cancels; large arguments by their logarithm."""
    if abs(z.real) > _HUGE or abs(z.imag) > _HUGE:
        area = math.log(math.hypot(z.real * 0.5, z.imag * 0.5)) + _LN_4
        return complex(math.atan2(abs(z.imag), z.real), math.copysign(area, -z.imag))
    below = cmath.sqrt(complex(1.0 - z.real, -z.imag))
    above = cmath.sqrt(complex(1.0 + z.real, z.imag))
    imag = math.asinh(above.real * below.imag - above.imag * below.real)
    return complex(2.0 * math.atan2(below.real, above.real), imag)


def asinh(z):  # type: ignore[no-untyped-def]
    """From square roots, so that nothing cancels; large arguments by their logarithm."""
    if abs(z.real) > _HUGE or abs(z.imag) > _HUGE:
        area = math.log(math.hypot(z.real * 0.5, z.imag * 0.5)) + _LN_4
        return complex(math.copysign(area, z.real), math.atan2(z.imag, abs(z.real)))
    right = cmath.sqrt(complex(1.0 + z.imag, -z.real))
    left = cmath.sqrt(complex(1.0 - z.imag, z.real))
    real = math.asinh(right.real * left.imag - left.real * right.imag)
    return complex(real, math.atan2(z.imag, right.real * left.real - right.imag * left.imag))


def atanh(z):  # type: ignore[no-untyped-def]
    """Odd: computed for real parts that are not negative."""
    negative = z.real < 0.0
    if negative:
        z = -z
    height = abs(z.imag)
    if math.isnan(z.real) or z.real > _ATANH_LARGE or height > _ATANH_LARGE:
        if math.isinf(z.imag):
            real = math.copysign(0.0, z.real)
        elif math.isinf(z.real):
            real = 0.0
        else:
            half = math.hypot(z.real * 0.5, z.imag * 0.5)
            real = z.real / 4.0 / half / half
        imag = -math.copysign(math.pi / 2, -z.imag)
    elif z.real == 1.0 and height < _ATANH_SMALL:
        if height == 0.0:
            real = math.inf
            imag = z.imag
        else:
            real = -math.log(math.sqrt(height) / math.sqrt(math.hypot(height, 2.0)))
            imag = math.copysign(math.atan2(2.0, -height) / 2, z.imag)
    else:
        square, below = height * height, 1 - z.real
        real = math.log1p(4.0 * z.real / (below * below + square)) * 0.25
        imag = -math.atan2(-2.0 * z.imag, below * (1 + z.real) - square) * 0.5
    if math.isnan(z.imag):
        imag = _NAN
    return complex(-real, -imag) if negative else complex(real, imag)
