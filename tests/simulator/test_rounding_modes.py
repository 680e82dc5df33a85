"""Operations that do not round to nearest, against exact arithmetic: the neighbours of every result."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.errors import Unsupported
from simulator.machine.operations.rounding import MODES
from simulator.machine.values import DT, Lanes
from simulator.program import FLOATS
from tests.simulator.operations import INF, NAN, run, sample

pytestmark = pytest.mark.usefixtures("quiet")

EXACT = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y if y else None,
    "fma": lambda x, y, z: x * y + z,
    "cvt": lambda x: x,
}


def check(found, exact, mode, code):
    """``found`` is on the right side of the exact result, and the next one on that side is not."""
    dtype = DT[code]
    toward = {"floor": INF, "ceil": -INF, "trunc": INF if exact > 0 else -INF}[mode]
    nearer = float(np.nextafter(found, dtype.type(toward)))
    value = float(found)
    up = toward > 0  # the result is below the exact one, and the next one up is past it

    def below(number):
        return number <= exact if math.isfinite(number) else number < 0

    def above(number):
        return number >= exact if math.isfinite(number) else number > 0

    inside, past = (below, above) if up else (above, below)
    assert inside(value), (value, exact)
    assert value == exact or (past(nearer) and nearer != exact), (value, nearer, exact)


@pytest.mark.parametrize("code", FLOATS)
@pytest.mark.parametrize("kind", ["add", "sub", "mul", "div", "fma"])
def test_results_are_the_neighbours_of_the_exact_one(kind, code):
    columns = [sample(code, seed, 200) for seed in range(3 if kind == "fma" else 2)]
    for mode in MODES:
        found = run(kind, code, *columns, rounding=mode)
        assert found.dtype == DT[code]
        for result, *operands in zip(found, *columns, strict=True):
            numbers = [float(operand) for operand in operands]
            if all(map(math.isfinite, numbers)) and not math.isnan(float(result)):
                exact = EXACT[kind](*map(Fraction, numbers))
                if exact:
                    check(result, exact, mode, code)


@pytest.mark.parametrize("code", FLOATS)
def test_roots(code):
    x = np.abs(sample(code, 5, 200))
    x = x[np.isfinite(x)]
    down, up = (run("sqrt", code, x, rounding=mode) for mode in ("floor", "ceil"))
    for low, high, number in zip(down.tolist(), up.tolist(), x.tolist(), strict=True):
        exact = Fraction(number)
        assert Fraction(low) ** 2 <= exact <= Fraction(high) ** 2
        assert low == high or float(np.nextafter(DT[code].type(low), DT[code].type(INF))) == high
    np.testing.assert_array_equal(run("sqrt", code, x, rounding="trunc"), down)


@pytest.mark.parametrize("code", ["f2", "bf", "f4", "f8"])
@pytest.mark.parametrize("source", ["i4", "u8", "f8"])
def test_conversions(code, source):
    if code == source:
        return
    generator = np.random.default_rng(3)
    x = sample("f8", 1, 200) if source == "f8" else generator.integers(0, 2**63, 300).astype(source)
    for mode in MODES:
        found = run("cvt", code, x, source=source, rounding=mode)
        for result, number in zip(found, x.tolist(), strict=True):
            if math.isfinite(number) and number:
                check(result, Fraction(number), mode, code)


def test_integers_that_are_uniform_or_affine_are_converted_alike():
    affine = Lanes(2, 32).affine(2**24 + 1, 7, 3, "i4")
    for mode in MODES:
        lanes = run("cvt", "f4", affine.array(DT["i4"]), source="i4", rounding=mode)
        np.testing.assert_array_equal(run("cvt", "f4", affine, source="i4", rounding=mode), lanes)
        assert run("cvt", "f4", 2**24 + 1, source="i4", rounding=mode) == lanes[0, 0]


@settings(max_examples=60)
@given(st.floats(width=32), st.floats(width=32), st.sampled_from(MODES), st.sampled_from(["add", "sub", "mul", "div"]))
def test_specials_are_those_of_rounding_to_nearest(x, y, mode, kind):
    found, near = (run(kind, "f4", np.float32(x), np.float32(y), **attr) for attr in ({"rounding": mode}, {}))
    if math.isnan(float(near)):
        assert math.isnan(float(found))
    elif not (math.isfinite(x) and math.isfinite(y)) or (kind == "div" and y == 0):
        assert found == near
    assert type(found) is np.float32


def test_overflow_and_zeros():
    largest = np.finfo(np.float32).max
    assert run("mul", "f4", largest, np.float32(2), rounding="trunc") == largest
    assert run("mul", "f4", largest, np.float32(-2), rounding="ceil") == -largest
    assert run("mul", "f4", largest, np.float32(2), rounding="ceil") == INF
    one = np.float32(1)
    assert math.copysign(1, run("sub", "f4", one, one, rounding="floor")) == -1
    assert math.copysign(1, run("add", "f4", one, -one, rounding="ceil")) == 1
    assert math.copysign(1, run("fma", "f4", one, one, -one, rounding="floor")) == -1
    assert math.isnan(run("add", "f4", np.float32(NAN), one, rounding="ceil"))


def test_what_has_no_such_mode_is_refused():
    for kind, mode in (("add", "away"), ("rem", "floor")):
        with pytest.raises(Unsupported):
            run(kind, "f4", np.float32(1), np.float32(2), rounding=mode)
    with pytest.raises(Unsupported):
        run("add", "i4", 1, 2, rounding="floor")
