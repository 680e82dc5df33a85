"""Functions against Python's, and with equal bits for scalars and arrays of every layout."""

import math
import random
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.machine.operations import implementation
from simulator.machine.operations.math import FUNCTIONS
from simulator.machine.values import DT, Lanes
from simulator.program import FLOATS, Op
from tests.simulator.operations import INF, NAN, POS, check_exact, finite, pattern, run, sample

pytestmark = pytest.mark.usefixtures("quiet")


DOMAIN = {"acosh": (1, 50), "acos": (-1, 1), "asin": (-1, 1), "atanh": (-1, 1), "log": (0, 1e3), "log2": (0, 1e3),
          "log10": (0, 1e3), "log1p": (-1, 1e3), "gamma": (0.5, 8), "lgamma": (3, 90), "erfc": (-3, 2),
          "erfinv": (-0.9, 0.9), "erfcinv": (0.1, 1.9), "normcdfinv": (0.05, 0.95)}  # fmt: skip
PYTHON = {
    "rcbrt": lambda x: 1 / math.cbrt(x),
    "cospi": lambda x: math.cos(math.pi * x),
    "sinpi": lambda x: math.sin(math.pi * x),
    "exp10": lambda x: 10.0**x,
    "fdim": lambda x, y: max(x - y, 0.0),
    "logb": lambda x: math.frexp(x)[1] - 1.0,
    "normcdf": lambda x: 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "fabs": abs,
    "erfcx": lambda x: math.exp(x * x) * math.erfc(x),
    "erfinv": lambda x: NormalDist().inv_cdf((x + 1) / 2) / math.sqrt(2),
    "erfcinv": lambda x: -NormalDist().inv_cdf(x / 2) / math.sqrt(2),
    "normcdfinv": lambda x: NormalDist().inv_cdf(x),
}


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_functions_agree_with_python(fn):
    count = FUNCTIONS[fn][0]
    low, high = DOMAIN.get(fn, (-3, 3))
    x = np.random.default_rng(16).uniform(low, high, (count, 300))
    if fn == "pow":
        x[0] = np.abs(x[0]) + 0.1
    python = PYTHON.get(fn) or getattr(math, fn)
    for code, tolerance in (("f8", 1e-13), ("f4", 2.0**-23), ("f2", 2.0**-10), ("bf", 2.0**-7)):
        items = x.astype(DT[code])
        exact = [python(*map(float, column)) for column in zip(*items, strict=True)]
        found = run("math", code, *items, fn=fn)
        assert found.dtype == DT[code]
        np.testing.assert_allclose(found.astype(float), exact, rtol=tolerance, atol=tolerance if "pi" in fn else 1e-14)


def layouts(arrays, generator):
    """The same operands cut, strided, reversed, misaligned, broadcast and one by one: (name, how to call with them)."""
    size = arrays[0].size
    yield "scalars", lambda f: np.array([f(*column) for column in zip(*arrays, strict=True)], arrays[0].dtype)
    for length in (1, 2, 3, 5, 7, 13, 31, 32, 33):
        starts = range(0, size, length)
        yield (
            f"runs of {length}",
            lambda f, starts=starts, length=length: np.concatenate(
                [f(*(a[k : k + length] for a in arrays)) for k in starts]
            ),
        )

    def strided(step):
        spread = [np.zeros((size, abs(step)), a.dtype) for a in arrays]
        for wide, a in zip(spread, arrays, strict=True):
            wide[:, 0] = a if step > 0 else a[::-1]
        return [wide[:, 0] if step > 0 else wide[::-1, 0] for wide in spread]

    for step in (2, 3, -1, -2):
        yield f"step {step}", lambda f, step=step: f(*strided(step))

    def misaligned(a):
        return np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(a.dtype)

    yield "misaligned", lambda f: f(*map(misaligned, arrays))
    yield "a column", lambda f: f(*(a.reshape(-1, 1) for a in arrays)).ravel()
    yield "a column of a transpose", lambda f: f(*(np.stack([a, a]).T[:, :1] for a in arrays)).ravel()
    yield "broadcast", lambda f: f(*(np.broadcast_to(a, (4, size)) for a in arrays))[int(generator.integers(4))]
    yield "misfit", lambda f: f(arrays[0][None], *(a[None].repeat(3, 0) for a in arrays[1:]))[-1]


