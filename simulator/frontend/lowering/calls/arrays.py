"""Declared arrays, and what Python's builtins say about arrays, ranges and slices."""

from __future__ import annotations

from simulator.frontend import kernel_types as kt
from simulator.frontend.lowering.calls.table import Bound, Meaning, meaning
from simulator.frontend.lowering.iteration import make_range
from simulator.frontend.lowering.memory import declare, declare_dynamic
from simulator.frontend.lowering.texts import length, text_of
from simulator.frontend.lowering.values import Array, Known, Slice, Tuple, Value
from simulator.frontend.refusal import DoesNotCompile

POINTER = 8
"""Bytes of an address."""


def _declared(space: str) -> Meaning:
    def array(bound: Bound) -> Value:
        kind = bound.kind
        if not isinstance(kind, kt.ArrayType):
            raise bound.refuse(f"of type {kind}")
        shape = _shape(bound)
        align = _alignment(bound) if bound.given("alignment") else 0
        name = bound.name or space
        if space == "shared":  # one per function and statement, however often the function is called
            key: object = (bound.body.function, bound.target)
            if shape == (0,):
                return declare_dynamic(bound.body, name, key, kind.element, align)
        else:
            key = (bound.body, bound.target)
            if space == "local" and bound.body.recursion is not None:
                raise bound.refuse("in a function that calls itself")
        if min(shape) <= 0:
            raise bound.refuse(f"with shape {shape}")
        return declare(bound.body, name, key, space, kind.element, shape, align=align)

    return array


def _alignment(bound: Bound) -> int:
    """The alignment that a declaration asks for; what Numba's code generator refuses is refused."""
    align = bound.literal(bound.type("alignment"))
    if align <= 0 or align & (align - 1) or align % POINTER:
        error = ValueError(f"Alignment must be a power of two and a multiple of {POINTER}, not {align}")
        raise DoesNotCompile(str(error), bound.builder.pos) from error
    return align


def _shape(bound: Bound) -> tuple[int, ...]:
    kind = bound.type("shape")
    if isinstance(kind, kt.TupleType):
        return tuple(bound.literal(item) for item in kind.items)
    return (bound.literal(kind),)


meaning("cuda.shared.array", "shape dtype alignment?")(_declared("shared"))
meaning("cuda.local.array", "shape dtype alignment?")(_declared("local"))


@meaning("cuda.const.array_like", "array")
def _array_like(bound: Bound) -> Value:
    """A global array, which is a constant already."""
    return bound.array("array")


@meaning("builtins.len", "x")
def _len(bound: Bound) -> Value:
    value = bound.body.present(bound.arguments["x"])
    if isinstance(value, Array):
        return value.shape[0]
    if isinstance(value, Tuple) and isinstance(bound.body.type(bound.arguments["x"]), kt.TextType):
        return length(bound.body, value)
    if isinstance(value, Tuple):
        return bound.builder.const("i8", len(value.items))
    if (text := text_of(value)) is not None:
        return bound.builder.const("i8", len(text))
    raise bound.refuse(f"of {bound.body.type(bound.arguments['x'])}")


@meaning("builtins.range", "*")
def _range(bound: Bound) -> Value:
    kind = bound.kind
    assert isinstance(kind, kt.RangeType)
    return make_range(bound.body, bound.numbers(), kind.code)


@meaning("builtins.slice", "*")
def _slice(bound: Bound) -> Value:
    parts: list[int | None] = []
    for variable in bound.arguments.values():
        known = bound.body.value(variable) == Known(None)
        parts.append(None if known else bound.body.number(variable, "i8"))
    if len(parts) == 1:
        parts = [None, *parts]
    return Slice(parts[0], parts[1], parts[2] if len(parts) == 3 else None)
