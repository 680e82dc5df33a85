"""How the tests of the machine run a kernel: straight on the machine, without trace, in every way there is."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from simulator.frontend import lower_kernel
from simulator.machine import Fault, launch

WAVES: dict[str, Any] = {}
VECTORS: dict[str, Any] = {"values": "vector"}
FIRST: dict[str, Any] = {"schedule": "splits", "order": "first"}
LAST: dict[str, Any] = {"schedule": "splits", "order": "last"}
RANDOM: list[dict[str, Any]] = [{"schedule": "splits", "order": "random", "seed": seed} for seed in range(2)]
WAYS = [WAVES, VECTORS, FIRST, LAST, *RANDOM]
IDS = ["waves", "vectors", "first", "last", "random-0", "random-1"]

every_way = pytest.mark.parametrize("way", WAYS, ids=IDS)


def shape(extent: int | tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*(extent if isinstance(extent, tuple) else (extent,)), 1, 1)[:3]
    return x, y, z


def run(kernel: Any, grid: Any, block: Any, *args: Any, **way: Any) -> None:
    """Lower and launch; arrays are updated in place."""
    launch(lower_kernel(kernel, args), shape(grid), shape(block), args, **way)


def fault_of(kernel: Any, grid: Any, block: Any, *args: Any, **way: Any) -> Fault:
    """The fault that must end the launch."""
    with pytest.raises(Fault) as caught:
        run(kernel, grid, block, *args, **way)
    return caught.value


def line_of(kernel: Any, text: str, nth: int = 0) -> int:
    """The number of the nth source line of a kernel that holds a text."""
    code = getattr(kernel, "py_func", kernel).__code__
    with open(code.co_filename, encoding="utf-8") as file:
        lines = file.read().splitlines()
    found = [k + 1 for k in range(code.co_firstlineno - 1, len(lines)) if text in lines[k]]
    return found[nth]


def lines_of(fault: Fault) -> set[int]:
    """The lines that a fault names: where it happened, and where the others are."""
    return {place.pos.line for place in fault.places} | {pos.line for pos, *_ in fault.facts.get("elsewhere", ())}


def zeros(count: Any, dtype: str = "i8") -> np.ndarray:
    return np.zeros(count, dtype)


def lose_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the schedulers tire of a spinning split at once: the same decisions, made a hundred times sooner."""
    for name, patience in (("waves", 200), ("order", 50)):
        monkeypatch.setattr(importlib.import_module(f"simulator.machine.{name}"), "PATIENCE", patience)
