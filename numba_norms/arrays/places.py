"""Where arrays live, and how one works there: NumPy's memory, CuPy's devices, torch's devices.

Rules of this file: CuPy and torch are never imported for their own sake, they come in with the caller's array.  All
work goes to the caller's current stream; nothing synchronises, and nothing is copied between places.
"""

from __future__ import annotations

import contextlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from numba_norms.arrays.addresses import Shape, address_of, device_layout
from numba_norms.arrays.dtypes import NAMED
from numba_norms.binding import recording

Wanted = tuple[Shape | None, np.dtype[Any], int]
"""An array to be made: shape, dtype and bytes; without a shape, bare memory"""

COPIES = "an array is copied, since no view of it is what the kernels read or write; pass one with other strides"
FILLS = "there is nothing to launch a kernel for: an array is filled with one value"
"""Why a call cannot be repeated by launches alone."""


class Place(ABC):
    """Where an array lives.  ``native`` is an array of the library that lives there, as are all results."""

    name: str
    """What the caller calls arrays of this place"""
    device: int | None = None
    """The ordinal of the CUDA device; None for the CPU"""
    to_float32 = ".astype(np.float32)"
    """How the library converts, in words for a message"""

    @abstractmethod
    def stream(self) -> int:
        """The handle of the stream that the caller's work there goes to, as CUDA's driver takes it."""

    @abstractmethod
    def view(self, native: Any) -> np.ndarray:
        """The memory of an array: itself for NumPy, a ``DeviceLayout`` that nobody can read for everything else.

        TypeError for a dtype without a NumPy name.
        """

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Any:
        """A new C-contiguous array, noted where an operation is recorded."""
        return recording.made(self, self.new(shape, dtype))

    @abstractmethod
    def new(self, shape: Shape, dtype: np.dtype[Any]) -> Any:
        """A new C-contiguous array."""

    def allocate(self, wanted: Iterable[Wanted], arrays: list[Any], addresses: list[int]) -> int:
        """Append what is wanted to the arrays, and its addresses to the addresses.  The bits that some address has."""
        bits = 0
        for shape, dtype, size in wanted:
            array = self.new((size,), np.dtype(np.uint8)) if shape is None else self.new(shape, dtype)
            arrays.append(array)
            addresses.append(address_of(self.view(array)))
            bits |= addresses[-1]
        return bits

    @abstractmethod
    def copy(self, target: Any, source: Any) -> None:
        """Copy ``source`` into ``target``, an array of its shape and dtype."""

    @abstractmethod
    def fill(self, target: Any, value: float) -> None:
        """Set every element."""

    def cast(self, native: Any, dtype: np.dtype[Any]) -> Any:
        """The same numbers in another dtype."""
        return native.astype(dtype)

    def full(self, shape: Shape, dtype: np.dtype[Any], value: float) -> Any:
        """A new array of one number."""
        native = self.empty(shape, dtype)
        self.fill(native, value)
        return native

    def transpose(self, native: Any, order: Sequence[int]) -> Any:
        """A view with its axes in this order."""
        return native.transpose(*order)

    def compact(self, native: Any, order: Sequence[int] | None = None) -> Any:
        """A C-contiguous copy, its axes in this order."""
        moved = native if order is None else self.transpose(native, order)
        dense = self.empty(tuple(moved.shape), self.view(moved).dtype)
        self.copy(dense, moved)
        return dense

    def __repr__(self) -> str:
        return self.name if self.device is None else f"{self.name} on CUDA device {self.device}"


class NumPyPlace(Place):
    """The CPU's memory."""

    name = "NumPy"

    def stream(self) -> int:
        raise TypeError("NumPy arrays live on the CPU, where there are no streams")

    def view(self, native: np.ndarray) -> np.ndarray:
        return native if type(native) is np.ndarray else native.view(np.ndarray)

    def new(self, shape: Shape, dtype: np.dtype[Any]) -> np.ndarray:
        return np.empty(shape, dtype)

    def copy(self, target: np.ndarray, source: np.ndarray) -> None:
        if recording.prevented(COPIES):
            return
        np.copyto(target, source)

    def fill(self, target: np.ndarray, value: float) -> None:
        if recording.prevented(FILLS):
            return
        target.fill(value)


NUMPY = NumPyPlace()
"""There is one such place."""


