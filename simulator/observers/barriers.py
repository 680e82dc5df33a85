"""Threads that returned before a barrier which the others pass: allowed, and worth knowing.

Rules of this file: threads that do not exist (the rest of the last warp) are not missed.  One note per barrier.
"""

from __future__ import annotations

import numpy as np

from simulator.machine.faults import Fault, Place
from simulator.machine.split import Split
from simulator.machine.warp import describe
from simulator.machine.whereabouts import returned
from simulator.observers.verdict import Verdict
from simulator.program import Op, Pos


class Barriers(Verdict):
    """Finds barriers that a block passes without threads that have returned."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Pos], Fault] = {}

    def barrier(self, split: Split, op: Op) -> None:
        key = (op.kind, op.pos)
        if key in self._found:
            return
        group = split.group
        first = split.lanes.first_block - group.first_block
        gone = group.exit_block[first : first + split.lanes.nb] >= 0
        if not gone.any():
            return
        rows = np.flatnonzero(gone.any(1) & split.active().any(1))
        if rows.size:
            row = first + int(rows[0])
            here = tuple(np.flatnonzero(~group.exited[row]).tolist())
            place = Place(op.pos, group.first_block + row, here, describe(op))
            self._found[key] = Fault("exited-before-barrier", (place,), elsewhere=returned(group, row))

    def faults(self) -> list[Fault]:
        """Facts for the catalogue: who passes the barrier, and where the others returned."""
        return list(self._found.values())
