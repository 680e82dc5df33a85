"""Elements of arrays: the operations that load and store one, and arrays that lie inside one.

Rules of this file:

* A number is one slot.  A complex number, a vector or a text is parts of one dtype side by side: one access, whose
  address is a multiple of a part's size and no more (Numba's compiler knows no more, and accesses part by part).
* A record is not loaded: a value of it is a reference.  Storing one copies its bytes.
"""

from __future__ import annotations

from math import gcd, prod
from typing import TYPE_CHECKING

from simulator.frontend import kernel_types as kt
from simulator.frontend.layouts import alignment_of, bytes_of, parts_of
from simulator.frontend.lowering.values import Array, Complex, Record, Tuple, Value

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body


def load(body: Body, kind: kt.Type, address: int, name: str) -> Value:
    """The element of this type at an address; ``name`` is the array's."""
    if isinstance(kind, kt.RecordType):
        return Record(address, kind, name)
    part = parts_of(kind)
    if part is None:
        raise body.refuse(f"loading a value of type {kind}")
    code, count = part
    return made(kind, body.builder.ops("ld", code, address, results=(code,) * count, name=name, **_align(kind)))


def _align(kind: kt.Type) -> dict[str, int]:
    """The attribute of an access whose address need not be a multiple of its size."""
    align = alignment_of(kind)
    return {"align": align} if align < bytes_of(kind) else {}


def made(kind: kt.Type, slots: tuple[int, ...]) -> Value:
    """A value of its parts."""
    if isinstance(kind, kt.Unaligned):
        return made(kind.of, slots)
    if isinstance(kind, kt.ComplexType):
        return Complex(*slots)
    return Tuple(slots) if isinstance(kind, kt.TextType | kt.TupleType) else slots[0]


def store(body: Body, kind: kt.Type, address: int, value: Value, name: str) -> None:
    """Store a value of just this type as the element at an address."""
    if isinstance(kind, kt.RecordType):
        if not isinstance(value, Record) or value.kind.size != kind.size:
            raise body.refuse(f"storing something else as a {kind}")
        copy(body, kind, value.address, address, value.name, name)
        return
    part = parts_of(kind)
    match value:
        case int():
            slots: tuple[Value, ...] = (value,)
        case Complex(real, imag):
            slots = (real, imag)
        case Tuple(items):
            slots = items
        case _:
            slots = ()
    numbers = [slot for slot in slots if isinstance(slot, int)]
    if part is None or len(numbers) != part[1]:
        raise body.refuse(f"storing a value of type {kind}")
    body.builder.do("st", part[0], address, *numbers, name=name, **_align(kind))


def copy(body: Body, kind: kt.RecordType, source: int, target: int, from_name: str, to_name: str) -> None:
    """Copy the bytes of a record, padding too, as one load and one store."""
    step = gcd(kind.size, alignment_of(kind), 8)
    code, count = f"u{step}", kind.size // step
    loaded = body.builder.ops("ld", code, source, results=(code,) * count, name=from_name, align=step)
    body.builder.do("st", code, target, *loaded, name=to_name, align=step)


def array_at(body: Body, address: int, element: kt.Type, shape: tuple[int, ...], name: str) -> Array:
    """An array in C order of known shape at an address."""
    size, builder = bytes_of(element), body.builder
    strides = (size * prod(shape[axis + 1 :]) for axis in range(len(shape)))
    extents = tuple(builder.const("i8", extent) for extent in shape)
    return Array(address, extents, tuple(builder.const("i8", stride) for stride in strides), element, name)
