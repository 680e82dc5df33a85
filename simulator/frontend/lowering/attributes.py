"""Attributes: special registers, the properties of arrays, parts of numbers, tuples and records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.frontend import kernel_types as kt
from simulator.frontend import typed_ir as ir
from simulator.frontend.layouts import bytes_of
from simulator.frontend.lowering.iteration import positions
from simulator.frontend.lowering.records import column, field_of
from simulator.frontend.lowering.values import Array, Complex, Iteration, Known, Record, Tuple, Value
from simulator.program import FromRegister

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body

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
    of, kind = body.present(value.value), kt.present(body.type(value.value))
    match of, kind:
        case Array(), _:
            return _of_array(body, of, value.name)
        case Record(), _:
            return field_of(body, of, value.name)
        case Complex(real, imag), _ if value.name in ("real", "imag"):
            return real if value.name == "real" else imag
        case int(), kt.Scalar(code) if value.name in ("real", "imag"):
            return of if value.name == "real" else body.builder.const(code, 0)
        case Tuple(items), kt.TupleType(_, names) if value.name in names:
            return items[names.index(value.name)]
        case _, kt.EnumType() if value.name == "value":
            return of
    raise body.refuse(f"the attribute {value.name} of {kind}")


def _of_array(body: Body, of: Array, name: str) -> Value:
    builder = body.builder
    if name in ("real", "imag") and isinstance(of.element, kt.Scalar | kt.ComplexType):
        return _part(body, of, name)
    match name:
        case "shape":
            return Tuple(of.shape)
        case "strides":
            return Tuple(of.strides)
        case "ndim":
            return builder.const("i8", len(of.shape))
        case "itemsize":
            return builder.const("i8", bytes_of(of.element))
        case "size":
            return elements(body, of)
        case "nbytes":
            return builder.op("mul", "i8", elements(body, of), builder.const("i8", bytes_of(of.element)))
        case "T":
            return Array(of.address, of.shape[::-1], of.strides[::-1], of.element, of.name)
        case "flat":
            return Iteration("flat", (), (positions(body, of.shape), of))
        case "dtype":
            return Known(of.code or str(of.element))
        case "ctypes":
            return Tuple((builder.cast(of.address, "u8"),))
    if isinstance(of.element, kt.RecordType) and of.element.field(name) is not None:
        return column(body, of, name)
    raise body.refuse(f"the array attribute {name}")


def _part(body: Body, of: Array, name: str) -> Array:
    """``x.real`` and ``x.imag``: a view of every other part."""
    if isinstance(of.element, kt.Scalar):
        if name == "imag":
            raise body.refuse("the attribute imag of an array of real numbers")
        return of
    assert isinstance(of.element, kt.ComplexType)
    part, builder = kt.Scalar(of.element.code), body.builder
    at = of.address
    if name == "imag":
        at = builder.op("add", "i8", at, builder.const("i8", bytes_of(part)))
    return Array(at, of.shape, of.strides, part, of.name)


def elements(body: Body, array: Array) -> int:
    """The number of elements of an array (i8)."""
    if not array.shape:
        return body.builder.const("i8", 1)
    size = array.shape[0]
    for extent in array.shape[1:]:
        size = body.builder.op("mul", "i8", size, extent)
    return size
