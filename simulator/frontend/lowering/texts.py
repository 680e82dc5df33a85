"""Texts: those of the source, which are known when the program is made, and NumPy's of fixed length.

A text of the source never lies in memory, but for bytes that are indexed.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from simulator.frontend import kernel_types as kt
from simulator.frontend.lowering.memory import declare
from simulator.frontend.lowering.values import Array, Complex, Known, Tuple, Value

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body

_ORDERS = frozenset({"lt", "le", "gt", "ge"})


def text_of(value: Value) -> str | bytes | None:
    """The text of the source (or dtype of an array) that a value is; None for anything else."""
    return value.value if isinstance(value, Known) and isinstance(value.value, str | bytes) else None


def on_texts(body: Body, fn: str, left: Value, right: Value) -> int | None:
    """``left fn right`` where a text of the source decides it, now; else None."""
    a, b = text_of(left), text_of(right)
    if a is None and b is None:
        return None
    if fn in ("eq", "ne") and (b is None or a is None) and isinstance(left if a is None else right, int | Complex):
        return body.builder.const("b1", fn == "ne")
    if a is None or b is None:
        return None
    if fn in ("eq", "ne"):
        return body.builder.const("b1", (a == b) == (fn == "eq"))
    if type(a) is type(b) and (fn in _ORDERS or (fn == "contains" and isinstance(a, str))):
        return body.builder.const("b1", getattr(operator, fn)(a, b))
    return None


def padded(body: Body, values: tuple[Value, Value], kinds: tuple[kt.Type, kt.Type]) -> tuple[Value, Value]:
    """Two texts, of which one is of fixed length, as characters of one number: zeros at the end do not count."""
    fixed = [kind for kind in kinds if isinstance(kind, kt.TextType)]
    known = [text for text in map(text_of, values) if text is not None]
    alike = all(isinstance(text, bytes) == (fixed[0].code == "u1") for text in known) if fixed else False
    if not alike or len(fixed) + len(known) != 2 or len({kind.code for kind in fixed}) != 1:
        return values
    to = kt.TextType(fixed[0].code, max([kind.count for kind in fixed] + [len(text) for text in known]))
    return body.coerce(values[0], to), body.coerce(values[1], to)


def length(body: Body, text: Tuple) -> int:
    """How many characters a text of fixed length has: zeros at the end do not count."""
    builder = body.builder
    found = builder.const("i8", 0)
    for count, character in enumerate(text.items, 1):
        assert isinstance(character, int)
        code = builder.dtype(character)
        there = builder.op("cmp", code, character, builder.const(code, 0), result="b1", how="ne", unordered=False)
        found = builder.op("select", "i8", there, builder.const("i8", count), found)
    return found


def bytes_array(body: Body, data: bytes) -> Array:
    """Bytes of the source as constant memory, of which a kernel reads single ones."""
    return declare(body, "bytes", ("bytes", data), "const", kt.Scalar("u1"), (len(data),), data=data)
