"""Memory that a kernel declares: shared, local and constant arrays."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from simulator.frontend.values import Array
from simulator.program import SIZES, Alloc, FromAlloc, FromRegister

if TYPE_CHECKING:
    from simulator.frontend.body import Body


def declare(
    body: Body,
    name: str,
    key: object,
    space: str,
    code: str,
    shape: tuple[int, ...],
    align: int = 0,
    data: bytes = b"",
) -> Array:
    """The array (in C order) with this declaration ``key``; the same declaration again is the same memory."""
    builder = body.builder
    label = builder.declared.get(key)
    if label is None:
        label = builder.declared[key] = _unique(body, name)
        builder.program.allocs[label] = Alloc(
            label, space, prod(shape) * SIZES[code], align or SIZES[code], code, shape, builder.pos, data=data
        )
    strides = (SIZES[code] * prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return Array(
        builder.program.slot("i8", label, FromAlloc(label)),
        tuple(builder.const("i8", extent) for extent in shape),
        tuple(builder.const("i8", stride) for stride in strides),
        code,
        label,
    )


def declare_dynamic(body: Body, name: str, key: object, code: str, align: int) -> Array:
    """Dynamic shared memory seen as an array of this dtype: as long as the launch's bytes allow."""
    builder = body.builder
    label = builder.declared.get(key)
    if label is None:
        label = builder.declared[key] = _unique(body, name)
        builder.program.allocs[label] = Alloc(
            label, "shared", 0, align or SIZES[code], code, (0,), builder.pos, dynamic=True
        )
    size = builder.cast(builder.program.slot("u4", "", FromRegister("dynamic_smem_size")), "i8")
    length = size if SIZES[code] == 1 else builder.op("div", "i8", size, builder.const("i8", SIZES[code]))
    address = builder.program.slot("i8", label, FromAlloc(label))
    return Array(address, (length,), (builder.const("i8", SIZES[code]),), code, label)


def _unique(body: Body, name: str) -> str:
    """A name that no other array of the program has."""
    program = body.builder.program
    taken = {*program.allocs, *program.arguments}
    label, count = name, 1
    while label in taken:
        count += 1
        label = f"{name}@{count}"
    return label
