"""Atomic operations on an element of an array."""

from __future__ import annotations

from simulator.frontend.lowering.calls.table import Bound, Meaning, meaning
from simulator.frontend.lowering.indexing import address
from simulator.frontend.lowering.values import Array, Known, Tuple, Value


def _do(bound: Bound, array: Array, place: int, op: str, operands: list[int]) -> Value:
    """The operation; the old value comes back only where something reads it."""
    builder = bound.builder
    if bound.used:
        return builder.op("atom", array.code, place, *operands, name=array.name, op=op)
    builder.do("atom", array.code, place, *operands, name=array.name, op=op)
    return Known(None)


def _place(bound: Bound) -> int:
    """The address of the element.  Numba casts every index to int64, floats too."""
    array = bound.array("array")
    if not array.code:
        raise bound.refuse(f"on an array of {array.element}")
    value = bound.body.value(bound.arguments["index"])
    items = value.items if isinstance(value, Tuple) else (value,)
    index = bound.integers(*items)
    if len(index) != len(array.shape):
        raise bound.refuse(f"with {len(index)} of {len(array.shape)} indices")
    return address(bound.body, array, index)


def _atomic(op: str) -> Meaning:
    def atomic(bound: Bound) -> Value:
        array, place = bound.array("array"), _place(bound)
        return _do(bound, array, place, op, [bound.number("value", array.code)])

    return atomic


for _op in ("add", "sub", "max", "min", "nanmax", "nanmin", "xor", "inc", "dec", "exch", "and_", "or_"):
    meaning(f"cuda.atomic.{_op}", "array index value")(_atomic(_op.rstrip("_")))


@meaning("cuda.atomic.cas", "array index old value")
def _cas(bound: Bound) -> Value:
    array, place = bound.array("array"), _place(bound)
    return _do(bound, array, place, "cas", [bound.number("old", array.code), bound.number("value", array.code)])


@meaning("cuda.atomic.compare_and_swap", "array old value")
def _compare_and_swap(bound: Bound) -> Value:
    array = bound.array("array")
    place = address(bound.body, array, [bound.builder.const("i8", 0)])
    return _do(bound, array, place, "cas", [bound.number("old", array.code), bound.number("value", array.code)])
