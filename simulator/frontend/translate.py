"""From Numba's typed IR to ours.  Both adapters share it, so it imports neither numba nor numba-cuda.

Numba's classes are told apart by their names: the two packages have two sets of classes with the same names, and one
process may hold both (``numba.float32`` in a kernel of numba-cuda).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import FunctionType, ModuleType
from typing import Any

from simulator.frontend import kernel_types as kt
from simulator.frontend import typed_ir as ir
from simulator.frontend.columns import columns_of
from simulator.intrinsics import is_intrinsic, qualified_name

DeviceTyper = Callable[[Any, tuple[Any, ...]], ir.Function]
"""Gives the typed body of a dispatcher for Numba's argument types."""


@dataclass(frozen=True)
class Typed:
    """What Numba's front end leaves behind."""

    func_ir: Any
    typemap: Mapping[str, Any]
    calltypes: Mapping[Any, Any]
    return_type: Any
    args: tuple[Any, ...]


def class_names(value: object) -> frozenset[str]:
    """The names of a value's classes."""
    return frozenset(base.__name__ for base in type(value).__mro__)


def translate_type(native: Any) -> kt.Type:
    """One of Numba's types in our words."""
    names = class_names(native)
    if "IntegerLiteral" in names or "BooleanLiteral" in names:
        kind = "b1" if "BooleanLiteral" in names else _integer(native.literal_type)
        return kt.Scalar(kind, native.literal_value)
    if (code := scalar_code(native)) is not None:
        return kt.Scalar(code)
    if "Array" in names:
        return _array(native)
    if "BaseTuple" in names and "BaseNamedTuple" not in names:
        return kt.TupleType(tuple(translate_type(item) for item in native.types))
    if "Pair" in names:
        return kt.TupleType((translate_type(native.first_type), translate_type(native.second_type)))
    if "RangeType" in names:
        return kt.RangeType(_integer(native.dtype))
    if "RangeIteratorType" in names:
        return kt.RangeType(_integer(native.yield_type))
    if "Omitted" in names:
        return kt.Default(native.value)
    if "NoneType" in names:
        return kt.Nothing()
    if "SliceType" in names:
        return kt.SliceType()
    if "Number" not in names and names & {"Dummy", "Literal", "Callable", "Dim3", "DType", "UnicodeType", "Opaque"}:
        return kt.StaticType("str" if names & {"StringLiteral", "UnicodeType"} else str(native))
    return kt.ForeignType(_foreign(native))


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
    code = scalar_code(native.dtype)
    if code is None or native.ndim == 0 or not native.aligned:
        element = native.dtype if code is None else kt.Scalar(code)
        if "Record" in class_names(native.dtype):
            element = _foreign(native.dtype)
        return kt.ForeignType(f"array({element}, {native.ndim}d{'' if native.aligned else ', unaligned'})")
    return kt.ArrayType(code, native.ndim)


def translate(
    typed: Typed, function: FunctionType, names: Mapping[int, str], device: DeviceTyper, checked: bool
) -> ir.Function:
    """The typed function in our words.

    ``names`` maps ids of known objects to qualified names, ``device`` types the device functions it calls.
    """
    parameters = inspect.signature(function).parameters
    variadic = [p.name for p in parameters.values() if p.kind is p.VAR_POSITIONAL]
    result = ir.Function(
        name=function.__name__,
        file=function.__code__.co_filename,
        line=function.__code__.co_firstlineno,
        parameters=tuple(parameters),
        arguments=tuple(translate_type(native) for native in typed.args),
        result=translate_type(typed.return_type),
        types={name: translate_type(native) for name, native in typed.typemap.items()},
        blocks={},
        defaults={p.name: p.default for p in parameters.values() if p.default is not p.empty},
        variadic=variadic[0] if variadic else None,
        checked=checked,
    )
    body = _Body(typed, result.types, names, device)
    for label in sorted(typed.func_ir.blocks):
        statements = (body.statement(native) for native in typed.func_ir.blocks[label].body)
        result.blocks[label] = [statement for statement in statements if statement is not None]
    _add_columns(result, function)
    return result


