"""Calls of intrinsics: their registered meaning writes the operations (``simulator.intrinsics``).

Rules of this file: what the kernel's author did wrong is ``Unsupported``, what the meaning's author did is
``MeaningError``; both name the line of the call.  The result has the type that the intrinsic's typing function gave,
or is refused.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from simulator.errors import MeaningError, SimulationError
from simulator.frontend import kernel_types as kt
from simulator.frontend import typed_ir as ir
from simulator.frontend.lowering.emission import NUMPY, Array, Code, Number
from simulator.frontend.lowering.values import Known, Tuple, Value
from simulator.intrinsics import GROUP, Meaning, described, meaning_of

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body


def call_intrinsic(body: Body, expression: ir.Call, called: ir.Intrinsic) -> Value:
    """Let the meaning of an intrinsic write what this call does."""
    meaning = meaning_of(called.handle, called.name)
    if meaning is None:
        raise body.refuse(
            f"calling the intrinsic {called.name}, whose meaning it was not told,",
            f'register one with @simulator.intrinsic("{called.name}"), or as an entry point of the group {GROUP}',
        )
    code, pos = Code(body, called.name), body.builder.pos

    def wrong(what: str) -> MeaningError:
        return MeaningError(f"{pos}: the meaning of {called.name}, {described(meaning)}, {what}")

    arguments = _arguments(body, expression, code, meaning, wrong)
    try:
        result = meaning(*arguments.args, **arguments.kwargs)
    except SimulationError:
        raise
    except Exception as error:
        raise wrong(f"failed: {type(error).__name__}: {error}") from error
    if not isinstance(expression.signature.result, kt.ForeignType):  # those are refused with the variable
        try:
            return _result(code, result, expression.signature.result)
        except TypeError as error:
            raise wrong(f"returned {result!r}, but the intrinsic {error}") from None
    return Known(None)


def _arguments(body: Body, expression: ir.Call, code: Code, meaning: Meaning, wrong: Any) -> inspect.BoundArguments:
    """The arguments of the call as the meaning gets them."""
    signature = inspect.signature(meaning)
    names = list(signature.parameters)[1:]
    kinds = expression.signature.args

    def handle(name: str, position: int, variable: str) -> Any:
        kind = kinds[position] if position < len(kinds) else body.type(variable)
        return _argument(body, code, name, body.value(variable), kind)

    positional = [
        handle(names[k] if k < len(names) else f"argument {k}", k, variable)
        for k, variable in enumerate(expression.args)
    ]
    keywords = {
        name: handle(name, names.index(name) if name in names else len(kinds), variable)
        for name, variable in expression.keywords
    }
    try:
        return signature.bind(code, *positional, **keywords)
    except TypeError as error:
        given = ", ".join(["code", *(repr(item) for item in positional), *(f"{name}=" for name in keywords)])
        raise wrong(f"does not take ({given}): {error}") from None


def _argument(body: Body, code: Code, name: str, value: Value, kind: kt.Type) -> Any:
    match value, kind:
        case int() | Known(), kt.Scalar():
            return code._handle(body.coerce(value, kind), name)
        case _, kt.ArrayType():
            return code._handle(value, name)
        case Tuple(items), kt.TupleType(kinds):
            pairs = enumerate(zip(items, kinds, strict=True))
            return tuple(_argument(body, code, f"{name}[{k}]", item, to) for k, (item, to) in pairs)
        case Known(ir.CastTo(kt.Scalar(found))), _:
            return NUMPY[found]
        case Known(str(text)), _:
            return text if kind == kt.StaticType("str") else NUMPY[text]  # else the dtype of an array
        case Known(None), _:
            return None
        case _, kt.Default(default):
            return default
    return code.refuse(f"with {name}, {kind},")


def _result(code: Code, result: Any, kind: kt.Type) -> Value:
    """What the meaning returned, as a value of the type that the signature has; ``TypeError`` if it is none."""
    match result, kind:
        case Array(), kt.ArrayType(kt.Scalar(found), ndim) if result.dtype == NUMPY[found] and result.ndim == ndim:
            return result._value
        case ((Number() | int() | float()), kt.Scalar(found)):
            try:
                return code._number(result, NUMPY[found]) if type(result) is not bool else code._slot_of(result)
            except TypeError:
                pass
        case tuple(items), kt.TupleType(kinds) if len(items) == len(kinds):
            return Tuple(tuple(_result(code, item, to) for item, to in zip(items, kinds, strict=True)))
        case None, kt.Nothing():
            return Known(None)
    raise TypeError(f"gives {kind}")
