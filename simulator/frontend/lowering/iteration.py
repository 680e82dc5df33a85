"""Iteration: ranges, arrays, tuples, zip, enumerate and the positions of an array; and unpacking.

An iterator is slots that change (a counter) over parts that do not.  A range counts in i8 (u8 for unsigned ones)
whatever the dtype of its elements, so that the step past the end does not wrap; Numba counts the iterations instead,
to the same end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from simulator.frontend.lowering.choice import chosen
from simulator.frontend.lowering.indexing import fetch
from simulator.frontend.lowering.texts import bytes_array
from simulator.frontend.lowering.values import Array, Iteration, Known, Range, Tuple, Value, rebuild

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body


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
        body.trap_if(zero, ValueError, "range() arg 3 must not be zero")
    return Range(builder.cast(start, wide), builder.cast(stop, wide), step, code)


def iterate(body: Body, name: str) -> Value:
    """``iter(value)``: a counter of its own, unless the value is an iterator already."""
    found = iterator(body, body.present(name))
    if found is None:
        raise body.refuse(f"a loop over a value of type {body.type(name)}", "loop over a range of indices")
    return found


def iterator(body: Body, value: Value) -> Range | Iteration | None:
    """An iterator over a value, None where there is none."""
    match value:
        case Iteration():
            return value
        case Known(bytes() as data):
            return Iteration("array", (counter(body),), (bytes_array(body, data),))
        case Range(current, stop, step, code):
            return Range(counter(body, current), stop, step, code)
        case Array(shape=shape) if shape:
            return Iteration("array", (counter(body),), (value,))
        case Tuple(items) if items:
            return Iteration("tuple", (counter(body),), items)
    return None


def counter(body: Body, start: int | None = None) -> int:
    """A slot that counts from ``start`` (0 unless given)."""
    builder = body.builder
    first = builder.const("i8", 0) if start is None else start
    slot = builder.new(builder.dtype(first))
    builder.move(first, slot)
    return slot


def positions(body: Body, shape: tuple[int, ...]) -> Iteration:
    """An iterator over all index tuples of a shape (i8), the last axis fastest."""
    total = body.builder.const("i8", 1)
    for extent in shape:
        total = body.builder.op("mul", "i8", total, extent)
    return Iteration("ndindex", (counter(body), total), shape)


def next_item(body: Body, name: str) -> Tuple:
    """The next element and whether there is one; the iterator goes on."""
    value = body.value(name)
    if isinstance(value, Range):
        valid = _within(body, value)
        return Tuple((_count(body, value), valid))
    assert isinstance(value, Iteration)
    builder = body.builder
    valid, done = builder.new("b1"), builder.label("next")
    builder.move(builder.const("b1", False), valid)
    item = rebuild(_pull(body, value, done), lambda slot: _held(body, slot))
    builder.move(builder.const("b1", True), valid)
    builder.jump(done)
    builder.start(done)
    return Tuple((item, valid))


def _held(body: Body, slot: int) -> int:
    """A slot that keeps a value past the block that made it."""
    builder = body.builder
    if builder.program.slots[slot].init is not None:
        return slot
    kept = builder.new(builder.dtype(slot))
    builder.move(slot, kept)
    return kept


def _pull(body: Body, value: Value, done: str) -> Value:
    """The next element; lanes for which there is none go to the block ``done``."""
    if isinstance(value, Range):
        _go_on_if(body, _within(body, value), done)
        return _count(body, value)
    assert isinstance(value, Iteration)
    return _PULLS[value.kind](body, value, done)


def _go_on_if(body: Body, condition: int, done: str) -> None:
    on = body.builder.label("on")
    body.builder.branch(condition, on, done)
    body.builder.start(on)


def _below(body: Body, index: int, count: int, done: str) -> int:
    """The value of a counter, which goes on; lanes that have reached ``count`` are done."""
    builder = body.builder
    less = builder.op("cmp", "i8", index, count, result="b1", how="lt", unordered=False)
    _go_on_if(body, less, done)
    return _step(body, index, builder.const("i8", 1))


def _step(body: Body, slot: int, step: int) -> int:
    """The value of a counter before it goes on by ``step``."""
    builder = body.builder
    code = builder.dtype(slot)
    now = builder.op("mov", code, slot)
    builder.retarget(builder.op("add", code, slot, step), slot)
    return now


def _pull_element(body: Body, value: Iteration, done: str) -> Value:
    (array,) = value.parts
    assert isinstance(array, Array)
    return fetch(body, array, [_below(body, value.slots[0], array.shape[0], done)])


def _pull_item(body: Body, value: Iteration, done: str) -> Value:
    index = _below(body, value.slots[0], body.builder.const("i8", len(value.parts)), done)
    return chosen(body, value.parts, index)


def _pull_each(body: Body, value: Iteration, done: str) -> Value:
    return Tuple(tuple(_pull(body, part, done) for part in value.parts))


def _pull_counted(body: Body, value: Iteration, done: str) -> Value:
    item = _pull(body, value.parts[0], done)
    return Tuple((_step(body, value.slots[0], body.builder.const("i8", 1)), item))


def _pull_position(body: Body, value: Iteration, done: str) -> Value:
    """An index tuple of an array's shape, the last axis fastest."""
    shape = [extent for extent in value.parts if isinstance(extent, int)]
    flat = _below(body, value.slots[0], value.slots[1], done)
    return Tuple(tuple(unravelled(body, flat, shape)))


