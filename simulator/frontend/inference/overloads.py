"""The Python functions behind ``@overload``, ``@overload_method`` and ``@overload_attribute``.

Numba types such a function like a device function, and asks its dispatcher for the compiled code as the key to find it
by; while this front end types, the answer is an ``Implementation``.  Both adapters share this, so it imports neither
numba nor numba-cuda: ``context`` is the typing context of either.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from simulator.frontend.inference.native_types import class_names


@dataclass(frozen=True)
class Implementation:
    """A dispatcher, and the types (Numba's) of the arguments of one call of it."""

    dispatcher: Any
    args: tuple[Any, ...]


NO_CODE = SimpleNamespace(objectmode=True, fndesc=SimpleNamespace(modname="", qualname="", uid=0))
"""Stands for the compiled code of a function that calls itself with arguments of other types."""


def implementation(context: Any, kind: Any, signature: Any) -> Implementation | None:
    """What implements a call of a function or method of this type; None where that is not Python."""
    names = class_names(kind)
    if "BoundFunction" in names:
        overload = getattr(kind.template, "_overload_func", None)
        return None if overload is None else _resolved(context, overload, (kind.this, *signature.args))
    found = kind.get_impl_key(signature) if "Function" in names else None
    return found if isinstance(found, Implementation) else None


def attribute(context: Any, kind: Any, name: str) -> Implementation | None:
    """What implements an attribute of values of this type; None where that is not Python."""
    for template in context._get_attribute_templates(kind):
        if getattr(template, "_attr", None) == name and not template.is_method:
            return _resolved(context, template._overload_func, (kind,))
    return None


def _resolved(context: Any, overload: Any, args: tuple[Any, ...]) -> Implementation | None:
    function = context.resolve_value_type(overload)
    found = function.get_impl_key(function.get_call_type(context, args, {}))
    return found if isinstance(found, Implementation) else None
