"""Integer functions that need more bits than their operands: halves of products, averages, bytes picked from two words.

All take a builder and slots; int32 operands are widened to 64 bits, int64 products are put together from halves.
"""

from __future__ import annotations

from collections.abc import Callable

from simulator.frontend.lowering.builder import Builder

Binary = Callable[[Builder, int, int], int]


def _right(builder: Builder, code: str, slot: int, amount: int) -> int:
    return builder.op("shr", code, slot, builder.const(code, amount), amount=code)


def _left(builder: Builder, code: str, slot: int, amount: int) -> int:
    return builder.op("shl", code, slot, builder.const(code, amount), amount=code)


def halves(builder: Builder, slot: int) -> tuple[int, int]:
    """The high and the low half of a u8, as u8."""
    return _right(builder, "u8", slot, 32), builder.op("and", "u8", slot, builder.const("u8", 0xFFFFFFFF))


def joined(builder: Builder, high: int, low: int) -> int:
    """A u8 from its halves, i4 or u4."""
    upper = _left(builder, "u8", builder.cast(high, "u8"), 32)
    return builder.op("or", "u8", upper, builder.cast(builder.cast(low, "u4"), "u8"))


def average(code: str, rounding: int) -> Binary:
    """(x + y + rounding) >> 1, of 32-bit integers, without overflow."""
    wide = f"{code[0]}8"

    def averaged(builder: Builder, x: int, y: int) -> int:
        a, b = (builder.cast(builder.cast(slot, code), wide) for slot in (x, y))
        total = builder.op("add", wide, a, b)
        if rounding:
            total = builder.op("add", wide, total, builder.const(wide, rounding))
        return builder.cast(_right(builder, wide, total, 1), "i4")

    return averaged


def product_of_24_bits(code: str) -> Binary:
    """The low 32 bits of the product of the low 24 bits of the operands (with a sign, for i4)."""

    def product(builder: Builder, x: int, y: int) -> int:
        low = (_right(builder, code, _left(builder, code, builder.cast(slot, code), 8), 8) for slot in (x, y))
        return builder.cast(builder.op("mul", code, *low), "i4")

    return product


def high_product(code: str) -> Binary:
    """The high half of the whole product of two integers of this dtype."""
    if code[1] == "8":
        return _high_of_64 if code == "u8" else _high_of_64_signed

    def product(builder: Builder, x: int, y: int) -> int:
        wide = f"{code[0]}8"
        whole = builder.op("mul", wide, *(builder.cast(builder.cast(slot, code), wide) for slot in (x, y)))
        return builder.cast(_right(builder, wide, whole, 32), "i4")

    return product


def _high_of_64(builder: Builder, x: int, y: int) -> int:
    """By four products of halves, the carries of the middle ones added."""
    (a, b), (c, d) = (halves(builder, builder.cast(slot, "u8")) for slot in (x, y))

    def times(p: int, q: int) -> int:
        return builder.op("mul", "u8", p, q)

    def plus(p: int, q: int) -> int:
        return builder.op("add", "u8", p, q)

    (upper, lower), (high, low) = halves(builder, times(a, d)), halves(builder, times(b, c))
    middle = plus(plus(halves(builder, times(b, d))[0], lower), low)
    return plus(plus(times(a, c), plus(upper, high)), halves(builder, middle)[0])


def _high_of_64_signed(builder: Builder, x: int, y: int) -> int:
    found = builder.cast(_high_of_64(builder, x, y), "i8")
    zero = builder.const("i8", 0)
    for sign, other in ((x, y), (y, x)):
        negative = builder.op("cmp", "i8", sign, zero, result="b1", how="lt", unordered=False)
        found = builder.op("sub", "i8", found, builder.op("select", "i8", negative, other, zero))
    return found


def sum_of_difference(code: str) -> Callable[[Builder, int, int, int], int]:
    """|x - y| + z, modulo 2**32."""

    def total(builder: Builder, x: int, y: int, z: int) -> int:
        a, b = (builder.cast(builder.cast(slot, code), "i8") for slot in (x, y))
        gap = builder.op("abs", "i8", builder.op("sub", "i8", a, b))
        return builder.cast(builder.op("add", "i8", gap, builder.cast(z, "i8")), "i4")

    return total


def permuted_bytes(builder: Builder, x: int, y: int, selector: int) -> int:
    """Four of the eight bytes of y:x, picked by the low three bits of each half byte of the selector."""
    pool, chosen = joined(builder, y, x), builder.cast(selector, "u8")
    found = builder.const("u8", 0)
    for position in range(4):
        amount = _left(builder, "u8", _picked(builder, chosen, 4 * position, 7), 3)
        byte = builder.op("and", "u8", builder.op("shr", "u8", pool, amount, amount="u8"), builder.const("u8", 0xFF))
        found = builder.op("or", "u8", found, _left(builder, "u8", byte, 8 * position))
    return builder.cast(found, "i4")


def _picked(builder: Builder, slot: int, low: int, mask: int) -> int:
    return builder.op("and", "u8", _right(builder, "u8", slot, low), builder.const("u8", mask))
