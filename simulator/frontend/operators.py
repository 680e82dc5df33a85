"""Operators.  The operands are cast to what Numba's signature says, never by rules of our own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.frontend import kernel_types as kt
from simulator.frontend import typed_ir as ir
from simulator.frontend.inference import DoesNotCompile
from simulator.frontend.power import power
from simulator.frontend.values import Known, Tuple, Value
from simulator.program import FLOATS

if TYPE_CHECKING:
    from simulator.frontend.body import Body

_ARITHMETIC = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "floordiv": "floordiv",
    "mod": "mod",
    "and_": "and",
    "or_": "or",
    "xor": "xor",
}
_SCALAR_ONLY = frozenset({"add", "sub", "mul", "floordiv", "mod", "pow"})
"""Operators whose typing knows arrays but whose code for the CUDA target does not (no such ufunc there)."""
_SHIFTS = {"lshift": "shl", "rshift": "shr"}
_COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "matmul": "@", "pow": "**"}


def binary(body: Body, expression: ir.Binary) -> Value:
    """``left fn right``."""
    fn, args, result = expression.fn, expression.signature.args, expression.signature.result
    if fn in ("is_", "is_not"):
        return _identity(body, expression)
    left, right = body.value(expression.left), body.value(expression.right)
    if fn in ("eq", "ne") and (left == Known(None) or right == Known(None)):
        return body.builder.const("b1", (left == right) == (fn == "eq"))
    if fn == "add" and isinstance(left, Tuple) and isinstance(right, Tuple):
        return Tuple(left.items + right.items)
    if not (len(args) == 2 and isinstance(args[0], kt.Scalar) and isinstance(args[1], kt.Scalar)):
        kinds = " and ".join(str(body.type(name)) for name in (expression.left, expression.right))
        if fn in _SCALAR_ONLY and isinstance(result, kt.ArrayType):
            sign = _SIGNS.get(fn, fn)
            raise DoesNotCompile(
                f"Numba has no operator {sign} on {kinds} in a kernel, only on elements", body.builder.pos
            )
        raise body.refuse(f"the operator {_SIGNS.get(fn, fn)} on {kinds}")
    a = body.number(expression.left, args[0].code)
    b = body.number(expression.right, args[1].code)
    assert isinstance(result, kt.Scalar)
    if fn in _COMPARISONS:
        return compare(body, fn, a, b)
    if fn in _SHIFTS:
        amount = body.builder.cast(b, result.code)
        return body.builder.op(_SHIFTS[fn], result.code, body.builder.cast(a, result.code), amount, amount=result.code)
    if fn == "pow":
        return power(body, a, b, result.code)
    if fn not in _ARITHMETIC:
        raise body.refuse(f"the operator {_SIGNS.get(fn, fn)}")
    return arithmetic(body, _ARITHMETIC[fn], body.builder.cast(a, result.code), body.builder.cast(b, result.code))


def arithmetic(body: Body, kind: str, a: int, b: int) -> int:
    """An operation on two slots of one dtype; with ``debug=True`` a division by zero raises."""
    code = body.builder.dtype(a)
    if body.function.checked and kind in ("div", "floordiv", "mod"):
        zero = body.builder.op("cmp", code, b, body.builder.const(code, 0), result="b1", how="eq", unordered=False)
        body.trap_if(zero, "ZeroDivisionError('division by zero')")
    return body.builder.op(kind, code, a, b)


def compare(body: Body, how: str, a: int, b: int) -> int:
    """A comparison.  Integers of different signs compare by value, as Numba does."""
    builder = body.builder
    left, right = builder.dtype(a), builder.dtype(b)
    if left == right:
        return builder.op("cmp", left, a, b, result="b1", how=how, unordered=how == "ne")
    if left in FLOATS or right in FLOATS:
        raise body.refuse(f"comparing {left} with {right}")
    wide = f"u{max(int(left[1]), int(right[1]))}"
    plain = builder.op("cmp", wide, builder.cast(a, wide), builder.cast(b, wide), result="b1", how=how, unordered=False)
    if left[0] == right[0] or "b1" in (left, right):
        raise body.refuse(f"comparing {left} with {right}")
    signed = a if left[0] == "i" else b
    code = builder.dtype(signed)
    zero = builder.const(code, 0)
    negative = builder.op("cmp", code, signed, zero, result="b1", how="lt", unordered=False)
    less = how in ("lt", "le", "ne") if signed == a else how in ("gt", "ge", "ne")
    return builder.op("select", "b1", negative, builder.const("b1", less), plain)


def _identity(body: Body, expression: ir.Binary) -> int:
    """``is``: equality for values of one type, false between types (Numba's rule)."""
    left, right = body.value(expression.left), body.value(expression.right)
    same = expression.fn == "is_"
    if isinstance(left, Known) or isinstance(right, Known):
        return body.builder.const("b1", (left == right) == same)
    kinds = [body.type(name) for name in (expression.left, expression.right)]
    if all(isinstance(kind, kt.Scalar) and kind.code == "b1" for kind in kinds) or kinds[0] == kinds[1]:
        if isinstance(left, int) and isinstance(right, int):
            return compare(body, "eq" if same else "ne", left, right)
        raise body.refuse(f"'is' between values of type {kinds[0]}")
    return body.builder.const("b1", not same)


def unary(body: Body, expression: ir.Unary) -> int:
    """``-x``, ``+x``, ``~x`` and ``not x``."""
    argument, result = expression.signature.args[0], expression.signature.result
    if not isinstance(argument, kt.Scalar) or not isinstance(result, kt.Scalar):
        raise body.refuse(f"the operator {expression.fn} on {body.type(expression.value)}")
    value = body.number(expression.value, argument.code)
    builder = body.builder
    if expression.fn == "not_":
        return builder.op("not", "b1", builder.cast(value, "b1"))
    code = result.code if argument.code == "b1" and expression.fn == "neg" else argument.code
    value = builder.cast(value, code)  # negated and inverted before it is widened
    known = builder.known(value)
    match expression.fn:
        case "pos":
            return builder.cast(value, result.code)
        case "neg" if known is not None:
            return builder.cast(builder.const(code, -known), result.code)
        case "neg":
            return builder.cast(builder.op("neg", code, value), result.code)
        case "invert":
            return builder.cast(builder.op("not", code, value), result.code)
    raise body.refuse(f"the operator {expression.fn}")