def unravelled(body: Body, flat: int, shape: list[int]) -> list[int]:
    """The index along each axis of the element number ``flat`` in C order."""
    builder = body.builder
    index: list[int] = []
    for extent in shape[:0:-1]:
        index.insert(0, builder.op("rem", "i8", flat, extent))
        flat = builder.op("div", "i8", flat, extent)
    return [flat, *index] if shape else []


def _next_place(body: Body, value: Iteration, done: str) -> tuple[Array, list[int]]:
    """The array that is gone through, and the next index (i8)."""
    places, array = value.parts
    index = _pull(body, places, done)
    assert isinstance(array, Array) and isinstance(index, Tuple)
    return array, [slot for slot in index.items if isinstance(slot, int)]


def _pull_flat(body: Body, value: Iteration, done: str) -> Value:
    return fetch(body, *_next_place(body, value, done))


def _pull_enumerated(body: Body, value: Iteration, done: str) -> Value:
    array, index = _next_place(body, value, done)
    return Tuple((Tuple(tuple(index)), fetch(body, array, index)))


def _pull_view(body: Body, value: Iteration, done: str) -> Value:
    """An element as a 0-dimensional array."""
    return fetch(body, *_next_place(body, value, done), view=True)


_PULLS: dict[str, Callable[[Body, Iteration, str], Value]] = {
    "array": _pull_element,
    "tuple": _pull_item,
    "zip": _pull_each,
    "enumerate": _pull_counted,
    "ndindex": _pull_position,
    "flat": _pull_flat,
    "ndenumerate": _pull_enumerated,
    "nditer": _pull_view,
}
"""How each kind of iterator gets its next element.  (zip stops at the first that has none, as Python's does.)"""


def _within(body: Body, value: Range) -> int:
    """Whether a range's counter is within its bounds."""
    builder = body.builder
    wide = builder.dtype(value.current)

    def within(how: str) -> int:
        return builder.op("cmp", wide, value.current, value.stop, result="b1", how=how, unordered=False)

    step = builder.known(value.step)
    if step is not None or builder.bound(value.step) is not None:
        return within("lt" if step is None or step > 0 else "gt")
    upward = builder.op("cmp", wide, value.step, builder.const(wide, 0), result="b1", how="gt", unordered=False)
    return builder.op("select", "b1", upward, within("lt"), within("gt"))


def _count(body: Body, value: Range) -> int:
    """A range's element; its counter goes on."""
    builder = body.builder
    wide = builder.dtype(value.current)
    if value.code == wide:
        item = builder.op("mov", wide, value.current)
    else:
        item = builder.op("cvt", value.code, value.current, source=wide)
    following = builder.op("add", wide, value.current, value.step)
    builder.retarget(following, value.current)
    return item


def exhaust(body: Body, name: str, count: int) -> Value:
    """``a, b = value``; Numba raises ValueError where an array has another number of items."""
    value = body.present(name)
    if isinstance(value, Tuple) and len(value.items) == count:
        return value
    if isinstance(value, Array) and value.shape:
        builder = body.builder
        for how, words in (("lt", "not enough values to unpack"), ("gt", "too many values to unpack")):
            bad = builder.op(
                "cmp", "i8", value.shape[0], builder.const("i8", count), result="b1", how=how, unordered=False
            )
            body.trap_if(bad, ValueError, words)
        return Tuple(tuple(fetch(body, value, [builder.const("i8", k)]) for k in range(count)))
    raise body.refuse(f"unpacking a value of type {body.type(name)}")
