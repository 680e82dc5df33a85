"""Notes where finite floats became infinite and where an index lost its upper bits: the operation, its first thread and
the numbers there."""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.machine.faults import Fault, Place
from simulator.machine.split import Split
from simulator.machine.values import array_of, same
from simulator.observers.verdict import Verdict
from simulator.program import Op


class Overflows(Verdict):
    """One fault for each operation that overflowed, with how often it did."""

    def __init__(self) -> None:
        self._met: dict[Op, tuple[Place, dict[str, Any]]] = {}
        self._counts: dict[Op, int] = {}

    def overflow(self, split: Split, op: Op, operands: tuple[Any, ...], lanes: Any) -> None:
        self._counts[op] = self._counts.get(op, 0) + int(np.count_nonzero(lanes))
        if op in self._met:
            return
        block, lane = (int(k) for k in np.argwhere(lanes)[0])
        slots = split.group.program.slots
        numbers = [
            split.expand(array_of(value, slots[slot].dtype), slots[slot].dtype)[block, lane].item()
            for slot, value in zip(op.src, operands, strict=True)
        ]
        place = Place(op.pos, split.lanes.first_block + block, (split.lanes.first_thread + lane,))
        facts = {
            "operation": op.kind,
            "dtype": op.dtype,
            "source": op.attr.get("source", op.dtype),
            "numbers": numbers,
            "variable": slots[op.dst[0]].name,
        }
        self._met[op] = place, facts

    def narrowed(self, split: Split, op: Op, value: Any, result: Any) -> None:
        if type(value) is not np.ndarray and same(value, result, op.attr["source"]):
            return
        wide = split.expand(value, op.attr["source"])
        lost = split.active() & (wide != split.expand(result, op.dtype))
        if lost.any():
            self.overflow(split, op, (value,), lost)

    def faults(self) -> list[Fault]:
        """In the order in which they were met."""
        return [
            Fault("overflow", (place,), **facts, count=self._counts[op]) for op, (place, facts) in self._met.items()
        ]
