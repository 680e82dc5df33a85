"""``datetime64`` and ``timedelta64``: int64 counts of a unit, of which the smallest is NaT (not a time).

Rules of this file (numba-cuda's and NumPy's):

* An operation on a NaT gives NaT, NaN or False (``!=``: True).
* Operands are brought to the finer unit by a constant factor.  Dates in years and months go by the calendar to days.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from simulator.frontend import kernel_types as kt
from simulator.frontend.lowering.library import call_library
from simulator.program import FLOATS

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body

_UNITS = {"Y": 12, "M": None, "W": 7, "D": 24, "h": 60, "m": 60, "s": 1000, "ms": 1000, "us": 1000, "ns": 1000,
          "ps": 1000, "fs": 1000, "as": None, "": None}  # fmt: skip
"""Units from coarse to fine, and how many of the next one are in one; None where there is no such number."""
NAT = -(1 << 63)


def factor(source: str, to: str) -> int | None:
    """How many of unit ``to`` are in one of unit ``source``; a generic unit ("") is any.

    >>> factor("W", "h"), factor("Y", "M"), factor("M", "D"), factor("s", "D"), factor("", "s")
    (168, 12, None, None, 1)
    """
    units = list(_UNITS)
    first, last = units.index(source), units.index(to)
    if source in ("", to):
        return 1
    steps = [_UNITS[unit] for unit in units[first:last]]
    known = [step for step in steps if step is not None]
    return prod(known) if steps and len(known) == len(steps) else None


def binary(body: Body, fn: str, slots: tuple[int, int], kinds: tuple[kt.Type, kt.Type], result: kt.Type) -> int | None:
    """An operator of which one operand at least is a time; None where there is none."""
    left, right = kinds
    if isinstance(left, kt.TimeType) and isinstance(right, kt.TimeType):
        if isinstance(result, kt.TimeType) and fn in ("add", "sub"):
            a, b = (_in_unit(body, slot, kind, result.unit) for slot, kind in zip(slots, (left, right), strict=True))
            return _unless_nat(body, slots, body.builder.op(fn, "i8", a, b))
        if fn == "truediv" and left.kind == right.kind == "timedelta64":
            return _ratio(body, slots, (left, right))
        return _compare(body, fn, slots, (left, right))
    time, number = slots if isinstance(left, kt.TimeType) else slots[::-1]
    kind = left if isinstance(left, kt.TimeType) else right
    if not isinstance(kind, kt.TimeType) or kind.kind != "timedelta64" or kind != result:
        return None
    if fn == "mul":
        return _scaled(body, "mul", time, number)
    return _scaled(body, "div", time, number) if fn in ("truediv", "floordiv") and kind is left else None


def unary(body: Body, fn: str, slot: int) -> int | None:
    """``-t`` and ``+t``; the negative of NaT is NaT."""
    return slot if fn == "pos" else body.builder.op("neg", "i8", slot) if fn == "neg" else None


def is_nat(body: Body, slot: int) -> int:
    """Whether a time is NaT."""
    nat = body.builder.const("i8", NAT)
    return body.builder.op("cmp", "i8", slot, nat, result="b1", how="eq", unordered=False)


def _any_nat(body: Body, slots: tuple[int, ...]) -> int:
    first, *rest = (is_nat(body, slot) for slot in slots)
    for other in rest:
        first = body.builder.op("or", "b1", first, other)
    return first


def _unless_nat(body: Body, slots: tuple[int, ...], value: int) -> int:
    return body.builder.op("select", "i8", _any_nat(body, slots), body.builder.const("i8", NAT), value)


def _in_unit(body: Body, slot: int, kind: kt.TimeType, unit: str) -> int:
    """A time that is no NaT in another unit."""
    builder, source = body.builder, kind.unit
    if kind.kind == "datetime64" and source in "YM" and unit not in ("Y", "M", ""):
        months = builder.op("mul", "i8", slot, builder.const("i8", 12)) if source == "Y" else slot
        found = call_library(body, days_before_month, (months,))
        assert isinstance(found, int)
        slot, source = found, "D"
        if unit == "W":
            return builder.op("floordiv", "i8", slot, builder.const("i8", 7))
    by = factor(source, unit)
    if by is None:
        raise body.refuse(f"{kind} in units of {unit}")
    return slot if by == 1 else builder.op("mul", "i8", slot, builder.const("i8", by))


def _same_unit(body: Body, slots: tuple[int, int], kinds: tuple[kt.TimeType, kt.TimeType]) -> list[int]:
    """Both in the finer unit."""
    units = list(_UNITS)
    named = [kind.unit for kind in kinds if kind.unit] or [""]
    unit = max(named, key=units.index)
    return [_in_unit(body, slot, kind, unit) for slot, kind in zip(slots, kinds, strict=True)]


def _compare(body: Body, fn: str, slots: tuple[int, int], kinds: tuple[kt.TimeType, kt.TimeType]) -> int | None:
    if fn not in ("lt", "le", "gt", "ge", "eq", "ne"):
        return None
    builder = body.builder
    a, b = _same_unit(body, slots, kinds)
    holds = builder.op("cmp", "i8", a, b, result="b1", how=fn, unordered=False)
    missing = _any_nat(body, slots)
    if fn == "ne":
        return builder.op("or", "b1", holds, missing)
    return builder.op("and", "b1", holds, builder.op("not", "b1", missing))


def _ratio(body: Body, slots: tuple[int, int], kinds: tuple[kt.TimeType, kt.TimeType]) -> int:
    builder = body.builder
    a, b = (builder.cast(slot, "f8") for slot in _same_unit(body, slots, kinds))
    nan = builder.const("f8", float("nan"))
    return builder.op("select", "f8", _any_nat(body, slots), nan, builder.op("div", "f8", a, b))


def _scaled(body: Body, kind: str, time: int, number: int) -> int:
    """A span times or over a number; over zero or NaN it is NaT."""
    builder, code = body.builder, body.builder.dtype(number)
    missing = is_nat(body, time)
    if kind == "div":
        zero = builder.op("cmp", code, number, builder.const(code, 0), result="b1", how="eq", unordered=True)
        missing = builder.op("or", "b1", missing, zero)
    found = builder.op(kind, code, builder.cast(time, code), number)
    if code in FLOATS:
        nan = builder.op("classify", code, found, result="b1", fn="isnan")
        missing, found = builder.op("or", "b1", missing, nan), builder.cast(found, "i8")
    return builder.op("select", "i8", missing, builder.const("i8", NAT), found)


def days_before_month(months):  # type: ignore[no-untyped-def]
    """Days from 1970 to the first of a month, which is counted from January 1970.

    The year begins in March here, so that the day that leap years have is its last; a month of five has 153 days.

    >>> import numpy as np
    >>> all(days_before_month(k) == np.datetime64(k, "M").astype("M8[D]").astype(int) for k in range(-5000, 5000, 7))
    True
    """
    since = months + 1970 * 12 - 2
    year = since // 12
    month = since % 12
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 - 719468
