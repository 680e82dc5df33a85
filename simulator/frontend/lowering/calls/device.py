"""Calls of device functions: bound like Python binds, typed by Numba, inlined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.frontend import typed_ir as ir
from simulator.frontend.lowering.values import Known, Tuple, Value

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body


def call_device(body: Body, expression: ir.Call) -> Value:
    """Inline a device function with positional, keyword and default arguments."""
    callee = expression.callee
    assert callee is not None
    given = dict(expression.keywords)
    plain = [name for name in callee.parameters if name != callee.variadic]
    given.update(zip(plain, expression.args, strict=False))
    values: list[Value] = []
    for position, name in enumerate(callee.parameters):
        kind = callee.arguments[position]
        if name == callee.variadic:
            rest = expression.args[len(plain) :]
            values.append(body.coerce(Tuple(tuple(map(body.value, rest))), kind))
        elif name in given:
            values.append(body.coerce(body.value(given[name]), kind))
        else:
            values.append(Known(callee.defaults[name]))  # its type is kt.Default, which carries the value
    result = body.inline(callee, values)
    return body.coerce(result, expression.signature.result)
