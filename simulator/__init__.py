"""Runs Numba-CUDA kernels on the CPU and shows what each thread does.

>>> import numpy as np
>>> from numba import cuda
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

from typing import TYPE_CHECKING, Any

from simulator.errors import MeaningError, NotRecorded, OutOfBounds, SimulationError, UnknownName, Unsupported
from simulator.findings import Finding, Launch, Site
from simulator.intrinsics import intrinsic
from simulator.simulate import record, run, simulate
from simulator.trace import Trace

if TYPE_CHECKING:
    from simulator import draw

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
    "draw",
    "intrinsic",
    "record",
    "run",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name == "draw":  # lazily: it imports matplotlib
        import importlib

        return importlib.import_module("simulator.draw")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
