"""Arrays of addresses: NumPy's arithmetic of shapes and strides for memory that NumPy cannot read.

Rules of this file: nothing here looks at an element.  An array in device memory is a ``DeviceLayout``, which refuses
whatever would; ``view(np.ndarray)`` opens it, and only code that looks at nothing but addresses may do that.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from types import EllipsisType, NoneType
from typing import Any, NoReturn

import numpy as np

Shape = tuple[int, ...]


class DeviceLayout(np.ndarray):
    """Where an array on a device lies: address, shape, strides, dtype.  Its elements are out of the CPU's reach.

    Reshaping, transposing and slicing give further views; whatever would read or write an element raises TypeError,
    lest a comparison or a printed value bring the process down.
    """

    __array_ufunc__ = None  # type: ignore[assignment]  # no arithmetic, no comparison

    def reshape(self, *shape: Any, copy: bool | None = False) -> Any:  # type: ignore[override]
        """A view of another shape.  ValueError where that would take a copy."""
        return super().reshape(*shape, copy=False)

    def __getitem__(self, key: Any) -> Any:
        """A view; one element becomes a view without axes."""
        keys = key if isinstance(key, tuple) else (key,)
        if not all(isinstance(k, (int, slice, EllipsisType, NoneType)) and not isinstance(k, bool) for k in keys):
            raise TypeError(f"{key!r} picks elements one by one, which would copy them from the device")
        return super().__getitem__(keys if ... in keys else (*keys, ...))

    def __array_function__(self, function: Any, *_: Any, **__: Any) -> NoReturn:  # type: ignore[override]
        raise TypeError(f"np.{function.__name__} would read device memory from the CPU")

    def __repr__(self) -> str:
        at = self.__array_interface__["data"][0]
        return f"<{self.dtype} {self.shape} at {at:#x} on the device, strides {self.strides}>"

    __str__ = __repr__
    __hash__ = None

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)


_OF_LAYOUT = {
    "T", "mT", "shape", "strides", "dtype", "ndim", "size", "itemsize", "nbytes", "flags", "base", "ctypes", "view",
    "transpose", "swapaxes", "squeeze", "diagonal",
    "__array_interface__", "__array_struct__", "__array_finalize__", "__array_priority__", "__len__", "__sizeof__",
}  # fmt: skip
"""What NumPy's arrays offer that looks at no element."""


def _refusing(name: str) -> Any:
    def refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"ndarray.{name} would read device memory from the CPU")

    return refuse if callable(getattr(np.ndarray, name)) else property(refuse)


for _name in set(dir(np.ndarray)) - set(dir(object)) - set(vars(DeviceLayout)) - _OF_LAYOUT:
    if not _name.startswith("__array_") or _name == "__array__":  # how NumPy treats subclasses
        setattr(DeviceLayout, _name, _refusing(_name))
for _name in ("__reduce__", "__reduce_ex__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
    setattr(DeviceLayout, _name, _refusing(_name))


class _Memory(ctypes.c_byte * sys.maxsize):  # type: ignore[misc]
    """All memory from some address on, as NumPy wants to have it described.  Keeps the owner of the array alive."""

    __slots__ = ("owner",)


def device_layout(address: int, shape: Shape, dtype: np.dtype[Any], strides: Shape | None, owner: Any) -> DeviceLayout:
    """The array at ``address``.  ``strides`` are in bytes, None for C order; every view of it keeps ``owner`` alive.

    >>> layout = device_layout(0x7F0000000000, (2, 3), np.dtype(np.float32), None, owner=None)
    >>> layout.T
    <float32 (3, 2) at 0x7f0000000000 on the device, strides (4, 12)>
    >>> layout + 1
    Traceback (most recent call last):
    TypeError: ndarray.__add__ would read device memory from the CPU

    Raises ValueError when an array with elements lies at address 0, as it does for tensors that are only traced.
    """
    if not address:
        if 0 not in shape:
            raise ValueError("an array with elements says that it lies at address 0: it has no memory")
        return np.empty(shape, dtype).view(DeviceLayout)
    below = 0  # how far the array reaches below its first element
    if strides is not None and 0 not in shape:
        below = sum((1 - n) * step for n, step in zip(shape, strides, strict=True) if step < 0)
    memory = _Memory.from_address(address - below)
    memory.owner = owner
    return np.ndarray.__new__(DeviceLayout, shape, dtype, memory, below, strides)


def address_of(array: np.ndarray) -> int:
    """The address of the array's first element."""
    return array.__array_interface__["data"][0]


def overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays of one place share an element.  Too hard a case counts as overlap."""
    return bool(a.size and b.size) and _share(a.view(np.ndarray), b.view(np.ndarray))


def overlaps_itself(array: np.ndarray) -> bool:
    """Whether two elements of an array share an address.  Too hard a case counts as overlap.

    >>> square = np.zeros((3, 3))
    >>> overlaps_itself(square.T), overlaps_itself(np.broadcast_to(square, (2, 3, 3)))
    (False, True)
    """
    if array.flags.forc or not array.size:
        return False
    # Two elements differ first along some axis; there, one may as well be at index 0, and before it both at 0.  The
    # longest stride comes first: in any ordinary layout the two sides then lie apart, which is seen at once.
    longest_first = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    return any(_share(first, others) for first, others in _halves(array.view(np.ndarray).transpose(longest_first)))


def _halves(rest: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each axis, index 0 and all others, with the axes before it at 0."""
    while rest.ndim:
        if len(rest) > 1:
            yield rest[:1], rest[1:]
        rest = rest[0, ...]  # the dots: a view, where rest[0] of one axis would read an element


def _share(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return np.shares_memory(a, b, max_work=100_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def same_elements(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are one and the same view of memory."""
    return address_of(a) == address_of(b) and a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype
