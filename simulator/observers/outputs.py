"""Finds outputs of which a part was never written.

Rules of this file:

* An *output* is an array argument that the kernel's code stores to (or updates atomically) and never loads from.  One
  that is read as well may keep its old elements on purpose, and so may memory that two arguments share.
* An output all of whose elements were written, or that has none, is no fault.  It is a note: a kernel may leave the rim
  of an image to another one.
* Elements are flagged one by one; a full row of neighbouring lanes is flagged as a slice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.machine.faults import Fault, Place
from simulator.machine.memory import Access, Allocation, Memory, View
from simulator.machine.split import Split
from simulator.machine.values import Affine
from simulator.observers.verdict import Verdict
from simulator.observers.warps import active, of_warps
from simulator.program import Op, Program


class Outputs(Verdict):
    """Flags what is written of each output; ``faults`` tells of those with a rest."""

    def __init__(self) -> None:
        self._flags: dict[int, tuple[Allocation, View, np.ndarray]] = {}
        self._stores: dict[str, Op] = {}

    def launch(self, program: Program, grid: Any, block: Any, memory: Memory) -> None:
        loaded = {op.attr.get("name") for op in program.ops() if op.kind == "ld"}
        used = {op.attr.get("name") for op in program.ops() if op.kind == "atom" and op.dst}
        for op in program.ops():
            name = op.attr.get("name", "")
            if op.kind in ("st", "atom") and name not in loaded | used:
                self._stores.setdefault(name, op)
        for allocation in memory.allocations:
            view = allocation.views[0]
            if allocation.space == "global" and len(allocation.views) == 1 and view.name in self._stores:
                size = int(np.prod(view.shape))
                if size and all(view.strides[k] or view.shape[k] == 1 for k in range(len(view.shape))):
                    self._flags[allocation.base] = allocation, view, np.zeros(size, bool)

    def access(self, split: Split, access: Access, allocation: Allocation, address: Any) -> None:
        if access.kind == "ld" or allocation.base not in self._flags:
            return
        _, view, flags = self._flags[allocation.base]
        each = max(1, access.nbytes // access.itemsize)
        if self._flag_row(split, access, allocation, view, flags, address):
            return
        _, numbers, masks, _ = active(split.mask, split.lanes)
        places = of_warps(address, split.lanes, numbers)[masks] - allocation.base
        for k in range(each):
            flags[view.element(places + k * access.itemsize)] = True

    def lost(self, split: Split, access: Access, lanes: Any) -> None:
        """A store did not happen: that is why something is missing."""
        if access.kind != "ld" and (found := split.group.memory.named(access.name)) is not None:
            self._flags.pop(found.base, None)

    def faults(self) -> list[Fault]:
        """One for each output of which something was not written."""
        return [
            self._fault(view, flags) for _, view, flags in self._flags.values() if np.count_nonzero(flags) < flags.size
        ]

    @staticmethod
    def _flag_row(
        split: Split, access: Access, allocation: Allocation, view: View, flags: np.ndarray, address: Any
    ) -> bool:
        """Flag all lanes of a row of threads that write neighbours, if that is what this is."""
        lanes, size = split.lanes, access.itemsize
        if split.mask is not None or type(address) is not Affine or lanes.ny > 1 or address.l != access.nbytes:
            return False
        if view.strides[-1:] != (size,) or not _is_contiguous(view) or view.offset or address.a < 0:
            return False
        first, row = divmod(address.b - allocation.base, size)
        if row or address.a % size:
            return False
        shape = (lanes.nb, lanes.P * access.nbytes // size)
        np.ndarray(shape, bool, flags, first, (address.a // size, 1))[...] = True
        return True

    def _fault(self, view: View, flags: np.ndarray) -> Fault:
        missing = np.flatnonzero(~flags)
        op = self._stores[view.name]
        return Fault(
            "unwritten-output",
            (Place(op.pos, 0, (), "store"),),
            array=view.name,
            at=tuple(int(k) for k in np.unravel_index(int(missing[0]), view.shape)),
            missing=int(missing.size),
            size=int(flags.size),
            last=tuple(int(k) for k in np.unravel_index(int(missing[-1]), view.shape)),
            together=bool(missing[-1] - missing[0] == missing.size - 1),
        )


def _is_contiguous(view: View) -> bool:
    expected = view.strides[-1]
    for extent, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if extent > 1 and stride != expected:
            return False
        expected = stride * extent
    return True
