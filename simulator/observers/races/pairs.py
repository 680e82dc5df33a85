"""Racing pairs of accesses, gathered into one fault per array and pair of source lines.

Rules of this file: it knows no order of events; it is told which pairs race.  Sites stand in the order of the program,
whichever of them ran first, so that all orders of execution tell the same pair.  Of threads that are astray (see
``simulator.observers.lost``) it tells nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.machine.faults import Fault, Place
from simulator.machine.memory import Access
from simulator.observers.lost import Astray
from simulator.observers.races.footprints import Footprint
from simulator.observers.races.happens import EVENT, SHIFT, Events
from simulator.observers.races.mends.facts import mend_facts
from simulator.observers.races.mends.lockstep import ALL, WITHIN, LockStep
from simulator.program import Op, Program

RELATIONS = ("warp", "block", "grid")
"""What two threads share at the least: from the nearest to the furthest."""


@dataclass(slots=True)
class _Pair:
    """The first racing pair of two lines: where, and what is told of it; ``count`` of cells, the furthest relation,
    and in which ``rounds`` of a loop the two raced (see ``lockstep``)."""

    space: str
    places: tuple[Place, Place]
    ops: tuple[Op, Op]
    facts: dict[str, Any]
    relation: int
    count: int
    rounds: int = 0


class Pairs:
    """The pairs of a launch."""

    def __init__(self, events: Events, astray: Astray) -> None:
        self._events = events
        self._astray = astray
        self._program: Program | None = None
        self._padded = 32
        self._found: dict[tuple[Any, ...], _Pair] = {}
        self._numbers: dict[tuple[Any, str], int] = {}
        self._lockstep = LockStep()
        self.ran = self._lockstep.ran
        self._atomics = False

    def launch(self, program: Program, padded: int) -> None:
        """A launch of this program begins."""
        self._program, self._padded = program, padded
        self._lockstep.launch(program, padded)
        for number, op in enumerate(program.ops()):
            self._numbers.setdefault((op.pos, op.kind), number)
            self._atomics |= op.kind == "atom"

    def finish(self) -> None:
        """The launch is over."""
        self._lockstep.finish()

    def add(
        self, footprint: Footprint, marks: np.ndarray, later: np.ndarray, cells: np.ndarray, at_once: bool = False
    ) -> None:
        """Threads and events of ``marks`` race with those of ``later``, all of one event, at ``cells``, all (n,).

        ``at_once``: they are lanes of one store.
        """
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
            if at_once:
                known.rounds |= WITHIN
            elif known.rounds != ALL:
                known.rounds |= self._rounds(footprint, old, new, marks[here] >> SHIFT, threads[here], cells[here])

    def faults(self) -> list[Fault]:
        """The pairs as facts for the catalogue."""
        return [
            Fault(
                f"race-{pair.space}",
                pair.places,
                **pair.facts,
                **mend_facts(self._program, *pair.ops, RELATIONS[pair.relation], pair.rounds),
                relation=RELATIONS[pair.relation],
                count=pair.count,
            )
            for pair in self._found.values()
            if self._program is not None
        ]

    def _rounds(
        self, footprint: Footprint, old: Access, new: Access, before: np.ndarray, after: np.ndarray, cells: np.ndarray
    ) -> int:
        near = before // self._padded == after // self._padded
        if not near.any():
            return 0
        return self._lockstep.rounds(footprint, old, before[near], new.op, cells[near])

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
        facts = {
            "array": view.name,
            "at": tuple(int(k) for k in view.index(address - allocation.base)),
            "element": allocation.describe(address, name),
            "atomics": self._atomics and allocation.space == "global",
        }
        return _Pair(allocation.space, (places[0], places[1]), (ops[0], ops[1]), facts, 0, 0)

    def _thread(self, number: int) -> tuple[int, tuple[int, ...]]:
        block, thread = divmod(number, self._padded)
        return block, (thread,)
