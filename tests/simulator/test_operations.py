"""Signs, zeros and NaN, comparisons, and the one door through which operations are found."""

import math
from fractions import Fraction

import numpy as np
import pytest

from simulator.errors import Unsupported
from simulator.kinds import KINDS
from simulator.machine.operations import expression, implementation
from simulator.machine.values import DT
from simulator.program import FLOATS, INTEGERS, SIZES, Op
from tests.simulator.operations import INF, NAN, POS, finite, pattern, rounded, run, sample

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.parametrize("code", FLOATS)
@pytest.mark.parametrize("nan", ["ignore", "propagate"])
@pytest.mark.parametrize("kind", ["min", "max"])
def test_min_and_max(kind, nan, code):
    x, y = np.meshgrid(sample(code, 5, 30), sample(code, 6, 30))
    found = run(kind, code, x, y, nan=nan)
    for p, q, item in zip(x.ravel(), y.ravel(), found.ravel(), strict=True):
        a, b = float(p), float(q)
        if a != a or b != b:
            expected = NAN if nan == "propagate" else b if a != a else a
        else:
            order = sorted([a, b], key=lambda v: (v, math.copysign(1, v)))  # -0.0 before 0.0
            expected = order[kind == "max"]
        assert pattern(item) == pattern(DT[code].type(expected)), (p, q)
        assert pattern(run(kind, code, p, q, nan=nan)) == pattern(item), (p, q)


@pytest.mark.parametrize("code", FLOATS)
def test_neg_and_abs_touch_only_the_sign(code):
    bits = np.arange(0, 2 ** (8 * SIZES[code]), max(1, 2 ** (8 * SIZES[code] - 12)), dtype=f"u{SIZES[code]}")
    sign = bits.dtype.type(1 << (8 * SIZES[code] - 1))
    x = bits.view(DT[code])
    np.testing.assert_array_equal(run("neg", code, x).view(bits.dtype), bits ^ sign)
    np.testing.assert_array_equal(run("abs", code, x).view(bits.dtype), bits & ~sign)
    assert math.copysign(1, run("neg", code, DT[code].type(0.0))) == -1
    assert math.copysign(1, run("abs", code, DT[code].type(-0.0))) == 1


@pytest.mark.parametrize("code", FLOATS)
@pytest.mark.parametrize("how", ["lt", "le", "gt", "ge", "eq", "ne"])
@pytest.mark.parametrize("unordered", [False, True])
def test_comparisons_with_nan(how, code, unordered):
    items = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN], DT[code])
    x, y = np.meshgrid(items, items)
    found = run("cmp", code, x, y, how=how, unordered=unordered)
    assert found.dtype == np.bool_
    python = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}[how]
    for p, q, item in zip(x.ravel(), y.ravel(), found.ravel(), strict=True):
        expected = unordered if p != p or q != q else eval(f"{float(p)!r} {python} {float(q)!r}", {"inf": INF})
        assert bool(item) is expected, (p, q)
        scalar = run("cmp", code, p, q, how=how, unordered=unordered)
        assert scalar is expected, (p, q)


def test_comparisons_of_predicates():
    x = np.array([[True, False, True, False]])
    y = np.array([[True, True, False, False]])
    assert run("cmp", "b1", x, y, how="ne").tolist() == [[False, True, True, False]]
    assert run("cmp", "b1", True, False, how="lt") is False
    assert run("cmp", "b1", x, x, how="eq") is True


def test_logic_of_predicates():
    x = np.array([[True, False, True, False]])
    y = np.array([[True, True, False, False]])
    for kind, python in [("and", lambda p, q: p and q), ("or", lambda p, q: p or q), ("xor", lambda p, q: p != q)]:
        expected = [[python(p, q) for p, q in zip(x[0].tolist(), y[0].tolist(), strict=True)]]
        assert run(kind, "b1", x, y).tolist() == expected
        for p in (True, False):
            for q in (True, False):
                assert run(kind, "b1", p, q) is python(p, q)
            for left, right in ((p, y), (y, p)):
                found = np.broadcast_to(run(kind, "b1", left, right), (1, 4))
                assert found.tolist() == [[python(p, q) for q in y[0].tolist()]]
    assert run("not", "b1", True) is False
    assert run("not", "b1", x).tolist() == (~x).tolist()


@pytest.mark.parametrize("code", FLOATS)
def test_classes(code):
    items = np.array([0.0, -0.0, 1.0, INF, -INF, NAN], DT[code])
    expected = {
        "isnan": [0, 0, 0, 0, 0, 1],
        "isinf": [0, 0, 0, 1, 1, 0],
        "isfinite": [1, 1, 1, 0, 0, 0],
        "signbit": [0, 1, 0, 0, 1, 0],
    }
    for fn, answers in expected.items():
        assert run("classify", code, items, fn=fn).tolist() == [bool(v) for v in answers]
        assert [run("classify", code, v, fn=fn) for v in items] == [bool(v) for v in answers]


