"""Arrays of other libraries: whatever lends its memory by ``__cuda_array_interface__`` or by DLPack.

Rules of this file: a lent array becomes a CuPy array over the same memory, and results are CuPy arrays.  Of an object
that offers both, the interface is asked: it is read without an export, and it says on which stream its owner works.
Where it names one, the norm runs and allocates there: whoever uses the result on another stream has to wait for it.

An array of the simulator's stand-in device is none of these: its memory is the CPU's, the norm runs on the simulator,
and results are arrays of that device.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple

import numpy as np

from numba_norms.arrays.addresses import Shape
from numba_norms.arrays.dtypes import NAMED
from numba_norms.arrays.places import CuPyPlace, NumPyPlace, Place

CPU, CUDA, CUDA_MANAGED = 1, 2, 13
"""DLPack's numbers of kinds of devices."""


class StandInPlace(NumPyPlace):
    """The simulator's stand-in device: its arrays are numba.cuda's, the memory behind them NumPy sees."""

    name = "stand-in device"
    to_float32 = ".copy_to_host().astype(np.float32)"

    def view(self, native: Any) -> np.ndarray:
        if isinstance(native, np.ndarray):
            return native
        from numba_norms.launch import simulated  # the file that knows the simulator; it needs this package

        found = simulated(native)
        assert found is not None
        return found

    def new(self, shape: Shape, dtype: np.dtype[Any]) -> Any:
        return sys.modules["numba.cuda"].device_array(shape, dtype)

    def copy(self, target: Any, source: Any) -> None:
        super().copy(self.view(target), self.view(source))
        self._written(target)

    def fill(self, target: Any, value: float) -> None:
        super().fill(self.view(target), value)
        self._written(target)

    def cast(self, native: Any, dtype: np.dtype[Any]) -> Any:
        made = self.empty(native.shape, dtype)
        self.copy(made, self.view(native).astype(dtype))
        return made

    def transpose(self, native: Any, order: Any) -> Any:
        if isinstance(native, np.ndarray):
            return native.transpose(*order)
        shape, strides = (tuple(extents[axis] for axis in order) for extents in (native.shape, native.strides))
        module = sys.modules["numba.cuda.cudadrv.devicearray"]
        return module.DeviceNDArray(shape, strides, native.dtype, gpu_data=native.gpu_data)

    def _written(self, target: Any) -> None:
        from numba_norms.launch import written

        written(self.view(target))


STAND_IN = StandInPlace()
"""There is one such place."""


class Lent(NamedTuple):
    """Memory of another library's array: a CuPy array over it, or the array itself if the simulator has made it."""

    array: Any
    place: Place
    writeable: bool


def borrow(lender: Any, name: str) -> Lent | None:
    """The memory of ``lender``, None if it offers none.

    Raises TypeError, naming the argument, if the memory is not on a CUDA device, has a mask or has no clear dtype, and
    where there is no CuPy to make results with; ValueError for an interface that contradicts itself.
    """
    kind, number = map(int, lender.__dlpack_device__()) if hasattr(lender, "__dlpack_device__") else (None, None)
    if kind == CPU:
        raise TypeError(f"{name} is a {type(lender).__name__} on the CPU; pass np.from_dlpack({name})")
    if kind not in (None, CUDA, CUDA_MANAGED):
        raise TypeError(f"{name} is on a device of DLPack's kind {kind}; the norms run on CUDA devices")
    if (interface := getattr(lender, "__cuda_array_interface__", None)) is not None:
        from numba_norms.launch import simulated  # the file that knows the simulator; it needs this package

        if simulated(lender) is not None:
            return Lent(lender, STAND_IN, not interface["data"][1])
        return _by_interface(lender, interface, number if kind == CUDA else None, name)
    if number is not None and hasattr(lender, "__dlpack__"):
        return _by_dlpack(lender, number, name)
    return None


def _cupy(lender: Any, name: str) -> Any:
    try:
        import cupy
    except ImportError:
        raise TypeError(
            f"{name} is a {type(lender).__name__}: the results would be CuPy arrays, and CuPy is not installed; install"
            " numba-norms[cuda13] or [cuda12], or pass torch tensors"
        ) from None
    return cupy


def _by_interface(lender: Any, interface: dict[str, Any], device: int | None, name: str) -> Lent:
    cupy = _cupy(lender, name)
    if interface.get("mask") is not None:
        raise TypeError(f"{name} has a mask, which a norm would ignore")
    address, read_only = interface["data"]
    shape = tuple(interface["shape"])
    dtype = _dtype(lender, interface["typestr"], name)
    stream = interface.get("stream") if interface.get("version", 0) >= 3 else None
    if stream == 0:
        raise ValueError(f"{name}'s __cuda_array_interface__ names stream 0; by the protocol it is 1 or 2")
    if device is None:
        device = _device_of(cupy, address, name)
    size = int(np.prod(shape)) * dtype.itemsize
    memory = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(address or 0, size, lender, device), 0)
    array = cupy.ndarray(shape, dtype, memory, interface.get("strides"))
    return Lent(array, CuPyPlace(device, stream, type(lender).__name__), not read_only)


def _dtype(lender: Any, typestr: str, name: str) -> np.dtype[Any]:
    """The dtype of an interface.  The interface has no word for bfloat16: there the lender's own dtype counts."""
    dtype = np.dtype(typestr)
    if str(getattr(lender, "dtype", "")).rpartition(".")[2] == "bfloat16" and dtype.itemsize == 2:
        return NAMED["bfloat16"]
    if dtype.kind == "V":
        raise TypeError(f"{name}'s __cuda_array_interface__ has typestr {typestr!r}, which does not say what it holds")
    return dtype


def _device_of(cupy: Any, address: int, name: str) -> int:
    """The device that an address belongs to; without elements there is no address, and any device will do."""
    if not address:
        return cupy.cuda.runtime.getDevice()
    device = cupy.cuda.runtime.pointerGetAttributes(address).device
    if device < 0:
        raise TypeError(f"{name}'s __cuda_array_interface__ points at memory that no CUDA device owns")
    return device


def _by_dlpack(lender: Any, device: int, name: str) -> Lent:
    cupy = _cupy(lender, name)
    place = CuPyPlace(device, name=type(lender).__name__)
    stream = place.stream() or 1  # in DLPack's words, 1 is the default stream and 0 is nothing
    with cupy.cuda.Device(device):
        try:
            capsule = lender.__dlpack__(stream=stream, max_version=(1, 0))
        except TypeError:  # from before DLPack had versions
            capsule = lender.__dlpack__(stream=stream)
        writeable = not _read_only(capsule)  # before CuPy takes the capsule over
        return Lent(cupy.from_dlpack(capsule), place, writeable)


_VERSIONED = b"dltensor_versioned"
_FLAGS_AT = 24
"""Where the flags lie in DLPack's DLManagedTensorVersioned: after its version, context and deleter."""


def _read_only(capsule: Any) -> bool:
    """Whether a DLPack capsule forbids writing; capsules from before version 1 do not say."""
    api = ctypes.pythonapi
    if not api.PyCapsule_IsValid(ctypes.py_object(capsule), _VERSIONED):
        return False
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    return bool(ctypes.c_uint64.from_address(pointer(capsule, _VERSIONED) + _FLAGS_AT).value & 1)
