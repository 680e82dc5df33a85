"""Runs Numba-CUDA kernels on the CPU and shows what each thread does.

>>> import numpy as np
>>> from numba import cuda
>>> from simulator import simulate
>>> @cuda.jit
... def copy(x, y):
...     i = cuda.grid(1)
...     if i < x.size:
...         y[i] = x[i]
>>> x = np.arange(8, dtype=np.float32)
>>> trace = simulate(copy)[2, 4](x, np.zeros_like(x))
>>> trace.thread(1, block=1).reads("x")
[5]
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator import draw
    from simulator.device.session import device
    from simulator.errors import MeaningError, NotRecorded, OutOfBounds, SimulationError, UnknownName, Unsupported
    from simulator.findings import Finding, Launch, Site
    from simulator.intrinsics import intrinsic
    from simulator.simulate import record, run, simulate
    from simulator.trace import Trace

__all__ = [
    "Finding",
    "Launch",
    "MeaningError",
    "NotRecorded",
    "OutOfBounds",
    "SimulationError",
    "Site",
    "Trace",
    "UnknownName",
    "Unsupported",
    "device",
    "draw",
    "intrinsic",
    "record",
    "run",
    "simulate",
]

_ERRORS = ("MeaningError", "NotRecorded", "OutOfBounds", "SimulationError", "UnknownName", "Unsupported")
_HOMES = {
    "device": "simulator.device.session",
    **dict.fromkeys(_ERRORS, "simulator.errors"),
    **dict.fromkeys(("Finding", "Launch", "Site"), "simulator.findings"),
    "intrinsic": "simulator.intrinsics",
    **dict.fromkeys(("record", "run", "simulate"), "simulator.simulate"),
    "Trace": "simulator.trace",
}
"""Where the public names are.  They come when they are first asked for: pytest imports the package in every run of
everybody who has installed it, for the sake of one option."""


def __getattr__(name: str) -> Any:
    if name == "draw":  # a module
        return importlib.import_module("simulator.draw")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """``simulate`` and ``device`` are functions here, although modules are called so too, and whoever comes first."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):  # as the import system binds a submodule
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
