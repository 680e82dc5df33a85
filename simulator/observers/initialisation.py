"""Reads of memory that nobody has written: shared and local arrays, and arguments that came without contents.

Rules of this file:

* A flag behind every byte says whether anybody has written it.  It is set by stores and atomics and asked by loads and
  atomics, in the order in which the machine runs them: exact for that order.
* A read is told at the load, as compute-sanitizer's initcheck does for global memory.  What the value is good for later
  is not asked here: who wants to know follows it from there on (see ``definedness``).
* Shared memory is asked block by block, local memory thread by thread: what another one wrote to its own does not
  count.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from simulator.machine.addresses import place
from simulator.machine.faults import Fault
from simulator.machine.group import display_name
from simulator.machine.memory import Access, Allocation, View
from simulator.machine.split import Split
from simulator.observers.firsts import Firsts
from simulator.observers.shadow_memory import ShadowMemory
from simulator.observers.verdict import Verdict
from simulator.program import Op


class Unwritten(NamedTuple):
    """``lanes`` (bool) read, as number ``element`` of an access, what nobody has written at ``address``.

    ``first`` is what is said of the operation's first such read.
    """

    access: Access
    element: int
    allocation: Allocation
    address: Any
    lanes: np.ndarray
    first: Fault


class Initialisation(Verdict):
    """Finds reads of bytes that nobody has written.

    ``astray`` says that threads ended by a ``raise``, or went on with a value that they could not read: what they have
    not written on their way is no evidence of anything.  ``follow`` is told of every read.
    """

    def __init__(self, follow: Callable[[Split, Unwritten], None] | None = None) -> None:
        self.astray = False
        self._follow = follow
        self._shadow = ShadowMemory("shared", "local")
        self._firsts = Firsts()
        self._lost: set[str] = set()

    def trap(self, split: Split, op: Op) -> None:
        self.astray = True

    def lost(self, split: Split, access: Access, lanes: Any) -> None:
        """A store did not happen: nobody knows what it would have written, so all of its array counts as written."""
        self.astray = True
        if access.kind != "ld":
            self._lost.add(access.name)
            found = split.group.memory.named(display_name(access.name))
            if found is not None and found.written is not None:
                found.written[...] = True

    def access(self, split: Split, access: Access, allocation: Allocation, address: Any) -> None:
        shadow = self._shadow.of(split.group, allocation)
        if shadow is None:
            return
        for k in range(access.count):
            if _reads(access):
                unset = self._shadow.unlike(split, access, shadow, address, k)
                if unset is not None and access.name not in self._lost:
                    where = address + k * access.itemsize if k else address
                    first = self._tell(split, access, shadow, where, unset)
                    if self._follow is not None:
                        self._follow(split, Unwritten(access, k, allocation, where, unset, first))
            if access.kind != "ld":
                self._shadow.put(split, access, shadow, address, k)

    def finish(self) -> None:
        self._shadow.forget()

    def faults(self) -> list[Fault]:
        """Facts for the catalogue: array, element, who reads it, and how much of the array has been written."""
        return self._firsts.faults()

    def _tell(self, split: Split, access: Access, shadow: Allocation, address: Any, unset: np.ndarray) -> Fault:
        """The fault of the operation's first lane that did so: of these, if there was none before."""
        if not self._firsts.known(access.op, unset):
            self._firsts.add(access.op, unset, _fault(split, access, shadow, unset, address))
        return self._firsts.first(access.op)


def _fault(split: Split, access: Access, shadow: Allocation, unset: np.ndarray, address: Any) -> Fault:
    """What is said of the first of these lanes."""
    row, lane = np.argwhere(unset)[0].tolist()
    where = int(split.expand(address, "i8")[row, lane])
    view = shadow.view(display_name(access.name))
    written, elements = _written(split, shadow, view, row, lane)
    return Fault(
        "uninitialized-read",
        (place(split, unset, access),),
        array=view.name,
        element=shadow.describe(where, view.name),
        at=tuple(int(k) for k in view.index(where - shadow.base)),
        space=shadow.space,
        written=written,
        elements=elements,
    )


def _reads(access: Access) -> bool:
    """Does the operation use what lies there?  An exchange whose old value nobody takes does not."""
    return access.kind == "ld" or (access.kind == "atom" and not (access.op.attr["op"] == "exch" and not access.op.dst))


def _written(split: Split, shadow: Allocation, view: View, row: int, lane: int) -> tuple[int, int]:
    """How many elements of an array, in the copy of one lane, have been written, and how many it has."""
    copy = (split.lanes.first_block + row - split.group.first_block) * shadow.block_stride
    copy += (split.lanes.first_thread + lane) * shadow.lane_stride
    size = view.dtype.itemsize
    if shadow.word_stride:  # local, and so in C order and small
        marks = shadow.data[shadow.inner(np.arange(math.prod(view.shape) * size)) + copy].reshape(-1, size)
    else:
        marks = np.ndarray((*view.shape, size), np.uint8, shadow.data, view.offset + copy, (*view.strides, 1))
    return int(np.count_nonzero(marks.all(axis=-1))), math.prod(view.shape)
