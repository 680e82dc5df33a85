"""Launches: the GPU route and the simulator route.  The only file that knows the simulator.

Rules of this file: the kernel object is the same on both routes, and so are its arguments, NumPy arrays: of elements
for the simulator, of addresses for a device.
"""

from __future__ import annotations

import sys
import threading
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from numba_norms.arrays.places import Place
from numba_norms.binding import recording
from numba_norms.plan import Form

SIMULATED_ELEMENTS = 1 << 24
"""A simulated launch over more elements than this (a second or more) is announced once, by SimulatedOnCPU."""


class SimulatedOnCPU(UserWarning):
    """A large NumPy array is being normalised on the simulator: right to the bit, but a CPU is no GPU."""


@dataclass(frozen=True)
class Launch:
    """A kernel with all that a launch needs: ``kernel[grid, block](*args)``.

    ``names`` are those of ``args``; ``form`` says how rows are dealt with, where there was a choice.
    """

    kernel: Any
    grid: int
    block: int
    args: tuple[Any, ...]
    names: tuple[str, ...]
    form: Form | None = None

    def argument(self, name: str) -> Any:
        """The argument of this name."""
        return self.args[self.names.index(name)]

    def run(self, place: Place) -> None:
        """Run it where its arrays live, on the caller's stream; without blocks there is nothing to run."""
        if self.grid == 0 or recording.launched(place, self):
            return
        if place.device is None:
            self._simulate()
        else:
            from numba_norms.gpu import device  # only here: the simulator route needs nothing of CUDA

            device.launch(self.kernel, self.grid, self.block, self.args, place.device, place.stream())

    def _simulate(self) -> None:
        import simulator  # only here: the GPU route does not load it

        if self.args[0].size > SIMULATED_ELEMENTS:
            _announce(self.args[0].size)
        shape = simulator.Launch((self.grid, 1, 1), (self.block, 1, 1), 0)
        memory = _stand_in()
        simulator.run(self.kernel, shape, self.args if memory is None else tuple(map(memory.with_flags, self.args)))


def _stand_in() -> Any:
    """The memory of the simulator's stand-in device; None where nobody has opened one."""
    return sys.modules.get("simulator.device.memory")


def simulated(array: Any) -> np.ndarray | None:
    """The memory of an array of the simulator's stand-in device; None for any other that lends CUDA memory.

    TypeError where the device that it is of has been closed.
    """
    memory = _stand_in()
    found: np.ndarray | None = None if memory is None else memory.on_host(array)
    if found is None or sys.modules["simulator.device.session"].is_open():
        return found
    if found.size:
        raise TypeError("an array of the stand-in device outlived it; call inside simulator.device()")
    return None  # what is empty has no address to tell by


def written(array: np.ndarray) -> None:
    """Note that all elements of such memory have been written."""
    memory = _stand_in()
    if memory is not None and hasattr(viewed := memory.with_flags(array), "mark"):
        viewed.mark()


def optional(*arrays: Any) -> tuple[Any, ...]:
    """Arrays as kernels take them: Numba cannot pass None, so one that is not there is an empty tuple.

    >>> optional(None, 1)
    ((), 1)
    """
    return tuple(() if array is None else array for array in arrays)


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
