"""Racing pairs of accesses, gathered into one fault per array and pair of source lines.

Rules of this file: it knows no order of events; it is told which pairs race.  Sites stand in the order of the program,
whichever of them ran first, so that all orders of execution tell the same pair.  Of threads that are astray (see
``simulator.observers.lost``) it tells nothing.
"""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.machine.faults import Fault, Place
from simulator.machine.memory import Access
from simulator.observers.lost import Astray
from simulator.observers.races.footprints import Footprint
from simulator.observers.races.happens import EVENT, SHIFT, Events
from simulator.observers.races.roles import one_element, spins
from simulator.program import Op, Program

RELATIONS = ("warp", "block", "grid")
"""What two threads share at the least: from the nearest to the furthest."""


@dataclass(slots=True)
class _Pair:
    """The first racing pair of two lines: where, and what is told of it; ``count`` of cells, the furthest relation."""

    space: str
    places: tuple[Place, Place]
    ops: tuple[Op, Op]
    facts: dict[str, Any]
    relation: int
    count: int


class Pairs:
    """The pairs of a launch."""

    def __init__(self, events: Events, astray: Astray) -> None:
        self._events = events
        self._astray = astray
        self._program: Program | None = None
        self._padded = 32
        self._found: dict[tuple[Any, ...], _Pair] = {}
        self._numbers: dict[tuple[Any, str], int] = {}
        self._barriers: list[int] = []
        self._atomics = False

    def launch(self, program: Program, padded: int) -> None:
        """A launch of this program begins."""
        self._program, self._padded = program, padded
        for number, op in enumerate(program.ops()):
            self._numbers.setdefault((op.pos, op.kind), number)
            self._atomics |= op.kind == "atom"
            if op.kind == "bar":
                self._barriers.append(number)

    def add(self, footprint: Footprint, marks: np.ndarray, later: np.ndarray, cells: np.ndarray) -> None:
        """Threads and events of ``marks`` race with those of ``later``, all of one event, at ``cells``, all (n,)."""
        astray = self._astray.among(np.stack((marks, later)) >> SHIFT)
        if astray is not None:
            right = ~astray.any(0)
            marks, later, cells = marks[right], later[right], cells[right]
            if not len(cells):
                return
        events, threads = self._events, later >> SHIFT
        new = events.accesses[events.site[later[0] & EVENT]]
        sites = events.site[marks & EVENT]
        for site in np.unique(sites).tolist():
            here = np.flatnonzero(sites == site)
            relation = int(self._relations(marks[here] >> SHIFT, threads[here]).max())
            first = here[0]
            old = events.accesses[site]
            pair = self._pair(footprint, old, int(marks[first]) >> SHIFT, new, int(threads[first]), int(cells[first]))
            key = (pair.space, pair.facts["array"], *((place.pos.file, place.pos.line) for place in pair.places))
            known = self._found.setdefault(key, pair)
            known.relation = max(known.relation, relation)
            known.count += len(here)

    def faults(self) -> list[Fault]:
        """The pairs as facts for the catalogue."""
        return [
            Fault(
                f"race-{pair.space}",
                pair.places,
                **pair.facts,
                **self._roles(*pair.ops),
                relation=RELATIONS[pair.relation],
                count=pair.count,
            )
            for pair in self._found.values()
        ]

    def _roles(self, one: Op, two: Op) -> dict[str, bool]:
        """``spins``: a load waits for the other; ``update``: each thread stores to the element that it has loaded."""
        assert self._program is not None
        load, store = (one, two) if one.kind == "ld" else (two, one)
        if load.kind != "ld":
            return {"spins": False, "update": False}
        copies = [op for op in self._program.ops() if op.kind == "ld" and op.pos == load.pos]  # of a loop's test
        return {
            "spins": any(spins(self._program, op) for op in copies),
            "update": store.kind == "st" and one_element(self._program, load, store),
        }

    def _relations(self, one: np.ndarray, two: np.ndarray) -> np.ndarray:
        return np.where(one // self._padded != two // self._padded, 2, np.where(one >> 5 != two >> 5, 1, 0))

    def _pair(self, footprint: Footprint, old: Access, before: int, new: Access, after: int, cell: int) -> _Pair:
        allocation = footprint.allocation
        offset = (cell << footprint.shift) - footprint.skew
        address = allocation.base + (offset % allocation.block_stride if allocation.block_stride else offset)
        one, two = (self._numbers.get((access.pos, access.kind), access.index) for access in (old, new))
        places = [
            Place(access.pos, *self._thread(thread), access.kind) for access, thread in ((old, before), (new, after))
        ]
        ops = [old.op, new.op]
        if one > two:
            places.reverse()
            ops.reverse()
        name = new.name if one > two else old.name  # of two names of one memory, that of the first site
        view = allocation.view(name)
        low, high = sorted((one, two))
        between = bisect(self._barriers, low) != bisect(self._barriers, high)
        facts = {
            "array": view.name,
            "at": tuple(int(k) for k in view.index(address - allocation.base)),
            "element": allocation.describe(address, name),
            "atomics": self._atomics and allocation.space == "global",
            "again": between,  # what is missing is a barrier at the end of a loop
        }
        return _Pair(allocation.space, (places[0], places[1]), (ops[0], ops[1]), facts, 0, 0)

    def _thread(self, number: int) -> tuple[int, tuple[int, ...]]:
        block, thread = divmod(number, self._padded)
        return block, (thread,)
