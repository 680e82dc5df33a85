"""The memory of the stand-in device: bytes on the host, behind addresses that nobody else has.

Rules of this file: an address is a token.  It starts at 2**62, where neither a process nor a card has memory, is never
used twice in a process, and leads to bytes through one table alone: an array that outlives its device is the same
memory on the next one.  A library that takes it for a pointer gets an error, never somebody's memory.
The garbage collector may free arrays in the middle of anything here: what frees waits for no lock of its own thread.
"""

from __future__ import annotations

import bisect
import ctypes
from collections.abc import Sequence
from threading import Lock, RLock
from typing import Any

import numpy as np

from simulator.machine.memory import POISON
from simulator.program import c_strides

BASE = 1 << 62
ALIGNMENT = 256
"""Addresses of allocations are multiples of this, as the CUDA driver's are; so are those of the bytes behind them."""
POISONED = 256 << 20
"""Allocations up to so many bytes hold poison until somebody writes them, as shared and local memory does; larger ones
take no memory of the host before they are written."""
SPARE = 64
"""Addresses of dead allocations that are kept in any case."""


class OutOfMemory(MemoryError):
    """The card has not so many bytes left."""


class NotOurs(ValueError):
    """An address that is not in the memory of the stand-in device, or no longer."""


class Block:
    """One allocation.  ``written`` has a flag per byte, False where nobody has written; None: nobody keeps track."""

    def __init__(self, address: int, data: np.ndarray, written: np.ndarray | None, lent: bool) -> None:
        self.address = address
        self.data = data
        self.written = written
        self.lent = lent

    @property
    def host(self) -> int:
        """Where its bytes are in the memory of this process."""
        return int(self.data.__array_interface__["data"][0])


