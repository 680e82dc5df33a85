"""The CUDA driver of the stand-in device: what numba-cuda calls, under the same names, on host memory.

Rules of this file: numba-cuda has one ``Driver`` object and imports it everywhere, so that object takes this class
while the stand-in device is open.  A function has the driver's name, takes and gives what the bindings do, and says
``CudaAPIError`` where the driver would.  What is not here is refused by name.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from numba.cuda import utils
from numba.cuda.cudadrv import driver as numba_driver

from simulator.cost.cards import Card
from simulator.device.attributes import attributes
from simulator.device.memory import BASE, DeviceMemory, NotOurs, OutOfMemory, host_bytes
from simulator.errors import Unsupported

binding = numba_driver.binding
CONTEXT = 1
"""Handle of the one context."""
VERSION = 13000
"""Version of CUDA that the driver says it has."""
RELEASES = ("cuMemFree", "cuMemFreeHost", "cuMemHostUnregister", "cuEventDestroy", "cuStreamDestroy", "cuLibraryUnload")
"""What finalizers call.  What a real card gave before the block was opened goes back to it (``real`` is its driver)."""
HANDLES = range(16, 1 << 20)
"""Handles of streams and events; smaller ones are the default streams, and a real driver's are addresses."""
NO_TIME = "cuda.event_elapsed_time(): a simulated launch takes no time on a card, so that an elapsed time"


