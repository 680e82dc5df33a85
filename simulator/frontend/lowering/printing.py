"""``print`` in a kernel: what Numba makes of it for CUDA's printf.

The items stand apart by a blank; integers are printed as 64-bit ones, floats with six digits after the point.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from simulator.frontend import typed_ir as ir
from simulator.frontend.lowering.attributes import special_register
from simulator.frontend.lowering.values import Known, Tuple, Value
from simulator.frontend.refusal import DoesNotCompile

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body

MOST = 32
"""Items that one call of CUDA's printf takes."""
_FORMATS = {"i": "%lld", "u": "%llu", "f": "%f", "b": "%s", "bf": "%f"}

Piece = str | int
"""A text, or the slot of a number."""


def print_line(body: Body, statement: ir.Print) -> None:
    """Lower a print statement."""
    items = [_pieces(body, body.value(name), str(body.type(name))) for name in statement.args]
    if statement.rest is not None:
        rest = body.value(statement.rest)
        assert isinstance(rest, Tuple)
        items += [_pieces(body, item, "such an item") for item in rest.items]
    pieces: list[Piece] = []
    for item in items:
        pieces += [" ", *item] if pieces else item
    if len(items) > MOST:
        warnings.warn(
            f"CUDA print() cannot print more than {MOST} items. "
            "The raw format string will be emitted by the kernel instead.",
            stacklevel=2,
        )
        pieces = [piece if isinstance(piece, str) else _format(body, piece) for piece in pieces]
    text = tuple(piece if isinstance(piece, str) else None for piece in (*pieces, "\n"))
    body.builder.do("print", "b1", *(piece for piece in pieces if isinstance(piece, int)), text=text)


def _pieces(body: Body, value: Value, kind: str) -> list[Piece]:
    match value:
        case int():
            return [value]
        case Known(str() as text):
            return [text]
        case Known(ir.Named(name)) if name in _DIM3:
            return _listed(body, tuple(special_register(body, f"{name}.{axis}") for axis in "xyz"))
        case Tuple(items):
            return _listed(body, items)
    raise DoesNotCompile(f"Numba cannot print a value of type {kind}", body.builder.pos)


_DIM3 = frozenset({"cuda.threadIdx", "cuda.blockIdx", "cuda.blockDim", "cuda.gridDim"})


def _listed(body: Body, items: tuple[Value, ...]) -> list[Piece]:
    """A tuple, as Python writes it."""
    found: list[Piece] = ["("]
    for position, item in enumerate(items):
        found += [", "] if position else []
        found += _pieces(body, item, "such an item of a tuple")
    return [*found, ",)" if len(items) == 1 else ")"]


def _format(body: Body, slot: int) -> str:
    code = body.builder.dtype(slot)
    return _FORMATS.get(code, _FORMATS[code[0]])
