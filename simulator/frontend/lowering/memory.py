"""Memory that a kernel declares: shared, local and constant arrays."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from simulator.frontend import kernel_types as kt
from simulator.frontend.layouts import alignment_of, element_of
from simulator.frontend.lowering.elements import array_at
from simulator.frontend.lowering.values import Array
from simulator.program import Alloc, Element, FromAlloc, FromRegister, size_of

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body


def declare(
    body: Body,
    name: str,
    key: object,
    space: str,
    kind: kt.Type,
    shape: tuple[int, ...],
    align: int = 0,
    data: bytes = b"",
) -> Array:
    """The array (in C order) with this declaration ``key``; the same declaration again is the same memory."""
    builder = body.builder
    label = builder.declared.get(key)
    if label is None:
        label = builder.declared[key] = unique(body, name)
        element = _element(body, kind)
        size, align = prod(shape) * size_of(element), align or alignment_of(kind)
        builder.program.allocs[label] = Alloc(label, space, size, align, element, shape, builder.pos, data=data)
    return array_at(body, builder.program.slot("i8", label, FromAlloc(label)), kind, shape, label)


def declare_dynamic(body: Body, name: str, key: object, kind: kt.Type, align: int) -> Array:
    """Dynamic shared memory seen as an array of these elements: as long as the launch's bytes allow."""
    builder, element = body.builder, _element(body, kind)
    label = builder.declared.get(key)
    if label is None:
        label = builder.declared[key] = unique(body, name)
        align = align or alignment_of(kind)
        builder.program.allocs[label] = Alloc(label, "shared", 0, align, element, (0,), builder.pos, dynamic=True)
    size = builder.cast(builder.program.slot("u4", "", FromRegister("dynamic_smem_size")), "i8")
    stride = builder.const("i8", size_of(element))
    length = size if size_of(element) == 1 else builder.op("div", "i8", size, stride)
    return Array(builder.program.slot("i8", label, FromAlloc(label)), (length,), (stride,), kind, label)


def _element(body: Body, kind: kt.Type) -> Element:
    element = element_of(kind)
    if element is None:
        raise body.refuse(f"an array of {kind}")
    return element


def unique(body: Body, name: str) -> str:
    """A name that no other array of the program has."""
    program = body.builder.program
    taken = {*program.allocs, *program.arguments}
    label, count = name, 1
    while label in taken:
        count += 1
        label = f"{name}@{count}"
    return label
