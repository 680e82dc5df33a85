"""From Numba's typed IR to ours.  Both adapters share it, so it imports neither numba nor numba-cuda."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import EnumType
from types import FunctionType, ModuleType
from typing import Any, Protocol

from simulator.frontend import kernel_types as kt
from simulator.frontend import typed_ir as ir
from simulator.frontend.inference.columns import add_columns
from simulator.frontend.inference.inlining import Places
from simulator.frontend.inference.native_types import class_names, translate_type
from simulator.frontend.inference.signs import sign_of
from simulator.frontend.places import Place
from simulator.intrinsics import is_intrinsic, qualified_name


class Callees(Protocol):
    """What a call leads to.  All types and signatures are Numba's."""

    def device(self, dispatcher: Any, args: tuple[Any, ...]) -> ir.Function:
        """The typed body of a device function."""

    def implementation(self, name: str, kind: Any, signature: Any) -> ir.Function | None:
        """The typed Python function that implements a function or method, if there is one."""

    def operator(self, fn: Any, signature: Any) -> ir.Function | None:
        """The typed Python function that implements an operator, if there is one."""

    def attribute(self, kind: Any, name: str) -> ir.Function | None:
        """The typed Python function that implements an attribute of a type, if there is one."""

    @property
    def compiler(self) -> str:
        """The folder of Numba's own functions."""

    def loop(self, ufunc: Any, args: tuple[Any, ...]) -> Any:
        """The loop (``inputs``, ``outputs``) of a ufunc for operands of these types; None where there is no code."""


@dataclass(frozen=True)
class Typed:
    """What Numba's front end leaves behind."""

    func_ir: Any
    typemap: Mapping[str, Any]
    calltypes: Mapping[Any, Any]
    return_type: Any
    args: tuple[Any, ...]


def declared(function: FunctionType, args: tuple[Any, ...], checked: bool, fast: bool) -> ir.Function:
    """A function of which no more is known than how it is called: ``translate`` fills it in."""
    parameters = inspect.signature(function).parameters
    variadic = [p.name for p in parameters.values() if p.kind is p.VAR_POSITIONAL]
    return ir.Function(
        name=function.__name__,
        file=function.__code__.co_filename,
        line=function.__code__.co_firstlineno,
        parameters=tuple(parameters),
        arguments=tuple(translate_type(native) for native in args),
        result=kt.Nothing(),
        types={},
        blocks={},
        defaults={p.name: p.default for p in parameters.values() if p.default is not p.empty},
        variadic=variadic[0] if variadic else None,
        checked=checked,
        fast=fast,
        of_numba=str(function.__module__).startswith("numba."),
    )


def translate(
    typed: Typed, function: FunctionType, names: Mapping[int, str], callees: Callees, result: ir.Function
) -> None:
    """Fill in a declared function: the typed function in our words.

    ``names`` maps ids of known objects to qualified names, ``callees`` types the functions it calls.
    """
    result.result = translate_type(typed.return_type)
    result.types = {name: translate_type(native) for name, native in typed.typemap.items()}
    places = Places(function, typed.func_ir.blocks, callees.compiler)
    body = _Body(typed, result.types, names, callees, places)
    for label in sorted(typed.func_ir.blocks):
        result.blocks[label] = []
        places.enter(label)
        for native in typed.func_ir.blocks[label].body:
            statement = body.statement(native)
            result.blocks[label] += [*body.ahead, *([] if statement is None else [statement])]
            body.ahead.clear()
        places.leave(ir.successors(result.blocks[label][-1]))
    add_columns(result, function.__code__)
    result.uncalled = tuple(_uncalled(typed.func_ir, body.statics, places))


_BARRIERS = frozenset(
    f"cuda.{name}" for name in ("syncthreads", "syncthreads_count", "syncthreads_and", "syncthreads_or", "syncwarp")
)


def _uncalled(func_ir: Any, statics: Mapping[str, Any], places: Places) -> Iterator[tuple[str, Place]]:
    """Barriers that are named and that nothing reads, not even a call."""
    statements = [statement for block in func_ir.blocks.values() for statement in block.body]
    assigned = [statement for statement in statements if type(statement).__name__ == "Assign"]
    read = {s.value.name for s in assigned if type(s.value).__name__ == "Var"}
    for statement in statements:
        reader = statement.value if type(statement).__name__ == "Assign" else statement
        if type(statement).__name__ != "Del" and hasattr(reader, "list_vars"):
            read |= {variable.name for variable in reader.list_vars()}
    for statement in assigned:
        static = statics.get(statement.target.name)
        if isinstance(static, ir.Named) and static.name in _BARRIERS and statement.target.name not in read:
            yield static.name, places.of(statement.loc, statement.target.name)


