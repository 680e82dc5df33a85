"""Calls of functions that stand for a sign: those of the operator module, and ``pow``."""

from __future__ import annotations

import operator

from simulator.frontend import kernel_types as kt
from simulator.frontend import typed_ir as ir

_UNARY = ("neg", "pos", "invert", "not_")
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne", "is_", "is_not")
_ARITHMETIC = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift", "and_", "or_", "xor",
)  # fmt: skip
_BINARY = (*_COMPARISONS, *_ARITHMETIC)

_ALIKE = {
    **{getattr(operator, fn): (1, fn) for fn in _UNARY},
    **{getattr(operator, fn): (2, fn) for fn in _BINARY},
    **{getattr(operator, f"i{fn}".rstrip("_")): (2, fn) for fn in _ARITHMETIC},  # iadd of numbers is add
    operator.getitem: (2, "getitem"),
}
_FUNCTIONS = {name: value for name, value in vars(operator).items() if callable(value)}
_SIGNS = {f"operator.{name}": _ALIKE[value] for name, value in _FUNCTIONS.items() if value in _ALIKE}
_SIGNS["builtins.pow"] = (2, "pow")
"""Qualified name -> number of operands and the name that typed IR has for the sign."""


def sign_of(name: str, args: tuple[str, ...], signature: kt.Signature) -> ir.Expression | None:
    """What a call of this function means; None where that is no sign."""
    count, sign = _SIGNS.get(name, (0, ""))
    if not count or count != len(args):
        return None
    if sign == "getitem":
        return ir.Item(args[0], args[1])
    return ir.Unary(sign, args[0], signature) if count == 1 else ir.Binary(sign, args[0], args[1], signature)
