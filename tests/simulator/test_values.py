"""Integer values: every rule for uniform and affine forms against plain arrays, with boundary values of every dtype."""

import random
from collections import Counter

import numpy as np
import pytest

from simulator.machine.operations import implementation
from simulator.machine.values import (
    DT,
    RANGE,
    Affine,
    Lanes,
    affine,
    array_of,
    collapse,
    expand,
    merge,
    narrow,
    same,
    wrap,
)
from simulator.program import FLOATS, INTEGERS, Op, Pos

POS = Pos("test.py", 1)
BINARY = ["add", "sub", "mul", "and", "or", "xor", "min", "max", "div", "rem", "floordiv", "mod", "shl", "shr", "cmp"]
UNARY = ["neg", "abs", "not", "popc", "clz", "brev", "cvt", "bitcast"]


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def run(kind, code, *values, **attr):
    rule = implementation(Op(kind, code, (), (), POS, attr))
    if isinstance(rule, str):
        return eval(rule.format(*(f"v[{k}]" for k in range(len(values)))), {"v": values})
    return rule(*values)


def all_lanes():
    return [Lanes(nb, P, row=row) for nb, P, row in [(1, 32, None), (3, 32, None), (3, 32, 8), (2, 64, 16), (1, 32, 1)]]


class Draw:
    """Random values of one dtype over some lanes: boundary ints, and affine values that stay in range."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lanes = all_lanes()

    def number(self, code):
        low, high = RANGE[code]
        choose = self.random
        near = choose.choice([low, low + 1, high, high - 1, high // 2, high // 2 + 1])
        small = choose.choice([0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 127, 128, 255, 256, -1, -2, -32])
        power = choose.choice([1, -1]) * (1 << choose.randrange(64)) + choose.choice([0, 0, -1])
        return wrap(choose.choice([near, small, small, power, choose.randint(low, high)]), low, high)

    def affine(self, code, lanes):
        low, high = RANGE[code]
        choose = self.random
        for _ in range(12):
            scale = choose.choice([1, 2, 4, 8, 32, 256, 4096, 1 << 20, 1 << 28, 1 << 40])
            base = choose.choice([0, 1, scale, -scale, choose.randint(-70, 70), self.number(code)])
            block = choose.choice([0, scale, -scale, 3, lanes.P])
            column = choose.choice([0, 1, 1, scale, -scale, 5])
            row = choose.choice([0, lanes.nx, scale, 7])
            found = affine(lanes, base, block, column, row)
            if type(found) is Affine and low <= found.lo and found.hi <= high:
                return found
        return self.number(code)

    def value(self, code, lanes):
        return self.number(code) if self.random.random() < 0.35 else self.affine(code, lanes)


def check_form(value, code, lanes):
    """The invariants of an integer or predicate value."""
    if code == "b1":
        assert type(value) is bool or value.dtype == np.bool_
        return
    low, high = RANGE[code]
    assert type(value) in (int, Affine, np.ndarray), type(value)
    if type(value) is int:
        assert low <= value <= high
    elif type(value) is Affine:
        assert low <= value.lo <= value.hi <= high
        assert value == affine(value.c, value.b, value.a, value.l, value.y)
    else:
        assert value.dtype == DT[code]
        assert all(n in (1, full) for n, full in zip(value.shape, (lanes.nb, lanes.P), strict=True))


def flat(value, code, lanes):
    return np.array(expand(value, lanes, code))


def one_operation(draw):
    code = draw.random.choice(INTEGERS)
    lanes = draw.random.choice(draw.lanes)
    kind = draw.random.choice(BINARY + UNARY)
    attr, result = {}, code
    values = [draw.value(code, lanes)]
    if kind in ("shl", "shr"):
        attr["amount"] = draw.random.choice([code, "u4", "i4", "i8"])
        values.append(draw.value(attr["amount"], lanes))
        if draw.random.random() < 0.6:
            values[1] = draw.random.choice([0, 1, 2, 5, 7, 8, 31, 63])
    elif kind in BINARY:
        values.append(draw.value(code, lanes))
        if kind == "cmp":
            attr, result = {"how": draw.random.choice(["lt", "le", "gt", "ge", "eq", "ne"])}, "b1"
    if kind in ("div", "rem", "floordiv", "mod", "and") and draw.random.random() < 0.5:
        values[1] = draw.random.choice([1, 2, 3, 8, 31, 32, 63, 64, 100, 127])
    if kind in ("popc", "clz"):
        result = "u4"
    if kind in ("cvt", "bitcast"):
        attr = {"source": code}
        result = draw.random.choice([*INTEGERS, "b1"]) if kind == "cvt" else draw.random.choice("iu") + code[1]
    codes = [code, attr.get("amount", code)]
    computed = result if kind in ("cvt", "bitcast") else code
    return kind, computed, attr, result, values, codes, lanes


def test_twenty_thousand_affine_operations_equal_those_on_arrays():
    draw, kept = Draw(20), Counter()
    for _ in range(20_000):
        kind, computed, attr, result, values, codes, lanes = one_operation(draw)
        arrays = [flat(value, code, lanes) for value, code in zip(values, codes, strict=False)]
        if len(values) == 2 and draw.random.random() < 0.2:  # one operand per lane, the other not
            k = draw.random.randrange(2)
            values[k] = arrays[k]
        found = run(kind, computed, *values, **attr)
        expected = run(kind, computed, *arrays, **attr)
        check_form(found, result, lanes)
        kept[kind] += type(found) is Affine
        same_bits = np.array_equal(flat(found, result, lanes), flat(expected, result, lanes))
        assert same_bits, (kind, computed, attr, values, found, expected)
    for kind in ("add", "sub", "mul", "and", "shl", "shr", "floordiv", "mod", "min", "not", "neg", "cvt"):
        assert kept[kind] > 40, f"{kind} never stays affine"


def c_divide(x, y):
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def by_hand(kind, code, x, y):
    """One integer operation on Python ints, from the definitions."""
    low, high = RANGE[code]
    width = 8 * int(code[1])
    ones, unsigned, far = wrap(-1, low, high), x & (2**width - 1), not 0 <= y < width
    return wrap(
        {
            "add": lambda: x + y,
            "sub": lambda: x - y,
            "mul": lambda: x * y,
            "neg": lambda: -x,
            "abs": lambda: abs(x),
            "min": lambda: min(x, y),
            "max": lambda: max(x, y),
            "and": lambda: x & y,
            "or": lambda: x | y,
            "xor": lambda: x ^ y,
            "not": lambda: ~x,
            "div": lambda: c_divide(x, y) if y else ones,
            "rem": lambda: x - y * c_divide(x, y) if y else x,
            "floordiv": lambda: 0 if y == 0 or (x == low < 0 and y == -1) else x // y,
            "mod": lambda: x % y if y else 0,
            "shl": lambda: 0 if far else x << y,
            "shr": lambda: (-1 if x < 0 else 0) if far else x >> y,
            "popc": lambda: bin(unsigned).count("1"),
            "clz": lambda: width - len(bin(unsigned)[2:].lstrip("0")),
            "brev": lambda: int(f"{unsigned:0{width}b}"[::-1], 2),
        }[kind](),
        *(RANGE["u4"] if kind in ("popc", "clz") else (low, high)),
    )


@pytest.mark.parametrize("code", INTEGERS)
@pytest.mark.parametrize("kind", [k for k in BINARY + UNARY if k not in ("cmp", "cvt", "bitcast")])
def test_integers_and_arrays_follow_the_definitions(kind, code):
    draw = Draw(code + kind)
    pairs = [(draw.number(code), draw.number(code)) for _ in range(200)]
    low, high = RANGE[code]
    pairs += [(x, y) for x in (low, high, 0, 1) for y in (low, high, 0, 1, wrap(-1, low, high))]
    attr = {"amount": code} if kind in ("shl", "shr") else {}
    operands = 1 if kind in UNARY else 2
    x, y = (np.array(column, DT[code]).reshape(-1, 1) for column in zip(*pairs, strict=True))
    lanes_found = run(kind, code, *(x, y)[:operands], **attr)
    for (p, q), item in zip(pairs, lanes_found.ravel().tolist(), strict=True):
        expected = by_hand(kind, code, p, q)
        assert run(kind, code, *(p, q)[:operands], **attr) == expected, (p, q)
        assert item == expected, (p, q)
        if operands == 2:  # a uniform operand against an array
            several = [np.full((1, 4), number, DT[code]) for number in (p, q)]
            assert np.all(run(kind, code, several[0], q, **attr) == expected), (p, q)
            assert np.all(run(kind, code, p, several[1], **attr) == expected), (p, q)


def test_indices_of_real_kernels_stay_affine():
    lanes = Lanes(8, 256)
    tid, block = lanes.affine(0, 0, 1, "i4"), lanes.affine(0, 1, 0, "i4")
    index = run("add", "i8", run("mul", "i8", block, 256), tid)
    assert (run("floordiv", "i8", index, 256), run("mod", "i8", index, 256)) == (block, tid)
    assert run("shr", "i8", index, 8, amount="i8") == block
    assert run("and", "i8", index, 255) == tid
    assert run("or", "i8", run("mul", "i8", block, 256), tid) == index
    assert run("cmp", "i8", index, 2048, how="lt") is True
    assert run("cmp", "i8", index, -1, how="gt", unordered=False) is True
    warp = Lanes(1, 32, first_thread=64)
    tid = warp.affine(64, 0, 1, "i4")
    assert run("and", "i4", tid, 31) == warp.affine(0, 0, 1, "i4")
    assert run("shr", "i4", tid, 5, amount="i4") == 2
    assert run("shr", "i4", tid, 31, amount="i4") == 0


def test_bounds_are_exact():
    draw = Draw(3)
    for _ in range(500):
        lanes = draw.random.choice(draw.lanes)
        value = draw.affine("i8", lanes)
        if type(value) is Affine:
            items = value.array(DT["i8"])
            assert (value.lo, value.hi) == (items.min(), items.max())


def test_coefficients_of_axes_of_length_one_are_zero():
    assert Lanes(1, 32).affine(5, 100, 0, "i4", 7) == 5
    found = Lanes(1, 32).affine(5, 100, 1, "i4", 7)
    assert (found.a, found.l, found.y, found.lo, found.hi) == (0, 1, 0, 5, 36)
    assert Lanes(2, 32, row=1).affine(0, 0, 9, "i4", 1).l == 0


def test_vector_mode_makes_arrays():
    lanes = Lanes(2, 32, values="vector")
    found = lanes.affine(1, 32, 1, "u8")
    assert found.shape == (2, 32)
    assert found.dtype == np.uint64
    assert found.flags.c_contiguous
    assert lanes.affine(1, 0, 0, "u8") == 1


@pytest.mark.parametrize(("nb", "P", "row"), [(0, 32, None), (1, 31, None), (1, 0, None), (1, 32, 5), (1, 32, 0)])
def test_lanes_refuse_shapes_that_no_group_has(nb, P, row):
    with pytest.raises(ValueError, match=r"lanes|rows"):
        Lanes(nb, P, row=row)


def test_lanes_refuse_unknown_forms_of_values():
    with pytest.raises(ValueError, match="affine"):
        Lanes(1, 32, values="shape")


def test_huge_unsigned_values_stay_exact():
    lanes = Lanes(2, 32)
    value = lanes.affine(2**64 - 64, 32, 1, "u8")
    assert type(value) is Affine
    assert value.array(DT["u8"])[1, 31] == 2**64 - 1
    found = run("add", "u8", value, 1)
    assert flat(found, "u8", lanes)[1].tolist() == [*range(2**64 - 31, 2**64), 0]
    wide = lanes.affine(0, 2**63 + 5, 1, "u8")
    assert flat(run("sub", "u8", wide, wide), "u8", lanes).max() == 0
    assert flat(run("cmp", "u8", wide, 2**63, how="lt"), "b1", lanes).all(axis=1).tolist() == [True, False]


# -- merge, expand, narrow --------------------------------------------------------------------------------------------


def nan_with_payload(code, payload):
    size = DT[code].itemsize
    pattern = {"f2": 0x7C00, "bf": 0x7F80, "f4": 0x7F800000, "f8": 0x7FF0000000000000}[code] | payload
    return np.array(pattern, f"u{size}").view(DT[code])[()]


@pytest.mark.parametrize("code", FLOATS)
def test_merge_keeps_every_bit(code):
    lanes = Lanes(2, 32)
    mask = np.arange(64).reshape(2, 32) % 3 == 0
    unsigned = f"u{DT[code].itemsize}"
    odd, quiet = nan_with_payload(code, 5), nan_with_payload(code, 0x3F)
    zero, minus = DT[code].type(0.0), DT[code].type(-0.0)
    for a, b in [(zero, minus), (minus, zero), (odd, quiet), (odd, zero), (minus, np.full((1, 32), odd))]:
        found = merge(mask, a, b, code, lanes)
        assert found.shape == (2, 32)
        assert found.dtype == DT[code]
        wide = [np.broadcast_to(np.asarray(v, DT[code]), (2, 32)).copy().view(unsigned) for v in (a, b)]
        np.testing.assert_array_equal(found.view(unsigned), np.where(mask, *wide))
    assert merge(mask, minus, DT[code].type(-0.0), code, lanes) is minus
    assert merge(mask, odd, nan_with_payload(code, 5), code, lanes) is odd


def test_merge_stays_cheap():
    lanes = Lanes(2, 32)
    mask = np.arange(64).reshape(2, 32) < 40
    tid = lanes.affine(0, 0, 1, "i4")
    assert merge(mask, 7, 7, "i4", lanes) == 7
    assert merge(mask, tid, lanes.affine(0, 0, 1, "i4"), "i4", lanes) == tid
    assert merge(mask, True, True, "b1", lanes) is True
    found = merge(mask, True, False, "b1", lanes)
    np.testing.assert_array_equal(found, mask)
    found = merge(mask, tid, -1, "i4", lanes)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, np.where(mask, np.arange(32), -1))
    assert merge(mask, 2**64 - 1, 0, "u8", lanes)[0, 0] == 2**64 - 1


def test_same_tells_true_from_one_and_zero_from_minus_zero():
    assert not same(np.float32(0.0), np.float32(-0.0), "f4")
    assert not same(True, 1, "b1")
    assert same(np.float16(np.nan), np.float16(np.nan), "f2")


def test_expand_gives_one_item_per_lane():
    lanes = Lanes(2, 32)
    whole = np.arange(64, dtype=np.int16).reshape(2, 32)
    assert expand(whole, lanes, "i2") is whole
    for value in (3, lanes.affine(0, 0, 1, "i2"), whole[:1], whole[:, :1]):
        found = expand(value, lanes, "i2")
        assert found.shape == (2, 32)
        assert found.dtype == np.int16
    assert expand(True, lanes, "b1").all()


def test_collapse_of_predicates():
    assert collapse(np.ones((1, 256), bool)) is True
    assert collapse(np.zeros((1, 256), bool)) is False
    assert collapse(np.bool_(True)) is True
    mixed = np.arange(256).reshape(1, -1) < 3
    assert collapse(mixed) is mixed
    large = np.ones((64, 256), bool)
    assert collapse(large) is large


@pytest.mark.parametrize("values", ["affine", "vector"])
def test_narrow_is_exact_for_every_form(values):
    draw = Draw(9)
    shapes = [(3, 64, None), (2, 96, 48), (2, 64, 16), (2, 128, 64), (1, 96, 3), (2, 32, 8), (2, 64, 2)]
    for nb, P, row in shapes:
        lanes = Lanes(nb, P, row=row)
        for code in ("i4", "u8", "i1"):
            for _ in range(20):
                value = draw.value(code, lanes)
                for form in (value, flat(value, code, lanes), flat(value, code, lanes)[:1], 3):
                    for block in range(nb):
                        for first in range(0, P, 32):
                            rows = [None] if row is None or 32 % row else [None, row]
                            for target_row in rows:
                                target = Lanes(1, 32, first, block, values, target_row)
                                found = narrow(form, lanes, block, first, target, code)
                                check_form(found, code, target)
                                expected = flat(form, code, lanes)[block, first : first + 32]
                                np.testing.assert_array_equal(flat(found, code, target)[0], expected)


def test_narrow_keeps_affine_values_affine():
    lanes = Lanes(4, 64, row=16)
    tile = lanes.affine(10, 1000, 1, "i4", 100)
    warp = Lanes(1, 32, 32, 2, row=16)
    assert narrow(tile, lanes, 2, 32, warp, "i4") == warp.affine(2210, 0, 1, "i4", 100)
    assert narrow(np.float32(1), lanes, 2, 32, warp, "f4") == 1
    assert narrow(True, lanes, 0, 32, warp, "b1") is True


def test_arrays_are_never_written():
    lanes = Lanes(2, 32)
    x = np.arange(-32, 32, dtype=np.int32).reshape(2, 32)
    x[0, 0] = RANGE["i4"][0]
    y = -np.ones((2, 32), np.int32)
    y[1] = 0
    before = x.copy(), y.copy()
    x.flags.writeable = y.flags.writeable = False  # an operation that writes an operand raises
    for kind in BINARY + UNARY:
        attr = {"cmp": {"how": "lt"}, "cvt": {"source": "i4"}, "bitcast": {"source": "i4"}}.get(kind, {})
        run(kind, "u4" if kind == "bitcast" else "i4", *((x,) if kind in UNARY else (x, y)), **attr)
    merge(x > 0, x, y, "i4", lanes)
    assert np.array_equal(x, before[0]) and np.array_equal(y, before[1])


def test_array_of_has_the_dtype_of_the_code():
    for code in INTEGERS:
        assert array_of(1, code).dtype == DT[code]
        assert array_of(Lanes(1, 32).affine(0, 0, 1, code), code).dtype == DT[code]
    assert array_of(True, "b1").dtype == np.bool_
