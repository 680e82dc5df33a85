"""Puts the stand-in device under numba.cuda, and takes it away again.

Rules of this file: everything that is replaced is in ``standing_in`` and goes back when the block ends, however it
ends.  What is replaced lies below the public names, so that a name imported before is served too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from types import FunctionType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numba.cuda import dispatcher
from numba.cuda.cudadrv import devicearray, devices, nvvm
from numba.cuda.cudadrv import driver as numba_driver
from numba.cuda.cudadrv.error import NvvmSupportError

from simulator.device.numba_driver import CoreDevice, CoreStream, StandInDriver, add_callback
from simulator.device.numba_kernel import NumbaKernel, StandInDeviceFunction, StandInKernel
from simulator.device.numba_runtime import runtime
from simulator.device.session import Device
from simulator.errors import Unsupported
from simulator.frontend import forget

FINALIZERS = ("_alloc_finalizer", "_hostalloc_finalizer", "_pin_finalizer", "_event_finalizer", "_stream_finalizer")
"""Functions of numba-cuda's driver module that make finalizers."""


@contextmanager
def standing_in(made: Device) -> Iterator[None]:
    """Let numba.cuda's host side use ``made`` until the block ends."""
    driver, frees = StandInDriver(made.card, made.memory, _real_driver()), Frees()
    with ExitStack() as undo:
        undo.callback(frees.close)  # last: what goes back below may be all that kept an array alive
        undo.callback(driver.callbacks.close)
        for owner, names in _replacements(made, driver, frees):
            for name, value in names.items():
                undo.callback(setattr, owner, name, getattr(owner, name))
                setattr(owner, name, value)
        undo.enter_context(_as_driver(driver))
        undo.enter_context(_fresh_caches())
        undo.enter_context(_kernels(made))
        yield


def _replacements(made: Device, driver: StandInDriver, frees: Frees) -> list[tuple[Any, dict[str, Any]]]:
    """What is replaced, by owner and name."""
    if not hasattr(numba_driver, "_logger"):  # Numba makes it when it initialises the driver; finalizers want it
        numba_driver._logger = numba_driver.make_logger()
    return [
        (numba_driver, {"ExperimentalDevice": partial(CoreDevice, made.card), "ExperimentalStream": CoreStream}),
        (numba_driver, {"load_module_image": _refuse_module}),
        runtime(made),
        (numba_driver, {name: _bound(getattr(numba_driver, name), driver) for name in FINALIZERS}),
        (numba_driver, {"_PendingDeallocs": frees.queue}),
        (numba_driver.Stream, {"add_callback": add_callback(driver)}),
        (numba_driver.ManagedMemory, {"__init__": _managed(numba_driver.ManagedMemory.__init__, made)}),
        (numba_driver._ActiveContext, {"_tls_cache": threading.local()}),
        (devices._runtime, {"_tls": threading.local()}),
        (nvvm, {"is_available": lambda: True}),
        (devicearray, {"_to_strided_memory_view": _to_device, "_make_strided_memory_view": _on_host}),
        (devicearray, {"_assign_kernel": partial(_Assignment, made)}),
        (dispatcher.CUDACache, {"load_overload": lambda *_: None, "save_overload": _keep_nothing}),
    ]


def _real_driver() -> Any:
    """Numba's own driver under another object, None where there is none or nobody has used it."""
    real = numba_driver.driver
    if not real.is_initialized or real.initialization_error is not None:
        return None
    other = object.__new__(numba_driver.Driver)
    other.__dict__ = real.__dict__
    return other


@contextmanager
def _as_driver(driver: StandInDriver) -> Iterator[None]:
    """Numba's one driver object becomes this one."""
    real = numba_driver.driver
    kind, state = real.__class__, real.__dict__
    real.__class__, real.__dict__ = StandInDriver, driver.__dict__
    try:
        yield
    finally:
        real.__class__, real.__dict__ = kind, state


