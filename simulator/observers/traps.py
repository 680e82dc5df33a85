"""What a run goes past without an error: a ``raise`` is reached, a shuffle reads a lane which takes no part,
a wave hands over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.machine.faults import Fault, Place
from simulator.machine.observer import Observer
from simulator.machine.split import Split
from simulator.machine.warp import describe
from simulator.program import Op


@dataclass(slots=True)
class Reached:
    """One operation: what its first thread met there, and how many threads did."""

    fault: Fault
    count: int = 0


class Traps(Observer):
    """Collects what a run reached, in the order in which it did."""

    def __init__(self) -> None:
        self.reached: dict[Op, Reached] = {}
        self.handed_over = 0

    def hand_over(self, first_block: int, blocks: int) -> None:
        self.handed_over += blocks

    def trap(self, split: Split, op: Op) -> None:
        active = split.active()
        if op not in self.reached:
            block, lane = np.argwhere(active)[0].tolist()
            place = Place(op.pos, split.lanes.first_block + block, (split.lanes.first_thread + lane,), "raise")
            self.reached[op] = Reached(Fault("kernel-exception", (place,), message=str(op.attr.get("message") or "")))
        self.reached[op].count += int(np.count_nonzero(active))

    def undefined(self, split: Split, op: Op, reads: np.ndarray, source: np.ndarray) -> None:
        if op not in self.reached:
            row, lane = np.argwhere(reads)[0].tolist()
            block, warp = divmod(row, split.lanes.P // 32)
            warp += split.lanes.first_thread // 32
            place = Place(op.pos, split.lanes.first_block + block, (32 * warp + lane,), op.kind)
            facts = {"operation": describe(op), "warp": warp, "lane": lane, "source": int(source[row, lane])}
            self.reached[op] = Reached(Fault("partial-warp", (place,), **facts))
        self.reached[op].count += int(np.count_nonzero(reads))

    def faults(self) -> list[Fault]:
        """The same as facts for the catalogue."""
        found = [(one.fault, one.count) for one in self.reached.values()]
        return [Fault(fault.kind, fault.places, **fault.facts, count=count) for fault, count in found]
