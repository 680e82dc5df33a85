"""``complex``, ``cmath`` and the methods of complex numbers.

The functions of ``cmath`` that are not here are overloads of numba-cuda's: their own Python is lowered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulator.frontend import kernel_types as kt
from simulator.frontend import typed_ir as ir
from simulator.frontend.lowering import complex_functions, complexes
from simulator.frontend.lowering.calls.table import Bound, Meaning, meaning
from simulator.frontend.lowering.library import call_library
from simulator.frontend.lowering.values import Complex, Value


def _operand(bound: Bound, parameter: str) -> Complex:
    value = bound.body.coerce(bound.body.value(bound.arguments[parameter]), bound.type(parameter))
    if not isinstance(value, Complex):
        raise bound.refuse(f"of {bound.type(parameter)}")
    return value


def _function(function: Callable[..., Any]) -> Meaning:
    def complex_function(bound: Bound) -> Value:
        operands = [_operand(bound, parameter) for parameter in bound.arguments]
        return bound.body.coerce(call_library(bound.body, function, operands), bound.kind)

    return complex_function


for _name in ("exp", "cos", "sin", "tan", "acos", "asin", "atan", "asinh", "atanh"):
    meaning(f"cmath.{_name}", "z")(_function(getattr(complex_functions, _name)))


@meaning("cmath.log", "z base?")
def _log(bound: Bound) -> Value:
    return _function(complex_functions.log_to if bound.given("base") else complex_functions.log)(bound)


@meaning("cmath.sqrt", "z")
def _sqrt(bound: Bound) -> Value:
    number, _ = complexes.CLASSES[bound.builder.dtype(_operand(bound, "z").real)]
    return _function(complex_functions.square_root(number))(bound)


def _classify(fn: str, join: str) -> Meaning:
    def classify(bound: Bound) -> Value:
        z = _operand(bound, "z")
        code = bound.builder.dtype(z.real)
        parts = [bound.builder.op("classify", code, part, result="b1", fn=fn) for part in (z.real, z.imag)]
        return bound.builder.op(join, "b1", *parts)

    return classify


for _fn, _join in (("isnan", "or"), ("isinf", "or"), ("isfinite", "and")):
    meaning(f"cmath.{_fn}", "z")(_classify(_fn, _join))


@meaning("builtins.complex", "real imag?")
def _complex(bound: Bound) -> Value:
    """Of two real numbers, or of one number of any kind."""
    kind = bound.kind
    assert isinstance(kind, kt.ComplexType)
    if not bound.given("imag"):
        return bound.body.coerce(bound.body.value(bound.arguments["real"]), kind)
    return Complex(bound.number("real", kind.code), bound.number("imag", kind.code))


@meaning("method conjugate")
def _conjugate(bound: Bound) -> Value:
    """Of a real number: itself."""
    assert isinstance(bound.call.target, ir.Method)
    value = bound.body.value(bound.call.target.of)
    return complexes.conjugate(bound.body, value) if isinstance(value, Complex) else value
