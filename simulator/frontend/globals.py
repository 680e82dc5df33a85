"""Python objects that a kernel refers to: numbers, tuples and global arrays become constants of the program.

A global array is copied when the kernel is lowered and never looked at again, as Numba does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.frontend import kernel_types as kt
from simulator.frontend.memory import declare
from simulator.frontend.values import Array, Known, Tuple, Value

if TYPE_CHECKING:
    from simulator.frontend.body import Body


def constant_value(body: Body, value: Any, kind: kt.Type) -> Value:
    """A Python object as a value of this type."""
    match kind:
        case kt.Scalar(code):
            return body.builder.const(code, value)
        case kt.TupleType(items):
            return Tuple(tuple(constant_value(body, item, to) for item, to in zip(value, items, strict=True)))
        case kt.ArrayType() if isinstance(value, np.ndarray):
            return _constant_array(body, value, kind)
        case kt.Nothing():
            return Known(None)
        case kt.Default(default):
            return Known(default)
    raise body.refuse(f"a constant of type {kind}")


def _constant_array(body: Body, value: np.ndarray, kind: kt.ArrayType) -> Array:
    name = body.variables.hint(body.target) or "constant"
    return declare(body, name, ("const", id(value)), "const", kind.code, value.shape, data=value.tobytes())