class _Table:
    """All allocations of the process by address.

    ``_addresses`` are in order, those of the living and of some dead: no later allocation lies where a dead one was, so
    that a search that ends there finds nothing, as it should.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, Block] = {}
        self._addresses: list[int] = []
        self._next = BASE
        self._lock = Lock()

    def enter(self, data: np.ndarray, written: np.ndarray | None, lent: bool) -> int:
        """A new address for these bytes."""
        with self._lock:
            address = self._next
            self._next = -(-(address + max(len(data), 1)) // ALIGNMENT) * ALIGNMENT
            if len(self._addresses) > 2 * len(self._blocks) + SPARE:
                self._addresses = sorted(self._blocks)
            self._blocks[address] = Block(address, data, written, lent)
            self._addresses.append(address)  # they only grow
            return address

    def __len__(self) -> int:
        return len(self._blocks)

    def leave(self, address: int) -> Block:
        """Take out the allocation that starts at an address.  Raises ``NotOurs``."""
        block = self._blocks.pop(address, None)
        if block is None:
            raise NotOurs(f"no memory of the stand-in device starts at address {address:#x}")
        return block

    def of(self, data: Any) -> Block | None:
        """The allocation whose bytes are this very array."""
        return next((block for block in list(self._blocks.values()) if block.data is data), None)

    def find(self, address: int, size: int) -> tuple[Block, int]:
        """The allocation that holds these bytes, and how far into it they start.  Raises ``NotOurs``."""
        addresses = self._addresses  # it grows at its end, or another takes its place
        place = bisect.bisect_right(addresses, address) - 1
        block = self._blocks.get(addresses[place]) if place >= 0 else None
        if block is None or address + size > block.address + len(block.data):
            raise NotOurs(f"{size} bytes at address {address:#x} are not memory of the stand-in device")
        return block, address - block.address


_TABLE = _Table()


class DeviceMemory:
    """``total`` bytes; ``tracked`` keeps flags of what has been written."""

    def __init__(self, total: int, tracked: bool = False) -> None:
        self.total = total
        self.used = 0
        self.tracked = tracked
        self._lock = RLock()  # an array that dies while it is held is freed by its holder

    # -- allocations

    def allocate(self, size: int) -> int:
        """The address of ``size`` new bytes.  Raises ``OutOfMemory``."""
        with self._lock:
            if not 0 <= size <= self.total - self.used:  # to a driver, a negative number is a huge one
                raise OutOfMemory(f"{size} bytes asked for, {self.total - self.used} of {self.total} left")
            self.used += size
        try:
            data = host_bytes(size)
        except OutOfMemory:
            with self._lock:
                self.used -= size
            raise
        if size <= POISONED:
            data[:] = POISON
        return _TABLE.enter(data, np.zeros(size, bool) if self.tracked else None, lent=False)

    def lend(self, pointer: int, size: int) -> int:
        """An address for memory of the host (mapped memory), which is all written."""
        data = np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(pointer)).cast("B"), np.uint8)
        return _TABLE.enter(data, np.ones(size, bool) if self.tracked else None, lent=True)

    def free(self, address: int) -> None:
        """Give an allocation back.  Raises ``NotOurs`` where none starts there."""
        block = _TABLE.leave(address)
        size = 0 if block.lent else len(block.data)
        with self._lock:
            self.used -= size

    def find(self, address: int, size: int) -> tuple[Block, int]:
        """The allocation that holds these bytes, and how far into it they start.  Raises ``NotOurs``."""
        return _TABLE.find(address, size)

    # -- transfers

    def copy_in(self, address: int, pointer: int, size: int) -> None:
        """Host to device."""
        if not size:
            return
        block, offset = self.find(address, size)
        ctypes.memmove(block.host + offset, pointer, size)
        if block.written is not None:
            block.written[offset : offset + size] = True

    def copy_out(self, pointer: int, address: int, size: int) -> None:
        """Device to host."""
        if size:
            block, offset = self.find(address, size)
            ctypes.memmove(pointer, block.host + offset, size)

    def copy(self, to: int, address: int, size: int) -> None:
        """Device to device; what was not written stays so."""
        if not size:
            return
        (target, at), (source, start) = self.find(to, size), self.find(address, size)
        ctypes.memmove(target.host + at, source.host + start, size)
        if target.written is not None and source.written is not None:
            target.written[at : at + size] = source.written[start : start + size]

    def fill(self, address: int, byte: int, size: int) -> None:
        """Set bytes."""
        if not size:
            return
        block, offset = self.find(address, size)
        block.data[offset : offset + size] = byte & 0xFF
        if block.written is not None:
            block.written[offset : offset + size] = True

    def view(self, address: int, shape: Sequence[int], strides: Sequence[int], dtype: np.dtype[Any]) -> Viewed:
        """The array at an address, and the flags of the allocation that it is in.  Raises ``NotOurs``."""
        if 0 in shape:
            return Viewed(np.empty(tuple(shape), dtype), None)
        reach = [stride * (extent - 1) for extent, stride in zip(shape, strides, strict=True)]
        before = sum(-part for part in reach if part < 0)
        after = sum(part for part in reach if part > 0) + dtype.itemsize
        block, low = self.find(address - before, before + after)
        array = np.ndarray(tuple(shape), dtype, block.data, low + before, tuple(strides))
        written = None if block.written is None else block.written[low : low + before + after]
        return Viewed(array, written, before)

    def elements(self, address: int, dtype: np.dtype[Any]) -> tuple[Viewed, int]:
        """All whole elements of an allocation, as seen from an address in it, and the bytes to that from the first.

        Raises ``NotOurs``.
        """
        block, at = self.find(address, 0)
        first = at % dtype.itemsize
        count = (len(block.data) - first) // dtype.itemsize
        return self.view(block.address + first, (count,), (dtype.itemsize,), dtype), at - first


class Viewed:
    """An array over device memory, an argument of a launch.

    ``written`` has a flag per byte from its first to its last, None where nobody keeps track; its element [0, 0, …]
    is ``offset`` bytes from the first.
    """

    def __init__(self, array: np.ndarray, written: np.ndarray | None, offset: int = 0) -> None:
        self.array = array
        self.written = written
        self.offset = offset

    def mark(self) -> None:
        """All its elements have been written."""
        if self.written is not None:
            array = self.array
            flags = np.ndarray(
                (*array.shape, array.itemsize), bool, self.written.data, self.offset, (*array.strides, 1)
            )
            flags[...] = True

    @property
    def __simulator_array__(self) -> tuple[np.ndarray, np.ndarray | None]:
        return self.array, self.written


def on_host(array: Any) -> np.ndarray | None:
    """The memory of an array of the stand-in device as NumPy sees it; None for any other array.

    An array of no elements has no address: its class tells whose it is.
    """
    interface = array.__cuda_array_interface__
    address, dtype = interface["data"][0] or 0, np.dtype(interface["typestr"])
    shape = interface["shape"]
    if not (_of_numba(array) if 0 in shape else address >= BASE):
        return None
    strides = interface.get("strides") or c_strides(shape, dtype.itemsize)
    return DeviceMemory(0).view(address, shape, strides, dtype).array


def _of_numba(array: Any) -> bool:
    """Is it a device array of numba-cuda's?"""
    return any(kind.__module__ == "numba.cuda.cudadrv.devicearray" for kind in type(array).__mro__)


def with_flags(array: Any) -> Any:
    """The argument of a launch for what ``on_host`` gave, or a view of it; anything else as it is."""
    block = _TABLE.of(array.base) if isinstance(array, np.ndarray) and array.size else None
    if block is None or block.written is None:
        return array
    first, end = np.lib.array_utils.byte_bounds(array)
    written = block.written[first - block.host : end - block.host]
    return Viewed(array, written, int(array.__array_interface__["data"][0]) - first)


def host_bytes(size: int) -> np.ndarray:
    """New bytes whose address is a multiple of ``ALIGNMENT``, as an array that owns them.  Raises ``OutOfMemory``."""
    try:
        raw = np.empty(size + ALIGNMENT, np.uint8)
    except (MemoryError, ValueError, OverflowError):  # to a driver, a negative number is a huge one
        raise OutOfMemory(f"{size} bytes asked for, more than this machine has") from None
    skip = -raw.__array_interface__["data"][0] % ALIGNMENT
    return np.frombuffer(raw.data[skip : skip + size], np.uint8)
