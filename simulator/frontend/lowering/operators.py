"""Operators.  The operands are cast to what Numba's signature says, never by rules of our own."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from simulator.frontend import kernel_types as kt
from simulator.frontend import typed_ir as ir
from simulator.frontend.lowering import complexes, times
from simulator.frontend.lowering.indexing import the_element
from simulator.frontend.lowering.power import power
from simulator.frontend.lowering.texts import on_texts, padded, text_of
from simulator.frontend.lowering.values import Array, Complex, Known, Optional, Tuple, Value, leaves
from simulator.frontend.refusal import DoesNotCompile
from simulator.program import FLOATS, SIZES

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body

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
    left, right = (the_element(body, body.value(name)) for name in (expression.left, expression.right))
    if fn in ("eq", "ne") and (left == Known(None) or right == Known(None)):
        return body.builder.const("b1", (left == right) == (fn == "eq"))
    if (decided := on_texts(body, fn, left, right)) is not None:
        return decided
    if fn == "add" and isinstance(left, Tuple) and isinstance(right, Tuple):
        return Tuple(left.items + right.items)
    if fn == "contains" and isinstance(left, Tuple):
        return _among(body, left.items, body.present(expression.right))
    if len(args) == 2:
        left, right = (body.coerce(value, kind) for value, kind in zip((left, right), args, strict=True))
        left, right = padded(body, (left, right), (args[0], args[1]))
        if (found := _structured(body, expression, left, right)) is not None:
            return found
    if not (isinstance(left, int) and isinstance(right, int) and isinstance(result, kt.Scalar)):
        kinds = " and ".join(str(body.type(name)) for name in (expression.left, expression.right))
        if fn in _SCALAR_ONLY and isinstance(result, kt.ArrayType):
            sign = _SIGNS.get(fn, fn)
            raise DoesNotCompile(
                f"Numba has no operator {sign} on {kinds} in a kernel, only on elements", body.builder.pos
            )
        raise body.refuse(f"the operator {_SIGNS.get(fn, fn)} on {kinds}")
    return _on_numbers(body, fn, left, right, result.code)


def _on_numbers(body: Body, fn: str, a: int, b: int, code: str) -> int:
    """``a fn b``; the result has dtype ``code``."""
    if fn in _COMPARISONS:
        return compare(body, fn, *_alike(body, a, b))
    if fn in _SHIFTS:
        amount = body.builder.cast(b, code)
        return body.builder.op(_SHIFTS[fn], code, body.builder.cast(a, code), amount, amount=code)
    if fn == "pow":
        return power(body, a, b, code)
    if fn not in _ARITHMETIC:
        raise body.refuse(f"the operator {_SIGNS.get(fn, fn)}")
    return arithmetic(body, _ARITHMETIC[fn], body.builder.cast(a, code), body.builder.cast(b, code))


def _structured(body: Body, expression: ir.Binary, a: Value, b: Value) -> Value | None:
    """Operators on values that are more than a number; None for numbers and for what has no such operator."""
    kinds = expression.signature.args
    if isinstance(a, Complex) and isinstance(b, Complex):
        return complexes.binary(body, expression.fn, a, b)
    if isinstance(a, int) and isinstance(b, int) and any(isinstance(kind, kt.TimeType) for kind in kinds):
        return times.binary(body, expression.fn, (a, b), (kinds[0], kinds[1]), expression.signature.result)
    if expression.fn in ("eq", "ne") and all(isinstance(kind, kt.EnumType | kt.TupleType) for kind in kinds):
        return equal(body, a, b, expression.fn == "eq")
    if expression.fn in _COMPARISONS and isinstance(a, Tuple) and isinstance(b, Tuple):
        return _ordered(body, expression.fn, a, b)
    return None


def _among(body: Body, items: tuple[Value, ...], value: Value) -> int:
    """``value in items``."""
    found = body.builder.const("b1", False)
    for item in items:
        found = body.builder.op("or", "b1", found, equal(body, item, value, same=True))
    return found


def _ordered(body: Body, how: str, a: Tuple, b: Tuple) -> int:
    """``a < b`` of tuples: the first items that differ decide, then the lengths."""
    lengths = (len(a.items), len(b.items))
    found = body.builder.const("b1", getattr(operator, how)(*lengths))
    for x, y in reversed(list(zip(a.items, b.items, strict=False))):
        if isinstance(x, Tuple) and isinstance(y, Tuple):
            here = _ordered(body, how, x, y)
        elif isinstance(x, int) and isinstance(y, int):
            here = compare(body, how, *_alike(body, x, y))
        elif (decided := on_texts(body, how, x, y)) is not None:
            here = decided
        else:
            raise body.refuse("comparing tuples of other things than numbers")
        found = body.builder.op("select", "b1", equal(body, x, y, same=False), here, found)
    return found


def _alike(body: Body, a: int, b: int) -> tuple[int, int]:
    """Two numbers of different dtypes as Numba compares them: as doubles if one is a float, else as the wider one."""
    builder = body.builder
    codes = builder.dtype(a), builder.dtype(b)
    if codes[0] == codes[1] or {code[0] for code in codes} == {"i", "u"}:
        return a, b
    wide = "f8" if set(codes) & set(FLOATS) else max(codes, key=lambda code: (code != "b1", SIZES[code]))
    return builder.cast(a, wide), builder.cast(b, wide)


def equal(body: Body, a: Value, b: Value, same: bool) -> int:
    """``a == b`` (or ``!=``) of numbers, complex numbers and tuples of these."""
    builder = body.builder
    match a, b:
        case int(), int():
            return compare(body, "eq" if same else "ne", *_alike(body, a, b))
        case Complex(), Complex():
            return complexes.equal(body, a, b, same)
        case Tuple(left), Tuple(right):
            if len(left) != len(right):
                return builder.const("b1", not same)
            found = builder.const("b1", same)
            for x, y in zip(left, right, strict=True):
                found = builder.op("and" if same else "or", "b1", found, equal(body, x, y, same))
            return found
    if (decided := on_texts(body, "eq" if same else "ne", a, b)) is not None:
        return decided
    raise body.refuse("comparing values that are no numbers")


def arithmetic(body: Body, kind: str, a: int, b: int) -> int:
    """An operation on two slots of one dtype; with ``debug=True`` a division by zero raises."""
    code = body.builder.dtype(a)
    fast = body.function.fast and kind == "div" and code == "f4"  # the approximate division never raises
    if body.function.checked and not fast and kind in ("div", "floordiv", "mod"):
        nothing = body.builder.const(code, 0)
        zero = body.builder.op("cmp", code, b, nothing, result="b1", how="eq", unordered=False, implied=True)
        body.trap_if(zero, ZeroDivisionError, "division by zero")
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
    for value, other in ((left, right), (right, left)):
        if isinstance(value, Optional) and other == Known(None):
            return body.builder.op("not", "b1", value.there) if same else value.there
    if isinstance(left, Known) or isinstance(right, Known):
        return body.builder.const("b1", (left == right) == same)
    kinds = [body.type(name) for name in (expression.left, expression.right)]
    if isinstance(left, Array) and isinstance(right, Array) and kinds[0] == kinds[1]:  # one view of one memory
        return equal(body, Tuple(tuple(leaves(left))), Tuple(tuple(leaves(right))), same)
    if all(isinstance(kind, kt.Scalar) and kind.code == "b1" for kind in kinds) or kinds[0] == kinds[1]:
        if not isinstance(kinds[0], kt.Scalar | kt.EnumType):
            raise body.refuse(f"'is' between values of type {kinds[0]}")
        return equal(body, left, right, same)
    return body.builder.const("b1", not same)


def unary(body: Body, expression: ir.Unary) -> Value:
    """``-x``, ``+x``, ``~x`` and ``not x``."""
    argument, result = expression.signature.args[0], expression.signature.result
    operand = body.coerce(body.value(expression.value), argument)
    if expression.fn == "not_" and (text := text_of(operand)) is not None:
        return body.builder.const("b1", not text)
    found = None
    if isinstance(operand, Complex):
        found = complexes.unary(body, expression.fn, operand)
    elif isinstance(operand, int) and isinstance(argument, kt.TimeType):
        found = times.unary(body, expression.fn, operand)
    elif isinstance(operand, int) and isinstance(argument, kt.Scalar) and isinstance(result, kt.Scalar):
        found = _sign(body, expression.fn, operand, argument, result)
    if found is None:
        raise body.refuse(f"the operator {expression.fn} on {body.type(expression.value)}")
    return found


def _sign(body: Body, fn: str, value: int, argument: kt.Scalar, result: kt.Scalar) -> int | None:
    builder = body.builder
    if fn == "not_":
        return builder.op("not", "b1", builder.cast(value, "b1"))
    code = result.code if argument.code == "b1" and fn == "neg" else argument.code
    value = builder.cast(value, code)  # negated and inverted before it is widened
    known = builder.known(value)
    match fn:
        case "pos":
            return builder.cast(value, result.code)
        case "neg" if known is not None:
            return builder.cast(builder.const(code, -known), result.code)
        case "neg":
            return builder.cast(builder.op("neg", code, value), result.code)
        case "invert":
            return builder.cast(builder.op("not", code, value), result.code)
    return None
