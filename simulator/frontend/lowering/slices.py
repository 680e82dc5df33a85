"""Slices of one axis, as numba-cuda computes them: bounds clamped to the extent, no copy."""

from __future__ import annotations

from simulator.errors import Unsupported
from simulator.frontend.lowering.builder import Builder
from simulator.frontend.lowering.values import Slice


def sliced(builder: Builder, part: Slice, address: int, extent: int, stride: int) -> tuple[int, int, int]:
    """Address, extent and stride of an axis after slicing it (all i8).  The step is a constant other than 0."""
    step = 1 if part.step is None else builder.known(part.step)
    if not step:
        raise Unsupported(builder.pos, "a slice whose step is not a constant other than 0")
    if part.start is None and part.stop is None and step == 1:
        return address, extent, stride
    forward = int(step) > 0
    zero, last = builder.const("i8", 0), builder.const("i8", -1)
    low = zero if forward else last
    high = extent if forward else builder.op("add", "i8", extent, last)
    start = (zero if forward else high) if part.start is None else clamped(builder, part.start, extent, low, high)
    stop = (extent if forward else last) if part.stop is None else clamped(builder, part.stop, extent, low, high)
    span = builder.op("sub", "i8", *((stop, start) if forward else (start, stop)))
    width = abs(int(step))
    if width != 1:
        span = builder.op("add", "i8", span, builder.const("i8", width - 1))
        span = builder.op("floordiv", "i8", span, builder.const("i8", width))
    count = builder.op("max", "i8", span, zero)
    moved = start if start == zero else builder.op("mul", "i8", start, stride)
    at = address if start == zero else builder.op("add", "i8", address, moved)
    pace = stride if step == 1 else builder.op("mul", "i8", stride, builder.const("i8", step))
    return at, count, pace


def clamped(builder: Builder, bound: int, extent: int, low: int, high: int) -> int:
    """A bound of a slice: negative ones count from the end, then it is held between ``low`` and ``high``."""
    known = builder.known(bound)
    bound = builder.cast(bound, "i8")
    if known is None or known < 0:
        negative = builder.op("cmp", "i8", bound, builder.const("i8", 0), result="b1", how="lt", unordered=False)
        bound = builder.op("select", "i8", negative, builder.op("add", "i8", bound, extent), bound)
        bound = builder.op("max", "i8", bound, low)
    return builder.op("min", "i8", bound, high)
