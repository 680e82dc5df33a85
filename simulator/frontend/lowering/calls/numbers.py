"""Python's builtins on numbers."""

from __future__ import annotations

from simulator.frontend import kernel_types as kt
from simulator.frontend.lowering.calls.table import Bound, Meaning, meaning
from simulator.frontend.lowering.complex_functions import modulus
from simulator.frontend.lowering.library import call_library
from simulator.frontend.lowering.library_functions import round_digits
from simulator.frontend.lowering.operators import arithmetic, compare
from simulator.frontend.lowering.values import Complex, Tuple, Value
from simulator.program import FLOATS


@meaning("builtins.abs", "x")
def _abs(bound: Bound) -> Value:
    operand = bound.body.value(bound.arguments["x"])
    if isinstance(bound.type("x"), kt.ComplexType) and isinstance(number := bound.value("x"), Complex):
        return bound.body.coerce(call_library(bound.body, modulus, (number,)), bound.kind)
    if isinstance(operand, int) and isinstance(bound.kind, kt.TimeType):
        return bound.builder.op("abs", "i8", operand)
    value = bound.number("x", bound.result)
    return value if bound.result[0] in "ub" and bound.result != "bf" else bound.builder.op("abs", bound.result, value)


def _extremum(kind: str) -> Meaning:
    """Two floats of 32 or 64 bits: fmin and fmax, which ignore NaN.  Otherwise Numba folds by comparing."""

    def extremum(bound: Bound) -> Value:
        builder, code = bound.builder, bound.result
        single = bound.body.value(bound.arguments["0"]) if len(bound.arguments) == 1 else None
        if isinstance(single, Tuple):
            values = [builder.cast(item, code) for item in single.items if isinstance(item, int)]
            library = False
        else:
            values = bound.numbers(code)
            library = len(values) == 2 and all(bound.code(bound.type(name)) in ("f4", "f8") for name in bound.arguments)
        if not values or (isinstance(single, Tuple) and len(values) != len(single.items)):
            raise bound.refuse("of something else than numbers")
        found = values[0]
        for value in values[1:]:
            if code not in FLOATS:
                found = builder.op(kind, code, found, value)
            elif library:
                found = builder.op(kind, code, found, value, nan="ignore")
            else:
                better = compare(bound.body, "lt" if kind == "min" else "gt", value, found)
                found = builder.op("select", code, better, value, found)
        return found

    return extremum


meaning("builtins.min", "*")(_extremum("min"))
meaning("builtins.max", "*")(_extremum("max"))


@meaning("builtins.round", "number ndigits?")
def _round(bound: Bound) -> Value:
    """To an integer (half to even), or to a number of decimal digits."""
    builder, value = bound.builder, bound.number("number")
    if builder.dtype(value) not in ("f4", "f8"):
        raise bound.refuse(f"of {builder.dtype(value)}")
    if bound.given("ndigits"):
        digits = builder.cast(bound.number("ndigits"), "i8")
        found = call_library(bound.body, round_digits, (value, digits))
        assert isinstance(found, int)
        return builder.cast(found, bound.result)
    whole = builder.op("round", "f8", builder.cast(value, "f8"), mode="even")
    return builder.cast(whole, bound.result)


@meaning("builtins.divmod", "x y")
def _divmod(bound: Bound) -> Value:
    kind = bound.kind
    assert isinstance(kind, kt.TupleType)
    code = bound.code(kind.items[0])
    a, b = bound.number("x", code), bound.number("y", code)
    return Tuple((arithmetic(bound.body, "floordiv", a, b), arithmetic(bound.body, "mod", a, b)))
