"""Questions to the log of a run: what one thread did, and what one warp asked for at once.

Rules of this file: it reads the records of ``observers.steps`` and expands no more of them than a question needs.
Elements are flat C-order offsets in an array as the kernel's argument has it, whatever its strides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.errors import NotRecorded, UnknownName, check_question, word
from simulator.machine.values import DT
from simulator.observers.steps import Record, Steps
from simulator.observers.traffic import OPERATIONS
from simulator.observers.warps import active, is_active, lane_value, of_active, one_block

READS = frozenset({"ld", "atom"})
WRITES = frozenset({"st", "atom"})


@dataclass(frozen=True, slots=True, eq=False)
class WarpAccess:
    """One request: one memory operation of one warp.

    ``step`` numbers the memory operations of the run; ``round`` counts how often this warp has executed this operation
    before (the iteration, in a loop).  ``mask`` (32,) bool says which lanes are active; ``addresses`` (bytes) and
    ``elements`` (flat C-order offsets of the first element) are (32,) int64, -1 where a lane is not.
    ``nbytes`` is what each lane asks for, ``itemsize`` the bytes of it in one element of the array: less than the
    element's where a field of a record is asked for.
    """

    step: int
    round: int
    block: int
    warp: int
    operation: str
    file: str
    line: int
    array: str
    space: str
    itemsize: int
    nbytes: int
    mask: np.ndarray
    addresses: np.ndarray
    elements: np.ndarray


@dataclass(frozen=True, slots=True)
class ThreadStep:
    """One element that a thread read or wrote; a wide access is as many of them with one ``step``."""

    step: int
    operation: str
    array: str
    index: tuple[int, ...]
    line: int
    file: str
    element: int


def warp_accesses(
    steps: Steps, chosen: Callable[[Record], bool], block: int | None, warp: int | None
) -> Iterator[WarpAccess]:
    """The requests of the chosen records, in order; within a record block by block, warp by warp."""
    rounds: Counter[tuple[int, int, int]] = Counter()
    for record in filter(chosen, steps.records):
        lanes, mask, address = record.lanes, record.mask, record.address
        if block is not None:
            if not lanes.first_block <= block < lanes.first_block + lanes.nb:
                continue
            lanes, mask, address = one_block(lanes, mask, address, block - lanes.first_block)
        found = active(mask, lanes)
        addresses = of_active(address, lanes, found)
        view = record.target.view
        elements = view.element(addresses - record.target.base)
        access, per_block = record.access, lanes.P // 32
        for row, number in enumerate(found.numbers.tolist()):
            inside = lanes.first_thread // 32 + number % per_block
            if warp is not None and inside != warp:
                continue
            of_block = lanes.first_block + number // per_block
            key = (access.index, of_block, inside)
            on = found.masks[row]
            yield WarpAccess(
                step=record.step,
                round=rounds[key],
                block=of_block,
                warp=inside,
                operation=OPERATIONS[access.kind],
                file=access.pos.file,
                line=access.pos.line,
                array=view.name,
                space=record.target.space,
                itemsize=min(access.nbytes, view.dtype.itemsize),
                nbytes=access.nbytes,
                mask=on,
                addresses=np.where(on, addresses[row], -1),
                elements=np.where(on, elements[row], -1),
            )
            rounds[key] += 1


class ThreadView:
    """What one thread did, in the order in which it did it.

    ``thread`` and ``block`` are linear numbers (x fastest).  Made by ``Trace.thread``.
    """

    def __init__(self, steps: Steps, arrays: tuple[str, ...], thread: int, block: int) -> None:
        self.thread = thread
        self.block = block
        self._steps = steps
        self._arrays = arrays
        self._touched: list[tuple[Record, int]] | None = None

    def reads(self, name: str, line: int | None = None) -> list[int]:
        """Flat C-order offsets of the elements of array ``name`` that it reads (at ``line``), in order."""
        return [element for _, _, element, _ in self._elements(name, line, READS)]

    indices = reads

    def writes(self, name: str, line: int | None = None) -> list[int]:
        """Flat C-order offsets of the elements of array ``name`` that it writes (at ``line``), in order."""
        return [element for _, _, element, _ in self._elements(name, line, WRITES)]

    def coords(self, name: str, line: int | None = None) -> list[tuple[int, ...]]:
        """The index tuples of the elements of array ``name`` that it reads or writes (at ``line``), in order."""
        return [index for _, _, _, index in self._elements(name, line, READS | WRITES)]

    def values(self, variable: str) -> list[Any]:
        """The values that ``variable`` took in this thread, in order, as NumPy scalars of its exact dtype.

        Raises
        ------
        NotRecorded
            The variable was not watched, or never got a value in the launch.
        """
        self._need()
        if word("variable", variable) not in self._steps.watch:
            raise NotRecorded(f"variable {variable!r} was not watched; pass watch=({variable!r},) to simulate()")
        return [
            DT[event.dtype].type(lane_value(event.value, event.lanes, *place))
            for event in self._steps.watched
            if event.name == variable and (place := self._place(event)) is not None
        ]

    def table(self) -> list[ThreadStep]:
        """Every element that it reads or writes; ``step`` counts its own accesses from 0."""
        rows = []
        for step, record, element, index in self._elements(None, None, READS | WRITES):
            pos, view = record.access.pos, record.target.view
            operation = OPERATIONS[record.access.kind]
            rows.append(ThreadStep(step, operation, view.name, index, pos.line, pos.file, element))
        return rows

    def __repr__(self) -> str:
        return f"<thread {self.thread} of block {self.block}: {len(self._touches())} accesses>"

    def _need(self) -> None:
        if not self._steps.holds(self.block):
            raise NotRecorded(
                f"block {self.block} was not recorded to its end; pass keep=[{self.block}] to simulate(), "
                f"or a larger max_events (it was {self._steps.max_events})"
            )

    def _place(self, event: Any) -> tuple[int, int] | None:
        """(block, lane) of this thread in an event's group, if it is active there."""
        block, lane = self.block - event.lanes.first_block, self.thread - event.lanes.first_thread
        if not (0 <= block < event.lanes.nb and 0 <= lane < event.lanes.P):
            return None
        return (block, lane) if is_active(event.mask, block, lane) else None

    def _touches(self) -> list[tuple[Record, int]]:
        """Its accesses: the record and the address."""
        self._need()
        if self._touched is None:
            self._touched = []
            for record in self._steps.records:
                if (place := self._place(record)) is not None:
                    self._touched.append((record, int(lane_value(record.address, record.lanes, *place))))
        return self._touched

    def _elements(
        self, name: str | None, line: int | None, kinds: frozenset[str]
    ) -> Iterator[tuple[int, Record, int, tuple[int, ...]]]:
        """(step, record, flat offset, index) of each element of its accesses that fit."""
        check_question(array=name, line=line)
        if name is not None and name not in self._arrays:
            raise UnknownName(f"the launch has no array {name!r}; it has {', '.join(self._arrays) or 'none'}")
        for step, (record, address) in enumerate(self._touches()):
            access = record.access
            if access.kind not in kinds or line not in (None, access.pos.line):
                continue
            view = record.target.view
            if name not in (None, view.name):
                continue
            size = view.dtype.itemsize
            for k in range(max(1, access.nbytes // size)):
                offset = address + k * size - record.target.base
                yield step, record, int(view.element(offset)), tuple(int(i) for i in view.index(offset))
