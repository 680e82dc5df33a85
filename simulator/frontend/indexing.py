"""``x[i, j]``: elements, rows, slices and items of tuples.

The address of an element is one ``elem`` operation, which checks every axis; a row or a slice is an array again, with
another address and other extents.  The type of an index decides, not its value: signed indices wrap once when they
are negative, unsigned ones never do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulator.frontend import kernel_types as kt
from simulator.frontend import typed_ir as ir
from simulator.frontend.slices import sliced
from simulator.frontend.values import Array, Known, Slice, Tuple, Value

if TYPE_CHECKING:
    from simulator.frontend.body import Body


def element(body: Body, item: ir.Item) -> Value:
    """``value[index]`` on the right-hand side."""
    value = body.value(item.value)
    match value:
        case Tuple(items):
            return _tuple_item(body, items, item)
        case Array():
            found = place(body, value, indices(body, item.index, item.static))
            if isinstance(found, Array):
                return found
            return body.builder.op("ld", value.code, found, name=value.name)
    raise body.refuse(f"indexing a value of type {body.type(item.value)}")


def store(body: Body, statement: ir.Store) -> None:
    """``target[index] = value``."""
    array = body.value(statement.target)
    if not isinstance(array, Array):
        raise body.refuse(f"storing into a value of type {body.type(statement.target)}")
    place_ = place(body, array, indices(body, statement.index, statement.static))
    if isinstance(place_, Array):
        raise body.refuse("assigning to a row or slice of an array", "assign the elements in a loop")
    value = body.number(statement.value)
    if len(statement.signature.args) == 3 and isinstance(statement.signature.args[2], kt.Scalar):
        value = body.builder.cast(value, statement.signature.args[2].code)
    body.builder.do("st", array.code, place_, body.builder.cast(value, array.code), name=array.name)


def indices(body: Body, index: str | None, static: Any) -> list[int | Slice]:
    """The index slots of a subscript, one per axis (i8 or u8)."""
    if index is None:
        parts = static if isinstance(static, tuple) else (static,)
        if not all(isinstance(part, int) for part in parts):
            raise body.refuse(f"the index {static!r}")
        return [body.builder.const("i8", part) for part in parts]
    value = body.value(index)
    items = value.items if isinstance(value, Tuple) else (value,)
    return [_index(body, item) for item in items]


def _index(body: Body, value: Value) -> int | Slice:
    match value:
        case int():
            code = body.builder.dtype(value)
            if code[0] in "iu":
                return body.builder.cast(value, "u8" if code[0] == "u" else "i8")
        case Slice():
            return value
        case Known(None):
            raise body.refuse("an index of None (np.newaxis)")
    raise body.refuse("an index that is neither an integer nor a slice")


def place(body: Body, array: Array, index: list[int | Slice]) -> int | Array:
    """The address of an element, or the part of the array that fewer indices or slices select."""
    if len(index) == len(array.shape) and not any(isinstance(part, Slice) for part in index):
        return address(body, array, [part for part in index if isinstance(part, int)])
    index = index + [Slice(None, None, None)] * (len(array.shape) - len(index))
    fixed = [axis for axis, part in enumerate(index) if isinstance(part, int)]
    at = array.address
    if fixed:
        some = Array(at, tuple(array.shape[a] for a in fixed), tuple(array.strides[a] for a in fixed), "", array.name)
        at = address(body, some, [part for part in index if isinstance(part, int)])
    shape: list[int] = []
    strides: list[int] = []
    for axis, part in enumerate(index):
        if isinstance(part, Slice):
            at, extent, stride = sliced(body.builder, part, at, array.shape[axis], array.strides[axis])
            shape.append(extent)
            strides.append(stride)
    return Array(at, tuple(shape), tuple(strides), array.code, array.name)


def address(body: Body, array: Array, index: list[int], **run: Any) -> int:
    """The byte address of an element; with ``run=(count, itemsize)`` of the first of several, see ``program.KINDS``."""
    sources = [array.address]
    for slot, extent, stride in zip(index, array.shape, array.strides, strict=True):
        sources += (slot, extent, stride)
    signed = tuple(body.builder.dtype(slot)[0] == "i" for slot in index)
    return body.builder.op("elem", "i8", *sources, name=array.name, signed=signed, **run)


def _tuple_item(body: Body, items: tuple[Value, ...], item: ir.Item) -> Value:
    if isinstance(item.static, int | slice):  # Numba takes cuda.threadIdx.x for a constant: a property object
        return Tuple(items[item.static]) if isinstance(item.static, slice) else items[item.static]
    assert item.index is not None
    index = body.number(item.index)
    known = body.builder.known(index)
    if known is not None:
        return items[int(known)]
    return select(body, items, index)


def select(body: Body, items: tuple[Value, ...], index: int) -> int:
    """The item of a tuple of numbers that a slot names; negative indices count from the end.

    Numba raises IndexError past the end (the thread ends); so does this.
    """
    builder = body.builder
    slots = [slot for slot in items if isinstance(slot, int)]
    if len(slots) != len(items) or not slots:
        raise body.refuse("indexing a tuple of other things than numbers by a variable")
    index = builder.cast(index, "i8")
    count = builder.const("i8", len(slots))
    negative = builder.op("cmp", "i8", index, builder.const("i8", 0), result="b1", how="lt", unordered=False)
    index = builder.op("select", "i8", negative, builder.op("add", "i8", index, count), index)
    outside = builder.op(
        "cmp", "u8", builder.cast(index, "u8"), builder.cast(count, "u8"), result="b1", how="ge", unordered=False
    )
    body.trap_if(outside, "IndexError('tuple index out of range')")
    found = slots[-1]
    for position in range(len(slots) - 2, -1, -1):
        here = builder.op("cmp", "i8", index, builder.const("i8", position), result="b1", how="eq", unordered=False)
        found = builder.op("select", builder.dtype(found), here, slots[position], found)
    return found
