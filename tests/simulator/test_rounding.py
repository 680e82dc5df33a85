"""Arithmetic, fma and roots round once, to nearest even: against exact fractions."""

import math
import random
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from simulator.machine.values import DT
from simulator.program import FLOATS
from tests.simulator.operations import INF, NAN, check_exact, finite, pattern, run

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.parametrize("code", FLOATS)
@pytest.mark.parametrize("kind", ["add", "sub", "mul", "div"])
def test_arithmetic_rounds_once(kind, code):
    x, y = finite(code, 1, 300), finite(code, 2, 300)
    n = min(len(x), len(y))
    x, y = x[:n], y[:n]
    y[y == 0] = 1
    exact = {
        "add": lambda p, q: p + q,
        "sub": lambda p, q: p - q,
        "mul": lambda p, q: p * q,
        "div": lambda p, q: p / q,
    }[kind]
    found = run(kind, code, x, y)
    assert found.dtype == DT[code]
    for p, q, item in zip(x, y, found, strict=True):
        check_exact(item, exact(Fraction(float(p)), Fraction(float(q))), code, (p, q))
        assert pattern(run(kind, code, p, q)) == pattern(item)


def fma_operands(code, count, seed):
    """Triples, most of them near a tie: z is a number, x*y about half its last bit, up to a sliver."""
    rng = random.Random(seed)
    bits = {"f2": 11, "bf": 8, "f4": 24, "f8": 53}[code]
    limit = {"f2": 12, "bf": 100, "f4": 100, "f8": 480}[code]
    number = DT[code].type
    for k in range(count):
        z = math.ldexp(rng.getrandbits(bits) | 1 << (bits - 1), rng.randint(-limit, limit - bits))
        half = math.frexp(z)[1] - bits - 1
        split = rng.randint(-limit // 2, limit // 2)
        x = math.ldexp(1 + rng.choice([0, 1, -1, 3]) * 2.0 ** (1 - bits), split)
        y = math.ldexp(rng.choice([1, -1, 1.5]) + rng.choice([0, 1, -1]) * 2.0 ** (1 - bits), half - split)
        if k % 4 == 0:  # cancellation, and any size
            x, y, z = (math.ldexp(rng.getrandbits(bits), rng.randint(-limit, limit - bits)) for _ in range(3))
            z = rng.choice([z, -float(number(x)) * float(number(y)), 0.0])
        yield number(x), number(y), number(z)


@pytest.mark.parametrize("code", FLOATS)
def test_fma_is_correctly_rounded(code):
    triples = [t for t in fma_operands(code, 4000, 5) if all(map(math.isfinite, map(float, t)))]
    items = finite(code, 3, 700)
    triples += list(zip(items, items[::-1], np.roll(items, 7), strict=True))
    info = ml_dtypes.finfo(DT[code])
    edge = [DT[code].type(v) for v in (info.max, -info.max, info.smallest_subnormal, info.smallest_normal, 1, 0, -1)]
    triples += [(x, y, z) for x in edge for y in edge for z in edge]
    arrays = [np.array(column, DT[code]) for column in zip(*triples, strict=True)]
    found = run("fma", code, *arrays)
    assert found.dtype == DT[code]
    for (x, y, z), item in zip(triples, found, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        check_exact(item, exact, code, (x, y, z))
        if random.random() < 0.2:
            assert pattern(run("fma", code, x, y, z)) == pattern(item)


@pytest.mark.parametrize("code", FLOATS)
def test_fma_of_zeros_infinities_and_nans(code):
    items = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN]
    for x in items:
        for y in items:
            for z in items:
                found = run("fma", code, *map(DT[code].type, (x, y, z)))
                assert pattern(found) == pattern(DT[code].type(np.float64(x) * y + z)), (x, y, z)
    huge = DT[code].type(ml_dtypes.finfo(DT[code]).max)
    assert float(run("fma", code, huge, huge, DT[code].type(-INF))) == -INF
    assert float(run("fma", code, huge, huge, DT[code].type(1))) == INF


def test_fma_of_integers_wraps():
    assert run("fma", "i1", 100, 3, 100) == (400 + 128) % 256 - 128


@pytest.mark.parametrize("code", FLOATS)
def test_sqrt_is_correctly_rounded(code):
    x = np.abs(finite(code, 4, 400))
    for item, found in zip(x, run("sqrt", code, x), strict=True):
        check_root(float(item), float(found), code, inverse=False)


@pytest.mark.parametrize("code", FLOATS)
def test_rsqrt_is_correctly_rounded(code):
    x = np.abs(finite(code, 4, 400))
    x = x[x > 0]
    found = run("rsqrt", code, x)
    assert found.dtype == DT[code]
    for item, root in zip(x, found, strict=True):
        check_root(float(item), float(root), code, inverse=True)
        assert run("rsqrt", code, item) == root
    edges = np.array([0.0, -0.0, INF, -1.0, NAN], DT[code])
    np.testing.assert_array_equal(run("rsqrt", code, edges).astype(float), [INF, -INF, 0.0, NAN, NAN])


def check_root(x, found, code, inverse):
    """The root lies between the midpoints on both sides of ``found``."""
    if x == 0:
        assert found == 0
        return
    bits = {"f2": 11, "bf": 8, "f4": 24, "f8": 53}[code]
    smallest = {"f2": -24, "bf": -133, "f4": -149, "f8": -1074}[code]
    unit = Fraction(2) ** max(math.frexp(found)[1] - bits, smallest)
    low = Fraction(found) - (unit / 4 if math.frexp(found)[0] == 0.5 else unit / 2)
    high = Fraction(found) + unit / 2
    square = 1 / Fraction(x) if inverse else Fraction(x)
    assert low**2 <= square <= high**2, x


def test_rsqrt_of_every_single_is_correctly_rounded():
    x = (np.arange(2**24, dtype=np.uint32) + np.uint32(0x3F800000)).view(np.float32)  # all of [1, 4)
    found = run("rsqrt", "f4", x)
    wide = 1 / np.sqrt(x.astype(np.float64))
    unit = np.spacing(found).astype(np.float64)
    near_tie = np.abs(np.abs(wide - found.astype(np.float64)) / unit - 0.5) < 1e-6
    assert np.count_nonzero(near_tie) > 3
    for item, root in zip(x[near_tie], found[near_tie], strict=True):
        check_root(float(item), float(root), "f4", inverse=True)
