"""Negative indices that wrapped: right by the rules of Numba and NumPy, and seldom what was meant.

Rules of this file: an index that is written as a negative constant (``x[-1]``) means the end, and is never told.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.machine.addresses import place
from simulator.machine.faults import Fault
from simulator.machine.memory import Access
from simulator.machine.split import Split
from simulator.observers.firsts import Firsts
from simulator.observers.lost import Astray
from simulator.observers.verdict import Verdict
from simulator.program import Const, Program


class NegativeIndices(Verdict):
    """Finds indices that came out negative and so count from the end of an axis."""

    def __init__(self) -> None:
        self._firsts = Firsts()
        self._astray = Astray()
        self._program: Program | None = None

    def launch(self, program: Program, *_: object) -> None:
        self._program = program

    def lost(self, split: Split, access: Access, lanes: np.ndarray) -> None:
        self._astray.lost(split, access, lanes)

    def wrap(self, split: Split, access: Access, axis: int, lanes: np.ndarray, index: Any, extent: Any) -> None:
        assert self._program is not None
        if isinstance(self._program.slots[access.op.src[1 + 3 * axis]].init, Const):
            return
        lanes = self._astray.without(split, lanes)
        if lanes.any() and not self._firsts.known((access.op, axis), lanes):
            where = (place(split, lanes, access),)
            facts = {
                name: int(np.broadcast_to(of, lanes.shape)[lanes][0])
                for name, of in (("index", index), ("extent", extent))
            }
            fault = Fault("negative-index", where, array=access.name, axis=axis, **facts)
            self._firsts.add((access.op, axis), lanes, fault)

    def faults(self) -> list[Fault]:
        """Facts for the catalogue: array, axis, index, and who used it."""
        return self._firsts.faults()
