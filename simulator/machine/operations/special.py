"""What the C library has not of the error function, for all lanes at once: erfcx, erfinv, erfcinv, normcdfinv.

``erfcx(x) = exp(x**2) erfc(x)`` goes down like 1/x: for x >= 0 (1 + 2x) erfcx(x) is taken as a polynomial of degree 24
in (x - 4) / (x + 4), which interpolates values of 60 digits at the Chebyshev points.  The inverses start from
Winitzki's formula (2008), which is off by 2e-3, and are refined by Newton's method, in the tails on the logarithm.
Errors are below 3 units in the last place, in the tails too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from simulator.machine.operations.fma import in_chunks, two_product

Items = Any
_ROOT_PI = math.sqrt(math.pi)

_ERFCX = (
    1.2329951186255526, -0.1396211168405623, 0.015379652102619604, 0.06809705425466908, -0.10103906603630056,
    0.0937328349990944, -0.06633036581218697, 0.03716751552655567, -0.016197734059799265, 0.005031970067657489,
    -0.0007577732613730956, -0.00019925714661091188, 0.0001506214900124047, -2.4397746422436416e-05,
    -1.1221287012353486e-05, 5.706604414895734e-06, 2.919733377963012e-07, -8.210939042560568e-07,
    7.746992727017941e-08, 1.0633855618594884e-07, -2.05606492756992e-08, -1.234686604382353e-08,
    3.1695881915648173e-09, 9.311744978232572e-10, -2.659599690242689e-10,
)  # fmt: skip
_ERF = tuple((-1) ** n * 2 / (_ROOT_PI * math.factorial(n) * (2 * n + 1)) for n in range(18))


def _polynomial(x: Items, coefficients: Sequence[float]) -> Items:
    found = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        found *= x
        found += coefficient
    return found


def _exp_square(x: Items, sign: float) -> Items:
    """exp(sign * x**2), with the low part of the square."""
    bounded = np.minimum(np.abs(x), 40.0)  # where it is 0 or inf already
    square, low = two_product(bounded, bounded)
    return np.exp(sign * square) * (1.0 + sign * low)


def _scaled(x: Items) -> Items:
    """erfcx for x >= 0."""
    place = np.where(x < 1e300, (x - 4.0) / (x + 4.0), 1.0)
    return _polynomial(place, _ERFCX) / (1.0 + 2.0 * x)


@in_chunks
def erfcx(x: Items) -> Items:
    """exp(x**2) erfc(x)."""
    size = np.abs(x)
    found = _scaled(size)
    return np.where(x < 0, 2.0 * _exp_square(size, 1.0) - found, found)


@in_chunks
def erfinv(x: Items) -> Items:
    """The inverse of erf; infinite at -1 and 1, NaN beyond."""
    size = np.abs(x)
    found = np.where(size <= 0.5, _inverse_near_0(np.minimum(size, 0.5)), _inverse_of_tail(1.0 - size))
    return np.copysign(found, x)


@in_chunks
def erfcinv(x: Items) -> Items:
    """The inverse of erfc; infinite at 0 and 2, NaN beyond."""
    tail = np.where(x > 1.0, 2.0 - x, x)
    found: Items = np.where(tail >= 0.5, _inverse_near_0(np.clip(1.0 - tail, 0.0, 0.5)), _inverse_of_tail(tail))
    return np.where(np.isnan(x), x, np.where(x > 1.0, -found, found))


def _first_guess(log: Items) -> Items:
    """Winitzki: erfinv(x), given log(1 - x**2)."""
    half = 2.0 / (math.pi * 0.147) + log / 2.0
    return np.sqrt(np.maximum(np.sqrt(half * half - log / 0.147) - half, 0.0))


def _inverse_near_0(x: Items) -> Items:
    """erfinv for 0 <= x <= 1/2."""
    found = _first_guess(np.log1p(-x * x))
    for _ in range(3):
        error = (found * _polynomial(found * found, _ERF) - x) * np.exp(found * found) * (_ROOT_PI / 2.0)
        found = found - error / (1.0 + error * found)
    return found


def _inverse_of_tail(x: Items) -> Items:
    """erfcinv for 0 <= x <= 1/2."""
    inside = (x > 0.0) & (x <= 0.5)
    q = np.where(inside, x, 0.5)
    log = np.log(q)
    found = _first_guess(log + np.log(2.0 - q))
    for _ in range(4):
        scaled = _scaled(found)
        found = found + (np.log(scaled) - found * found - log) * scaled * (_ROOT_PI / 2.0)
    return np.where(inside, found, np.where(x == 0.0, np.inf, np.nan))


@in_chunks
def normcdfinv(x: Items) -> Items:
    """The inverse of the standard normal distribution function."""
    return -math.sqrt(2.0) * erfcinv(2.0 * x)
