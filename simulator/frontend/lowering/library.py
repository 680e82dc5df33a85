"""Calls of functions that are lowered from Python (``library_functions``, ``complex_functions``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from simulator.frontend.lowering.values import Complex, Value

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body


def call_library(body: Body, function: Callable[..., Any], values: Sequence[int | Complex]) -> Value:
    """Inline a Python function of the simulator at the current call."""
    codes = tuple(_code(body, value) for value in values)
    return body.inline(body.builder.library(function, codes), list(values), library=True)


def _code(body: Body, value: int | Complex) -> str:
    """What NumPy calls the dtype of a value: of a complex number, twice its parts."""
    if isinstance(value, Complex):
        return f"c{2 * int(body.builder.dtype(value.real)[1])}"
    return body.builder.dtype(value)
