"""What the tests of operations share: running one, samples of floats, and exact rounding to compare with."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np

from simulator.machine.operations import implementation
from simulator.machine.values import DT
from simulator.program import SIZES, Op, Pos

POS = Pos("test.py", 1)
INF, NAN = math.inf, math.nan


def run(kind, code, *values, **attr):
    rule = implementation(Op(kind, code, (), (), POS, attr))
    if isinstance(rule, str):
        return eval(rule.format(*(f"v[{k}]" for k in range(len(values)))), {"v": values})
    return rule(*values)


def pattern(items):
    """Bits of an array of floats, every NaN as the same one."""
    items = np.ascontiguousarray(items)
    bits = items.view(f"u{items.dtype.itemsize}").copy()
    bits[np.isnan(items)] = 2**15 - 1
    return bits


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 0.1, 100.0, 1e4, 6e4, INF, -INF, NAN]


def sample(code, seed, count=600):
    """Floats of all sizes: specials, ties, subnormals, the largest; and neighbours of them."""
    generator = np.random.default_rng(seed)
    size = SIZES[code]
    anything = generator.integers(0, 2 ** (8 * size), count, dtype=f"u{size}").view(DT[code])
    info = ml_dtypes.finfo(DT[code])
    edges = np.array([info.max, info.smallest_normal, info.smallest_subnormal, info.eps], np.float64)
    usual = np.concatenate([generator.normal(size=count) * 3, generator.integers(-40, 40, count) / 4, SPECIAL])
    found = np.concatenate([anything, usual.astype(DT[code]), edges.astype(DT[code]), -edges.astype(DT[code])])
    return generator.permutation(found)


FORMAT = {"f2": (11, -24, 65504), "bf": (8, -133, 3.3895313892515355e38), "f4": (24, -149, 3.4028234663852886e38)}
"""Significant bits, exponent of the smallest subnormal, largest."""


def rounded(exact, code):
    """A Fraction rounded to nearest even, as a Python float."""
    if exact == 0:
        return 0.0
    if code == "f8":
        try:
            return exact.numerator / exact.denominator
        except OverflowError:
            return INF if exact > 0 else -INF
    bits, smallest, largest = FORMAT[code]
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - bits + 1, smallest)
    whole = round(size / unit) * unit  # Python rounds a Fraction to nearest even
    found = INF if whole > largest else float(whole)
    return found if exact > 0 else -found


def check_exact(found, exact, code, note):
    expected = rounded(exact, code)
    assert float(found) == expected, note
    if exact != 0:
        assert math.copysign(1, found) == (1 if exact > 0 else -1), note


def finite(code, seed, count):
    items = sample(code, seed, count)
    return items[np.isfinite(items)]