class StandInDriver(numba_driver.Driver):
    """numba-cuda's ``Driver``, with memory and streams of its own."""

    def __new__(cls, *_: Any) -> StandInDriver:
        return object.__new__(cls)  # the base class keeps a singleton

    def __init__(self, card: Card, memory: DeviceMemory, real: Any = None) -> None:
        self.devices = utils.UniqueDict()
        self.is_initialized = True
        self.initialization_error = None
        self.pid = os.getpid()
        self.memory = memory
        self.attributes = attributes(card)
        self.handles = iter(itertools.cycle(HANDLES))
        self.contexts = threading.local()
        self.pinned: dict[int, Any] = {}
        self.mapped: dict[int, int] = {}
        self.callbacks = Callbacks()
        self.real = real
        for name in RELEASES:  # bound to this object for good: finalizers call them when the block has ended, too
            setattr(self, name, getattr(self, name))

    def ensure_initialized(self) -> None:
        """It always is."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("cu"):
            raise Unsupported(None, f"the driver function {name} (which numba.cuda calls for this)", "leave it out")
        raise AttributeError(name)

    # -- devices and contexts

    def cuInit(self, flags: int) -> None:
        """Nothing to do."""

    def cuDriverGetVersion(self) -> int:
        return VERSION

    def cuDeviceGetCount(self) -> int:
        return 1

    def cuDeviceGetAttribute(self, code: Any, device: int) -> int:
        name = code.name.removeprefix("CU_DEVICE_ATTRIBUTE_")
        if name not in self.attributes:
            raise Unsupported(None, f"the attribute {name} of a device", "it has no meaning without a card")
        return self.attributes[name]

    def cuDeviceCanAccessPeer(self, device: Any, peer: Any) -> int:
        return 0

    def _stack(self) -> list[Any]:
        if not hasattr(self.contexts, "stack"):
            self.contexts.stack = []
        stack: list[Any] = self.contexts.stack
        return stack

    def cuCtxGetCurrent(self) -> Any:
        stack = self._stack()
        return stack[-1] if stack else binding.CUcontext(0)

    def cuCtxGetDevice(self) -> Any:
        return binding.CUdevice(0)

    def cuCtxPushCurrent(self, context: Any) -> None:
        self._stack().append(context)

    def cuCtxPopCurrent(self) -> Any:
        return self._stack().pop()

    def cuCtxSynchronize(self) -> None:
        self.callbacks.wait()

    def cuDevicePrimaryCtxRelease(self, device: Any) -> None:
        """Nothing to do: its memory goes with the arrays."""

    def cuDevicePrimaryCtxReset(self, device: Any) -> None:
        """Nothing to do."""

    # -- memory

    def cuMemGetInfo(self) -> tuple[int, int]:
        return self.memory.total - self.memory.used, self.memory.total

    def cuMemAlloc(self, size: int) -> Any:
        with driver_errors("cuMemAlloc"):
            return binding.CUdeviceptr(self.memory.allocate(int(size)))

    def cuMemAllocManaged(self, size: int, flags: int) -> Any:
        return self.cuMemAlloc(size)

    def cuMemFree(self, pointer: Any) -> None:
        if int(pointer) < BASE and self.real is not None:
            self.real.cuMemFree(pointer)
            return
        with driver_errors("cuMemFree"):
            self.memory.free(int(pointer))

    def cuMemHostAlloc(self, size: int, flags: int) -> int:
        with driver_errors("cuMemHostAlloc"):
            data = host_bytes(int(size))
        pointer = int(data.__array_interface__["data"][0])
        self.pinned[pointer] = data
        return pointer

    def cuMemFreeHost(self, pointer: int) -> None:
        if pointer not in self.pinned and self.real is not None:
            self.real.cuMemFreeHost(pointer)
            return
        self._unpin("cuMemFreeHost", pointer)

    def cuMemHostRegister(self, pointer: int, size: int, flags: int) -> None:
        if pointer in self.pinned:
            raise _error("cuMemHostRegister", "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED")
        self.pinned[pointer] = (ctypes.c_uint8 * size).from_address(pointer)

    def cuMemHostUnregister(self, pointer: int) -> None:
        if pointer not in self.pinned and self.real is not None:
            self.real.cuMemHostUnregister(pointer)
            return
        self._unpin("cuMemHostUnregister", pointer)

    def _unpin(self, function: str, pointer: int) -> None:
        if self.pinned.pop(pointer, None) is None:
            raise _error(function, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED")
        if (address := self.mapped.pop(pointer, None)) is not None:
            self.memory.free(address)

    def cuMemHostGetDevicePointer(self, pointer: int, flags: int) -> Any:
        if pointer not in self.mapped:
            self.mapped[pointer] = self.memory.lend(pointer, len(self.pinned[pointer]))
        return binding.CUdeviceptr(self.mapped[pointer])

    def cuMemGetAddressRange(self, address: int) -> tuple[Any, int]:
        with driver_errors("cuMemGetAddressRange"):
            block, _ = self.memory.find(int(address), 0)
        return binding.CUdeviceptr(block.address), len(block.data)

    def cuPointerGetAttribute(self, attribute: Any, pointer: Any) -> Any:
        with driver_errors("cuPointerGetAttribute"):
            self.memory.find(int(pointer), 0)
        if attribute != binding.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            raise Unsupported(None, f"the attribute {attribute.name} of a pointer")
        return pointer

    def cuMemcpyHtoD(self, to: Any, pointer: Any, size: int, stream: Any = 0) -> None:
        with driver_errors("cuMemcpyHtoD"):
            self.memory.copy_in(int(to or 0), int(pointer), int(size))

    def cuMemcpyDtoH(self, pointer: Any, address: Any, size: int, stream: Any = 0) -> None:
        with driver_errors("cuMemcpyDtoH"):
            self.memory.copy_out(int(pointer), int(address or 0), int(size))

    def cuMemcpyDtoD(self, to: Any, address: Any, size: int, stream: Any = 0) -> None:
        with driver_errors("cuMemcpyDtoD"):
            self.memory.copy(int(to or 0), int(address or 0), int(size))

    def cuMemsetD8(self, address: Any, byte: int, size: int, stream: Any = 0) -> None:
        with driver_errors("cuMemsetD8"):
            self.memory.fill(int(address or 0), int(byte), int(size))

    cuMemcpyHtoDAsync = cuMemcpyHtoD  # every stream is in order, and done at once
    cuMemcpyDtoHAsync = cuMemcpyDtoH
    cuMemcpyDtoDAsync = cuMemcpyDtoD
    cuMemsetD8Async = cuMemsetD8

    # -- streams and events

    def cuStreamCreate(self, flags: int) -> Any:
        return binding.CUstream(next(self.handles))

    def cuStreamDestroy(self, stream: Any) -> None:
        if int(stream) not in HANDLES and self.real is not None:
            self.real.cuStreamDestroy(stream)

    def cuStreamSynchronize(self, stream: Any) -> None:
        self.callbacks.wait()

    def cuStreamWaitEvent(self, stream: Any, event: Any, flags: int) -> None:
        """Nothing to wait for."""

    def cuEventCreate(self, flags: int) -> Any:
        return binding.CUevent(next(self.handles))

    def cuEventDestroy(self, event: Any) -> None:
        if int(event) not in HANDLES and self.real is not None:
            self.real.cuEventDestroy(event)

    def cuLibraryUnload(self, library: Any) -> None:
        if self.real is not None:  # none is loaded here
            self.real.cuLibraryUnload(library)

    def cuEventRecord(self, event: Any, stream: Any) -> None:
        """Everything before it has happened already."""

    def cuEventQuery(self, event: Any) -> None:
        """It has happened."""

    def cuEventSynchronize(self, event: Any) -> None:
        self.callbacks.wait()

    def cuEventElapsedTime(self, start: Any, end: Any) -> float:
        raise Unsupported(None, NO_TIME, "count requests and sectors instead (simulator.simulate), or time on a GPU")

    # -- profiling: there is nothing to measure

    def cuProfilerStart(self) -> None:
        """Nothing to do."""

    def cuProfilerStop(self) -> None:
        """Nothing to do."""


class Callbacks:
    """Runs callbacks of streams in order on a thread of their own, as the driver does."""

    def __init__(self) -> None:
        self._worker: ThreadPoolExecutor | None = None
        self._pending: list[Future[None]] = []
        self._lock = threading.Lock()

    def add(self, call: Callable[[], None]) -> None:
        """Run it after those that were added before."""
        with self._lock:
            if self._worker is None:
                self._worker = ThreadPoolExecutor(1, thread_name_prefix="stand-in device")
            self._pending = [future for future in self._pending if not future.done()]
            self._pending.append(self._worker.submit(call))

    def wait(self) -> None:
        """Until all have run; a callback that asks does not wait for itself."""
        if threading.current_thread().name.startswith("stand-in device"):
            return
        for future in list(self._pending):
            future.result()

    def close(self) -> None:
        """Run what is left and stop."""
        if self._worker is not None:
            self._worker.shutdown()


class CoreDevice:
    """What numba-cuda's ``Device`` asks of the device of cuda.core."""

    class Context:
        """The one context."""

        handle = CONTEXT
        _handle = CONTEXT

    def __init__(self, card: Card, number: int) -> None:
        self.device_id = number
        self.compute_capability = card.capability
        self.name = card.name
        self.uuid = "00000000-0000-0000-0000-000000000000"
        self.context = self.Context()

    def set_current(self) -> None:
        """There is no other."""


