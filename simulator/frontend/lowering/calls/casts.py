"""Calls of number classes: they cast, and nothing else."""

from __future__ import annotations

from simulator.frontend import kernel_types as kt
from simulator.frontend import typed_ir as ir
from simulator.frontend.lowering.calls.table import Bound, meaning
from simulator.frontend.lowering.complexes import truth
from simulator.frontend.lowering.texts import text_of
from simulator.frontend.lowering.values import Complex, Tuple, Value
from simulator.frontend.refusal import DoesNotCompile


@meaning("cast", "x")
def _cast(bound: Bound) -> Value:
    """``float32(x)``, ``np.int32(x)``."""
    if isinstance(bound.kind, kt.ComplexType | kt.TimeType):
        return bound.body.coerce(bound.body.value(bound.arguments["x"]), bound.kind, bound.type("x"))
    if not isinstance(bound.kind, kt.Scalar):
        raise bound.refuse(f"giving {bound.kind}")
    known = bound.body.value(bound.arguments["x"])
    if isinstance(known, Complex) and bound.result == "b1":
        return truth(bound.body, known)
    if bound.result == "b1" and isinstance(known, Tuple):
        return bound.builder.const("b1", bool(known.items))
    if (text := text_of(known)) is not None:
        return bound.builder.const(bound.result, bool(text) if bound.result == "b1" else _read(bound, text))
    slot = bound.number("x", bound.result)
    if bound.result == "f8" and isinstance(bound.call.target, ir.CastTo):
        bound.builder.program.doubles |= {slot, bound.builder.pos}
    elif bound.result == "f8":  # float(x), which means no width
        bound.builder.program.floats.add(slot)
    return slot


def _read(bound: Bound, text: str | bytes) -> float:
    """``float("inf")``."""
    try:
        return float(text)
    except ValueError as error:
        raise DoesNotCompile(str(error), bound.builder.pos) from error


for _name in ("int", "float", "bool"):
    meaning(f"builtins.{_name}", "x")(_cast)


@meaning("builtins.tuple", "x")
def _tuple(bound: Bound) -> Value:
    return bound.body.coerce(bound.body.value(bound.arguments["x"]), bound.kind)
