"""Shadow memory: behind the bytes of an allocation, others of the same layout that say something about them.

Rules of this file: shadow memory is read and written with the machine's own loads and stores, so that every form of an
address and both layouts of memory cost here what they cost there.  Its bytes are marks: small numbers, 0 to begin with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from simulator.machine.access import read, write
from simulator.machine.going_on import only
from simulator.machine.group import Group
from simulator.machine.memory import Access, Allocation
from simulator.machine.split import Split
from simulator.machine.values import DT

EVERY = {size: int.from_bytes(b"\1" * size, "little") for size in (1, 2, 4, 8)}
"""An element of so many bytes, all of them marked 1."""


class ShadowMemory:
    """A mark behind every byte of the memory of some spaces, and of the arrays that came without contents.

    Shared and local memory is a group's: its marks start anew with each group.
    """

    def __init__(self, *spaces: str) -> None:
        self._spaces = spaces
        self._group: Group | None = None
        self._shadows: dict[Allocation, Allocation | None] = {}
        self._roots: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._accesses: dict[Access, Access] = {}

    def of(self, group: Group, allocation: Allocation) -> Allocation | None:
        """The shadow of an allocation; None if its bytes have no marks."""
        if group is not self._group:
            self._shadows.clear()
            self._roots.clear()
            self._group = group
        try:
            return self._shadows[allocation]
        except KeyError:
            found = self._shadows[allocation] = self._make(allocation)
            return found

    def _make(self, allocation: Allocation) -> Allocation | None:
        if allocation.written is not None:
            return replace(allocation, data=allocation.written.view(np.uint8), _typed={})
        if allocation.space not in self._spaces:
            return None
        # All windows of a space are pieces of one array; so are their shadows.
        data = allocation.data
        root = data if data.base is None else data.base
        _, flags = self._roots.setdefault(id(root), (root, np.zeros(len(root), np.uint8)))
        offset = data.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        return replace(allocation, data=flags[offset:], _typed={})

    def forget(self) -> None:
        """Let go of the memory of a run that is done."""
        self._shadows.clear()
        self._roots.clear()
        self._accesses.clear()
        self._group = None

    def _typed(self, access: Access) -> Access:
        found = self._accesses.get(access)
        if found is None:
            code = f"u{access.itemsize}"
            found = self._accesses[access] = replace(access, dtype=code, numpy=DT[code], cached=None, writable=None)
        return found

    def unlike(
        self, split: Split, access: Access, shadow: Allocation, address: Any, k: int, mark: int = 1
    ) -> np.ndarray | None:
        """Active lanes that touch a byte with another mark in their element number ``k``; None if there are none."""
        typed = self._typed(access)
        seen = read(split, address + k * access.itemsize if k else address, typed, shadow, typed.dtype)
        marked = mark * EVERY[access.itemsize]
        if type(seen) is not np.ndarray:
            return None if seen == marked else split.active()
        bad = seen != marked
        if not np.count_nonzero(bad):
            return None
        bad = bad & split.active()
        return bad if bad.any() else None

    def put(self, split: Split, access: Access, shadow: Allocation, address: Any, k: int, mark: int = 1) -> None:
        """Mark the bytes of element ``k`` of each active lane."""
        typed = self._typed(access)
        write(split, address + k * access.itemsize if k else address, typed, shadow, mark * EVERY[access.itemsize])

    def behind(self, split: Split, access: Access, shadow: Allocation, address: Any, lanes: np.ndarray) -> np.ndarray:
        """The marks of the bytes of an element of some lanes (bool, one per lane): one row per lane."""
        typed = self._typed(access)
        with only(split, lanes):
            safe = np.where(lanes, split.expand(address, "i8"), split.expand(address, "i8")[lanes][0])
            seen = split.expand(read(split, safe, typed, shadow, typed.dtype), typed.dtype)[lanes]
        return np.ascontiguousarray(seen).view(np.uint8).reshape(-1, access.itemsize)