class CuPyPlace(Place):
    """A device as CuPy sees it.

    ``stream`` is that of a lender whose interface names one; memory then comes from the arena of that stream, since
    CuPy hands out freed memory again to later work of the same stream.
    """

    def __init__(self, device: int, stream: int | None = None, name: str = "CuPy") -> None:
        self.device, self.name, self._stream = device, name, stream

    def stream(self) -> int:
        if self._stream is not None:
            return self._stream
        return _module("cupy").cuda.get_current_stream(self.device).ptr

    def view(self, native: Any) -> np.ndarray:
        return device_layout(native.data.ptr, native.shape, native.dtype, native.strides, native)

    def new(self, shape: Shape, dtype: np.dtype[Any]) -> Any:
        cupy = _module("cupy")
        if self._stream is None and cupy.cuda.runtime.getDevice() == self.device:
            return cupy.ndarray(shape, dtype)
        with self._active():
            return cupy.ndarray(shape, dtype)

    def allocate(self, wanted: Iterable[Wanted], arrays: list[Any], addresses: list[int]) -> int:
        cupy = _module("cupy")
        if self._stream is None and cupy.cuda.runtime.getDevice() == self.device:
            return _allocate(cupy, wanted, arrays, addresses)
        with self._active():
            return _allocate(cupy, wanted, arrays, addresses)

    def copy(self, target: Any, source: Any) -> None:
        if recording.prevented(COPIES):
            return
        with self._active():
            _module("cupy").copyto(target, source)

    def fill(self, target: Any, value: float) -> None:
        if recording.prevented(FILLS):
            return
        with self._active():
            _module("cupy").copyto(target, value)

    def _active(self) -> Any:
        """For a while, this device and stream are CuPy's current ones."""
        cuda = _module("cupy").cuda
        if self._stream is None:
            return cuda.Device(self.device)
        stack = contextlib.ExitStack()
        stack.enter_context(cuda.Device(self.device))
        try:
            stack.enter_context(cuda.Stream.from_external(_Handle(self._stream)))
        except BaseException:
            stack.close()
            raise
        return stack


def _allocate(cupy: Any, wanted: Iterable[Wanted], arrays: list[Any], addresses: list[int]) -> int:
    bits = 0
    for shape, dtype, size in wanted:
        if shape is not None:
            array = cupy.ndarray(shape, dtype)
            address = array.data.ptr
        else:
            array = cupy.cuda.alloc(size)  # a fraction of what an array takes to make
            address = array.ptr
        arrays.append(array)
        addresses.append(address)
        bits |= address
    return bits


class _Handle:
    """A stream handle, as libraries hand streams to each other."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


class TorchPlace(Place):
    """A device as torch sees it."""

    name, to_float32 = "torch", ".float()"

    def __init__(self, device: int) -> None:
        self.device = device

    def stream(self) -> int:
        return _module("torch").cuda.current_stream(self.device).cuda_stream

    def view(self, native: Any) -> np.ndarray:
        dtype = _numpy_dtype(native.dtype)
        strides = tuple([step * dtype.itemsize for step in native.stride()])  # torch counts elements
        return device_layout(native.data_ptr(), tuple(native.shape), dtype, strides, native)

    def new(self, shape: Shape, dtype: np.dtype[Any]) -> Any:
        torch = _module("torch")
        return torch.empty(shape, dtype=getattr(torch, dtype.name), device=f"cuda:{self.device}")

    def cast(self, native: Any, dtype: np.dtype[Any]) -> Any:
        return native.to(getattr(_module("torch"), dtype.name))

    def copy(self, target: Any, source: Any) -> None:
        if recording.prevented(COPIES):
            return
        target.copy_(source)

    def fill(self, target: Any, value: float) -> None:
        if recording.prevented(FILLS):
            return
        target.fill_(value)

    def transpose(self, native: Any, order: Sequence[int]) -> Any:
        return native.permute(*order)


def is_watched(tensor: Any) -> bool:
    """Whether torch would want a gradient through what is done with a tensor."""
    return bool(tensor.requires_grad and _module("torch").is_grad_enabled())


def place_in_torch(tensor: Any, name: str) -> TorchPlace:
    """The place of a tensor.  TypeError for one that is not plain memory on a CUDA device, or that autograd watches."""
    if not tensor.is_cuda:
        raise TypeError(f"{name} is a torch tensor on {tensor.device}; move it to CUDA, or pass {name}.numpy()")
    if is_watched(tensor):
        raise TypeError(
            f"{name} requires gradients, which the kernels do not compute; pass {name}.detach(), or call under"
            " torch.no_grad()"
        )
    if tensor.layout is not _module("torch").strided:
        raise TypeError(f"{name} is a torch tensor of layout {tensor.layout}; a norm takes dense ones")
    if tensor.is_neg():
        raise TypeError(f"{name} is a torch tensor still to be negated; pass {name}.resolve_neg()")
    return torch_place(tensor.device.index)


@cache
def cupy_place(device: int) -> CuPyPlace:
    """The one place of CuPy's arrays on a device."""
    return CuPyPlace(device)


@cache
def torch_place(device: int) -> TorchPlace:
    """The one place of torch's tensors on a device."""
    return TorchPlace(device)


def same_library(a: Place, b: Place) -> bool:
    """Whether results of the two are of one kind.  Arrays that are lent go with CuPy's."""
    return type(a) is type(b)


@cache
def _numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """NumPy's dtype for one of torch's, which goes by the same name."""
    name = str(dtype).removeprefix("torch.")
    try:
        return NAMED.get(name) or np.dtype(name)
    except TypeError:
        raise TypeError(f"{dtype} is no dtype that a norm takes: float16, bfloat16, float32 or float64") from None


def _module(name: str) -> Any:
    """A module that came in with the caller's array, or that ``lent.py`` imported for the results."""
    return sys.modules[name]
