"""The types of typed IR: what a variable of a kernel is on the GPU, in our own words.

Printed they read like Numba's (``float32``, ``array(float16, 2d)``): messages use them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NUMBA_NAMES = {
    "b1": "bool",
    "bf": "bfloat16",
    **{
        f"{letter}{size}": f"{word}{8 * size}"
        for letter, word in (("i", "int"), ("u", "uint"))
        for size in (1, 2, 4, 8)
    },
    **{f"f{size}": f"float{8 * size}" for size in (2, 4, 8)},
}
"""Dtype codes and what Numba and its users call them."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number: a dtype code of ``simulator.program`` and, for literals, the value."""

    code: str
    literal: int | bool | None = None

    def __str__(self) -> str:
        return NUMBA_NAMES[self.code]


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array: dtype code of its elements and number of axes."""

    code: str
    ndim: int

    def __str__(self) -> str:
        return f"array({NUMBA_NAMES[self.code]}, {self.ndim}d)"


@dataclass(frozen=True, slots=True)
class TupleType:
    """A tuple (also the pair that an iterator yields)."""

    items: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple({', '.join(map(str, self.items))})"


@dataclass(frozen=True, slots=True)
class RangeType:
    """A range or its iterator, counting in ``code``."""

    code: str

    def __str__(self) -> str:
        return f"range of {NUMBA_NAMES[self.code]}"


@dataclass(frozen=True, slots=True)
class SliceType:
    """A slice, with or without a step."""

    def __str__(self) -> str:
        return "slice"


@dataclass(frozen=True, slots=True)
class Nothing:
    """The type of None."""

    def __str__(self) -> str:
        return "None"


@dataclass(frozen=True, slots=True)
class Default:
    """The type of an argument that the caller left out: its default value."""

    value: Any


@dataclass(frozen=True, slots=True)
class StaticType:
    """Modules, functions, classes, dtypes, strings, exceptions."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ForeignType:
    """A type that the simulator has no word for; ``name`` is Numba's."""

    name: str

    def __str__(self) -> str:
        return self.name


Type = Scalar | ArrayType | TupleType | RangeType | SliceType | Nothing | Default | StaticType | ForeignType


@dataclass(frozen=True, slots=True)
class Signature:
    """What Numba casts the operands to, and what comes back."""

    args: tuple[Type, ...]
    result: Type
