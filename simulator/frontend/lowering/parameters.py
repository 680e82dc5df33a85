"""Launch parameters: the words that make up an argument, and arrays of the device that a kernel captures.

A captured array is one more argument: it is not copied when the kernel is lowered, and the kernel may write to it.
A pointer is launched as a pair (``simulator.runs.arguments.Pointed``): memory, and how many bytes into it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulator.errors import Unsupported
from simulator.frontend import kernel_types as kt
from simulator.frontend.lowering.memory import unique
from simulator.frontend.lowering.values import Array, Complex, Pointer, Record, Tuple, Value
from simulator.program import FromParam, Param, Pos, Program

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body


def parameters(program: Program, name: str, kind: kt.Type, path: tuple[int, ...], place: Pos) -> Value:
    """The value of one argument, made of new launch parameters.

    ``path`` leads to it among the arguments of the launch.
    """

    def word(suffix: str, code: str, role: str, axis: int = 0) -> int:
        param = Param(name + suffix, code, role, path, axis)
        if param not in program.params:  # a captured array may be named again
            program.params.append(param)
        return program.slot(code, name + suffix, FromParam(name + suffix))

    match kind:
        case kt.Scalar(code):
            return word("", code, "value")
        case kt.TimeType():
            return word("", "i8", "value")
        case kt.ComplexType(code):
            return Complex(word(".real", code, "real"), word(".imag", code, "imag"))
        case kt.RecordType():
            return Record(word("", "i8", "address"), kind, name)
        case kt.EnumType(_, of):
            return parameters(program, name, of, path, place)
        case kt.ArrayType(element, ndim):
            address = word("", "i8", "address")
            shape = tuple(word(f".shape{axis}", "i8", "shape", axis) for axis in range(ndim))
            strides = tuple(word(f".stride{axis}", "i8", "stride", axis) for axis in range(ndim))
            return Array(address, shape, strides, element, name)
        case kt.PointerType(element):
            memory = parameters(program, f"{name}.memory", kt.ArrayType(element, 0), (*path, 0), place)
            offset = parameters(program, f"{name}.offset", kt.Scalar("i8"), (*path, 1), place)
            assert isinstance(memory, Array) and isinstance(offset, int)
            return Pointer(memory.address, offset, element, memory.name)
        case kt.TupleType(items):
            words = [f".{label}" for label in kind.names] or [f"[{i}]" for i in range(len(items))]
            parts = (parameters(program, name + words[i], item, (*path, i), place) for i, item in enumerate(items))
            return Tuple(tuple(parts))
    raise Unsupported(place, f"the argument {name} of type {kind}")


def captured_array(body: Body, value: Any, kind: kt.ArrayType, name: str) -> Value:
    """An array of the device that a kernel names as a global: the same one again is the same memory."""
    builder, program = body.builder, body.builder.program
    key = ("captured", id(value))
    if key not in builder.declared:
        builder.declared[key] = unique(body, name or "captured")
        program.arguments = (*program.arguments, builder.declared[key])
        program.captured.append(value)
    argument = builder.declared[key]
    return parameters(program, argument, kind, (program.arguments.index(argument),), builder.pos)
