"""CuPy without a driver: real CuPy arrays over the CPU's memory, and launches that the simulator runs.

Rules of this file: CuPy's arrays are CuPy's own, with their shapes, strides, views, dtypes and pointers; memory comes
through CuPy's hook for allocators.  Replaced is what asks the driver, and nothing else: which device and stream are
current, whose a pointer is, and copying, which would launch a kernel of CuPy's.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import math
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import numba_norms
import simulator
from numba_norms.arrays import Array
from numba_norms.arrays.addresses import address_of, device_layout
from numba_norms.gpu import device


def memory_of(array: Any) -> np.ndarray:
    """The elements of an array that calls itself a device's, though it lies in the CPU's memory."""
    return Array.of(array).memory.view(np.ndarray)


class Launches(list[tuple[int, int]]):
    """(device, stream) of every launch so far."""


def simulate_launches(patch: pytest.MonkeyPatch) -> Launches:
    """From now on kernels that were loaded onto a device run on the simulator, over the addresses that they get."""
    launches = Launches()
    patch.setattr(device, "load", lambda kernel, args, ordinal: Loaded(kernel, args, ordinal, launches))
    for operation in (getattr(function, "operation", None) for function in vars(numba_norms).values()):
        if operation is not None:  # bindings of other tests hold kernels of theirs
            patch.setattr(operation, "_bindings", {})
    return launches


class Loaded:
    """What stands in for a kernel on a device: takes the driver's block of parameters apart again."""

    def __init__(self, kernel: Any, args: tuple[Any, ...], device: int, launches: Launches) -> None:
        self.kernel, self.device, self.launches = kernel, device, launches
        self.kinds = [(a.dtype, a.ndim) if isinstance(a, np.ndarray) else a for a in args]

    def start(self, grid: int, block: int, stream: int, parameters: int) -> None:
        self.launches.append((self.device, stream))
        simulator.run(self.kernel, simulator.Launch((grid, 1, 1), (block, 1, 1), 0), tuple(self._arguments(parameters)))

    def _arguments(self, parameters: int) -> Iterator[Any]:
        count = itertools.count()

        def word() -> int:
            """The next parameter: the block holds an address for each."""
            (at,) = struct.unpack("Q", ctypes.string_at(parameters + 8 * next(count), 8))
            (value,) = struct.unpack("q", ctypes.string_at(at, 8))
            return value

        for kind in self.kinds:
            match kind:
                case ():
                    yield ()
                case (dtype, int(ndim)):
                    _, _, size, itemsize, address, *rest = (word() for _ in range(5 + 2 * ndim))
                    shape, strides = tuple(rest[:ndim]), tuple(rest[ndim:])
                    assert (size, itemsize) == (math.prod(shape), dtype.itemsize)
                    yield device_layout(address, shape, dtype, strides, None).view(np.ndarray)
                case np.generic():
                    yield np.frombuffer(struct.pack("q", word()), kind.dtype, 1)[0]
                case _:
                    yield type(kind)(word())


class HostCuPy:
    """CuPy, two devices of it, in the CPU's memory."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.cupy = pytest.importorskip("cupy")
        self.device = 0
        self.streams = {0: [0], 1: [0]}
        """The current stream of each device, last the innermost"""
        self.allocated: list[tuple[int, int]] = []
        """(device, stream) that was current at every allocation"""
        self.host = np.empty(0)
        cuda = self.cupy.cuda
        patch.setattr(cuda, "Device", self._with_device)
        patch.setattr(cuda, "get_current_stream", lambda d: SimpleNamespace(ptr=self.streams[d][-1]))
        patch.setattr(cuda, "Stream", SimpleNamespace(from_external=self._with_stream))
        patch.setattr(cuda.runtime, "getDevice", lambda: self.device)
        patch.setattr(cuda.runtime, "pointerGetAttributes", lambda pointer: SimpleNamespace(device=self.owner))
        patch.setattr(self.cupy, "copyto", self._copy)
        self.owner = 0
        """The device that owns every pointer; -2 for none"""

    @contextlib.contextmanager
    def allocator(self) -> Iterator[None]:
        """New CuPy arrays lie in the CPU's memory, as if on the current device."""
        self.cupy.cuda.set_allocator(self._allocate)
        yield
        self.cupy.cuda.set_allocator(self.cupy.get_default_memory_pool().malloc)

    def array(self, host: np.ndarray, device: int = 0) -> Any:
        """A CuPy array over the very elements of ``host``, strides and all."""
        memory = self.cupy.cuda.UnownedMemory(address_of(host), host.nbytes, host, device)
        pointer = self.cupy.cuda.MemoryPointer(memory, 0)
        return self.cupy.ndarray(host.shape, host.dtype, pointer, host.strides)

    @contextlib.contextmanager
    def current(self, stream: int, device: int = 0) -> Iterator[None]:
        """A stream of a device is CuPy's current one."""
        self.streams[device].append(stream)
        yield
        self.streams[device].pop()

    def _with_stream(self, lender: Any) -> Any:
        version, handle = lender.__cuda_stream__()
        assert version == 0
        return self.current(handle, self.device)

    @contextlib.contextmanager
    def _with_device(self, device: int) -> Iterator[None]:
        before, self.device = self.device, device
        yield
        self.device = before

    def _allocate(self, size: int) -> Any:
        cuda = self.cupy.cuda
        self.allocated.append((self.device, self.streams[self.device][-1]))
        room = np.full(max(size, 1), 0xAB, np.uint8)  # what is not written shows
        return cuda.MemoryPointer(cuda.UnownedMemory(address_of(room), size, room, self.device), 0)

    @staticmethod
    def _copy(target: Any, source: Any) -> None:
        np.copyto(memory_of(target), source if isinstance(source, float) else memory_of(source))