def _add_columns(result: ir.Function, function: FunctionType) -> None:
    """Give assignments and stores their column."""
    kinds = {ir.Item: "item", ir.Call: "call", ir.Binary: "binary"}
    places: list[tuple[int, int]] = []
    operations: list[tuple[int, str]] = []
    for label, statements in result.blocks.items():
        for index, statement in enumerate(statements):
            kind = "store" if isinstance(statement, ir.Store) else None
            if isinstance(statement, ir.Assign) and not _implicit(statement):
                kind = kinds.get(type(statement.value))
            if kind is not None:
                places.append((label, index))
                operations.append((statement.line, kind))
    for (label, index), column in zip(places, columns_of(function.__code__, operations), strict=True):
        found = result.blocks[label][index]
        assert isinstance(found, ir.Assign | ir.Store)
        result.blocks[label][index] = replace(found, column=column)


def _implicit(statement: ir.Assign) -> bool:
    """Whether Numba made this operation up: the truth value of a condition, the items of an unpacking."""
    value = statement.value
    return statement.target.endswith("pred") or (isinstance(value, ir.Item) and value.index is None)


class _Body:
    """Translates the statements of one function, in order; keeps what is known of static variables."""

    def __init__(
        self, typed: Typed, types: Mapping[str, kt.Type], names: Mapping[int, str], device: DeviceTyper
    ) -> None:
        self.typed = typed
        self.types = types
        self.names = names
        self.device = device
        self.objects: dict[str, Any] = {}  # static variables: the Python object
        self.statics: dict[str, Any] = {}  # and what we call it

    def statement(self, native: Any) -> ir.Statement | None:
        line = native.loc.line
        match type(native).__name__:
            case "Del":
                return None
            case "Assign":
                value = self.assigned(native.target.name, native.value)
                return ir.Assign(native.target.name, value, native.value.loc.line)
            case "SetItem":
                signature = self.signature(native)
                return ir.Store(native.target.name, native.index.name, None, native.value.name, signature, line)
            case "StaticSetItem":
                index = None if native.index_var is None else native.index_var.name
                signature = self.signature(native)
                return ir.Store(native.target.name, index, native.index, native.value.name, signature, line)
            case "Jump":
                return ir.Jump(native.target, line)
            case "Branch":
                return ir.Branch(native.cond.name, native.truebr, native.falsebr, line)
            case "Return":
                return ir.Return(native.value.name, line)
            case "StaticRaise" | "DynamicRaise":
                return ir.Raise(_message(native), line)
            case "Print":
                return ir.Refused("print", line)
            case "PopBlock":
                return None
        return ir.Refused(f"the statement {native}", line)

    def signature(self, native: Any) -> kt.Signature:
        found = self.typed.calltypes.get(native)
        if found is None:
            return kt.Signature((), kt.Nothing())
        return kt.Signature(tuple(translate_type(arg) for arg in found.args), translate_type(found.return_type))

    # ------------------------------------------------------------------------------------------- expressions

    def assigned(self, target: str, native: Any) -> ir.Expression:
        match type(native).__name__:
            case "Var":
                if native.name in self.statics:
                    self.objects[target] = self.objects.get(native.name)
                    return self.static(target, self.statics[native.name])
                return ir.Use(native.name)
            case "Arg":
                return self.argument(target, native.index)
            case "Const" | "Global" | "FreeVar":
                return self.python_object(target, native.value)
            case "Expr":
                return self.expression(target, native)
            case "Yield":
                return ir.Foreign("a generator (yield)")
        return ir.Foreign(f"the expression {native}")

    def argument(self, target: str, index: int) -> ir.Expression:
        """An argument; a function or number class is known by its type alone."""
        native = self.typed.args[index]
        names = class_names(native)
        if "NumberClass" in names:
            return self.static(target, ir.CastTo(translate_type(native.instance_type)))
        if "Dispatcher" in names:
            return self.python_object(target, native.dispatcher)
        if "Function" in names:
            return self.python_object(target, native.typing_key)
        return ir.Argument(index)

    def static(self, target: str, value: Any) -> ir.Static:
        self.statics[target] = value
        return ir.Static(value)

    def python_object(self, target: str, value: Any) -> ir.Expression:
        """A global, a free variable, a literal or an attribute of a module."""
        if type(value).__name__ in ("UndefinedType", "_UNDEFINED"):
            return ir.Undefined()
        known = self.names.get(id(value))
        if not isinstance(self.types.get(target), kt.StaticType):
            return ir.Constant(value) if known is None else ir.Static(ir.Named(known))
        self.objects[target] = value
        names = class_names(self.typed.typemap[target])
        if isinstance(value, str):
            return self.static(target, value)
        if "NumberClass" in names:
            return self.static(target, ir.CastTo(translate_type(self.typed.typemap[target].instance_type)))
        if known is None and hasattr(value, "py_func"):
            return self.static(target, ir.Device(value.py_func.__name__))
        if known is None and is_intrinsic(value):
            return self.static(target, ir.Intrinsic(qualified_name(value), value))
        return self.static(target, ir.Named(known or qualified_name(value)))

    def expression(self, target: str, native: Any) -> ir.Expression:
        match native.op:
            case "binop" | "inplace_binop":
                fn = native.fn if native.op == "binop" else native.immutable_fn
                return ir.Binary(fn.__name__, native.lhs.name, native.rhs.name, self.signature(native))
            case "unary":
                return ir.Unary(native.fn.__name__, native.value.name, self.signature(native))
            case "cast":
                return ir.Use(native.value.name)
            case "build_tuple":
                return ir.Build(tuple(item.name for item in native.items))
            case "getitem" | "static_getitem":
                return _item(native)
            case "getattr":
                return self.attribute(target, native)
            case "getiter":
                return ir.Iterate(native.value.name)
            case "iternext":
                return ir.Next(native.value.name)
            case "pair_first" | "pair_second":
                return ir.Part(native.value.name, int(native.op == "pair_second"))
            case "exhaust_iter":
                return ir.Exhaust(native.value.name, native.count)
            case "call":
                return self.call(target, native)
            case "null" | "undef":
                return ir.Undefined()
        return ir.Foreign(_CONSTRUCTS.get(native.op, f"the expression {native.op}"))

    def attribute(self, target: str, native: Any) -> ir.Expression:
        of = native.value.name
        static = self.statics.get(of)
        if isinstance(static, ir.Named) and static.name in _DIM3:
            return ir.Static(ir.Named(f"{static.name}.{native.attr}"))
        holder = self.objects.get(of)
        if isinstance(holder, ModuleType | type) or (static is not None and hasattr(holder, native.attr)):
            return self.python_object(target, getattr(holder, native.attr))
        if isinstance(self.types.get(target), kt.StaticType) and "BoundFunction" in class_names(
            self.typed.typemap[target]
        ):
            return self.static(target, ir.Method(native.attr, of))
        return ir.Attribute(of, native.attr)

    def call(self, target: str, native: Any) -> ir.Expression:
        called = self.statics.get(native.func.name)
        signature = self.signature(native)
        if isinstance(self.types.get(target), kt.StaticType) and "Exception" in str(self.typed.typemap[target]):
            return ir.Static(None)
        if "ExceptionInstance" in class_names(self.typed.typemap[target]):
            return ir.Static(None)
        if not isinstance(called, ir.Named | ir.CastTo | ir.Method | ir.Device | ir.Intrinsic):
            return ir.Foreign(f"calling {native.func.name}")
        if native.vararg is not None or native.varkwarg is not None:
            return ir.Foreign("a call with *args or **kwargs")
        keywords = tuple((name, var.name) for name, var in native.kws)
        callee = None
        if isinstance(called, ir.Device):
            callee = self.device(self.objects[native.func.name], self.typed.calltypes[native].args)
        return ir.Call(called, tuple(arg.name for arg in native.args), keywords, signature, callee)


_DIM3 = frozenset({"cuda.threadIdx", "cuda.blockIdx", "cuda.blockDim", "cuda.gridDim"})

_CONSTRUCTS = {
    "build_list": "a list",
    "build_map": "a dictionary",
    "build_set": "a set",
    "typed_getitem": "indexing a record",
    "yield": "a generator",
}


def _item(native: Any) -> ir.Item:
    if native.op == "getitem":
        return ir.Item(native.value.name, native.index.name)
    index = None if native.index_var is None else native.index_var.name
    return ir.Item(native.value.name, index, native.index)


def _message(native: Any) -> str:
    """What a raise statement says, as far as it is static."""
    name = native.exc_class.__name__ if native.exc_class is not None else "exception"
    parts = [repr(arg) if isinstance(arg, str | int | float) else str(arg) for arg in native.exc_args or ()]
    return f"{name}({', '.join(parts)})" if parts else name
