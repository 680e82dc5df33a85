"""Python objects that a kernel refers to: numbers, tuples and global arrays become constants of the program.

A global NumPy array is copied when the kernel is lowered and never looked at again, as Numba does; one of the device is
one more argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.frontend import kernel_types as kt
from simulator.frontend.lowering.memory import declare
from simulator.frontend.lowering.parameters import captured_array
from simulator.frontend.lowering.values import Array, Complex, Known, Record, Tuple, Value

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body


def constant_value(body: Body, value: Any, kind: kt.Type, name: str = "") -> Value:
    """A Python object as a value of this type; ``name`` is the global that holds it."""
    match kind:
        case kt.Scalar(code):
            return body.builder.const(code, value)
        case kt.TimeType():
            return body.builder.const("i8", int(value.astype(np.int64)))
        case kt.ComplexType(code):
            return Complex(body.builder.const(code, value.real), body.builder.const(code, value.imag))
        case kt.EnumType(_, of):
            return constant_value(body, value.value, of)
        case kt.RecordType():
            array = _constant_array(body, np.array(value), kt.ArrayType(kind, 0))
            return Record(array.address, kind, array.name)
        case kt.OptionalType(of):
            return body.coerce(Known(None) if value is None else constant_value(body, value, of), kind)
        case kt.TupleType(items):
            return Tuple(tuple(constant_value(body, item, to) for item, to in zip(value, items, strict=True)))
        case kt.ArrayType() if isinstance(value, np.ndarray):
            return _constant_array(body, value, kind, name)
        case kt.ArrayType() if hasattr(value, "__cuda_array_interface__"):
            return captured_array(body, value, kind, name)
        case kt.Nothing():
            return Known(None)
        case kt.StaticType() if isinstance(value, str | bytes):
            return Known(value)
        case kt.Default(default):
            return Known(default)
    raise body.refuse(f"a constant of type {kind}")


def _constant_array(body: Body, value: np.ndarray, kind: kt.ArrayType, name: str = "") -> Array:
    name = body.variables.hint(body.target) or name or "constant"
    return declare(body, name, ("const", id(value)), "const", kind.element, value.shape, data=value.tobytes())
