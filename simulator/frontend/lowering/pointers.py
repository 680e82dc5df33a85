"""Pointers: addresses without extents.

Rules of this file: as on the GPU, nothing says where the elements end, and a negative index is in front of the address.
The memory that an address leads to is checked when it is accessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulator.frontend.layouts import bytes_of
from simulator.frontend.lowering.values import Pointer

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body


def address_of(body: Body, pointer: Pointer) -> int:
    """The slot of the address that it is."""
    return body.builder.op("add", "i8", pointer.base, pointer.offset)


def element_at(body: Body, pointer: Pointer, index: Any) -> int:
    """The slot of the address of an element; ``index`` is a slot (i8 or u8)."""
    if not isinstance(index, int):
        raise body.refuse("an index of a pointer that is no integer")
    size = body.builder.const("i8", bytes_of(pointer.element))
    further = body.builder.op("mul", "i8", body.builder.cast(index, "i8"), size)
    return body.builder.op("add", "i8", address_of(body, pointer), further)
