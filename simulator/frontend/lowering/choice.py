"""Choosing between values of one structure: the item of a tuple that an index names when the kernel runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from simulator.frontend import kernel_types as kt
from simulator.frontend.lowering.conversions import zero
from simulator.frontend.lowering.texts import text_of
from simulator.frontend.lowering.values import Array, Tuple, Value, leaves, rebuild

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body


def chosen(body: Body, items: Sequence[Value], index: int) -> Value:
    """The item at ``index`` (i8), which is surely one of them; the items have the same structure and dtypes."""
    _check(body, items)
    builder = body.builder
    found = items[-1]
    for position in range(len(items) - 2, -1, -1):
        here = builder.op("cmp", "i8", index, builder.const("i8", position), result="b1", how="eq", unordered=False)
        found = either(body, here, items[position], found)
    return found


def _check(body: Body, items: Sequence[Value]) -> None:
    if any(text_of(item) is not None for item in items):
        raise body.refuse("choosing one of several texts when the kernel runs")


def either(body: Body, condition: int, yes: Value, no: Value) -> Value:
    """``yes`` where the condition holds, else ``no``; slot by slot."""
    builder = body.builder
    others = iter(leaves(no))

    def select(slot: int) -> int:
        other = next(others)
        return slot if slot == other else builder.op("select", builder.dtype(slot), condition, slot, other)

    if _dtypes(body, yes) != _dtypes(body, no) or _structure(yes) != _structure(no):
        raise body.refuse("choosing between values of different types")
    return rebuild(yes, select)


def _structure(value: Value) -> Value:
    """A value without its slots and without the names of its arrays: machines find those by the address."""

    def nameless(value: Value) -> Value:
        match value:
            case Array():
                return replace(value, name="")
            case Tuple(items):
                return Tuple(tuple(map(nameless, items)))
        return value

    return nameless(rebuild(value, lambda _: 0))


def of_one_type(body: Body, items: Sequence[Value], kind: kt.Type) -> tuple[Value, ...]:
    """The items as values of one type.

    Numba unrolls a loop over a tuple of several types: each copy of its body takes the items of one type, and is
    left out for the others, which stand here for something that nobody reads.
    """
    _check(body, items)
    found = [body.coerce(item, kind) for item in items]
    kinds = [(_structure(item), _dtypes(body, item)) for item in found]
    wanted = zero(body, kind) if len({str(one) for one in kinds}) > 1 else None
    if wanted is None:
        return tuple(found)
    like = (_structure(wanted), _dtypes(body, wanted))
    spare = next((item for item, one in zip(found, kinds, strict=True) if one == like), wanted)
    return tuple(item if one == like else spare for item, one in zip(found, kinds, strict=True))


def _dtypes(body: Body, value: Value) -> list[str]:
    return [body.builder.dtype(slot) for slot in leaves(value)]


def indexed(body: Body, items: tuple[Value, ...], index: int) -> Value:
    """The item that a slot names; negative indices count from the end.

    Numba raises IndexError past the end (the thread ends); so does this.
    """
    builder = body.builder
    if not items:
        raise body.refuse("indexing an empty tuple")
    index = builder.cast(index, "i8")
    count, zero = builder.const("i8", len(items)), builder.const("i8", 0)
    negative = builder.op("cmp", "i8", index, zero, result="b1", how="lt", unordered=False)
    index = builder.op("select", "i8", negative, builder.op("add", "i8", index, count), index)
    outside = builder.op(
        "cmp", "u8", builder.cast(index, "u8"), builder.cast(count, "u8"), result="b1", how="ge", unordered=False
    )
    body.trap_if(outside, IndexError, "tuple index out of range")
    return chosen(body, items, index)
