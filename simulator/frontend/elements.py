"""Elements of arrays where they lie: how many bytes they take, and the operations that load and store one.

Rules of this file:

* A number is one slot.  A complex number, a vector or a text is parts of one dtype side by side: one access, whose
  address is a multiple of a part's size and no more (Numba's compiler knows no more, and accesses part by part).
* A record is not loaded: a value of it is a reference.  Storing one copies its bytes.
"""

from __future__ import annotations

from math import gcd, prod
from typing import TYPE_CHECKING

from simulator.frontend import kernel_types as kt
from simulator.frontend.values import Array, Complex, Record, Tuple, Value
from simulator.program import SIZES, Element, Struct, size_of

if TYPE_CHECKING:
    from simulator.frontend.body import Body


def element_of(kind: kt.Type) -> Element | None:
    """What a program calls an element of this type; None where no array holds such."""
    match kind:
        case kt.Unaligned(of):
            return element_of(of)
        case kt.Scalar(code):
            return code
        case kt.RecordType(fields, size):
            found = [(field.name, field.offset, element_of(field.type), field.shape) for field in fields]
            parts = tuple((name, at, of, shape) for name, at, of, shape in found if of is not None)
            return Struct("", size, parts) if len(parts) == len(found) else None
        case kt.TupleType(items, names) if names and (part := parts_of(kind)) is not None:
            step = SIZES[part[0]]
            return Struct("", step * len(items), tuple((name, k * step, part[0], ()) for k, name in enumerate(names)))
    part = parts_of(kind)
    return None if part is None else Struct(str(kind), SIZES[part[0]] * part[1])


def parts_of(kind: kt.Type) -> tuple[str, int] | None:
    """Dtype and number of the parts that a value of this type is loaded by; None for all that is not loaded."""
    match kind:
        case kt.Unaligned(of):
            return parts_of(of)
        case kt.Scalar(code):
            return code, 1
        case kt.ComplexType(code):
            return code, 2
        case kt.TimeType():
            return "i8", 1
        case kt.TextType(code, count):
            return code, count
        case kt.TupleType(items) if items and len(set(items)) == 1 and isinstance(items[0], kt.Scalar):
            return items[0].code, len(items)
    return None


def bytes_of(kind: kt.Type) -> int:
    """The bytes of an element."""
    element = element_of(kind)
    assert element is not None  # such arrays are Foreign
    return size_of(element)


def alignment_of(kind: kt.Type) -> int:
    """What the address of an element is a multiple of: the size of its largest part; 1 for a packed record."""
    if isinstance(kind, kt.Unaligned):
        return 1
    if isinstance(kind, kt.RecordType):
        return max((alignment_of(field.type) for field in kind.fields), default=1) if kind.aligned else 1
    part = parts_of(kind)
    assert part is not None
    return SIZES[part[0]]


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
