"""Comparisons and selection.

An affine value against an affine or uniform one is decided from the bounds of the exact difference where they suffice;
otherwise the difference itself is compared with zero, which has the shape of the axes that it depends on.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from simulator.machine.operations.integers import Binary
from simulator.machine.values import DT, RANGE, Value, array_of, collapse, same
from simulator.program import FLOATS

HOW: dict[str, Callable[[Any, Any], Any]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}

_LOW, _HIGH = RANGE["i8"]


@lru_cache(None)
def comparison(code: str, how: str, unordered: bool) -> Binary:
    """x how y, a predicate; for floats ``unordered`` is the answer when an operand is NaN."""
    if code in FLOATS:
        return _floats(how, unordered)
    return _predicates(how) if code == "b1" else _integers(code, how)


def _integers(code: str, how: str) -> Binary:
    test, dtype, ordered = HOW[how], DT[code], how not in ("eq", "ne")

    def compare(x: Value, y: Value) -> Value:
        left, right = type(x), type(y)
        if left is int and right is int:
            return test(x, y)
        if left is np.ndarray or right is np.ndarray:
            return collapse(test(array_of(x, code), array_of(y, code)))
        if right is int:  # the usual case: an index against a bound
            if test(x.lo, y) == test(x.hi, y) and (ordered or x.lo > y or x.hi < y):
                return test(x.lo, y)
            return collapse(test(x.array(dtype), y))
        gap = x - y
        if type(gap) is int:
            return test(gap, 0)
        lo, hi = gap.lo, gap.hi
        if test(lo, 0) == test(hi, 0) and (ordered or lo > 0 or hi < 0):
            return test(lo, 0)
        if lo < _LOW or hi > _HIGH:
            return collapse(test(array_of(x, code), array_of(y, code)))
        return collapse(test(gap.array(DT["i8"]), 0))

    return compare


def _predicates(how: str) -> Binary:
    test = HOW[how]
    return lambda x, y: test(x, y) if type(x) is bool and type(y) is bool else collapse(test(x, y))


def _floats(how: str, unordered: bool) -> Binary:
    test = HOW[how]
    if how == "ne" and not unordered:
        return lambda x, y: collapse((x < y) | (x > y))
    if how == "eq" and unordered:
        return lambda x, y: collapse(~((x < y) | (x > y)))
    if unordered and how != "ne":
        opposite = HOW[{"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}[how]]
        return lambda x, y: collapse(~opposite(x, y))

    def compare(x: Value, y: Value) -> Value:
        return collapse(test(x, y))

    return compare


@lru_cache(None)
def selection(code: str) -> Callable[[Value, Value, Value], Value]:
    """predicate ? x : y; a uniform predicate, or equal values, keep the form of the value."""

    def select(predicate: Value, x: Value, y: Value) -> Value:
        if type(predicate) is bool:
            return x if predicate else y
        if same(x, y, code):
            return x
        found = np.where(predicate, array_of(x, code), array_of(y, code))
        return collapse(found) if code == "b1" else found

    return select