@contextmanager
def _fresh_caches() -> Iterator[None]:
    """Numba keeps lists of devices and configured launches for ever: each side starts with none."""

    def clear() -> None:
        devices._DeviceList.lst.fget.cache_clear()
        dispatcher.CUDADispatcher.configure.cache_clear()

    clear()
    try:
        yield
    finally:
        clear()


def _bound(make: FunctionType, driver: StandInDriver) -> FunctionType:
    """The same function, for memory of this driver: arrays outlive the block and are freed where they came from."""
    return FunctionType(make.__code__, {**make.__globals__, "driver": driver}, make.__name__, make.__defaults__)


class Frees:
    """What dead arrays give back: Numba queues it while the block is open, as on a GPU; after it nothing waits."""

    def __init__(self) -> None:
        self.closed = False
        self._queues: list[_Queue] = []

    def queue(self, *capacity: int) -> _Queue:
        """A queue as Numba makes one for a context."""
        self._queues.append(_Queue(self, *capacity))
        return self._queues[-1]

    def close(self) -> None:
        """Free what is queued, and from now on at once."""
        self.closed = True
        for queue in self._queues:
            queue.drain()


class _Queue(numba_driver._PendingDeallocs):
    def __init__(self, frees: Frees, *capacity: int) -> None:
        super().__init__(*capacity)
        self._frees = frees

    def add_item(self, dtor: Callable[[Any], None], handle: Any, *size: int) -> None:
        if self._frees.closed:  # nobody would empty the queue of a context that is gone
            dtor(handle)
        else:
            super().add_item(dtor, handle, *size)

    def drain(self) -> None:
        while self._cons:
            dtor, handle, _ = self._cons.popleft()
            dtor(handle)


def _managed(initialize: Callable[..., None], made: Device) -> Callable[..., None]:
    """Managed memory has one pointer for host and device; here the host needs its own."""

    def __init__(self: Any, context: Any, pointer: Any, size: int, *args: Any, **named: Any) -> None:
        initialize(self, context, pointer, size, *args, **named)
        block, offset = made.memory.find(int(pointer), size)
        self._bufptr_ = block.host + offset
        if block.written is not None:
            block.written[:] = True  # the host may write unseen

    return __init__


def _keep_nothing(cache: Any, signature: Any, kernel: StandInKernel) -> None:
    """Nothing of a simulation goes to Numba's cache on disk; what could not go there is refused all the same."""
    kernel.check_cachable()


def _refuse_module(*_: Any) -> Any:
    raise Unsupported(None, "loading compiled code (PTX, cubin or linked sources) onto a device", "launch a kernel")


# -- host arrays -------------------------------------------------------------------------------------------------------


class _HostCopy(devicearray._StridedMemoryViewShim):
    """A host array's copy on the device; it lives as long as somebody may write it back."""

    __slots__ = ("owner",)

    def __init__(self, array: Any) -> None:
        lent = array._strided_memory_view_shim
        super().__init__(ptr=lent.ptr, shape=lent.shape, dtype=lent.dtype, size=lent.size, _layout=lent._layout)
        self.owner = array


def _to_device(obj: Any, stream: Any = 0, copy: bool = True, user_explicit: bool = False) -> tuple[_HostCopy, bool]:
    """An argument of a launch on the device, and whether it was copied there."""
    foreign = hasattr(obj, "__dlpack__") and not hasattr(obj, "__array_interface__")
    if foreign and not hasattr(obj, "__cuda_array_interface__"):
        kind = f"{type(obj).__module__}.{type(obj).__qualname__}"
        raise Unsupported(None, f"an argument of type {kind}, lent by DLPack,", "pass a NumPy array or a device array")
    array, copied = devicearray.auto_device(obj, stream=stream, copy=copy, user_explicit=user_explicit)
    return _HostCopy(array), copied


def _on_host(obj: Any, stream_ptr: Any = 0) -> Any:
    """A host array as the one who writes it back wants it."""
    readonly = isinstance(obj, np.ndarray)  # Numba writes through the pointer all the same
    return SimpleNamespace(ptr=numba_driver.host_pointer(obj, readonly=readonly))


