"""Launches: the GPU route and the simulator route.  The only file that knows the simulator.

Rules of this file: nothing here synchronises, and nothing is copied between host and device.  A CuPy launch goes to
CuPy's current stream, so it is ordered with the caller's work; the kernel object is the same on both routes.
"""

from __future__ import annotations

import sys
import threading
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

from numba import cuda

from numba_norms.arrays import host_of

SIMULATED_ELEMENTS = 1 << 24
"""A simulated launch over more elements than this (a second or more) is announced once, by SimulatedOnCPU."""


class SimulatedOnCPU(UserWarning):
    """A large NumPy array is being normalised on the simulator: right to the bit, but a CPU is no GPU."""


@dataclass(frozen=True)
class Launch:
    """A kernel with all that a launch needs: ``kernel[grid, block](*args)``.  ``names`` are those of ``args``."""

    kernel: Any
    grid: int
    block: int
    args: tuple[Any, ...]
    names: tuple[str, ...]

    def argument(self, name: str) -> Any:
        """The argument of this name."""
        return self.args[self.names.index(name)]

    def run(self) -> None:
        """Run it where its first argument lives; without blocks there is nothing to run."""
        if self.grid == 0:
            return
        if host_of(self.args[0]) == "NumPy":
            self._simulate()
        else:
            self._run_on_gpu()

    def _simulate(self) -> None:
        import simulator  # only here: the GPU route does not load it

        if self.args[0].size > SIMULATED_ELEMENTS:
            _announce(self.args[0].size)
        shape = simulator.Launch((self.grid, 1, 1), (self.block, 1, 1), 0)
        simulator.run(self.kernel, shape, self.args)

    def _run_on_gpu(self) -> None:
        import cupy

        with self.args[0].device:
            stream = _stream(self.args[0].device.id, cupy.cuda.get_current_stream().ptr)
            with warnings.catch_warnings():  # few rows are a legitimate launch
                warnings.filterwarnings("ignore", message="Grid size .* under-utilization")
                configured = self.kernel[self.grid, self.block, stream]
            configured(*self.args)


@cache
def _stream(device: int, pointer: int) -> Any:
    """Numba's object for a stream of CuPy, one per pointer: Numba caches launch configurations by object."""
    return cuda.external_stream(pointer)


_announced = threading.Event()


def _announce(elements: int) -> None:
    """Warn once per process, at the line outside this package."""
    if _announced.is_set():
        return
    _announced.set()
    warnings.warn(
        f"{elements} elements of a NumPy array are normalised on the simulator, which is slow at this size;"
        " pass a CuPy array to use the GPU (said once)",
        SimulatedOnCPU,
        stacklevel=_level_outside(),
    )


def _level_outside() -> int:
    """The stack level, as seen by the caller, of the first frame outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(__package__ + "."):
        level, frame = level + 1, frame.f_back
    return level
