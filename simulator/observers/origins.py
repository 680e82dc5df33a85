"""Where undefined values come from: behind each a number, and behind the number the reads that it goes back to.

Rules of this file:

* A number stands for what one lane read, or for two other numbers: a value that was made of several.
* Of several reads by one operation the first stands for all of them, so that a sum over a loop makes no new numbers.
* An operation is told once.  From then on its values count as defined: what follows is not the cause.
* Numbers are those of a group of blocks.  They are forgotten with it, for nothing undefined gets out of it unused.
"""

from __future__ import annotations

import bisect
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.machine.faults import Fault, Place
from simulator.machine.group import display_name
from simulator.machine.shadow import NOTHING
from simulator.machine.warp import describe
from simulator.observers.initialisation import Unwritten
from simulator.program import Op

MOST = 62
"""Operations that are told apart in one value; what hides behind others comes out when those are mended."""


@dataclass(frozen=True, slots=True, eq=False)
class Reads(ABC):
    """What lanes read at once by ``op``: the numbers of their blocks and threads, one per lane."""

    op: Op
    blocks: np.ndarray
    threads: np.ndarray

    @abstractmethod
    def fault(self, k: int, user: Place | None, facts: dict[str, Any]) -> Fault:
        """What is wrong: number ``k`` of these is used by ``user``; None: by the operation that reads it."""


@dataclass(frozen=True, slots=True, eq=False)
class OfLanes(Reads):
    """Lanes of a shuffle read lanes that take no part: which ones, and why those do not."""

    sources: np.ndarray
    absences: np.ndarray

    def fault(self, k: int, user: Place | None, facts: dict[str, Any]) -> Fault:
        assert user is not None
        thread = int(self.threads[k])
        reader = Place(self.op.pos, int(self.blocks[k]), (thread,), self.op.kind)
        return Fault(
            "warp-sync",
            (reader, user),
            operation=describe(self.op),
            warp=thread // 32,
            lane=thread % 32,
            source=int(self.sources[k]),
            absence=str(self.absences[k]),
            used=user.access,
            **facts,
        )


@dataclass(frozen=True, slots=True, eq=False)
class OfMemory(Reads):
    """Lanes read memory that nobody has written: where, and what is said of the operation's first such read."""

    read: Unwritten
    addresses: np.ndarray

    def fault(self, k: int, user: Place | None, facts: dict[str, Any]) -> Fault:
        access, allocation, where = self.read.access, self.read.allocation, int(self.addresses[k])
        view = allocation.view(display_name(access.name))
        reader = Place(access.pos, int(self.blocks[k]), (int(self.threads[k]),), access.purpose)
        said: dict[str, Any] = {
            "array": view.name,
            "element": allocation.describe(where, view.name),
            "at": tuple(int(n) for n in view.index(where - allocation.base)),
            "space": allocation.space,
        }
        first = self.read.first
        if (reader, said["at"]) == (first.places[0], first.facts["at"]):  # how much was written is known for this one
            said |= {name: first.facts[name] for name in ("written", "elements")}
        if user is not None:
            said |= {"user": user, "use": {"used": user.access, **facts}}
        return Fault(first.kind, (reader,), **said)


class Origins:
    """The numbers of a run, and which operations have been told."""

    def __init__(self) -> None:
        self._faults: dict[Op, Fault | None] = {}
        self._told = 0
        self.forget()

    def forget(self) -> None:
        """No value has a number any more."""
        self._count = 0
        self._sets = np.zeros(1024, np.int64)  # by number: a bit for each operation
        self._parents = np.zeros((1024, 2), np.int64)  # by number; NOTHING: it stands for a read
        self._reads: list[Reads] = []
        self._firsts: list[int] = []

    def enter(self, reads: Reads) -> np.ndarray:
        """Numbers for reads of undefined values, one per lane."""
        self._faults.setdefault(reads.op, None)
        self._reads.append(reads)
        self._firsts.append(self._count)
        nobody = np.full(len(reads.blocks), NOTHING)
        return self._add(np.full(len(reads.blocks), self._bit(reads.op)), nobody, nobody)

    def join(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The numbers of values that were made of two, lane by lane; ``NOTHING`` where neither has one."""
        found = np.where(a == NOTHING, b, a)
        both = (a != NOTHING) & (b != NOTHING) & (a != b)
        if both.any():
            found[both] = self._joined(a[both], b[both])
        return found

    def live(self, numbers: np.ndarray) -> np.ndarray:
        """Which of these go back to an operation that has not been told."""
        found = numbers != NOTHING
        found[found] = self._sets[numbers[found]] & ~self._told != 0
        return found

    def knows(self, op: Op) -> bool:
        """Has the operation been told?"""
        return self._faults.get(op) is not None

    def tell(self, number: int, user: Place | None, facts: dict[str, Any]) -> None:
        """A value with this number is used: so are the reads behind it."""
        for first in self._behind(number):
            place = bisect.bisect(self._firsts, first) - 1
            reads = self._reads[place]
            if not self.knows(reads.op):
                self._faults[reads.op] = reads.fault(first - self._firsts[place], user, facts)
                if (bit := self._bit(reads.op)) != 1 << MOST:
                    self._told |= bit

    def told(self) -> list[tuple[Op, Fault]]:
        """The operations that were told, in the order in which they first read."""
        return [(op, fault) for op, fault in self._faults.items() if fault is not None]

    # -- numbers ----------------------------------------------------------------------------------------------

    def _bit(self, op: Op) -> int:
        return 1 << min(list(self._faults).index(op), MOST)

    def _add(self, sets: np.ndarray, mothers: np.ndarray, fathers: np.ndarray) -> np.ndarray:
        first, self._count = self._count, self._count + len(sets)
        if self._count > len(self._sets):
            self._sets = np.concatenate([self._sets, np.zeros(self._count, np.int64)])
            self._parents = np.concatenate([self._parents, np.zeros((self._count, 2), np.int64)])
        self._sets[first : self._count] = sets
        self._parents[first : self._count, 0] = mothers
        self._parents[first : self._count, 1] = fathers
        return np.arange(first, self._count)

    def _joined(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        mine, theirs = self._sets[a], self._sets[b]
        found = np.where(mine == theirs, np.minimum(a, b), np.where(theirs & ~mine == 0, a, b))
        new = (theirs & ~mine != 0) & (mine & ~theirs != 0)
        found[new] = self._add(mine[new] | theirs[new], a[new], b[new])
        return found

    def _behind(self, number: int) -> list[int]:
        """The numbers of reads that a number goes back to, the first ones first."""
        todo, seen, found = [number], {number}, []
        while todo:
            at = todo.pop()
            parents = {parent for parent in self._parents[at].tolist() if parent != NOTHING}
            if not parents:
                found.append(at)
            todo += parents - seen
            seen |= parents
        return sorted(found)
