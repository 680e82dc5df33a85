"""Other views of an array's memory: another shape, another dtype, the axes in another order.  Nothing is copied."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from simulator.frontend import kernel_types as kt
from simulator.frontend.layouts import bytes_of
from simulator.frontend.lowering.attributes import elements
from simulator.frontend.lowering.values import Array

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body


def reshaped(body: Body, array: Array, shape: list[int]) -> Array:
    """An array in C order in another shape (i8); one extent may be -1.  Numba raises ValueError where sizes differ."""
    builder = body.builder
    size, known = elements(body, array), [builder.known(extent) for extent in shape]
    if known.count(-1) > 1:
        raise body.refuse("a shape with several -1")
    if -1 not in known and any(extent is None for extent in known):
        shape = _completed(body, shape, size)
    if -1 in known:
        axis = known.index(-1)
        rest = _product(body, [extent for k, extent in enumerate(shape) if k != axis])
        shape = [*shape[:axis], builder.op("floordiv", "i8", size, rest), *shape[axis + 1 :]]
    _check_size(body, _product(body, shape), size)
    strides = [builder.const("i8", bytes_of(array.element))]
    for extent in shape[:0:-1]:
        strides.insert(0, _times(body, strides[0], extent))
    return Array(array.address, tuple(shape), tuple(strides) if shape else (), array.element, array.name)


def _completed(body: Body, shape: list[int], size: int) -> list[int]:
    """Extents that are computed when the kernel runs: one of them may turn out to be negative there."""
    builder, zero, one = body.builder, body.builder.const("i8", 0), body.builder.const("i8", 1)
    signs = [builder.op("cmp", "i8", extent, zero, result="b1", how="lt", unordered=False) for extent in shape]
    seen = builder.const("b1", False)
    for sign in signs:
        body.trap_if(builder.op("and", "b1", seen, sign), ValueError, "multiple negative shape values")
        seen = builder.op("or", "b1", seen, sign)
    positive = [builder.op("select", "i8", sign, one, extent) for sign, extent in zip(signs, shape, strict=True)]
    inferred = builder.op("floordiv", "i8", size, _product(body, positive))
    return [builder.op("select", "i8", sign, inferred, extent) for sign, extent in zip(signs, shape, strict=True)]


def _check_size(body: Body, given: int, size: int) -> None:
    known = body.builder.known(given), body.builder.known(size)
    if None in known or known[0] != known[1]:
        other = body.builder.op("cmp", "i8", given, size, result="b1", how="ne", unordered=False)
        body.trap_if(other, ValueError, "total size of new array must be unchanged")


def _product(body: Body, factors: list[int]) -> int:
    found = body.builder.const("i8", 1)
    for factor in factors:
        found = _times(body, found, factor)
    return found


def _times(body: Body, a: int, b: int) -> int:
    """A product, at once where both are known."""
    known = [body.builder.known(a), body.builder.known(b)]
    if None not in known:
        return body.builder.const("i8", prod(int(value or 0) for value in known))
    if 1 in known:
        return b if known[0] == 1 else a
    return body.builder.op("mul", "i8", a, b)


def transposed(array: Array) -> Array:
    """The axes in reverse order."""
    return Array(array.address, array.shape[::-1], array.strides[::-1], array.element, array.name)


def viewed(body: Body, array: Array, element: kt.Type) -> Array:
    """The same bytes as elements of another type: the last axis gets longer or shorter.

    Numba raises ValueError where the bytes of the last axis do not fit.
    """
    builder = body.builder
    before, after = bytes_of(array.element), bytes_of(element)
    if before == after:
        return Array(array.address, array.shape, array.strides, element, array.name)
    if not array.shape:
        raise body.refuse("a view of a 0-dimensional array as elements of another size")
    size, pace = builder.const("i8", after), builder.const("i8", before)
    apart = builder.op("cmp", "i8", array.strides[-1], pace, result="b1", how="ne", unordered=False)
    one = builder.const("i8", 1)
    several = builder.op("cmp", "i8", array.shape[-1], one, result="b1", how="gt", unordered=False)
    apart = builder.op("and", "b1", apart, several)
    words = "To change to a dtype of a different size, the last axis must be contiguous"
    body.trap_if(apart, ValueError, words)
    nbytes = _times(body, array.shape[-1], pace)
    rest = builder.op("rem", "i8", nbytes, size)
    uneven = builder.op("cmp", "i8", rest, builder.const("i8", 0), result="b1", how="ne", unordered=False)
    body.trap_if(uneven, ValueError, "the bytes of the last axis are no whole number of elements of the new dtype")
    length = builder.op("div", "i8", nbytes, size)
    return Array(array.address, (*array.shape[:-1], length), (*array.strides[:-1], size), element, array.name)
