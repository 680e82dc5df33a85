"""An array at a glance: what a kernel is chosen by, and the address, as cheaply as its library tells.

Two arrays that look the same are the same to every check and choice of this package, but for where they lie in memory
relative to each other.  Only the arrays of NumPy and CuPy and plain torch tensors are looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from numba_norms.arrays.addresses import address_of
from numba_norms.arrays.places import is_watched

BELOW = 15
"""Addresses are alike if these bits of them say the same alignment: no kernel asks for more than 16 bytes."""

_PLAIN = (type(None), bool, int, float, str, bytes, type, np.generic, np.dtype)


class Library(NamedTuple):
    """How to look at the arrays of a library."""

    name: str
    look: Callable[[Any], tuple[Any, int]]
    """What an array looks like, and its address"""
    fits: Callable[[Any, Any], int]
    """The address of an array if it looks like that; -1 if not"""
    facts: tuple[str, ...]
    """What a look tells, in words"""
    on_device: bool = True


PLAIN = Library("no array", lambda value: (value, 0), lambda value, wanted: -(value != wanted), (), on_device=False)
"""What stands for values that are compared as they are."""

_FACTS = ("dtype", "shape", "strides", "alignment")


def _library(kind: type) -> Library | None:
    if issubclass(kind, _PLAIN):
        return PLAIN
    if kind is np.ndarray:
        return Library("NumPy", _numpy_look, _numpy_fits, (*_FACTS, "flag writeable"), on_device=False)
    if issubclass(kind, _loaded("cupy", "ndarray")):
        return Library("CuPy", _cupy_look, _cupy_fits, (*_FACTS, "device"))
    if kind in (_loaded("torch", "Tensor"), _loaded("torch.nn", "Parameter")):
        facts = (*_FACTS, "device", "layout", "flag requires_grad", "sign")
        return Library("torch", _torch_look, _torch_fits, facts)
    return None


library_of: Callable[[Any], Library | None] = cache(_library)
"""The library of arrays of a type; ``PLAIN`` for the types of numbers, words and types; None for all else."""


def _loaded(module: str, name: str) -> Any:
    """A class of a module that the caller has imported; otherwise (), of which nothing is a subclass."""
    return getattr(sys.modules.get(module), name, ())


# Each look is written twice: a call of a plan has no time for a tuple more than it needs.


def _numpy_look(array: Any) -> tuple[Any, int]:
    address = address_of(array)
    odd = address & BELOW
    return (array.dtype, array.shape, array.strides, odd & -odd, array.flags.writeable), address


def _numpy_fits(array: Any, wanted: Any) -> int:
    seen, address = _numpy_look(array)
    return address if seen == wanted else -1


def _cupy_look(array: Any) -> tuple[Any, int]:
    data = array.data
    address = data.ptr
    odd = address & BELOW
    return (array.dtype, array.shape, array.strides, odd & -odd, data.device_id), address


def _cupy_fits(array: Any, wanted: Any) -> int:
    data = array.data
    address: int = data.ptr
    odd = address & BELOW
    seen = array.dtype, array.shape, array.strides, odd and odd & -odd, data.device_id
    return address if seen == wanted else -1


def _torch_look(tensor: Any) -> tuple[Any, int]:
    address = tensor.data_ptr()
    odd = address & BELOW
    seen = tensor.dtype, tensor.shape, tensor.stride(), odd & -odd, tensor.device, tensor.layout
    return (*seen, is_watched(tensor), tensor.is_neg()), address


def _torch_fits(tensor: Any, wanted: Any) -> int:
    seen, address = _torch_look(tensor)
    return address if seen == wanted else -1


class Glance:
    """The arguments of a call: a key that is the same for calls that one binding serves, the arrays, their addresses.

    ``TypeError`` for an argument that cannot be looked at; it may be fine all the same.
    """

    __slots__ = ("addresses", "arrays", "key", "library", "written")

    def __init__(self, names: tuple[str, ...], writes: frozenset[str], args: tuple[Any, ...], named: dict[str, Any]):
        self.arrays: list[Any] = []
        self.addresses: list[int] = []
        self.library = PLAIN
        self.written: list[int] = []
        """Which of the arrays the operation writes"""
        key: list[Any] = []
        see = self._see
        for position, value in enumerate(args):
            see(names[position] if position < len(names) else "", value, key, writes)
        for name, value in named.items():
            key.append(name)
            see(name, value, key, writes)
        addresses = self.addresses
        key += [addresses.index(addresses[written]) for written in self.written]  # in place or not: two kinds of calls
        self.key = tuple(key)

    def _see(self, name: str, value: Any, key: list[Any], writes: frozenset[str]) -> None:
        kind = type(value)
        library = library_of(kind)
        if library is PLAIN:
            key += kind, value
        elif library is not None:
            if self.library not in (PLAIN, library) or not value.ndim:  # a number in an array is not told by its look
                raise TypeError(f"a {kind.__name__} of {value.ndim} axes among these arguments cannot be looked at")
            seen, address = library.look(value)
            key += kind, seen
            if name in writes:
                self.written.append(len(self.arrays))
            self.library = library
            self.arrays.append(value)
            self.addresses.append(address)
        elif kind is tuple:
            key.append(len(value))
            for part in value:
                self._see(name, part, key, writes)
        else:
            raise TypeError(f"a {kind.__name__} cannot be looked at")

    @property
    def doubled(self) -> bool:
        """Whether one array is read under two names: no recording could tell which of them a parameter came from."""
        read = [id(array) for number, array in enumerate(self.arrays) if number not in self.written]
        return len(set(read)) < len(read)
