"""The GPU route: compiled kernels, loaded once per device and launched by pointer.

Rules of this file:

* Nothing waits for a device, allocates on it, or copies.
* A kernel is loaded as a whole before its first launch (the driver would otherwise load it at the launch, which a graph
  that is being captured does not allow).  After that a launch is one call of the driver, on a default stream two.
* A kernel is a ``CUkernel``, which belongs to no context: a launch goes to the context of its stream.  The default
  streams belong to whatever context is current; if that is not one of the array's device, the device's own (its
  primary context, the one that CuPy and torch use) is made current for the launch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from numba_norms.gpu import compiled
from numba_norms.gpu.compiled import Compiled
from numba_norms.gpu.parameters import Block, flat

try:
    from cuda.bindings import driver
except ImportError:  # Numba without numba-cuda, on macOS: there is no device
    driver = None

_LEGACY, _PER_THREAD = 1, 2
"""The driver's handles for the two default streams; every other one is the address of a stream."""

MAX_GRID = 2**31 - 1
"""Blocks along x; the norms use no other axis."""


class CUDAError(RuntimeError):
    """A call of the CUDA driver failed."""


class Loaded:
    """A kernel on a device, ready to be launched."""

    def __init__(self, code: Compiled, device: int) -> None:
        self.code, self.device = code, device
        with _current(device):
            self._library = _call("cuLibraryLoadData", code.cubin, [], [], 0, [], [], 0)  # kept loaded by this handle
            kernel = _call("cuLibraryGetKernel", self._library, code.entry.encode())
            _load_as_a_whole(_call("cuKernelGetFunction", kernel))
        self._handle, self._ordinal = driver.CUfunction(int(kernel)), int(_device(device))

    def start(self, grid: int, block: int, stream: int, parameters: int) -> None:
        """Enqueue the kernel on ``[grid, block]``; ``parameters`` is the address of a ``Block``, free at return.

        Stream 0 is the legacy default stream, whatever the bindings of the driver take it for.
        """
        if stream > _PER_THREAD or _current_device() == self._ordinal:
            self._enqueue(grid, block, stream or _LEGACY, parameters)
        else:
            with _current(self.device):
                self._enqueue(grid, block, stream or _LEGACY, parameters)

    def _enqueue(self, grid: int, block: int, stream: int, parameters: int) -> None:
        (status,) = driver.cuLaunchKernel(self._handle, grid, 1, 1, block, 1, 1, 0, stream, parameters, 0)
        if status:
            raise _error("cuLaunchKernel", status)


def _load_as_a_whole(function: Any) -> None:
    try:
        _call("cuFuncLoad", function)
    except CUDAError:
        raise
    except RuntimeError:  # a driver from before CUDA 12.4 lacks it; there, asking for an attribute loads the function
        _call("cuFuncGetAttribute", driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS, function)


_loaded: dict[Any, Loaded] = {}
_lock = threading.Lock()


def launch(kernel: Any, grid: int, block: int, args: tuple[Any, ...], device: int, stream: int) -> None:
    """Launch a ``cuda.jit`` kernel for arrays on ``device``, given as arrays of addresses, on a stream of it."""
    check_shape(grid, block)
    parameters = Block(flat(args))
    load(kernel, args, device).start(grid, block, stream, parameters.address)


def check_shape(grid: int, block: int) -> None:
    """ValueError for a launch that no device takes."""
    if not (1 <= grid <= MAX_GRID and 1 <= block <= 1024):
        raise ValueError(f"a launch of {grid} blocks of {block} threads: a device takes {MAX_GRID} of 1024 at most")


def load(kernel: Any, args: tuple[Any, ...], device: int) -> Loaded:
    """The kernel for arguments of these types, compiled for and loaded onto a device, each at most once."""
    key = kernel, device, *map(_kind, args)
    found = _loaded.get(key)
    if found is None:
        with _lock:
            found = _loaded.get(key)
            if found is None:
                types = tuple(map(compiled.type_of, args))
                found = _loaded[key] = Loaded(compiled.kernel(kernel, types, capability(device)), device)
    return found


def _kind(argument: Any) -> Any:
    """What an argument's Numba type follows from, without asking Numba."""
    if isinstance(argument, np.ndarray):
        return argument.dtype, argument.ndim, argument.flags.c_contiguous
    return type(argument)


@cache
def capability(device: int) -> tuple[int, int]:
    """The compute capability of a device."""
    names = driver.CUdevice_attribute
    major, minor = (
        names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
    )
    handle = _device(device)
    return _call("cuDeviceGetAttribute", major, handle), _call("cuDeviceGetAttribute", minor, handle)


# -- the driver ------------------------------------------------------------------------------------------------------


@cache
def _device(ordinal: int) -> Any:
    _call("cuInit", 0)
    return _call("cuDeviceGet", ordinal)


@cache
def _context(ordinal: int) -> Any:
    """The primary context of a device, kept for the life of the process."""
    return _call("cuDevicePrimaryCtxRetain", _device(ordinal))


@contextmanager
def _current(ordinal: int) -> Iterator[None]:
    """Make the primary context of a device current in this thread for a while."""
    _call("cuCtxPushCurrent", _context(ordinal))
    try:
        yield
    finally:
        _call("cuCtxPopCurrent")


def _current_device() -> int | None:
    """The device of this thread's current context; None without one."""
    status, device = driver.cuCtxGetDevice()
    return None if status else int(device)


def _call(name: str, *arguments: Any) -> Any:
    """Call a function of the driver and return its result.  CUDAError where it fails."""
    status, *results = getattr(driver, name)(*arguments)
    if status:
        raise _error(name, status)
    return results[0] if results else None


def _error(name: str, status: Any) -> CUDAError:
    _, text = driver.cuGetErrorString(status)
    return CUDAError(f"{name}: {status.name} ({text.decode() if text else 'unknown'})")
