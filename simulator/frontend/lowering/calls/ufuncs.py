"""NumPy's ufuncs: those that Numba has code for in a kernel.

The operands are cast to the loop that Numba chose, the result to what the call gives.  On arrays a ufunc writes to the
array given last, and every thread goes through all elements, as on the GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from simulator.frontend import kernel_types as kt
from simulator.frontend import typed_ir as ir
from simulator.frontend.lowering.calls import complex_ufuncs
from simulator.frontend.lowering.elements import load, store
from simulator.frontend.lowering.indexing import address
from simulator.frontend.lowering.nest import broadcast, loop_nest
from simulator.frontend.lowering.operators import compare
from simulator.frontend.lowering.times import NAT
from simulator.frontend.lowering.values import Array, Complex, Value
from simulator.frontend.refusal import DoesNotCompile
from simulator.program import FLOATS

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body

Rule = Callable[["Body", list[int]], int]
"""What a ufunc does with numbers, all of the dtype of its loop."""


def call_ufunc(body: Body, expression: ir.Call, ufunc: ir.Ufunc) -> Value:
    """Lower a call of a ufunc."""
    kinds = ", ".join(str(body.type(name)) for name in expression.args)
    if not ufunc.inputs:
        raise DoesNotCompile(f"Numba has no code for numpy.{ufunc.name} on {kinds} in a kernel", body.builder.pos)
    if expression.keywords or len(ufunc.outputs) != 1:
        raise body.refuse(f"calling numpy.{ufunc.name} on {kinds}")
    values = [body.value(name) for name in expression.args]
    count = len(ufunc.inputs)
    inputs, outputs = values[:count], values[count:]
    if not outputs and not any(isinstance(value, Array) for value in inputs):
        return body.coerce(_apply(body, ufunc, inputs), expression.signature.result)
    if not outputs:
        raise DoesNotCompile(f"numpy.{ufunc.name} of arrays needs an array for the results", body.builder.pos)
    (out,) = outputs
    assert isinstance(out, Array)
    _over_elements(body, ufunc, inputs, out)
    return out


def _over_elements(body: Body, ufunc: ir.Ufunc, inputs: list[Value], out: Array) -> None:
    with loop_nest(body, out.shape) as index:
        elements: list[Value] = []
        for value in inputs:
            if isinstance(value, Array):
                where = address(body, value, broadcast(body, index, value.shape))
                value = load(body, value.element, where, value.name)
            elements.append(value)
        found = body.coerce(_apply(body, ufunc, elements), out.element)
        store(body, out.element, address(body, out, list(index)), found, out.name)


def _apply(body: Body, ufunc: ir.Ufunc, values: list[Value]) -> Value:
    operands = [body.coerce(value, kind) for value, kind in zip(values, ufunc.inputs, strict=True)]
    numbers = [value for value in operands if isinstance(value, int)]
    pairs = [value for value in operands if isinstance(value, Complex)]
    if len(pairs) == len(operands) and ufunc.name in complex_ufuncs.RULES:
        found = complex_ufuncs.RULES[ufunc.name](body, pairs)
    elif len(numbers) == len(operands) and isinstance(ufunc.inputs[0], kt.TimeType) and ufunc.name == "isnan":
        found = compare(body, "eq", numbers[0], body.builder.const("i8", NAT))
    elif len(numbers) == len(operands) and ufunc.name in _RULES and all(map(_is_number, ufunc.inputs)):
        found = _RULES[ufunc.name](body, numbers)
    else:
        raise body.refuse(f"calling numpy.{ufunc.name} on {', '.join(map(str, ufunc.inputs))}")
    return body.coerce(found, ufunc.outputs[0])


def _is_number(kind: kt.Type) -> bool:
    return isinstance(kind, kt.Scalar)


# ------------------------------------------------------------------------------------------------------- rules


def _operation(kind: str, **attr: str) -> Rule:
    return lambda body, slots: body.builder.op(kind, body.builder.dtype(slots[0]), *slots, **attr)


def _scaled(factor: float) -> Rule:
    def scaled(body: Body, slots: list[int]) -> int:
        code = body.builder.dtype(slots[0])
        return body.builder.op("mul", code, slots[0], body.builder.const(code, factor))

    return scaled


def _comparison(how: str) -> Rule:
    return lambda body, slots: compare(body, how, *slots)


def _logical(kind: str) -> Rule:
    return lambda body, slots: body.builder.op(kind, "b1", *(body.builder.cast(slot, "b1") for slot in slots))


def _shift(kind: str) -> Rule:
    def shift(body: Body, slots: list[int]) -> int:
        code = body.builder.dtype(slots[0])
        return body.builder.op(kind, code, *slots, amount=code)

    return shift


def _extremum(kind: str, nan: int) -> Rule:
    """``maximum``, ``fmin`` ...: the first operand if it is not the worse, or if the operand number ``nan`` is NaN."""

    def extremum(body: Body, slots: list[int]) -> int:
        builder, code = body.builder, body.builder.dtype(slots[0])
        if code == "b1":
            return builder.op("or" if kind == "max" else "and", code, *slots)
        if code not in FLOATS:
            return builder.op(kind, code, *slots)
        first = compare(body, "ge" if kind == "max" else "le", *slots)
        missing = builder.op("classify", code, slots[nan], result="b1", fn="isnan")
        return builder.op("select", code, builder.op("or", "b1", first, missing), *slots)

    return extremum


def _isnan(body: Body, slots: list[int]) -> int:
    code = body.builder.dtype(slots[0])
    if code not in FLOATS:
        return body.builder.const("b1", False)
    return body.builder.op("classify", code, slots[0], result="b1", fn="isnan")


_RULES: dict[str, Rule] = {
    **{fn: _operation("math", fn=fn) for fn in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "log", "log2", "log10")},
    **{f"arc{fn}": _operation("math", fn=f"a{fn}") for fn in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2")},
    "hypot": _operation("math", fn="hypot"),
    **dict.fromkeys(("radians", "deg2rad"), _scaled(math.pi / 180)),
    **dict.fromkeys(("degrees", "rad2deg"), _scaled(180 / math.pi)),
    "greater": _comparison("gt"),
    "greater_equal": _comparison("ge"),
    "less": _comparison("lt"),
    "less_equal": _comparison("le"),
    "equal": _comparison("eq"),
    "not_equal": _comparison("ne"),
    **{f"logical_{kind}": _logical(kind) for kind in ("and", "or", "xor", "not")},
    **{f"bitwise_{kind}": _operation(kind) for kind in ("and", "or", "xor")},
    "invert": _operation("not"),
    "left_shift": _shift("shl"),
    "right_shift": _shift("shr"),
    "maximum": _extremum("max", 0),
    "minimum": _extremum("min", 0),
    "fmax": _extremum("max", 1),
    "fmin": _extremum("min", 1),
    "isnan": _isnan,
    "conjugate": lambda body, slots: slots[0],
    "divide": _operation("div"),
}
"""By NumPy's first name of the ufunc (``arcsin`` for ``asin``)."""
