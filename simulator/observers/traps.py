"""What a run goes past without an error: a ``raise`` is reached, a shuffle reads a lane which takes no part,
a wave hands over."""

from __future__ import annotations

import numpy as np

from simulator.machine.faults import Fault, Place
from simulator.machine.split import Split
from simulator.machine.warp import absences, describe
from simulator.observers.firsts import Firsts
from simulator.observers.verdict import Verdict
from simulator.program import Op


class Traps(Verdict):
    """Collects what a run reached, in the order in which it did."""

    def __init__(self) -> None:
        self.handed_over = 0
        self._reached = Firsts()

    def hand_over(self, first_block: int, blocks: int) -> None:
        self.handed_over += blocks

    def trap(self, split: Split, op: Op) -> None:
        active = split.active()
        if not self._reached.known(op, active):
            block, lane = np.argwhere(active)[0].tolist()
            place = Place(op.pos, split.lanes.first_block + block, (split.lanes.first_thread + lane,), "raise")
            facts = {"message": str(op.attr.get("message") or ""), "raised": op.attr.get("raised")}
            facts["debug"] = split.group.program.debug
            self._reached.add(op, active, Fault("kernel-exception", (place,), **facts))

    def undefined(self, split: Split, op: Op, reads: np.ndarray, source: np.ndarray) -> None:
        if not self._reached.known(op, reads):
            row, lane = np.argwhere(reads)[0].tolist()
            block, warp = divmod(row, split.lanes.P // 32)
            warp += split.lanes.first_thread // 32
            place = Place(op.pos, split.lanes.first_block + block, (32 * warp + lane,), op.kind)
            facts = {
                "operation": describe(op),
                "warp": warp,
                "lane": lane,
                "source": int(source[row, lane]),
                "absence": str(absences(split, source)[row, lane]),
            }
            self._reached.add(op, reads, Fault("partial-warp", (place,), **facts))

    @property
    def raised(self) -> Fault | None:
        """The first exception that the host gets to see; None where no kernel with ``debug=True`` raised one."""
        return next((fault for fault in self.faults() if fault.facts.get("debug")), None)

    def faults(self) -> list[Fault]:
        """The same as facts for the catalogue."""
        return self._reached.faults()
