"""NumPy's ufuncs on complex numbers, by Numba's formulas.

A comparison is that of the real parts, or of the imaginary ones where these are equal; a NaN makes it false.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simulator.frontend.lowering import complex_functions, complexes
from simulator.frontend.lowering.library import call_library
from simulator.frontend.lowering.operators import compare
from simulator.frontend.lowering.values import Complex, Value

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body

Rule = Callable[["Body", list[Complex]], Value]


# --------------------------------------------------------------------------------- functions, lowered from Python


def _sin(z):  # type: ignore[no-untyped-def]
    return complex(math.sin(z.real) * math.cosh(z.imag), math.cos(z.real) * math.sinh(z.imag))


def _cos(z):  # type: ignore[no-untyped-def]
    return complex(math.cos(z.real) * math.cosh(z.imag), -math.sin(z.real) * math.sinh(z.imag))


def _sinh(z):  # type: ignore[no-untyped-def]
    return complex(math.cos(z.imag) * math.sinh(z.real), math.sin(z.imag) * math.cosh(z.real))


def _cosh(z):  # type: ignore[no-untyped-def]
    return complex(math.cos(z.imag) * math.cosh(z.real), math.sin(z.imag) * math.sinh(z.real))


def _tanh(z):  # type: ignore[no-untyped-def]
    sine, cosine = math.sin(z.imag), math.cos(z.imag)
    hyperbolic_sine, hyperbolic_cosine = math.sinh(z.real), math.cosh(z.real)
    a, b = cosine * hyperbolic_sine, sine * hyperbolic_cosine
    c, d = cosine * hyperbolic_cosine, sine * hyperbolic_sine
    square = c * c + d * d
    return complex((a * c + b * d) / square, (b * c - a * d) / square)


def _acosh(z):  # type: ignore[no-untyped-def]
    return cmath.log(z + cmath.sqrt(z + 1) * cmath.sqrt(z - 1))


def _divide(a, b):  # type: ignore[no-untyped-def]
    """Smith's quotient; by zero gives infinities and NaN."""
    c, d = b.real, b.imag
    if abs(c) >= abs(d):
        if c == 0 and d == 0:
            return complex(a.real / abs(c), a.imag / abs(d))
        ratio = d / c
        scale = c + d * ratio
        return complex((a.real + a.imag * ratio) / scale, (a.imag - a.real * ratio) / scale)
    ratio = c / d
    scale = d + c * ratio
    return complex((a.real * ratio + a.imag) / scale, (a.imag * ratio - a.real) / scale)


def _function(function: Callable[..., Any]) -> Rule:
    return lambda body, values: call_library(body, function, values)


def _scaled_log(factor: float) -> Rule:
    """The logarithm to another base, by a factor rounded to the dtype of a part."""

    def scaled(body: Body, values: list[Complex]) -> Value:
        found = call_library(body, complex_functions.log, values)
        assert isinstance(found, Complex)
        code = body.builder.dtype(values[0].real)
        constant = body.builder.const(code, factor)
        parts = (body.builder.cast(part, code) for part in (found.real, found.imag))
        return Complex(*(body.builder.op("mul", code, constant, part) for part in parts))

    return scaled


# -------------------------------------------------------------------------------------- comparisons and the rest


def _either_nan(body: Body, parts: list[int]) -> int:
    code = body.builder.dtype(parts[0])
    found = [body.builder.op("classify", code, part, result="b1", fn="isnan") for part in parts]
    return body.builder.op("or", "b1", *found)


def _ordered(body: Body, how: str, a: Complex, b: Complex) -> int:
    """``a how b`` for lt, le, gt and ge."""

    def op(kind: str, *slots: int) -> int:
        return body.builder.op(kind, "b1", *slots)

    present = op("not", _either_nan(body, [a.imag, b.imag]))
    first = op("and", compare(body, how[0] + "t", a.real, b.real), present)
    second = op("and", compare(body, "eq", a.real, b.real), compare(body, how, a.imag, b.imag))
    return op("or", first, second)


def _comparison(how: str) -> Rule:
    return lambda body, values: _ordered(body, how, *values)


def _logical(kind: str) -> Rule:
    return lambda body, values: body.builder.op(kind, "b1", *(complexes.truth(body, value) for value in values))


def _extremum(how: str, nan: int) -> Rule:
    """The first operand if it is not the worse, or if the operand number ``nan`` is NaN."""

    def extremum(body: Body, values: list[Complex]) -> Value:
        builder, (a, b) = body.builder, values
        code = builder.dtype(a.real)
        missing = _either_nan(body, [values[nan].real, values[nan].imag])
        first = builder.op("or", "b1", _ordered(body, how, a, b), missing)
        parts = ((a.real, b.real), (a.imag, b.imag))
        return Complex(*(builder.op("select", code, first, *part) for part in parts))

    return extremum


RULES: dict[str, Rule] = {
    "sin": _function(_sin), "cos": _function(_cos), "sinh": _function(_sinh), "cosh": _function(_cosh),
    "tanh": _function(_tanh), "arccosh": _function(_acosh), "divide": _function(_divide),
    **{f"arc{fn}": _function(getattr(complex_functions, f"a{fn}")) for fn in ("sin", "cos", "tan", "sinh", "tanh")},
    "tan": _function(complex_functions.tan),
    "log": _function(complex_functions.log),
    "log2": _scaled_log(math.log2(math.e)),
    "log10": _scaled_log(math.log10(math.e)),
    "greater": _comparison("gt"), "greater_equal": _comparison("ge"),
    "less": _comparison("lt"), "less_equal": _comparison("le"),
    "equal": lambda body, values: complexes.equal(body, values[0], values[1], True),
    "not_equal": lambda body, values: complexes.equal(body, values[0], values[1], False),
    **{f"logical_{kind}": _logical(kind) for kind in ("and", "or", "xor", "not")},
    "maximum": _extremum("ge", 0), "minimum": _extremum("le", 0),
    "fmax": _extremum("ge", 1), "fmin": _extremum("le", 1),
    "isnan": lambda body, values: _either_nan(body, [values[0].real, values[0].imag]),
    "conjugate": lambda body, values: complexes.conjugate(body, values[0]),
}  # fmt: skip
"""By NumPy's first name of the ufunc."""
