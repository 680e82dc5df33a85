"""Calls of number classes: they cast, and nothing else."""

from __future__ import annotations

from simulator.frontend import kernel_types as kt
from simulator.frontend.calls.table import Bound, meaning
from simulator.frontend.values import Known, Value


@meaning("cast", "x")
def _cast(bound: Bound) -> Value:
    """``float32(x)``, ``np.int32(x)``."""
    if not isinstance(bound.kind, kt.Scalar):
        raise bound.refuse(f"giving {bound.kind}")
    known = bound.body.value(bound.arguments["x"])
    if isinstance(known, Known) and isinstance(known.value, str):  # float("inf")
        return bound.builder.const(bound.result, float(known.value))
    return bound.number("x", bound.result)


for _name in ("int", "float", "bool"):
    meaning(f"builtins.{_name}", "x")(_cast)


@meaning("builtins.tuple", "x")
def _tuple(bound: Bound) -> Value:
    return bound.body.coerce(bound.body.value(bound.arguments["x"]), bound.kind)
