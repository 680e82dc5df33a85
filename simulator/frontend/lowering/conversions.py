"""Values of one type as values of another, as Numba's casts do; and slots for a value of a type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.frontend import kernel_types as kt
from simulator.frontend.layouts import parts_of
from simulator.frontend.lowering.values import Array, Complex, Known, Optional, Pointer, Range, Record, Tuple, Value

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body


def converted(body: Body, value: Value, kind: kt.Type, source: kt.Type | None = None) -> Value:
    """A value as one of type ``kind``; ``source`` is its type, where it is needed and known."""
    match value, kind:
        case _, kt.OptionalType():
            return _as_optional(body, value, kind)
        case Optional(there, inner), _:
            absent = body.builder.op("not", "b1", there)
            body.trap_if(absent, TypeError, f"expected {kind}, got None")
            return converted(body, inner, kind)
        case _, kt.EnumType(_, of) | kt.Unaligned(of):
            return converted(body, value, of, source)
        case int(), kt.TimeType():
            if source not in (None, kind):
                raise body.refuse(f"a value of type {source} as one of type {kind}")
        case int(), kt.Scalar(code):
            return body.builder.cast(value, code)
        case int(), kt.ComplexType(code):
            return Complex(body.builder.cast(value, code), body.builder.const(code, 0))
        case Complex(real, imag), kt.ComplexType(code):
            return Complex(body.builder.cast(real, code), body.builder.cast(imag, code))
        case Tuple(items), kt.TupleType(kinds):
            return Tuple(tuple(converted(body, item, to) for item, to in zip(items, kinds, strict=True)))
        case Known(str() | bytes() as text), kt.TextType():
            return _text(body, text, kind)
        case Tuple(items), kt.TextType(code, count):
            zeros = (body.builder.const(code, 0),) * (count - len(items))
            return Tuple((*items[:count], *zeros))
        case Known(), kt.Scalar(code, literal) if literal is not None:
            return body.builder.const(code, literal)
    return value


def _as_optional(body: Body, value: Value, kind: kt.OptionalType) -> Value:
    match value:
        case Known(None):
            nothing = zero(body, kind.of)
            return Optional(body.builder.const("b1", False), nothing)
        case Optional(there, inner):
            return Optional(there, converted(body, inner, kind.of))
    return Optional(body.builder.const("b1", True), converted(body, value, kind.of))


def _text(body: Body, text: str | bytes, kind: kt.TextType) -> Tuple:
    """A text of the source as characters: cut or filled up with zeros."""
    characters = [ord(character) for character in text] if isinstance(text, str) else list(text)
    if kind.code == "u1" and any(character > 127 for character in characters):
        raise body.refuse(f"a text that is not ASCII as {kind}")
    filled = (characters + [0] * kind.count)[: kind.count]
    return Tuple(tuple(body.builder.const(kind.code, character) for character in filled))


def zero(body: Body, kind: kt.Type) -> Value:
    """A value of this type that nobody reads."""
    builder = body.builder
    match kind:
        case kt.Scalar(code):
            return builder.const(code, 0)
        case kt.TimeType():
            return builder.const("i8", 0)
        case kt.ComplexType(code):
            return Complex(builder.const(code, 0), builder.const(code, 0))
        case kt.TupleType(items):
            return Tuple(tuple(zero(body, item) for item in items))
        case kt.EnumType(_, of):
            return zero(body, of)
        case kt.RecordType():
            return Record(builder.const("i8", 0), kind, "")
        case kt.ArrayType(element, ndim):
            nothing = (builder.const("i8", 0),) * ndim
            return Array(builder.const("i8", 0), nothing, nothing, element, "")
    raise body.refuse(f"{kind} or None")


def storage(body: Body, kind: kt.Type, name: str) -> Value:
    """New slots for a value of this type."""
    new = body.builder.new

    def part(kind: kt.Type, suffix: object) -> Value:
        return storage(body, kind, f"{name}.{suffix}" if name else "")

    match kind:
        case kt.Scalar(code):
            return new(code, name)
        case kt.TimeType():
            return new("i8", name)
        case kt.ComplexType(code):
            return Complex(new(code, f"{name}.real" if name else ""), new(code, f"{name}.imag" if name else ""))
        case kt.RecordType():
            return Record(new("i8", name), kind, name)
        case kt.EnumType(_, of):
            return storage(body, of, name)
        case kt.OptionalType(of):
            return Optional(new("b1"), storage(body, of, name))
        case kt.ArrayType(element, ndim):
            shape = tuple(new("i8") for _ in range(ndim))
            return Array(new("i8", name), shape, tuple(new("i8") for _ in range(ndim)), element, name)
        case kt.PointerType(element):
            return Pointer(new("i8", name), new("i8"), element, name)
        case kt.TextType():
            found = parts_of(kind)
            assert found is not None
            return Tuple(tuple(new(found[0]) for _ in range(found[1])))
        case kt.TupleType(items, names):
            return Tuple(tuple(part(item, names[i] if names else i) for i, item in enumerate(items)))
        case kt.RangeType(code):
            wide = "u8" if code == "u8" else "i8"
            return Range(new(wide), new(wide), new(wide), code)
        case kt.Nothing() | kt.StaticType():
            return Known(None)
    raise body.refuse(f"a value of type {kind} that comes from several paths")
