"""What a variable of a kernel is while its program is made: slots, and structures of slots.

Aggregates end here.  An array is an address and its shape and strides, a tuple its items, a range a counter and its
bounds; each leaf is a slot of the program (a plain int).  Everything else is ``Known``: it is in the program's making
and not in the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Array:
    """An array: slots (i8) of its address, shape and strides (bytes); dtype code and a name for display."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    code: str
    name: str


@dataclass(frozen=True, slots=True)
class Tuple:
    """A tuple of values."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """A range and its iterator.  The slots are i8 or u8; elements have dtype ``code``."""

    current: int
    stop: int
    step: int
    code: str


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice; a bound that was left out is None."""

    start: int | None
    stop: int | None
    step: int | None


@dataclass(frozen=True, slots=True)
class Known:
    """A static value: a function, a class, a string, None."""

    value: Any


Value = int | Array | Tuple | Range | Slice | Known


def leaves(value: Value) -> Iterator[int]:
    """The slots of a value.

    >>> list(leaves(Tuple((3, Array(5, (6,), (7,), "f4", "x")))))
    [3, 5, 6, 7]
    """
    match value:
        case int():
            yield value
        case Array(address, shape, strides):
            yield from (address, *shape, *strides)
        case Tuple(items):
            for item in items:
                yield from leaves(item)
        case Range(current, stop, step):
            yield from (current, stop, step)
        case Slice():
            yield from (slot for slot in (value.start, value.stop, value.step) if slot is not None)


def rebuild(value: Value, change: Callable[[int], int]) -> Value:
    """The same structure with every slot replaced."""
    match value:
        case int():
            return change(value)
        case Array(address, shape, strides, code, name):
            return Array(change(address), tuple(map(change, shape)), tuple(map(change, strides)), code, name)
        case Tuple(items):
            return Tuple(tuple(rebuild(item, change) for item in items))
        case Range(current, stop, step, code):
            return Range(change(current), change(stop), change(step), code)
        case Slice():
            return Slice(*(None if slot is None else change(slot) for slot in (value.start, value.stop, value.step)))
        case Known():
            return value