ALL = [("math", {"fn": fn}, FUNCTIONS[fn][0]) for fn in FUNCTIONS]
ALL += [("math", {"fn": fn}, 1) for fn in ("degrees", "radians")] + [("math", {"fn": "nextafter"}, 2)]
ALL += [("rsqrt", {}, 1), ("sqrt", {}, 1), ("fma", {}, 3), ("copysign", {}, 2), ("floordiv", {}, 2), ("mod", {}, 2)]
ALL += [("min", {"nan": "ignore"}, 2), ("max", {"nan": "propagate"}, 2), ("rem", {}, 2), ("div", {}, 2), ("mul", {}, 2)]
ALL += [("round", {"mode": mode}, 1) for mode in ("even", "away", "floor")]


@pytest.mark.parametrize("code", FLOATS)
@pytest.mark.parametrize(("kind", "attr", "operands"), ALL, ids=lambda v: str(v) if v else "-")
def test_equal_bits_whatever_the_layout(kind, attr, operands, code):
    generator = np.random.default_rng(17)
    base = sample(code, 18, 150)
    arrays = [generator.permutation(base) for _ in range(operands)]
    rule = implementation(Op(kind, code, (), (), POS, attr))
    function = eval(f"lambda *v: {rule.format('v[0]', 'v[1]')}") if isinstance(rule, str) else rule
    expected = function(*arrays)
    for name, see in layouts(arrays, generator):
        found = see(function)
        assert found.dtype == DT[code], name
        np.testing.assert_array_equal(pattern(found), pattern(expected), err_msg=name)


def test_uniform_exponents_do_not_take_numpys_shortcuts():
    for base in (-INF, INF, -0.0, 0.1, 3.3, -2.0, 1e-200):
        for exponent in (-1.0, 0.0, 0.5, 1.0, 2.0, 3.0):
            scalar = run("math", "f8", np.float64(base), np.float64(exponent), fn="pow")
            column = run("math", "f8", np.full((1, 40), base), np.float64(exponent), fn="pow")
            both = run("math", "f8", np.full((1, 40), base), np.full((1, 40), exponent), fn="pow")
            assert pattern(scalar) == pattern(column[0, 3]) == pattern(both[0, 7]), (base, exponent)
    assert run("math", "f8", np.float64(-INF), np.float64(0.5), fn="pow") == INF


def test_special_values_of_functions():
    def of(fn, *values, code="f8"):
        return float(run("math", code, *map(DT[code].type, values), fn=fn))

    assert of("pow", -1, INF) == of("pow", 1, NAN) == of("pow", NAN, 0) == 1
    assert (of("gamma", 0.0), of("gamma", -0.0), of("gamma", 200)) == (INF, -INF, INF)
    assert math.isnan(of("gamma", -3))
    assert of("gamma", 40, code="f4") == INF
    assert of("lgamma", -2) == of("lgamma", -INF) == INF
    assert math.copysign(1, of("sinpi", -2.0)) == -1
    assert (of("sinpi", 0.5), of("cospi", 0.5), of("cospi", 1.0), of("cospi", 1e300)) == (1, 0, -1, 1)
    assert math.isnan(of("sinpi", INF))
    assert (of("exp", 100, code="f4"), of("exp", -200, code="f4"), of("log", 0)) == (INF, 0, -INF)
    assert math.isnan(of("log", -1))


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
@settings(deadline=None, max_examples=300)
def test_remainder_is_ieees(x, y):
    found = run("math", "f8", np.float64(x), np.float64(y), fn="remainder")
    if math.isinf(x) or y == 0:
        assert math.isnan(found)
    else:
        assert pattern(found) == pattern(np.float64(math.remainder(x, y)))


