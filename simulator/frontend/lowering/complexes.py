"""Complex numbers: operators, as numba-cuda computes them part by part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simulator.frontend.lowering import complex_functions
from simulator.frontend.lowering.library import call_library
from simulator.frontend.lowering.values import Complex, Value

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body

CLASSES = {"f4": (np.float32, np.complex64), "f8": (np.float64, np.complex128)}
"""Classes of the parts and of the numbers, by dtype code of the parts."""


def binary(body: Body, fn: str, a: Complex, b: Complex) -> Value | None:
    """``a fn b`` of two numbers of one type; None for an operator that complex numbers do not have."""
    builder = body.builder
    code = builder.dtype(a.real)

    def op(kind: str, x: int, y: int) -> int:
        return builder.op(kind, code, x, y)

    match fn:
        case "add" | "sub":
            return Complex(op(fn, a.real, b.real), op(fn, a.imag, b.imag))
        case "mul":
            ac, bd = op("mul", a.real, b.real), op("mul", a.imag, b.imag)
            ad, bc = op("mul", a.real, b.imag), op("mul", a.imag, b.real)
            return Complex(op("sub", ac, bd), op("add", ad, bc))
        case "truediv":
            return call_library(body, complex_functions.quotient, (a, b))
        case "pow":
            return power(body, a, b)
        case "eq" | "ne":
            return equal(body, a, b, fn == "eq")
    return None


def power(body: Body, a: Complex, b: Complex) -> Value:
    """``a ** b``."""
    classes = CLASSES[body.builder.dtype(a.real)]
    return call_library(body, complex_functions.power(*classes), (a, b))


def equal(body: Body, a: Complex, b: Complex, same: bool) -> int:
    """``a == b``, or ``a != b``."""
    builder, code = body.builder, body.builder.dtype(a.real)
    how = "eq" if same else "ne"
    parts = [
        builder.op("cmp", code, x, y, result="b1", how=how, unordered=not same)
        for x, y in ((a.real, b.real), (a.imag, b.imag))
    ]
    return builder.op("and" if same else "or", "b1", *parts)


def unary(body: Body, fn: str, a: Complex) -> Value | None:
    """``-a``, ``+a`` and ``not a``; None for an operator that complex numbers do not have."""
    match fn:
        case "pos":
            return a
        case "neg":
            return Complex(negated(body, a.real), negated(body, a.imag))
        case "not_":
            return body.builder.op("not", "b1", truth(body, a))
    return None


def truth(body: Body, a: Complex) -> int:
    """``bool(a)``."""
    return body.builder.op("or", "b1", body.builder.cast(a.real, "b1"), body.builder.cast(a.imag, "b1"))


def conjugate(body: Body, a: Complex) -> Complex:
    """``a.conjugate()``."""
    return Complex(a.real, negated(body, a.imag))


def negated(body: Body, slot: int) -> int:
    """A part with the other sign."""
    code, known = body.builder.dtype(slot), body.builder.known(slot)
    return body.builder.op("neg", code, slot) if known is None else body.builder.const(code, -known)
