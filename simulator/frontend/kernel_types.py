"""The types of typed IR: what a variable of a kernel is on the GPU, in our own words.

Printed they read like Numba's (``float32``, ``array(float16, 2d)``): messages use them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
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
class ComplexType:
    """A complex number; ``code`` is the dtype of its two parts."""

    code: str

    def __str__(self) -> str:
        return f"complex{16 * int(self.code[1])}"


@dataclass(frozen=True, slots=True)
class TimeType:
    """NumPy's ``datetime64`` or ``timedelta64`` (``kind``): an int64 that counts units; its smallest value is NaT."""

    kind: str
    unit: str

    def __str__(self) -> str:
        return f"{self.kind}[{self.unit}]" if self.unit else self.kind


@dataclass(frozen=True, slots=True)
class TextType:
    """NumPy's ``S`` and ``U``: ``count`` characters of dtype ``code`` (u1 or u4), filled up with zeros."""

    code: str
    count: int

    def __str__(self) -> str:
        return f"{'S' if self.code == 'u1' else 'U'}{self.count}"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record: ``offset`` in bytes; one that is an array has a ``shape`` and ``type`` is its elements'."""

    name: str
    type: Type
    offset: int
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordType:
    """A structured dtype of NumPy.  A value of it is a reference: it stands for the bytes where the record lies.

    ``aligned`` says that every field lies at a multiple of its size; ``size`` is in bytes.
    """

    fields: tuple[Field, ...]
    size: int
    aligned: bool

    def field(self, name: str) -> Field | None:
        """The field of this name."""
        return next((field for field in self.fields if field.name == name), None)

    def __str__(self) -> str:
        return f"record({', '.join(field.name for field in self.fields)})"


@dataclass(frozen=True, slots=True)
class Unaligned:
    """Elements of an array that may lie at any address: fields of packed records, views of shifted buffers."""

    of: Type

    def __str__(self) -> str:
        return f"unaligned {self.of}"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array: type of its elements, number of axes and what Numba knows of its layout (C, F, or A for any).

    Types that differ in layout alone are equal.  ``code`` is the elements' dtype where they are numbers.
    """

    element: Type
    ndim: int
    layout: str = field(default="A", compare=False)

    @property
    def code(self) -> str:
        """The dtype code of the elements, "" where they are no numbers."""
        return self.element.code if isinstance(self.element, Scalar) else ""

    def __str__(self) -> str:
        return f"array({self.element}, {self.ndim}d)"


@dataclass(frozen=True, slots=True)
class PointerType:
    """The address of elements of which nobody says how many there are (``CPointer``)."""

    element: Type

    def __str__(self) -> str:
        return f"{self.element}*"


@dataclass(frozen=True, slots=True)
class TupleType:
    """A tuple (also the pair that an iterator yields).

    A named tuple or a CUDA vector type (``float32x4``) has a ``name`` and names for its items.
    """

    items: tuple[Type, ...]
    names: tuple[str, ...] = ()
    name: str = "tuple"

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.items))})"


@dataclass(frozen=True, slots=True)
class EnumType:
    """A member of an enumeration; ``of`` is the type of its value, which is what a member is on the GPU."""

    name: str
    of: Type

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class OptionalType:
    """A value or None."""

    of: Type

    def __str__(self) -> str:
        return f"{self.of} or None"


def present(kind: Type) -> Type:
    """What a value of a type is where it is not None.

    >>> str(present(OptionalType(Scalar("f4"))))
    'float32'
    """
    return kind.of if isinstance(kind, OptionalType) else kind


@dataclass(frozen=True, slots=True)
class RangeType:
    """A range or its iterator, counting in ``code``."""

    code: str

    def __str__(self) -> str:
        return f"range of {NUMBA_NAMES[self.code]}"


@dataclass(frozen=True, slots=True)
class IteratorType:
    """Any other iterator; ``name`` is Numba's."""

    name: str

    def __str__(self) -> str:
        return self.name


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


Type = (
    Scalar | ComplexType | TimeType | TextType | RecordType | Unaligned | ArrayType | PointerType | TupleType
    | EnumType | OptionalType | RangeType | IteratorType | SliceType | Nothing | Default | StaticType | ForeignType
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Signature:
    """What Numba casts the operands to, and what comes back."""

    args: tuple[Type, ...]
    result: Type