class _Assignment:
    """``array[key] = value`` on the host: Numba would launch a kernel of its own for it."""

    def __init__(self, made: Device, ndim: int) -> None:
        self._made = made

    def forall(self, *_: Any, **__: Any) -> Callable[[Any, Any], None]:
        """The assignment; its size is that of the arrays."""
        return self._assign

    def _assign(self, to: Any, value: Any) -> None:
        memory = self._made.memory
        target, source = (
            memory.view(array.device_ctypes_pointer.value or 0, array.shape, array.strides, array.dtype)
            for array in (to, value)
        )
        try:
            target.array[...] = source.array
        except (TypeError, ValueError) as error:
            raise TypeError(f"{source.array.dtype} cannot be assigned to an array of {target.array.dtype}") from error
        target.mark()


# -- kernels -----------------------------------------------------------------------------------------------------------


@contextmanager
def _kernels(made: Device) -> Iterator[None]:
    """Compiled kernels are stand-ins; dispatchers that were there before get their own kernels back."""
    owner = dispatcher.CUDADispatcher
    methods = {name: getattr(owner, name) for name in ("call", "compile", "specialize", "recompile")}
    before: WeakKeyDictionary[Any, tuple[dict[Any, Any], dict[Any, Any]]] = WeakKeyDictionary()
    adopting = threading.RLock()

    def adopted(method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(self: Any, *args: Any, **named: Any) -> Any:
            with adopting:
                if self not in before:
                    before[self] = _adopt(made, self)
            if method.__name__ == "recompile":
                forget(self)
            return method(self, *args, **named)

        return wrapper

    dispatcher._Kernel = partial(StandInKernel, made)
    for name, method in methods.items():
        setattr(owner, name, adopted(method))
    methods["compile_device"] = owner.compile_device
    owner.compile_device = _device_function(owner.compile_device)
    try:
        yield
    finally:
        dispatcher._Kernel = NumbaKernel
        for name, method in methods.items():
            setattr(owner, name, method)
        for found, kept in list(before.items()):
            _release(found, *kept)


def _device_function(compile_device: Callable[..., Any]) -> Callable[..., Any]:
    """``compile_device``; where there is no compiler it infers types, which is enough to run kernels."""

    def wrapper(self: Any, args: Any, return_type: Any = None) -> Any:
        if _has_compiler():
            return compile_device(self, args, return_type)
        if args not in self.overloads:
            self.overloads[args] = StandInDeviceFunction(self, args, return_type)
        return self.overloads[args]

    return wrapper


@cache
def _has_compiler() -> bool:
    """Is there an NVVM?  Numba's own question is answered with yes in the block, and fails where there is none."""
    try:
        nvvm.NVVM()
    except (NvvmSupportError, RuntimeError):
        return False
    return True


def _adopt(made: Device, found: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Give a dispatcher stand-ins for the kernels that it has; what it had."""
    kept = dict(found.overloads), found.specializations
    _fill(found, {types: _stand_in(made, found, types, kernel) for types, kernel in found.overloads.items()})
    found.specializations = {}
    return kept


def _stand_in(made: Device, found: Any, types: Any, kernel: Any) -> Any:
    if isinstance(kernel, _KERNELS):
        return StandInKernel(made, found.py_func, types, **found.targetoptions)
    return kernel  # a device function


def _release(found: Any, overloads: dict[Any, Any], specializations: dict[Any, Any]) -> None:
    """Give it back what it had; one that was decorated with signatures inside the block keeps its stand-ins."""
    found.specializations = specializations
    if found._can_compile or overloads:
        _fill(found, overloads)


_KERNELS = (NumbaKernel, StandInKernel)


def _fill(found: Any, overloads: dict[Any, Any]) -> None:
    """Let a dispatcher have these overloads and no others."""
    if overloads or found.overloads:
        found._reset_overloads()
        for types, kernel in overloads.items():
            if isinstance(kernel, _KERNELS):
                found.add_overload(kernel, types)
            else:
                found.overloads[types] = kernel