class _Body:
    """Translates the statements of one function, in order; keeps what is known of static variables."""

    def __init__(
        self, typed: Typed, types: dict[str, kt.Type], names: Mapping[int, str], callees: Callees, places: Places
    ) -> None:
        self.typed = typed
        self.types = types
        self.names = names
        self.callees = callees
        self.places = places
        self.objects: dict[str, Any] = {}  # static variables: the Python object
        self.statics: dict[str, Any] = {}  # and what we call it
        self.ahead: list[ir.Statement] = []  # what goes before the statement at hand

    def statement(self, native: Any) -> ir.Statement | None:
        kind = type(native).__name__
        if kind in ("Del", "PopBlock"):
            return None
        at = self.place(native)
        match kind:
            case "Assign":
                return ir.Assign(native.target.name, self.assigned(native.target.name, native.value), at)
            case "SetItem":
                signature = self.signature(native)
                return ir.Store(native.target.name, native.index.name, None, native.value.name, signature, at)
            case "StaticSetItem":
                index = None if native.index_var is None else native.index_var.name
                signature = self.signature(native)
                return ir.Store(native.target.name, index, native.index, native.value.name, signature, at)
            case "SetAttr":  # of a record: the same as target["attr"] = value
                return ir.Store(native.target.name, None, native.attr, native.value.name, self.signature(native), at)
            case "Jump":
                return ir.Jump(native.target, at)
            case "Branch":
                return ir.Branch(native.cond.name, native.truebr, native.falsebr, at)
            case "Return":
                return ir.Return(native.value.name, at)
            case "StaticRaise" if native.exc_class is not None:
                return ir.Raise(native.exc_class, tuple(native.exc_args or ()), at)
            case "DynamicRaise":
                return ir.Rejected("the arguments of an exception are constants in a kernel", at)
            case "Print":
                return self.print(native, at)
        return ir.Refused(f"the statement {native}", at)

    def place(self, native: Any) -> Place:
        """Where a statement comes from; what only copies into an inlined function is a part of its call."""
        if type(native).__name__ == "Assign":
            copies = type(native.value).__name__ == "Var"
            return self.places.of(native.value.loc, "" if copies else native.target.name)
        return self.places.of(native.loc, getattr(getattr(native, "target", None), "name", ""))

    def print(self, native: Any, at: Place) -> ir.Statement:
        rest = None if native.vararg is None else native.vararg.name
        if rest is not None and not isinstance(self.types[rest], kt.TupleType):
            return ir.Refused(f"print(*x) of a value of type {self.types[rest]}", at)
        return ir.Print(tuple(arg.name for arg in native.args), rest, at)

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
            case "Const":
                return self.python_object(target, native.value)
            case "Global" | "FreeVar":
                return self.python_object(target, native.value, native.name)
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

    def python_object(self, target: str, value: Any, name: str = "") -> ir.Expression:
        """A global or free variable of this name, a literal or an attribute of a module."""
        if type(value).__name__ in ("UndefinedType", "_UNDEFINED"):
            return ir.Undefined()
        if value is Ellipsis:
            return self.static(target, value)
        known = self.names.get(id(value))
        if not isinstance(self.types.get(target), kt.StaticType):
            return ir.Constant(value, name) if known is None else ir.Static(ir.Named(known))
        self.objects[target] = value
        names = class_names(self.typed.typemap[target])
        if isinstance(value, str | bytes):
            return self.static(target, value)
        if "NumberClass" in names:
            return self.static(target, ir.CastTo(translate_type(self.typed.typemap[target].instance_type)))
        if known is None and hasattr(value, "py_func"):
            return self.static(target, ir.Device(value.py_func.__name__))
        if known is None and is_intrinsic(value):
            return self.static(target, ir.Intrinsic(qualified_name(value), value))
        if "ExternFunction" in class_names(value):
            return self.static(target, ir.External(value.name))
        return self.static(target, ir.Named(known or qualified_name(value)))

    def expression(self, target: str, native: Any) -> ir.Expression:
        match native.op:
            case "binop" | "inplace_binop":
                fn = native.fn if native.op == "binop" else native.immutable_fn
                if (callee := self.membership(fn, native)) is not None:
                    args = (native.lhs.name, native.rhs.name)
                    return ir.Call(ir.Device("in"), args, (), self.signature(native), callee)
                return ir.Binary(fn.__name__, native.lhs.name, native.rhs.name, self.signature(native))
            case "unary":
                return ir.Unary(native.fn.__name__, native.value.name, self.signature(native))
            case "cast":
                return ir.Use(native.value.name)
            case "build_tuple":
                return ir.Build(tuple(item.name for item in native.items))
            case "getitem" | "static_getitem" | "typed_getitem":
                return self.item(target, native)
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

    def membership(self, fn: Any, native: Any) -> ir.Function | None:
        """The Python function that implements ``in``; a text of the source needs none."""
        if fn is not operator.contains or isinstance(self.types[native.lhs.name], kt.StaticType):
            return None
        return self.callees.operator(fn, self.typed.calltypes[native])

    def item(self, target: str, native: Any) -> ir.Expression:
        """``value[index]``; of the class of an enumeration, its member of this name."""
        holder = self.objects.get(native.value.name)
        if isinstance(holder, EnumType) and native.op == "static_getitem":
            return self.python_object(target, holder[native.index])
        return _item(native)

    def attribute(self, target: str, native: Any) -> ir.Expression:
        of = native.value.name
        static = self.statics.get(of)
        if isinstance(static, ir.Named) and static.name in _DIM3:
            return ir.Static(ir.Named(f"{static.name}.{native.attr}"))
        holder = self.objects.get(of)
        if isinstance(holder, ModuleType | type) or (static is not None and hasattr(holder, native.attr)):
            if isinstance(holder, str | bytes):
                return ir.Foreign(f"{native.attr} of a text")
            return self.python_object(target, getattr(holder, native.attr))
        if isinstance(self.types.get(target), kt.StaticType) and "BoundFunction" in class_names(
            self.typed.typemap[target]
        ):
            return self.static(target, ir.Method(native.attr, of))
        if (callee := self.callees.attribute(self.typed.typemap[of], native.attr)) is not None:
            signature = kt.Signature(callee.arguments, self.types[target])
            return ir.Call(ir.Device(native.attr), (of,), (), signature, callee)
        return ir.Attribute(of, native.attr)

    def call(self, target: str, native: Any) -> ir.Expression:
        called = self.statics.get(native.func.name)
        signature = self.signature(native)
        if "NamedTupleClass" in class_names(self.typed.typemap[native.func.name]):
            return _named_tuple(native, self.types[target])
        if isinstance(self.types.get(target), kt.StaticType) and "Exception" in str(self.typed.typemap[target]):
            return ir.Static(None)
        if "ExceptionInstance" in class_names(self.typed.typemap[target]):
            return ir.Static(None)
        if not isinstance(called, ir.Named | ir.CastTo | ir.Method | ir.Device | ir.Intrinsic | ir.External):
            return ir.Foreign(f"calling {native.func.name}")
        if native.varkwarg is not None:
            return ir.Foreign("a call with **kwargs")
        keywords = tuple((name, var.name) for name, var in native.kws)
        args = (*(arg.name for arg in native.args), *self.unpacked(native))
        if isinstance(called, ir.Named) and (sign := sign_of(called.name, args, signature)) is not None:
            return sign
        found, callee = self.typed.calltypes[native], None
        if isinstance(called, ir.Device):
            callee = self.callees.device(self.objects[native.func.name], found.args)
        elif isinstance(called, ir.Named) and "ufunc" in class_names(self.objects.get(native.func.name)):
            called = self.ufunc(self.objects[native.func.name], found)
        elif isinstance(called, ir.Named | ir.Method):
            name = called.name if isinstance(called, ir.Named) else f"method {called.name}"
            callee = self.callees.implementation(name, self.typed.typemap[native.func.name], found)
            if isinstance(called, ir.Method) and callee is not None:
                return ir.Call(ir.Device(called.name), (called.of, *args), keywords, signature, callee)
        return ir.Call(called, args, keywords, signature, callee)

    def unpacked(self, native: Any) -> Iterator[str]:
        """Variables for the items of the tuple in ``f(*args)``."""
        if native.vararg is None:
            return
        name = native.vararg.name
        kind = self.types[name]
        assert isinstance(kind, kt.TupleType)  # Numba types no other
        for index, item in enumerate(kind.items):
            variable = f"{name}.item{index}"
            self.types[variable] = item
            self.ahead.append(ir.Assign(variable, ir.Item(name, None, index), self.place(native)))
            yield variable

    def ufunc(self, ufunc: Any, signature: Any) -> ir.Ufunc:
        """A ufunc with the loop that this call of it takes: that of the elements, and of the results left out."""
        operands = (*signature.args, signature.return_type)[: ufunc.nin + ufunc.nout]
        elements = tuple(kind.dtype if "Array" in class_names(kind) else kind for kind in operands)
        loop = self.callees.loop(ufunc, elements)
        if loop is None:
            return ir.Ufunc(ufunc.__name__, (), ())
        inputs, outputs = (tuple(map(translate_type, kinds)) for kinds in (loop.inputs, loop.outputs))
        return ir.Ufunc(ufunc.__name__, inputs, outputs)


_DIM3 = frozenset({"cuda.threadIdx", "cuda.blockIdx", "cuda.blockDim", "cuda.gridDim"})

_CONSTRUCTS = {
    "build_list": "a list",
    "build_map": "a dictionary",
    "build_set": "a set",
    "yield": "a generator",
}


def _named_tuple(native: Any, kind: kt.Type) -> ir.Expression:
    """A call of the class of a named tuple."""
    names = kind.names if isinstance(kind, kt.TupleType) else ()
    given = dict(zip(names, (arg.name for arg in native.args), strict=False))
    given.update((name, var.name) for name, var in native.kws)
    if native.vararg is not None or set(given) != set(names):
        return ir.Foreign("a named tuple with items left out or in *args")
    return ir.Build(tuple(given[name] for name in names))


def _item(native: Any) -> ir.Item:
    if native.op != "static_getitem":
        return ir.Item(native.value.name, native.index.name)
    index = None if native.index_var is None else native.index_var.name
    return ir.Item(native.value.name, index, native.index)
