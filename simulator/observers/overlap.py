"""Dynamic shared arrays that overlap: they all start at one place, and one is read where another was written.

Rules of this file:

* Behind every byte of dynamic shared memory stands which array it was last written through.
* Told is a read through another one: what it gets was meant for that other one.  Bytes that are written through one
  array and then through another are used again, as a scratch buffer may be, and are not told.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.machine.addresses import place
from simulator.machine.faults import Fault
from simulator.machine.group import display_name
from simulator.machine.memory import Access, Allocation, Memory
from simulator.machine.split import Split
from simulator.observers.firsts import Firsts
from simulator.observers.shadow_memory import ShadowMemory
from simulator.observers.verdict import Verdict
from simulator.program import Program

MOST = 255
"""Arrays that are told apart; further ones count as the last of them."""


class Overlap(Verdict):
    """Finds reads, through one dynamic shared array, of what was written through another."""

    def __init__(self) -> None:
        self._shadow = ShadowMemory("shared")
        self._program: Program | None = None
        self._numbers: dict[str, int] = {}
        self._firsts = Firsts()

    def launch(self, program: Program, grid: object, block: object, memory: Memory) -> None:
        self._program = program
        dynamic = [name for name, alloc in program.allocs.items() if alloc.space == "shared" and alloc.dynamic]
        self._numbers = {name: min(k + 1, MOST) for k, name in enumerate(dynamic)} if len(dynamic) > 1 else {}

    def access(self, split: Split, access: Access, allocation: Allocation, address: Any) -> None:
        number = self._numbers.get(access.name)
        if number is None or allocation.space != "shared":
            return
        shadow = self._shadow.of(split.group, allocation)
        assert shadow is not None
        for k in range(access.count):
            if access.kind != "st":
                lanes = self._shadow.unlike(split, access, shadow, address, k, number)
                if lanes is not None:
                    self._judge(split, access, shadow, address + k * access.itemsize if k else address, lanes, number)
            if access.kind != "ld":
                self._shadow.put(split, access, shadow, address, k, number)

    def finish(self) -> None:
        self._shadow.forget()

    def faults(self) -> list[Fault]:
        """Facts for the catalogue: array, element, who reads it, and through which other array it was written."""
        return self._firsts.faults()

    def _judge(
        self, split: Split, access: Access, shadow: Allocation, address: Any, lanes: np.ndarray, number: int
    ) -> None:
        """Of lanes whose bytes are not all written through the array itself: those where another one wrote."""
        behind = self._shadow.behind(split, access, shadow, address, lanes)
        foreign = (behind != 0) & (behind != number)
        lanes = lanes.copy()
        lanes[lanes] = foreign.any(axis=1)
        if not lanes.any() or self._firsts.known(access.op, lanes):
            return
        other = list(self._numbers)[int(behind[foreign][0]) - 1]
        where = int(split.expand(address, "i8")[lanes][0])
        assert self._program is not None
        view = shadow.view(display_name(access.name))
        fault = Fault(
            "shared-overlap",
            (place(split, lanes, access),),
            array=view.name,
            element=shadow.describe(where, view.name),
            at=tuple(int(k) for k in view.index(where - shadow.base)),
            other=display_name(other),
            declared=self._program.allocs[other].pos.line,
        )
        self._firsts.add(access.op, lanes, fault)