@pytest.mark.parametrize("code", FLOATS)
def test_rounding_modes(code):
    items = sample(code, 7, 300)
    items = np.concatenate([items, np.array([0.49999999999999994, -0.49999997, 0.5, 4503599627370497.5], DT[code])])
    items = items[np.isfinite(items)]
    modes = {"even": round, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "away": half_away}
    for mode, python in modes.items():
        for x, found in zip(items, run("round", code, items, mode=mode), strict=True):
            assert float(found) == python(float(x)), (mode, x)
            assert np.signbit(found) == np.signbit(x) or found != 0, (mode, x)
            assert pattern(run("round", code, x, mode=mode)) == pattern(found)
    assert float(run("round", code, DT[code].type(-INF), mode="away")) == -INF


def half_away(x):
    whole = math.floor(abs(Fraction(x)) + Fraction(1, 2))
    return -whole if x < 0 else whole


@pytest.mark.parametrize("code", FLOATS)
def test_floor_division_and_modulo_are_pythons(code):
    x, y = sample(code, 8, 250), sample(code, 9, 250)
    quotient, rest = run("floordiv", code, x, y), run("mod", code, x, y)
    assert quotient.dtype == rest.dtype == DT[code]
    for p, q, whole, left in zip(x, y, quotient, rest, strict=True):
        a, b = float(p), float(q)
        if b == 0:  # no exception on a GPU: true division, and NaN
            assert pattern(whole) == pattern(p / q)
            assert left != left
        elif code == "f8":
            expected = NAN if math.isinf(a) else a // b
            assert pattern(whole) == pattern(np.float64(expected)), (a, b)
            assert pattern(left) == pattern(np.float64(a % b)), (a, b)
        elif math.isfinite(a) and math.isfinite(b):
            exact = Fraction(a) - Fraction(b) * math.floor(Fraction(a) / Fraction(b))
            wide = DT["f4" if code != "f8" else "f8"].type
            assert float(left) == float(DT[code].type(wide(rounded(exact, "f4")))), (a, b)
        for kind, item in (("floordiv", whole), ("mod", left)):
            assert pattern(run(kind, code, p, q)) == pattern(item), (p, q)


@pytest.mark.parametrize("code", FLOATS)
def test_rem_is_fmod(code):
    x, y = finite(code, 8, 250), finite(code, 9, 250)
    n = min(len(x), len(y))
    x, y = x[:n], np.where(y[:n] == 0, DT[code].type(1), y[:n])
    for p, q, found in zip(x, y, run("rem", code, x, y), strict=True):
        assert pattern(found) == pattern(DT[code].type(math.fmod(float(p), float(q))))


# -- the door ---------------------------------------------------------------------------------------------------------

EXAMPLES = {
    "cvt": {"source": "i4"}, "bitcast": {"source": "u4"}, "round": {"mode": "even"}, "classify": {"fn": "isnan"},
    "math": {"fn": "pow"}, "cmp": {"how": "lt", "unordered": False}, "min": {"nan": "ignore"},
    "shl": {"amount": "u4"}, "shr": {"amount": "u4"},
}  # fmt: skip
PURE = [name for name, kind in KINDS.items() if kind.group in ("move", "arithmetic", "bits", "compare", "math")]
ONLY_INTEGERS = {"popc", "clz", "brev", "shl", "shr", "and", "or", "xor", "not"}
ONLY_FLOATS = {"round", "sqrt", "rsqrt", "copysign", "classify"}


@pytest.mark.parametrize("kind", PURE)
def test_every_pure_kind_has_an_expression(kind):
    count = KINDS[kind].src or 2
    for code in ["i4"] * (kind not in ONLY_FLOATS) + ["f4"] * (kind not in ONLY_INTEGERS):
        names = {}

        def bind(thing, names=names):
            names[f"k{len(names)}"] = thing
            return f"k{len(names) - 1}"

        operands = [f"E[{k}]" for k in range(count)]
        text = expression(Op(kind, code, (), (), POS, EXAMPLES.get(kind, {})), operands, bind)
        values = [1, 2, 3] if code == "i4" else [np.float32(1), np.float32(2), np.float32(3)]
        if kind == "select":
            values[0] = True
        if kind in ("cvt", "bitcast"):
            values[0] = 1
        eval(text, {**names, "E": values})


@pytest.mark.parametrize(
    ("kind", "code", "attr"),
    [
        ("sqrt", "i4", {}),
        ("popc", "f4", {}),
        ("add", "b1", {}),
        ("math", "f4", {"fn": "bessel"}),
        ("math", "i4", {"fn": "sin"}),
    ],
)
def test_what_has_no_rule_is_refused(kind, code, attr):
    with pytest.raises(Unsupported, match=r"test\.py:1: operation .* on"):
        implementation(Op(kind, code, (), (), POS, attr))


@pytest.mark.parametrize("code", [*FLOATS, *INTEGERS])
def test_select(code):
    make = DT[code].type if code in FLOATS else int
    x, y = make(3), make(5)
    assert run("select", code, True, x, y) is x
    assert run("select", code, False, x, y) is y
    mask = np.array([[True, False, True]])
    found = run("select", code, mask, x, np.full((2, 1), 5, DT[code]))
    assert found.dtype == DT[code]
    assert found.astype(float).tolist() == [[3, 5, 3]] * 2
    assert run("select", code, mask, x, x) is x


def test_select_of_predicates_collapses():
    mask = np.array([[True, False]])
    assert run("select", "b1", mask, True, mask).tolist() == [[True, False]]
    assert run("select", "b1", mask, mask, True) is True
