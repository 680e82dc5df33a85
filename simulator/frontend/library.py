"""Calls of functions that are lowered from Python (``library_functions``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simulator.frontend.values import Value

if TYPE_CHECKING:
    from simulator.frontend.body import Body


def call_library(body: Body, function: Callable[..., Any], slots: tuple[int, ...]) -> Value:
    """Inline a Python function of the simulator at the current call."""
    codes = tuple(body.builder.dtype(slot) for slot in slots)
    return body.inline(body.builder.front.library(function, codes), list(slots), library=True)
