"""Fields of records: ``r.x``, ``r["x"]``, and of arrays of records, ``a.x``.

A field is an address and a type.  Those of a packed record are accessed byte by byte, since it may begin anywhere;
where one lies at no multiple of its size within the record, Numba refuses ``r.x``, but not ``a.x``.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from simulator.frontend import kernel_types as kt
from simulator.frontend.layouts import alignment_of, parts_of
from simulator.frontend.lowering.elements import array_at, load, store
from simulator.frontend.lowering.values import Array, Record, Value
from simulator.frontend.refusal import DoesNotCompile
from simulator.program import SIZES

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body

_COPIED = 4096
"""Elements of an array that one assignment to a field may copy."""


def field_of(body: Body, record: Record, name: str | int) -> Value:
    """``record.name``, or the field of this number."""
    field, address = _place(body, record, name)
    kind = _placed(record.kind, field)
    if field.shape:
        return array_at(body, address, kind, field.shape, record.name)
    return load(body, kind, address, record.name)


def set_field(body: Body, record: Record, name: str | int, value: Value, source: kt.Type) -> None:
    """``record.name = value``; ``source`` is the type of the value.

    An array is copied as Numba does: as many bytes as the field has, whatever the shape and strides of the value.
    """
    field, address = _place(body, record, name)
    if not field.shape:
        store(body, _placed(record.kind, field), address, body.coerce(value, field.type, source), record.name)
        return
    if not isinstance(value, Array) or field.type not in (value.element, getattr(value.element, "of", None)):
        raise body.refuse(f"assigning a value of type {source} to an array of {field.type} in a record")
    count, part = prod(field.shape), parts_of(field.type)
    if part is None or count > _COPIED:
        raise body.refuse(f"assigning to an array of {count} {field.type} in a record", "assign the elements in a loop")
    code, slots = part[0], part[1] * count
    align = (min(SIZES[code], alignment_of(kind)) for kind in (value.element, _placed(record.kind, field)))
    loaded = body.builder.ops("ld", code, value.address, results=(code,) * slots, name=value.name, align=next(align))
    body.builder.do("st", code, address, *loaded, name=record.name, align=next(align))


def column(body: Body, array: Array, name: str) -> Array:
    """``array.name``: one field of all records."""
    assert isinstance(array.element, kt.RecordType)
    field = array.element.field(name)
    if field is None:
        raise body.refuse(f"the attribute {name} of {array.element}")
    builder = body.builder
    address = array.address
    if field.offset:
        address = builder.op("add", "i8", address, builder.const("i8", field.offset))
    inner = array_at(body, address, _placed(array.element, field), field.shape, array.name)
    return replace(inner, shape=array.shape + inner.shape, strides=array.strides + inner.strides)


def _placed(record: kt.RecordType, field: kt.Field) -> kt.Type:
    """The type of a field where it lies: a packed record may begin anywhere."""
    return field.type if record.aligned or isinstance(field.type, kt.RecordType) else kt.Unaligned(field.type)


def _place(body: Body, record: Record, name: str | int) -> tuple[kt.Field, int]:
    """A field, and the slot of its address."""
    fields = record.kind.fields
    field = record.kind.field(name) if isinstance(name, str) else fields[name] if name < len(fields) else None
    if field is None:
        raise body.refuse(f"the field {name!r} of {record.kind}")
    if field.offset % alignment_of(field.type):
        raise DoesNotCompile(
            f"the field {field.name} of {record.kind} is not aligned: {field.type} at byte {field.offset}",
            body.builder.pos,
        )
    if not field.offset:
        return field, record.address
    return field, body.builder.op("add", "i8", record.address, body.builder.const("i8", field.offset))
