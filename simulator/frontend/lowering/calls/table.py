"""The table of meanings, and how a call is bound to one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulator.frontend import kernel_types as kt
from simulator.frontend import typed_ir as ir
from simulator.frontend.lowering.calls.device import call_device
from simulator.frontend.lowering.calls.intrinsics import call_intrinsic
from simulator.frontend.lowering.calls.ufuncs import call_ufunc
from simulator.frontend.lowering.values import Array, Value
from simulator.frontend.refusal import DoesNotCompile

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body
    from simulator.frontend.lowering.builder import Builder


@dataclass(frozen=True)
class Bound:
    """One call, its arguments bound to the parameters of a meaning."""

    body: Body
    call: ir.Call
    target: str
    arguments: dict[str, str]
    """Parameter name to variable; ``*`` parameters are ``0``, ``1`` ..."""

    @property
    def builder(self) -> Builder:
        """Where operations go."""
        return self.body.builder

    @property
    def kind(self) -> kt.Type:
        """The type of the result, as Numba's signature says."""
        return self.call.signature.result

    @property
    def result(self) -> str:
        """The dtype code of the result."""
        return self.code(self.call.signature.result)

    @property
    def used(self) -> bool:
        """Whether anything reads the result."""
        return self.body.variables.used[self.body.variables.canonical(self.target)] > 0

    @property
    def name(self) -> str:
        """The user's name for the result, "" if there is none."""
        return self.body.variables.hint(self.target)

    @property
    def of(self) -> Value:
        """The value whose method is called."""
        assert isinstance(self.call.target, ir.Method)
        return self.body.present(self.call.target.of)

    @property
    def of_type(self) -> kt.Type:
        """The type of that value."""
        assert isinstance(self.call.target, ir.Method)
        return kt.present(self.body.type(self.call.target.of))

    def type(self, parameter: str) -> kt.Type:
        """What Numba's signature casts an argument to."""
        position = list(self.arguments).index(parameter)
        args = self.call.signature.args
        return args[position] if position < len(args) else self.body.type(self.arguments[parameter])

    def code(self, kind: kt.Type) -> str:
        """The dtype code of a number type."""
        if not isinstance(kind, kt.Scalar):
            raise self.refuse(f"with {kind}")
        return kind.code

    def value(self, parameter: str) -> Value:
        """An argument, cast as Numba's signature says: what may be None is what it may be besides."""
        variable = self.arguments[parameter]
        return self.body.coerce(self.body.value(variable), self.type(parameter), self.body.type(variable))

    def integers(self, *values: Value) -> list[int]:
        """Indices or extents, as int64: Numba casts whatever number they are."""
        found = [self.body.coerce(value, kt.Scalar("i8")) for value in values]
        slots = [slot for slot in found if isinstance(slot, int)]
        if len(slots) != len(found):
            raise self.refuse("with an index that is no number")
        return slots

    def number(self, parameter: str, code: str | None = None) -> int:
        """The slot of an argument, cast as Numba's signature says and then to ``code``."""
        slot = self.body.number(self.arguments[parameter])
        kind = self.type(parameter)
        if isinstance(kind, kt.OptionalType):  # not cast: it goes on as a pair
            reason = f"Numba has no code for {spelled(self.call.target)} on {kind} in a kernel"
            raise DoesNotCompile(reason, self.builder.pos)
        if isinstance(kind, kt.Scalar):
            slot = self.builder.cast(slot, kind.code)
        return slot if code is None else self.builder.cast(slot, code)

    def numbers(self, code: str | None = None) -> list[int]:
        """All arguments as numbers."""
        return [self.number(parameter, code) for parameter in self.arguments]

    def given(self, parameter: str) -> bool:
        """Whether an optional argument was given (None counts as left out)."""
        variable = self.arguments.get(parameter)
        return variable is not None and self.body.type(variable) != kt.Nothing()

    def array(self, parameter: str) -> Array:
        """An argument that is an array."""
        value = self.body.present(self.arguments[parameter])
        if not isinstance(value, Array):
            raise self.refuse(f"on {self.body.type(self.arguments[parameter])}")
        return value

    def literal(self, kind: kt.Type) -> int:
        """The value of a literal's type."""
        if isinstance(kind, kt.Scalar) and kind.literal is not None:
            return int(kind.literal)
        raise self.refuse("with an argument that is not a constant")

    def refuse(self, how: str) -> Exception:
        """The error for a form of this call that has no meaning here."""
        return self.body.refuse(f"{spelled(self.call.target)} {how}")


Meaning = Callable[[Bound], Value]
_TABLE: dict[str, tuple[list[str], Meaning]] = {}


def meaning(name: str, parameters: str = "") -> Callable[[Meaning], Meaning]:
    """Register what a callable means; ``method x`` is the method ``x`` of any value.

    ``parameters`` are its names in order; a trailing ``?`` marks one that may be left out, ``*`` any number of
    positional ones.
    """

    def register(function: Meaning) -> Meaning:
        _TABLE[name] = (parameters.split(), function)
        return function

    return register


def meanings() -> tuple[str, ...]:
    """The qualified names of all callables that have a meaning."""
    return tuple(sorted(_TABLE))


def call(body: Body, expression: ir.Call, target: str) -> Value:
    """Lower a call."""
    called = expression.target
    if isinstance(called, ir.Device) or (isinstance(called, ir.Named) and expression.callee is not None):
        return call_device(body, expression)
    if isinstance(called, ir.Intrinsic) and called.name not in _TABLE:
        return call_intrinsic(body, expression, called)
    if isinstance(called, ir.Ufunc):
        return call_ufunc(body, expression, called)
    name = _key(called)
    if name not in _TABLE:
        raise body.refuse("a try statement" if ".unsafe.eh." in name else f"calling {spelled(called)}")
    parameters, function = _TABLE[name]
    return function(Bound(body, expression, target, _bind(body, expression, parameters)))


def _key(target: Any) -> str:
    """The name that a meaning is registered under."""
    match target:
        case ir.Method(name):
            return f"method {name}"
        case ir.CastTo():
            return "cast"
        case ir.External():
            return ""
    return str(target.name)


def _bind(body: Body, expression: ir.Call, parameters: list[str]) -> dict[str, str]:
    names = [name.rstrip("?") for name in parameters]
    if names == ["*"] and not expression.keywords:
        return {str(position): variable for position, variable in enumerate(expression.args)}
    found = dict(zip(names, expression.args, strict=False))
    found.update({name: variable for name, variable in expression.keywords if name in names})
    count = len(expression.args) + len(expression.keywords)
    missing = [name for name in parameters if not name.endswith("?") and name not in found]
    if len(found) != count or missing:
        words = [f"{len(expression.args)} positional argument(s)", *(f"{name}=" for name, _ in expression.keywords)]
        raise body.refuse(f"calling {spelled(expression.target)} with {', '.join(words)}")
    return {name: found[name] for name in names if name in found}


def spelled(target: Any) -> str:
    """A call's target as the user wrote it, more or less."""
    match target:
        case ir.Named(name):
            return name.removeprefix("builtins.")
        case ir.Method(name):
            return f"the method {name}"
        case ir.CastTo(kind):
            return str(kind)
        case ir.External(name):
            return f"{name}, which is declared with declare_device and linked in,"
    return str(getattr(target, "name", target))
