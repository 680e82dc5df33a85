"""Attributes: special registers and the properties of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.frontend import typed_ir as ir
from simulator.frontend.values import Array, Known, Tuple, Value
from simulator.program import SIZES, FromRegister

if TYPE_CHECKING:
    from simulator.frontend.body import Body

_REGISTERS = {
    **{
        f"cuda.{name}.{axis}": f"{register}.{axis}"
        for name, register in (("threadIdx", "tid"), ("blockIdx", "ctaid"), ("blockDim", "ntid"), ("gridDim", "nctaid"))
        for axis in "xyz"
    },
    "cuda.laneid": "laneid",
}


def register(body: Body, name: str) -> int:
    """A special register widened to i8, as the grid functions compute with it."""
    return body.builder.cast(body.builder.program.slot("i4", "", FromRegister(name)), "i8")


def special_register(body: Body, name: str) -> int:
    """``cuda.threadIdx.x`` and its kin (all int32)."""
    if name == "cuda.warpsize":
        return body.builder.const("i4", 32)
    if name not in _REGISTERS:
        raise body.refuse(name)
    return body.builder.program.slot("i4", "", FromRegister(_REGISTERS[name]))


def attribute(body: Body, value: ir.Attribute) -> Value:
    """``x.shape`` and the like."""
    of = body.value(value.value)
    if not isinstance(of, Array):
        raise body.refuse(f"the attribute {value.name} of {body.type(value.value)}")
    builder = body.builder
    match value.name:
        case "shape":
            return Tuple(of.shape)
        case "strides":
            return Tuple(of.strides)
        case "ndim":
            return builder.const("i8", len(of.shape))
        case "itemsize":
            return builder.const("i8", SIZES[of.code])
        case "size":
            return elements(body, of)
        case "nbytes":
            return builder.op("mul", "i8", elements(body, of), builder.const("i8", SIZES[of.code]))
        case "T":
            return Array(of.address, of.shape[::-1], of.strides[::-1], of.code, of.name)
        case "dtype":
            return Known(of.code)
    raise body.refuse(f"the array attribute {value.name}")


def elements(body: Body, array: Array) -> int:
    """The number of elements of an array (i8)."""
    size = array.shape[0]
    for extent in array.shape[1:]:
        size = body.builder.op("mul", "i8", size, extent)
    return size
