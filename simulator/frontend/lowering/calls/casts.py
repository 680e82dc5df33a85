"""Calls of number classes: they cast, and nothing else."""

from __future__ import annotations

from simulator.frontend import kernel_types as kt
from simulator.frontend import typed_ir as ir
from simulator.frontend.lowering.calls.table import Bound, meaning
from simulator.frontend.lowering.complexes import truth
from simulator.frontend.lowering.values import Complex, Known, Value


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
    if isinstance(known, Known) and isinstance(known.value, str):  # float("inf")
        return bound.builder.const(bound.result, float(known.value))
    slot = bound.number("x", bound.result)
    if bound.result == "f8" and isinstance(bound.call.target, ir.CastTo):
        bound.builder.program.doubles |= {slot, bound.builder.pos}
    elif bound.result == "f8":  # float(x), which means no width
        bound.builder.program.floats.add(slot)
    return slot


for _name in ("int", "float", "bool"):
    meaning(f"builtins.{_name}", "x")(_cast)


@meaning("builtins.tuple", "x")
def _tuple(bound: Bound) -> Value:
    return bound.body.coerce(bound.body.value(bound.arguments["x"]), bound.kind)
