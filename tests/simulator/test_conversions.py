"""Conversions between all dtypes round once or saturate; bitcasts keep the bits."""

import math
import random
import struct
from fractions import Fraction

import numpy as np
import pytest

from simulator.machine.values import DT, RANGE, Lanes
from simulator.program import FLOATS, INTEGERS, SIZES
from tests.simulator.operations import FORMAT, NAN, check_exact, pattern, rounded, run, sample

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.parametrize("to", INTEGERS)
@pytest.mark.parametrize("source", FLOATS)
def test_floats_to_integers_truncate_and_saturate(source, to):
    low, high = RANGE[to]
    near = [low, high, low - 1, high + 1, low / 2, high / 2, -0.9, 0.9, 2.0**63, 2.0**64, -(2.0**63)]
    x = np.concatenate([sample(source, 10, 300), np.array(near, np.float64).astype(DT[source])])
    found = run("cvt", to, x, source=source)
    assert found.dtype == DT[to]
    for p, item in zip(x, found.tolist(), strict=True):
        number = float(p)
        if number != number:
            expected = 0
        elif math.isinf(number):
            expected = low if number < 0 else high
        else:
            expected = min(max(math.trunc(number), low), high)
        assert item == expected, p
        assert run("cvt", to, p, source=source) == expected, p
    inside = np.array([[1.5, 2.5]], DT[source])
    assert run("cvt", to, inside, source=source).tolist() == [[1, 2]]


def integers_near_ties(code, count, seed):
    """Integers a hair above and below halfway between floats of any precision."""
    rng = random.Random(seed)
    low, high = RANGE[code]
    for _ in range(count):
        bits = rng.choice([8, 11, 24, 53])
        top = rng.getrandbits(bits) | 1 << (bits - 1)
        shift = rng.randint(0, 64 - bits)
        number = (top << shift) + (1 << shift >> 1) + rng.choice([-1, 0, 1])
        number = rng.choice([number, -number, rng.randint(low, high)])
        if low <= number <= high:
            yield number
    yield from (low, high, low + 1, high - 1, 0)


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("to", FLOATS)
def test_integers_to_floats_round_once(to, source):
    numbers = list(integers_near_ties(source, 1500, 11))
    found = run("cvt", to, np.array(numbers, DT[source]), source=source)
    assert found.dtype == DT[to]
    for number, item in zip(numbers, found, strict=True):
        assert float(item) == rounded(Fraction(number), to), number
        scalar = run("cvt", to, number, source=source)
        assert type(scalar) is DT[to].type
        assert scalar == item, number
    lanes = Lanes(2, 32)
    tid = lanes.affine(100, 32, -1, source)
    assert run("cvt", to, tid, source=source)[1, 31] == 101


def doubles_near_ties(to, count, seed):
    rng = random.Random(seed)
    bits = FORMAT[to][0]
    limit = 18 if to == "f2" else 130
    for _ in range(count):
        number = math.ldexp(rng.getrandbits(bits + 1) | 1, rng.randint(-limit - 22, limit) - bits)
        yield rng.choice([1, -1]) * number * (1 + rng.choice([0, 1, -1, 3, 2**10, -(2**28)]) * 2.0**-52)
    yield from (FORMAT[to][2], FORMAT[to][2] * (1 + 2.0 ** -(bits + 1)), 1e-320, 2.0 ** (FORMAT[to][1] - 1))


@pytest.mark.parametrize("to", ["f2", "bf", "f4"])
def test_doubles_are_rounded_once(to):
    numbers = list(doubles_near_ties(to, 4000, 12))
    found = run("cvt", to, np.array(numbers), source="f8")
    for number, item in zip(numbers, found, strict=True):
        check_exact(item, Fraction(number), to, number)
        assert pattern(run("cvt", to, np.float64(number), source="f8")) == pattern(item)


@pytest.mark.parametrize(("source", "to"), [("f2", "bf"), ("bf", "f2"), ("f4", "f2"), ("f4", "bf"), ("f2", "f4")])
def test_conversions_between_small_floats(source, to):
    x = sample(source, 13, 2000)
    found = run("cvt", to, x, source=source)
    assert found.dtype == DT[to]
    for p, item in zip(x, found, strict=True):
        if math.isfinite(p):
            check_exact(item, Fraction(float(p)), to, p)
            assert np.signbit(p) == np.signbit(item)
        else:
            assert pattern(np.float64(float(item))) == pattern(np.float64(float(p)))


@pytest.mark.parametrize("source", ["f2", "bf", "f4"])
def test_widening_is_exact(source):
    x = sample(source, 14, 500)
    wide = run("cvt", "f8", x, source=source)
    np.testing.assert_array_equal(run("cvt", source, wide, source="f8").astype(float), x.astype(float))


@pytest.mark.parametrize("code", FLOATS)
def test_predicates_and_floats(code):
    assert run("cvt", "b1", np.array([0.0, -0.0, NAN, 2.0], DT[code]), source=code).tolist() == [0, 0, 1, 1]
    assert run("cvt", "b1", DT[code].type(-0.0), source=code) is False
    assert run("cvt", code, True, source="b1") == 1
    assert run("cvt", code, np.array([[True, False]]), source="b1").dtype == DT[code]
    assert run("cvt", "u8", True, source="b1") == 1


@pytest.mark.parametrize(
    ("to", "source"), [("u4", "f4"), ("i4", "f4"), ("u8", "f8"), ("u2", "f2"), ("i2", "bf"), ("f2", "bf")]
)
def test_bitcast_keeps_the_bits(to, source):
    x = sample(source, 15, 300)
    unsigned = f"u{SIZES[to]}"
    found = run("bitcast", to, x, source=source)
    assert found.dtype == DT[to]
    np.testing.assert_array_equal(found.view(unsigned), x.view(unsigned))
    for p, bits in zip(x, x.view(unsigned).tolist(), strict=True):
        there = run("bitcast", to, p, source=source)
        back = run("bitcast", source, there, source=to)
        assert int(np.array(back, DT[source]).view(unsigned)[()]) == bits


def test_bitcast_of_uniform_and_affine_integers():
    assert run("bitcast", "f4", 0x3F800000, source="i4") == struct.unpack("f", struct.pack("I", 0x3F800000))[0]
    assert run("bitcast", "u4", -1, source="i4") == 2**32 - 1
    tid = Lanes(1, 32).affine(0, 0, 1, "i4")
    assert run("bitcast", "u4", tid, source="i4") is tid
    assert run("bitcast", "f4", tid, source="i4").dtype == np.float32
    with pytest.raises(ValueError, match="reinterpretation"):
        run("bitcast", "f8", 1, source="i4")
