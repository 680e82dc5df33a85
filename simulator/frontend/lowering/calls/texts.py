"""Functions of texts.  A kernel has no memory for new ones: Numba refuses those that make a text."""

from __future__ import annotations

from simulator.frontend.lowering.calls.table import Bound, meaning, spelled
from simulator.frontend.lowering.texts import text_of
from simulator.frontend.lowering.values import Value
from simulator.frontend.refusal import DoesNotCompile


@meaning("builtins.ord", "c")
def _ord(bound: Bound) -> Value:
    """Of a character of the source; Numba raises TypeError for any other text."""
    text = text_of(bound.body.value(bound.arguments["c"]))
    if not isinstance(text, str):
        raise bound.refuse(f"of {bound.type('c')}")
    if len(text) != 1:
        true = bound.builder.const("b1", True)
        bound.body.trap_if(true, TypeError, "ord() expected a character")
    return bound.builder.const(bound.result, ord(text[:1] or "\0"))


def _makes_text(bound: Bound) -> Value:
    raise DoesNotCompile(f"Numba has no {spelled(bound.call.target)} in a kernel: it makes a text", bound.builder.pos)


for _name in ("chr", "repr", "str"):
    meaning(f"builtins.{_name}", "*")(_makes_text)
