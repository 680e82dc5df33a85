"""Loops that a call makes by itself: over the indices of a shape, in C order, by every thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body


@contextmanager
def loop_nest(body: Body, shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """What is written inside runs for every index of a shape (slots, i8); gives the slots of the index."""
    builder = body.builder
    indices, ends = [], []
    for extent in shape:
        index = builder.new("i8")
        builder.move(builder.const("i8", 0), index)
        head, inside, after = (builder.label(f"loop.{part}") for part in ("head", "body", "after"))
        builder.jump(head)
        builder.start(head)
        within = builder.op("cmp", "i8", index, extent, result="b1", how="lt", unordered=False)
        builder.branch(within, inside, after)
        builder.start(inside)
        indices.append(index)
        ends.append((index, head, after))
    yield tuple(indices)
    for index, head, after in reversed(ends):
        following = builder.op("add", "i8", index, builder.const("i8", 1))
        builder.retarget(following, index)
        builder.jump(head)
        builder.start(after)


def broadcast(body: Body, index: Sequence[int], shape: Sequence[int]) -> list[int]:
    """The index of an operand of this shape: its last axes, with 0 along those of length 1."""
    builder = body.builder
    zero, one = builder.const("i8", 0), builder.const("i8", 1)
    found = []
    for slot, extent in zip(index[len(index) - len(shape) :], shape, strict=True):
        stretched = builder.op("cmp", "i8", extent, one, result="b1", how="eq", unordered=False)
        found.append(builder.op("select", "i8", stretched, zero, slot))
    return found
