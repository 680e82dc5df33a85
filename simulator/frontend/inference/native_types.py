"""Numba's types in our words.  Both adapters share it, so it imports neither numba nor numba-cuda.

Numba's classes are told apart by their names: the two packages have two sets of classes with the same names, and one
process may hold both (``numba.float32`` in a kernel of numba-cuda).
"""

from __future__ import annotations

from typing import Any

from simulator.frontend import kernel_types as kt
from simulator.frontend.layouts import element_of


def class_names(value: object) -> frozenset[str]:
    """The names of a value's classes."""
    return frozenset(base.__name__ for base in type(value).__mro__)


def translate_type(native: Any) -> kt.Type:
    """One of Numba's types in our words."""
    names = class_names(native)
    if "IntegerLiteral" in names or "BooleanLiteral" in names:
        code = "b1" if "BooleanLiteral" in names else _integer(native.literal_type)
        return kt.Scalar(code, native.literal_value)
    if (number := scalar_code(native)) is not None:
        return kt.Scalar(number)
    if "Array" in names:
        return _array(native)
    if "BaseTuple" in names:
        items = tuple(translate_type(item) for item in native.types)
        if "BaseNamedTuple" in names:
            return kt.TupleType(items, tuple(native.fields), native.instance_class.__name__)
        return kt.TupleType(items)
    if "Pair" in names:
        return kt.TupleType((translate_type(native.first_type), translate_type(native.second_type)))
    if "Omitted" in names:
        return kt.Default(native.value)
    if "CPointer" in names and element_of(pointed := translate_type(native.dtype)) is not None:
        return kt.PointerType(pointed)
    if (kind := _structured(native, names) or _iterated(native, names)) is not None:
        return kind
    if "NoneType" in names:
        return kt.Nothing()
    if "Number" not in names and names & _STATIC:
        return kt.StaticType("str" if names & {"StringLiteral", "UnicodeType"} else str(native))
    return kt.ForeignType(_foreign(native))


_STATIC = frozenset({"Dummy", "Literal", "Callable", "Dim3", "DType", "UnicodeType", "Bytes", "Opaque", "GridGroup"})
"""Classes of types whose values are known when the program is made."""


def _structured(native: Any, names: frozenset[str]) -> kt.Type | None:
    """Types of values that are made of others."""
    if "Complex" in names:
        return kt.ComplexType(f"f{native.bitwidth // 16}")
    if "_NPDatetimeBase" in names:
        return kt.TimeType("datetime64" if "NPDatetime" in names else "timedelta64", native.unit)
    if "CharSeq" in names or "UnicodeCharSeq" in names:
        return kt.TextType("u1" if "CharSeq" in names else "u4", native.count)
    if "EnumMember" in names:
        return kt.EnumType(native.instance_class.__name__, translate_type(native.dtype))
    if "VectorType" in names:
        part = translate_type(native.base_type)
        return kt.TupleType((part,) * native.num_elements, tuple(native.attr_names), str(native))
    if "ArrayCTypes" in names:  # x.ctypes, of which a kernel reads .data
        return kt.TupleType((kt.Scalar("u8"),), ("data",), "ctypes")
    if "Optional" in names:
        of = translate_type(native.type)
        return None if isinstance(of, kt.ForeignType | kt.StaticType) else kt.OptionalType(of)
    return _record(native) if "Record" in names else None


def _record(native: Any) -> kt.RecordType | None:
    fields = []
    for name, found in native.fields.items():
        shape = tuple(found.type.shape) if "NestedArray" in class_names(found.type) else ()
        kind = translate_type(found.type.dtype if shape else found.type)
        if element_of(kind) is None:
            return None
        fields.append(kt.Field(name, kind, found.offset, shape))
    return kt.RecordType(tuple(fields), native.size, bool(native.aligned))


def _iterated(native: Any, names: frozenset[str]) -> kt.Type | None:
    """Ranges, iterators and slices."""
    if "RangeType" in names:
        return kt.RangeType(_integer(native.dtype))
    if "RangeIteratorType" in names:
        return kt.RangeType(_integer(native.yield_type))
    if "IteratorType" in names and "Generator" not in names:
        return kt.IteratorType(str(native))
    return kt.SliceType() if "SliceType" in names else None


def _foreign(native: Any) -> str:
    """A type that has no place in a program, in the user's words."""
    names = class_names(native)
    if "Optional" in names:
        return f"{translate_type(native.type)} or None"
    if "Record" in names:
        return f"record({', '.join(native.fields)})"
    return str(native)


def scalar_code(native: Any) -> str | None:
    """The dtype code of a number type, None for anything else."""
    names = class_names(native)
    if "Boolean" in names:
        return "b1"
    if "Integer" in names and "IntEnumMember" not in names:
        return _integer(native)
    if "Float" in names:
        return f"f{native.bitwidth // 8}"
    return "bf" if str(native) == "__nv_bfloat16" else None


def _integer(native: Any) -> str:
    return f"{'i' if native.signed else 'u'}{native.bitwidth // 8}"


def _array(native: Any) -> kt.Type:
    element = translate_type(native.dtype)
    if not native.aligned and not isinstance(element, kt.RecordType):  # a record says it of its fields
        element = kt.Unaligned(element)
    kind = kt.ArrayType(element, native.ndim, native.layout)
    return kt.ForeignType(str(kind)) if element_of(element) is None else kind