@pytest.mark.parametrize("code", FLOATS)
def test_frexp_modf_and_ldexp(code):
    x = sample(code, 19, 300)
    significand, exponent = run("math", code, x, fn="frexp")
    assert (significand.dtype, exponent.dtype) == (DT[code], np.int32)
    fraction, whole = run("math", code, x, fn="modf")
    assert fraction.dtype == whole.dtype == DT[code]
    for k, p in enumerate(x):
        one, n = run("math", code, p, fn="frexp")
        assert type(n) is int
        assert pattern(one) == pattern(significand[k])
        if math.isfinite(p):
            assert (float(one), n) == math.frexp(float(p))
            assert (float(fraction[k]), float(whole[k])) == math.modf(float(p))
            assert np.signbit(fraction[k]) == np.signbit(p)
        else:
            assert n == exponent[k] == 0
    rng = random.Random(20)
    for p in finite(code, 21, 200):
        n = rng.choice([rng.randint(-20, 20), rng.randint(-2000, 2000), 2**31 - 1, -(2**31)])
        scale = Fraction(2) ** min(max(n, -3000), 3000)
        check_exact(run("math", code, p, n, fn="ldexp"), Fraction(float(p)) * scale, code, (p, n))
    tid = Lanes(1, 32).affine(-18, 0, 1, "i4")
    found = run("math", code, DT[code].type(3), tid, fn="ldexp")
    assert found[0].astype(float).tolist() == [3 * 2.0 ** (k - 18) for k in range(32)]
    assert found.dtype == DT[code]


@pytest.mark.parametrize("code", FLOATS)
def test_integer_powers_multiply_in_the_dtype(code):
    one = DT[code].type(1)
    for x in (DT[code].type(1.1), DT[code].type(-3), DT[code].type(0)):
        for n in (0, 1, 2, 3, 7, 10, -1, -3):
            found, base, left = one, x, abs(n)
            while left:
                found = found * base if left & 1 else found
                left, base = left >> 1, base * base
            found = one / found if n < 0 else found
            assert pattern(run("math", code, x, n, fn="powi")) == pattern(found), (x, n)
            lanes = run("math", code, np.full((2, 1), x), np.full((1, 3), n, np.int32), fn="powi")
            assert lanes.dtype == DT[code]
            assert lanes.shape == (2, 3)
            assert (pattern(lanes) == pattern(found)).all()
    assert float(run("math", "f8", np.float64(1 + 2.0**-20), 2**20, fn="powi")) == pytest.approx(math.e, rel=1e-5)


def test_powers_of_integers_are_numbas():
    assert run("math", "i8", 3, 40, fn="pow") == 3**40 - (1 << 64 if 3**40 >= 1 << 63 else 0)
    assert run("math", "i4", 7, 11, fn="pow") == (7**11 + 2**31) % 2**32 - 2**31
    assert run("math", "u8", 2, 63, fn="pow") == 2**63
    assert [run("math", "i4", x, -3, fn="pow") for x in (0, 1, -1, 2)] == [-(2**31), 1, -1, 0]
    assert run("math", "i8", 2, 70_000, fn="pow") == 2**63 - 1
    x, y = np.meshgrid(np.arange(-5, 6), np.array([-2, -1, 0, 1, 2, 5, 70_000]))
    found = run("math", "i8", x, y, fn="pow")
    for p, q, item in zip(x.ravel().tolist(), y.ravel().tolist(), found.ravel().tolist(), strict=True):
        assert item == run("math", "i8", p, q, fn="pow"), (p, q)
    positive = run("math", "i4", np.arange(-5, 6, dtype="i4").reshape(1, -1), 3, fn="pow")
    assert positive.tolist() == [[k**3 for k in range(-5, 6)]]
