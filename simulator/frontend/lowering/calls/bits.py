"""Bit counting and selection."""

from __future__ import annotations

from simulator.frontend.lowering.builder import Builder
from simulator.frontend.lowering.calls.table import Bound, Meaning, meaning
from simulator.frontend.lowering.values import Value


def _count(kind: str) -> Meaning:
    def count(bound: Bound) -> Value:
        value = bound.number("x")
        found = bound.builder.op(kind, bound.builder.dtype(value), value, result="u4")
        return bound.builder.cast(found, bound.result)

    return count


meaning("cuda.popc", "x")(_count("popc"))
meaning("cuda.clz", "x")(_count("clz"))


@meaning("cuda.brev", "x")
def _brev(bound: Bound) -> Value:
    return bound.builder.op("brev", bound.result, bound.number("x"))


def first_bit(builder: Builder, value: int) -> int:
    """The position (u4) of the lowest bit, counted from 1; 0 for 0.  For 32 and 64 bits."""
    code = builder.dtype(value)
    below = builder.op("clz", code, builder.op("brev", code, value), result="u4")
    position = builder.op("add", "u4", below, builder.const("u4", 1))
    none = builder.op("cmp", code, value, builder.const(code, 0), result="b1", how="eq", unordered=False)
    return builder.op("select", "u4", none, builder.const("u4", 0), position)


@meaning("cuda.ffs", "x")
def _ffs(bound: Bound) -> Value:
    value = bound.number("x")
    if bound.builder.dtype(value)[1] not in "48":  # as Numba has it
        raise bound.refuse(f"of {bound.builder.dtype(value)}")
    return bound.builder.cast(first_bit(bound.builder, value), bound.result)


@meaning("cuda.selp", "a b c")
def _selp(bound: Bound) -> Value:
    return bound.builder.op("select", bound.result, bound.number("a", "b1"), bound.number("b"), bound.number("c"))


@meaning("cuda.fma", "a b c")
def _fma(bound: Bound) -> Value:
    return bound.builder.op("fma", bound.result, *bound.numbers())
