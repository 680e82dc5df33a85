"""How an element of each type lies in memory: its parts, its bytes, and what its address is a multiple of."""

from __future__ import annotations

from simulator.frontend import kernel_types as kt
from simulator.program import SIZES, Element, Struct, size_of


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
