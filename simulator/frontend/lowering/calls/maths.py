"""The math module.

Computed in the float dtype of Numba's signature; integers become float64 first, as in numba-cuda.
"""

from __future__ import annotations

import math

from simulator.frontend.lowering.calls.table import Bound, Meaning, meaning
from simulator.frontend.lowering.values import Tuple, Value
from simulator.program import FLOATS

FUNCTIONS = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "gamma", "lgamma",
)  # fmt: skip


def _float_code(bound: Bound) -> str:
    """The dtype that a call computes in."""
    codes = {bound.code(bound.type(name)) for name in bound.arguments}
    floats = codes & set(FLOATS)
    return floats.pop() if len(floats) == 1 == len(codes) else "f8"


def _function(fn: str) -> Meaning:
    def function(bound: Bound) -> Value:
        code = _float_code(bound)
        return bound.builder.cast(bound.builder.op("math", code, *bound.numbers(code), fn=fn), bound.result)

    return function


def _kind(kind: str) -> Meaning:
    def function(bound: Bound) -> Value:
        code = _float_code(bound)
        return bound.builder.cast(bound.builder.op(kind, code, *bound.numbers(code)), bound.result)

    return function


def _rounded(mode: str) -> Meaning:
    def function(bound: Bound) -> Value:
        if bound.code(bound.type("x")) not in FLOATS and bound.result not in FLOATS:
            return bound.number("x", bound.result)
        code = _float_code(bound)
        whole = bound.builder.op("round", code, bound.number("x", code), mode=mode)
        return bound.builder.cast(whole, bound.result)

    return function


def _classify(fn: str) -> Meaning:
    def function(bound: Bound) -> Value:
        code = bound.code(bound.type("x"))
        if code not in FLOATS:
            return bound.builder.const("b1", fn == "isfinite")
        return bound.builder.op("classify", code, bound.number("x"), result="b1", fn=fn)

    return function


def _scaled(factor: float) -> Meaning:
    def function(bound: Bound) -> Value:
        code = _float_code(bound)
        return bound.builder.op("mul", code, bound.builder.const(code, factor), bound.number("x", code))

    return function


for _fn in FUNCTIONS:
    meaning(f"math.{_fn}", "x")(_function(_fn))
for _fn in ("atan2", "hypot", "nextafter", "remainder"):
    meaning(f"math.{_fn}", "x y")(_function(_fn))
meaning("cuda.cbrt", "x")(_function("cbrt"))
meaning("math.sqrt", "x")(_kind("sqrt"))
meaning("math.fabs", "x")(_kind("abs"))
meaning("math.copysign", "x y")(_kind("copysign"))
meaning("math.fmod", "x y")(_kind("rem"))
for _fn, _mode in (("floor", "floor"), ("ceil", "ceil"), ("trunc", "trunc")):
    meaning(f"math.{_fn}", "x")(_rounded(_mode))
for _fn in ("isnan", "isinf", "isfinite"):
    meaning(f"math.{_fn}", "x")(_classify(_fn))
meaning("math.radians", "x")(_scaled(math.pi / 180.0))
meaning("math.degrees", "x")(_scaled(180.0 / math.pi))


@meaning("math.pow", "x y")
def _pow(bound: Bound) -> Value:
    """An int32 exponent is exact; single precision goes by way of double, which holds it."""
    builder, base, exponent = bound.builder, bound.number("x"), bound.number("y")
    code = builder.dtype(base) if builder.dtype(base) == builder.dtype(exponent) in FLOATS else "f8"
    found = builder.op("math", code, builder.cast(base, code), builder.cast(exponent, code), fn="pow")
    return builder.cast(found, bound.result)


@meaning("math.ldexp", "x i")
def _ldexp(bound: Bound) -> Value:
    return bound.builder.op("math", bound.result, bound.number("x"), bound.number("i", "i4"), fn="ldexp")


@meaning("math.frexp", "x")
def _frexp(bound: Bound) -> Value:
    value = bound.number("x")
    code = bound.builder.dtype(value)
    return Tuple(bound.builder.ops("math", code, value, results=(code, "i4"), fn="frexp"))


@meaning("math.modf", "x")
def _modf(bound: Bound) -> Value:
    value = bound.number("x")
    code = bound.builder.dtype(value)
    return Tuple(bound.builder.ops("math", code, value, results=(code, code), fn="modf"))
