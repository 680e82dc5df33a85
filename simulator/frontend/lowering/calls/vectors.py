"""CUDA's vector types: ``cuda.float32x4(...)`` and its other names.

A vector is made of numbers and of other vectors, whose parts follow one another.
"""

from __future__ import annotations

from simulator.frontend import kernel_types as kt
from simulator.frontend.lowering.calls.table import Bound, meaning
from simulator.frontend.lowering.values import Tuple, Value

_ALIASES = {
    "int8": "char",
    "int16": "short",
    "int32": "int",
    "int64": "long longlong",
    "uint8": "uchar",
    "uint16": "ushort",
    "uint32": "uint",
    "uint64": "ulong ulonglong",
    "float32": "float",
    "float64": "double",
}
"""Types of the parts, and CUDA's names of them."""


def _vector(bound: Bound) -> Value:
    kind = bound.kind
    if not isinstance(kind, kt.TupleType):
        raise bound.refuse(f"giving {kind}")
    parts: list[Value] = []
    for parameter, variable in bound.arguments.items():
        value = bound.body.coerce(bound.body.value(variable), bound.type(parameter))
        parts += value.items if isinstance(value, Tuple) else (value,)
    if len(parts) != len(kind.items):
        raise bound.refuse(f"of {len(parts)} numbers")
    return bound.body.coerce(Tuple(tuple(parts)), kind)


for _part, _names in _ALIASES.items():
    for _count in (1, 2, 3, 4):
        for _name in (f"{_part}x", *_names.split()):
            meaning(f"cuda.{_name}{_count}", "*")(_vector)
