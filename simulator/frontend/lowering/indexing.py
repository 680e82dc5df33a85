"""``x[i, j]``: elements, rows, slices and items of tuples.

The address of an element is one ``elem`` operation, which checks every axis; a row or a slice is an array again, with
another address and other extents.  The type of an index decides, not its value: signed indices wrap once when they
are negative, unsigned ones never do.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from simulator.frontend import kernel_types as kt
from simulator.frontend import typed_ir as ir
from simulator.frontend.lowering.choice import indexed, of_one_type
from simulator.frontend.lowering.elements import load
from simulator.frontend.lowering.pointers import element_at
from simulator.frontend.lowering.records import column, field_of
from simulator.frontend.lowering.slices import sliced
from simulator.frontend.lowering.texts import bytes_array
from simulator.frontend.lowering.values import Array, Known, Pointer, Record, Slice, Tuple, Value
from simulator.frontend.refusal import DoesNotCompile

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body

NOTHING: Mapping[int, int] = MappingProxyType({})

Index = int | Slice | Known
"""One part of a subscript."""
_WHOLE, _NEW, _REST = Slice(None, None, None), Known(None), Known(Ellipsis)


def element(body: Body, item: ir.Item) -> Value:
    """``value[index]`` on the right-hand side."""
    value = body.present(item.value)
    match value:
        case Tuple() if item.static is not None and isinstance(body.type(item.value), kt.OptionalType):
            reason = f"Numba has no code for a constant index of {body.type(item.value)}: unpack it"
            raise DoesNotCompile(reason, body.builder.pos)
        case Tuple(items):
            return _tuple_item(body, items, item)
        case Record() if isinstance(item.static, str | int):
            return field_of(body, value, item.static)
        case Array(element=kt.RecordType()) if isinstance(item.static, str):
            return column(body, value, item.static)
        case Array():
            return fetch(body, value, indices(body, item.index, item.static))
        case Known(bytes() as data):
            return fetch(body, bytes_array(body, data), indices(body, item.index, item.static))
        case Pointer():
            (index,) = indices(body, item.index, item.static)
            return load(body, value.element, element_at(body, value, index), value.name)
    raise body.refuse(f"indexing a value of type {body.type(item.value)}")


def fetch(body: Body, array: Array, index: Sequence[Index], view: bool = False) -> Value:
    """The element at an index, or the part of the array that the index selects; with ``view`` always a part."""
    found = place(body, array, [*index, _REST] if view else index)
    return found if isinstance(found, Array) else load(body, array.element, found, array.name)


def the_element(body: Body, value: Value) -> Value:
    """The element of a 0-dimensional array, which computes and is stored like a number; any other value itself."""
    return fetch(body, value, []) if isinstance(value, Array) and not value.shape else value


def indices(body: Body, index: str | None, static: Any, replaced: Mapping[int, int] = NOTHING) -> list[Index]:
    """The parts of a subscript: index slots (i8 or u8), slices, new axes and an ellipsis.

    ``replaced`` gives slots for parts of it, by their number.
    """
    if index is None:
        parts = static if isinstance(static, tuple) else (static,)
        return [_index(body, body.builder.const("i8", p) if isinstance(p, int) else Known(p)) for p in parts]
    value = body.value(index)
    items = value.items if isinstance(value, Tuple) else (value,)
    return [_index(body, replaced.get(axis, item)) for axis, item in enumerate(items)]


def index_array(body: Body, index: str | None) -> tuple[int, Array] | None:
    """The axis of a subscript that an array of integers indexes, and that array; None if there is none."""
    value = None if index is None else body.value(index)
    items = value.items if isinstance(value, Tuple) else (value,)
    found = [(axis, item) for axis, item in enumerate(items) if isinstance(item, Array) and len(item.shape) == 1]
    return found[0] if len(found) == 1 and found[0][1].code[:1] in ("i", "u") else None


def _index(body: Body, value: Value) -> Index:
    match value := the_element(body, value):
        case int():
            code = body.builder.dtype(value)
            if code[0] in "iu":
                return body.builder.cast(value, "u8" if code[0] == "u" else "i8")
        case Slice() | Known(None) | Known(value=builtins.Ellipsis):
            return value
    raise body.refuse("an index that is neither an integer nor a slice")


def place(body: Body, array: Array, index: Sequence[Index]) -> int | Array:
    """The address of an element, or the part of the array that fewer indices or slices select."""
    if len(index) == len(array.shape) and all(isinstance(part, int) for part in index):
        return address(body, array, [part for part in index if isinstance(part, int)])
    index = _filled(index, len(array.shape))
    along = [part for part in index if part != _NEW]
    fixed = [axis for axis, part in enumerate(along) if isinstance(part, int)]
    at = array.address
    if fixed:
        shapes, paces = tuple(array.shape[a] for a in fixed), tuple(array.strides[a] for a in fixed)
        some = Array(at, shapes, paces, array.element, array.name)
        at = address(body, some, [part for part in along if isinstance(part, int)])
    shape: list[int] = []
    strides: list[int] = []
    axes = iter(zip(array.shape, array.strides, strict=True))
    for part in index:
        if part == _NEW:
            extent, stride = body.builder.const("i8", 1), body.builder.const("i8", 0)
        else:
            extent, stride = next(axes)
        if isinstance(part, Slice):
            at, extent, stride = sliced(body.builder, part, at, extent, stride)
        if not isinstance(part, int):
            shape.append(extent)
            strides.append(stride)
    return Array(at, tuple(shape), tuple(strides), array.element, array.name)


def _filled(index: Sequence[Index], ndim: int) -> list[Index]:
    """The index with whole axes for an ellipsis, or at its end."""
    parts = list(index)
    missing = ndim - sum(part not in (_NEW, _REST) for part in parts)
    where = parts.index(_REST) if _REST in parts else len(parts)
    return parts[:where] + [_WHOLE] * missing + parts[where + 1 :]


def address(body: Body, array: Array, index: list[int], **run: Any) -> int:
    """The byte address of an element; with ``run=(count, itemsize)`` of the first of several, see ``kinds``."""
    if not array.shape:
        return array.address
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
    if known is not None and -len(items) <= known < len(items):
        return items[int(known)]
    return indexed(body, of_one_type(body, items, body.type(body.target)), index)
