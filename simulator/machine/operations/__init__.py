"""The pure operations of a program as Python expressions: groups move, arithmetic, bits, compare and math.

``expression`` is the only door.  An operation is either a template, inlined into the generated code, or a function of
values that is bound to a name there.  Operations see no mask: inactive lanes hold garbage, on which nothing raises
(the launch ignores NumPy's floating-point warnings).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from simulator.errors import Unsupported
from simulator.machine.operations import bits, compare, conversions, floats, fma, integers, math, rounding
from simulator.program import FLOATS, INTEGERS, Op

Rule = str | Callable[..., Any]
"""A template with one {number} per operand, or a function of values."""


def expression(op: Op, operands: Sequence[str], bind: Callable[[object], str]) -> str:
    """The Python expression that computes ``op`` from the expressions ``operands``.

    ``bind`` makes an object available to the generated code and returns its name.  Operations with several results
    evaluate to a tuple.  Raises ``Unsupported`` for what no rule covers.

    >>> from simulator.program import Op, Pos
    >>> expression(Op("mul", "f4", (2,), (0, 1), Pos("k.py", 1)), ["E[0]", "E[1]"], repr)
    '(E[0] * E[1])'
    """
    rule = implementation(op)
    if isinstance(rule, str):
        return rule.format(*operands)
    return f"{bind(rule)}({', '.join(operands)})"


def implementation(op: Op) -> Rule:
    """The template or function of an operation."""
    table = _INTEGERS if op.dtype in INTEGERS else _FLOATS if op.dtype in FLOATS else _PREDICATES
    make = _ANY.get(op.kind) or table.get(op.kind)
    rule = make(op) if make is not None else None
    if rule is not None and "rounding" in op.attr:
        rule = _directed(op, rule)
    if rule is None:
        name = f"{op.kind} {op.attr['fn']}" if "fn" in op.attr else op.kind
        raise Unsupported(op.pos, f"operation {name} on {op.dtype}")
    return rule


def _directed(op: Op, nearest: Rule) -> Rule | None:
    """An operation that does not round to nearest."""
    mode = op.attr["rounding"]
    if not rounding.supports(op.kind, op.dtype, mode):
        return None
    if isinstance(nearest, str):
        nearest = floats.PLAIN[op.kind]
    return rounding.directed(op.kind, op.dtype, mode, nearest, op.attr.get("source", ""))


Maker = Callable[[Op], Rule | None]


def _comparison(op: Op) -> Rule:
    how = op.attr["how"]
    return compare.comparison(op.dtype, how, bool(op.attr.get("unordered", how == "ne")))


_ANY: dict[str, Maker] = {
    "mov": lambda op: "{0}",
    "cvt": lambda op: conversions.converter(op.dtype, op.attr["source"]),
    "bitcast": lambda op: conversions.reinterpreter(op.dtype, op.attr["source"]),
    "select": lambda op: compare.selection(op.dtype),
    "cmp": _comparison,
    "math": lambda op: math.function(op.attr["fn"], op.dtype),
}
"""Kinds that every dtype has."""

_INTEGERS: dict[str, Maker] = {
    "add": lambda op: integers.adder(op.dtype),
    "sub": lambda op: integers.subtracter(op.dtype),
    "mul": lambda op: integers.multiplier(op.dtype),
    "fma": lambda op: integers.multiply_adder(op.dtype),
    "neg": lambda op: integers.negater(op.dtype),
    "abs": lambda op: integers.absolute(op.dtype),
    "min": lambda op: integers.extremum(op.dtype, False),
    "max": lambda op: integers.extremum(op.dtype, True),
    **dict.fromkeys(("div", "rem", "floordiv", "mod"), lambda op: integers.divider(op.dtype, op.kind)),
    "and": lambda op: bits.conjunction(op.dtype),
    "or": lambda op: bits.disjunction(op.dtype, False),
    "xor": lambda op: bits.disjunction(op.dtype, True),
    "not": lambda op: bits.complement(op.dtype),
    "shl": lambda op: bits.left_shift(op.dtype, op.attr.get("amount", op.dtype)),
    "shr": lambda op: bits.right_shift(op.dtype, op.attr.get("amount", op.dtype)),
    "popc": lambda op: bits.population_count(op.dtype),
    "clz": lambda op: bits.leading_zeros(op.dtype),
    "brev": lambda op: bits.reverse(op.dtype),
}

_FLOATS: dict[str, Maker] = {
    **dict.fromkeys(floats.INLINE, lambda op: floats.INLINE[op.kind]),
    "fma": lambda op: fma.fused(op.dtype),
    "min": lambda op: floats.extremum(op.dtype, False, op.attr.get("nan") == "propagate"),
    "max": lambda op: floats.extremum(op.dtype, True, op.attr.get("nan") == "propagate"),
    "rem": lambda op: floats.remainder(op.dtype),
    "floordiv": lambda op: floats.floor_divider(op.dtype, False),
    "mod": lambda op: floats.floor_divider(op.dtype, True),
    "round": lambda op: floats.rounder(op.dtype, op.attr["mode"]),
    "sqrt": lambda op: floats.square_root(op.dtype),
    "rsqrt": lambda op: floats.reciprocal_square_root(op.dtype),
    "copysign": lambda op: floats.copy_sign(op.dtype),
    "classify": lambda op: floats.classifier(op.attr["fn"]),
}

_PREDICATES: dict[str, Maker] = {
    "and": lambda op: bits.both,
    "or": lambda op: bits.either,
    "xor": lambda op: bits.differ,
    "not": lambda op: bits.opposite,
}
