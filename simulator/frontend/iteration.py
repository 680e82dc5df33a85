"""Iteration: ranges, and unpacking.

A range counts in i8 (u8 for unsigned ones) whatever the dtype of its elements, so that the step past the end does not
wrap; Numba counts the iterations instead, to the same end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.frontend.values import Array, Range, Tuple, Value

if TYPE_CHECKING:
    from simulator.frontend.body import Body


def make_range(body: Body, bounds: list[int], code: str) -> Range:
    """``range(...)`` with one to three bounds."""
    builder = body.builder
    wide = "u8" if code == "u8" else "i8"
    start, stop, step = {
        1: lambda: (builder.const(wide, 0), bounds[0], builder.const(wide, 1)),
        2: lambda: (bounds[0], bounds[1], builder.const(wide, 1)),
        3: lambda: (bounds[0], bounds[1], bounds[2]),
    }[len(bounds)]()
    step = builder.cast(step, wide)
    known = builder.known(step)
    if known == 0:
        raise body.refuse("a range with step 0")
    if known is None and builder.bound(step) is None:
        zero = builder.op("cmp", wide, step, builder.const(wide, 0), result="b1", how="eq", unordered=False)
        body.trap_if(zero, "ValueError('range() arg 3 must not be zero')")
    return Range(builder.cast(start, wide), builder.cast(stop, wide), step, code)


def iterate(body: Body, name: str) -> Value:
    """``iter(value)``: a range gets a counter of its own."""
    value = body.value(name)
    if not isinstance(value, Range):
        raise body.refuse(f"a loop over a value of type {body.type(name)}", "loop over a range of indices")
    current = body.builder.new(body.builder.dtype(value.current))
    body.builder.move(value.current, current)
    return Range(current, value.stop, value.step, value.code)


def next_item(body: Body, name: str) -> Tuple:
    """The counter and whether it is within bounds; the counter goes on."""
    value = body.value(name)
    assert isinstance(value, Range)
    builder = body.builder
    wide = builder.dtype(value.current)

    def within(how: str) -> int:
        return builder.op("cmp", wide, value.current, value.stop, result="b1", how=how, unordered=False)

    step = builder.known(value.step)
    if step is not None or builder.bound(value.step) is not None:
        valid = within("lt" if step is None or step > 0 else "gt")
    else:
        upward = builder.op("cmp", wide, value.step, builder.const(wide, 0), result="b1", how="gt", unordered=False)
        valid = builder.op("select", "b1", upward, within("lt"), within("gt"))
    if value.code == wide:
        item = builder.op("mov", wide, value.current)
    else:
        item = builder.op("cvt", value.code, value.current, source=wide)
    following = builder.op("add", wide, value.current, value.step)
    builder.retarget(following, value.current)
    return Tuple((item, valid))


def exhaust(body: Body, name: str, count: int) -> Value:
    """``a, b = value``."""
    value = body.value(name)
    if isinstance(value, Tuple) and len(value.items) == count:
        return value
    if isinstance(value, Array):
        raise body.refuse("unpacking an array", "index it")
    raise body.refuse(f"unpacking a value of type {body.type(name)}")