class CoreStream:
    """What numba-cuda asks of a stream of cuda.core."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    @classmethod
    def from_handle(cls, handle: Any) -> CoreStream:
        """The stream with this handle."""
        return cls(int(handle))

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle

    def sync(self) -> None:
        """Everything is done already."""


def add_callback(driver: StandInDriver) -> Callable[..., None]:
    """The method ``Stream.add_callback`` of streams of the stand-in device."""

    def add(self: Any, callback: Callable[..., None], arg: Any = None) -> None:
        """Call ``callback(stream, status, arg)`` once everything before it in the stream is done."""

        def call() -> None:
            try:
                callback(self, 0, arg)
            except Exception as error:  # noqa: BLE001 - as Numba: a callback's error ends no stream
                numba_driver.warnings.warn(f"Exception in stream callback: {error}", stacklevel=1)

        driver.callbacks.add(call)

    return add


@contextmanager
def driver_errors(function: str) -> Iterator[None]:
    """Errors of the memory as the driver's."""
    try:
        yield
    except OutOfMemory as error:
        raise _error(function, "CUDA_ERROR_OUT_OF_MEMORY", str(error)) from None
    except NotOurs as error:
        raise _error(function, "CUDA_ERROR_INVALID_VALUE", str(error)) from None


def _error(function: str, code: str, more: str = "") -> Exception:
    message = f"Call to {function} results in {code}" + (f": {more}" if more else "")
    error: Exception = numba_driver.CudaAPIError(getattr(binding.CUresult, code), message)
    return error
