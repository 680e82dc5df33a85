"""``cuda.grid`` and ``cuda.gridsize``: int64, from 32-bit registers."""

from __future__ import annotations

from collections.abc import Callable

from simulator.frontend.lowering.attributes import register
from simulator.frontend.lowering.calls.table import Bound, meaning
from simulator.frontend.lowering.values import Tuple, Value


def _axes(bound: Bound, of: Callable[[str], int]) -> Value:
    count = bound.literal(bound.body.type(bound.arguments["ndim"]))
    found = tuple(of(axis) for axis in "xyz"[:count])
    return found[0] if count == 1 else Tuple(found)


@meaning("cuda.grid", "ndim")
def _grid(bound: Bound) -> Value:
    def position(axis: str) -> int:
        body, builder = bound.body, bound.builder
        first = builder.op("mul", "i8", register(body, f"ctaid.{axis}"), register(body, f"ntid.{axis}"))
        return builder.op("add", "i8", first, register(body, f"tid.{axis}"))

    return _axes(bound, position)


@meaning("cuda.gridsize", "ndim")
def _gridsize(bound: Bound) -> Value:
    def size(axis: str) -> int:
        body = bound.body
        return bound.builder.op("mul", "i8", register(body, f"nctaid.{axis}"), register(body, f"ntid.{axis}"))

    return _axes(bound, size)
