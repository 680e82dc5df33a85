"""What a caller hands in, or gets, as the norms see it: an object, the place where it lives, and its memory.

Rules of this file: a kernel's argument is memory, a NumPy array whose elements may lie out of reach (addresses.py), so
that layouts are worked out once for all places.  Where no view will do, the array's own library makes one copy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from numba_norms.arrays.addresses import Shape
from numba_norms.arrays.dtypes import FLOATS
from numba_norms.arrays.lent import borrow
from numba_norms.arrays.places import NUMPY, Place, cupy_place, place_in_torch

KINDS = "NumPy and CuPy arrays, torch CUDA tensors, and what lends CUDA memory by __cuda_array_interface__ or DLPack"


@dataclass(slots=True, eq=False)
class Array:
    """An array of the caller, or one for the caller.

    >>> x = Array.of(np.ones((2, 3), np.float16), "x")
    >>> x.place, x.shape, x.dtype, x.new((4,), np.dtype(np.float32)).given.size
    (NumPy, (2, 3), dtype('float16'), 4)
    """

    given: Any
    """The caller's own object: what is returned"""
    native: Any
    """What operations of the place take: ``given`` itself, or a CuPy array over the memory that it lends"""
    place: Place
    memory: np.ndarray
    writeable: bool = True

    @classmethod
    def of(cls, given: Any, name: str = "the array") -> Array:
        """What ``given`` is, in O(1).  ``name`` is what the caller knows it as.

        Raises TypeError for what is no array, or none that a kernel can work on (with the mend where there is one);
        ValueError for one that contradicts itself.
        """
        if isinstance(given, Array):
            return given
        find = _library(type(given))  # type: ignore[arg-type]  # a type is hashable
        if find is not None:
            place = find(given, name)
            memory = place.view(given)
            made = cls(given, given, place, memory, memory.flags.writeable)
        elif (lent := borrow(given, name)) is not None:
            made = cls(given, lent.array, lent.place, lent.place.view(lent.array), lent.writeable)
        else:
            raise TypeError(f"{name} is a {type(given).__name__}; the norms take {KINDS}")
        if made.memory.dtype not in FLOATS:
            raise TypeError(
                f"{name} has dtype {made.memory.dtype}; a norm takes float16, bfloat16, float32 or float64,"
                f" for example {name}{made.place.to_float32}"
            )
        return made

    def new(self, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """A new C-contiguous array in the same place."""
        native = self.place.empty(shape, dtype)
        return Array(native, native, self.place, self.place.view(native))

    def transposed(self, order: Sequence[int]) -> Array:
        """A view with its axes in this order."""
        native = self.place.transpose(self.native, order)
        return Array(native, native, self.place, self.place.view(native))

    @property
    def shape(self) -> Shape:
        return self.memory.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.memory.dtype

    @property
    def strides(self) -> tuple[int, ...]:
        """In bytes."""
        return self.memory.strides

    @property
    def ndim(self) -> int:
        return self.memory.ndim

    @property
    def size(self) -> int:
        return self.memory.size

    def arranged(self, order: Sequence[int], shape: Shape) -> np.ndarray:
        """The elements to be read, axes in ``order`` and then as ``shape``: a view where strides allow, or a copy."""
        seen = _seen(self.memory, order, shape)
        if seen is None:
            seen = self.place.view(self.place.compact(self.native, order)).reshape(shape)
        return seen

    def target(self, order: Sequence[int], shape: Shape, *, updated: bool = False) -> Target:
        """The elements to be written, or read and written (``updated``), axes in ``order`` and then as ``shape``."""
        seen = _seen(self.memory, order, shape)
        if seen is not None:
            return Target(seen)
        place, into = self.place, self.place.transpose(self.native, order)
        dense = place.compact(into) if updated else place.empty(tuple(into.shape), self.dtype)
        return Target(place.view(dense).reshape(shape), lambda: place.copy(into, dense))


@dataclass(slots=True, eq=False)
class Target:
    """Memory that a launch writes, and the way from there to the caller's array if it is not that array's own."""

    memory: np.ndarray
    copy_back: Callable[[], None] | None = None

    def finish(self) -> None:
        """After the launch, on its stream: the caller's array has the result."""
        if self.copy_back is not None:
            self.copy_back()


def place_of(given: Any, name: str = "the array") -> Place:
    """Where an array lives.  Raises as ``Array.of``.

    >>> place_of(np.ones(3))
    NumPy
    >>> place_of([1.0], "x")
    Traceback (most recent call last):
    TypeError: x is a list; the norms take NumPy and CuPy arrays, torch CUDA tensors, and what lends CUDA memory ...
    """
    return Array.of(given, name).place


def _seen(memory: np.ndarray, order: Sequence[int], shape: Shape) -> np.ndarray | None:
    """``memory`` with its axes in ``order``, as ``shape``; None where no view is that, or no kernel can read it.

    Kernels cannot where elements straddle their natural alignment, as a field of packed records does.
    """
    if not memory.flags.aligned:
        return None
    try:
        return memory.transpose(order).reshape(shape, copy=False)
    except ValueError:
        return None


@cache
def _library(kind: type) -> Callable[[Any, str], Place] | None:
    """How to find the place of objects of this type; None if it is of none of the three libraries."""
    if issubclass(kind, np.ma.MaskedArray):
        return _refuse_mask
    if issubclass(kind, np.ndarray):
        return lambda array, name: NUMPY
    if issubclass(kind, _loaded("cupy", "ndarray")):
        return lambda array, name: cupy_place(array.data.device_id)
    if issubclass(kind, _loaded("torch", "Tensor")):
        return place_in_torch
    return None


def _loaded(module: str, name: str) -> Any:
    """A class of a module that the caller has imported; otherwise (), of which nothing is a subclass."""
    return getattr(sys.modules.get(module), name, ())


def _refuse_mask(array: Any, name: str) -> Place:
    raise TypeError(f"{name} is a masked array, whose mask a norm would ignore; fill it or select first")
