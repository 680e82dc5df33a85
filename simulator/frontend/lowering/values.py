"""What a variable of a kernel is while its program is made: slots, and structures of slots.

Aggregates end here.  An array is an address and its shape and strides, a tuple its items, a range a counter and its
bounds; each leaf is a slot of the program (a plain int).  Everything else is ``Known``: it is in the program's making
and not in the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from simulator.frontend import kernel_types as kt


@dataclass(frozen=True, slots=True)
class Array:
    """An array: slots (i8) of its address, shape and strides (bytes); type of an element and a name for display."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element: kt.Type
    name: str

    @property
    def code(self) -> str:
        """The dtype code of its elements; "" where they are no numbers."""
        return self.element.code if isinstance(self.element, kt.Scalar) else ""


@dataclass(frozen=True, slots=True)
class Record:
    """A record where it lies: the slot (i8) of its address, its type and the name of the array for display."""

    address: int
    kind: kt.RecordType
    name: str


@dataclass(frozen=True, slots=True)
class Pointer:
    """The address of elements: slots (i8) of where their memory begins and of how many bytes further it points."""

    base: int
    offset: int
    element: kt.Type
    name: str


@dataclass(frozen=True, slots=True)
class Complex:
    """A complex number: two slots of one dtype."""

    real: int
    imag: int


@dataclass(frozen=True, slots=True)
class Optional:
    """A value or None: a slot (b1) that says whether there is one."""

    there: int
    value: Value


@dataclass(frozen=True, slots=True)
class Tuple:
    """A tuple of values; also a CUDA vector, and the characters of a text."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """A range and its iterator.  The slots are i8 or u8; elements have dtype ``code``."""

    current: int
    stop: int
    step: int
    code: str


@dataclass(frozen=True, slots=True)
class Iteration:
    """An iterator: slots that it changes (counters), over parts that it does not.  ``kind``: see ``iteration``."""

    kind: str
    slots: tuple[int, ...]
    parts: tuple[Value, ...]


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


Value = int | Complex | Array | Pointer | Record | Tuple | Optional | Range | Iteration | Slice | Known


def leaves(value: Value) -> Iterator[int]:
    """The slots of a value.

    >>> list(leaves(Tuple((3, Array(5, (6,), (7,), kt.Scalar("f4"), "x")))))
    [3, 5, 6, 7]
    """
    match value:
        case int():
            yield value
        case Record(address):
            yield address
        case Pointer(base, offset):
            yield from (base, offset)
        case Complex(real, imag):
            yield from (real, imag)
        case Optional(there, inner):
            yield there
            yield from leaves(inner)
        case Array(address, shape, strides):
            yield from (address, *shape, *strides)
        case Tuple(items):
            for item in items:
                yield from leaves(item)
        case Range(current, stop, step):
            yield from (current, stop, step)
        case Iteration(_, slots, parts):
            yield from slots
            for part in parts:
                yield from leaves(part)
        case Slice():
            yield from (slot for slot in (value.start, value.stop, value.step) if slot is not None)


def statics(value: Value) -> Iterator[Known]:
    """The parts of a value that are no slots.

    >>> list(statics(Tuple((3, Known("a")))))
    [Known(value='a')]
    """
    match value:
        case Known():
            yield value
        case Tuple(items) | Iteration(parts=items):
            for item in items:
                yield from statics(item)
        case Optional(_, inner):
            yield from statics(inner)


def rebuild(value: Value, change: Callable[[int], int]) -> Value:
    """The same structure with every slot replaced."""
    match value:
        case int():
            return change(value)
        case Complex(real, imag):
            return Complex(change(real), change(imag))
        case Record(address, kind, name):
            return Record(change(address), kind, name)
        case Pointer(base, offset, element, name):
            return Pointer(change(base), change(offset), element, name)
        case Optional(there, inner):
            return Optional(change(there), rebuild(inner, change))
        case Array(address, shape, strides, element, name):
            return Array(change(address), tuple(map(change, shape)), tuple(map(change, strides)), element, name)
        case Tuple(items):
            return Tuple(tuple(rebuild(item, change) for item in items))
        case Range(current, stop, step, code):
            return Range(change(current), change(stop), change(step), code)
        case Iteration(kind, slots, parts):
            return Iteration(kind, tuple(map(change, slots)), tuple(rebuild(part, change) for part in parts))
        case Slice():
            return Slice(*(None if slot is None else change(slot) for slot in (value.start, value.stop, value.step)))
        case Known():
            return value
