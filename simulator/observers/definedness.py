"""The value domain ``definedness``: what becomes of a value that a shuffle read from a lane which takes no part.

Rules of this file:

* Such a value is undefined on hardware.  Behind every value that one went into stands a number: that of the read it
  came from.  Selecting, overwriting and meeting lanes again take values lane by lane, and so their numbers.
* A value is *used* where it leaves the block or steers it: it reaches a store to global memory, an address, a branch,
  an atomic, the lane or the mask of a warp operation, a vote.  That is an error; a value that is received and dropped
  is none.
* Shared and local memory keep the numbers: a store there is no use, and a load brings the number back.
* One finding per shuffle, its first use.  From then on its values count as defined: what follows is not the cause.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from simulator.kinds import KINDS
from simulator.machine.faults import Fault, Place
from simulator.machine.group import Group
from simulator.machine.memory import Allocation
from simulator.machine.shadow import NOTHING, Shadow
from simulator.machine.split import Split
from simulator.machine.warp import absences, describe, sources, undefined_reads
from simulator.observers.places import acting, places
from simulator.program import SIZES, Op, Pos, Term

PURE = frozenset({"move", "arithmetic", "bits", "compare", "math"})
"""Groups of operations whose results are undefined where an operand is."""


@dataclass(frozen=True, slots=True, eq=False)
class _Reads:
    """What lanes of one shuffle read at once: numbers from ``first`` on, one per lane."""

    first: int
    op: Op
    blocks: np.ndarray
    threads: np.ndarray
    sources: np.ndarray
    absences: np.ndarray


class Definedness(Shadow):
    """Follows undefined values to where they are used."""

    def __init__(self) -> None:
        super().__init__()
        self.used: dict[Op, Fault] = {}
        self._reads: list[_Reads] = []
        self._firsts: list[int] = []
        self._count = 0
        self._group: Group | None = None
        self._kept: dict[Allocation, np.ndarray] = {}

    def faults(self) -> list[Fault]:
        """Facts for the catalogue: which lane read which, why that one takes no part, and where the value is used."""
        return list(self.used.values())

    # -- the machine's side -----------------------------------------------------------------------------------

    def before(self, split: Split, op: Op) -> None:
        for slot in op.src:
            self._use(split, op.pos, "address", self.behind(split, slot), array=op.attr.get("name", ""))

    def branch(self, split: Split, term: Term) -> None:
        assert term.cond is not None
        self._use(split, term.pos, "branch", self.behind(split, term.cond))

    def after(self, split: Split, op: Op, given: tuple[Any, ...], made: tuple[Any, ...]) -> None:
        if split.group is not self._group:
            self._group = split.group
            self._kept.clear()
        behind = [self.behind(split, slot) for slot in op.src]
        found: list[np.ndarray | None] = [None] * len(op.dst)
        if op.kind == "shfl":
            found[0] = self._shuffle(split, op, given, behind)
        elif all(numbers is None for numbers in behind) and not (op.kind in ("ld", "st") and self._kept):
            pass
        elif KINDS[op.kind].group in PURE:
            found = [self._combine(split, op, given, behind)] * len(op.dst)
        elif op.kind == "ld":
            self._use(split, op.pos, "address", behind[0], array=op.attr.get("name", ""))
            found = [self._load(split, op, given, k) for k in range(len(op.dst))]
        elif op.kind == "st":
            self._store(split, op, given, behind)
        else:
            for numbers in behind:
                self._use(split, op.pos, "atomic" if op.kind == "atom" else describe(op), numbers)
        for slot, numbers in zip(op.dst, found, strict=True):
            split.values[self._slots + slot] = numbers

    # -- operations -------------------------------------------------------------------------------------------

    def _combine(
        self, split: Split, op: Op, given: tuple[Any, ...], behind: list[np.ndarray | None]
    ) -> np.ndarray | None:
        """Undefined where an operand is, except where another operand alone decides."""
        shape = (split.lanes.nb, split.lanes.P)
        columns = [np.broadcast_to(NOTHING if numbers is None else numbers, shape) for numbers in behind]
        if op.kind == "select":
            chosen = np.where(split.expand(given[0], "b1"), columns[1], columns[2])
            return _some(np.where(columns[0] != NOTHING, columns[0], chosen))
        found = columns[0]
        for column in columns[1:]:
            found = np.where(found != NOTHING, found, column)
        if op.kind in ("and", "or") and op.dtype == "b1":
            decided = np.zeros(shape, bool)
            for column, value in zip(columns, given, strict=True):
                decided |= (column == NOTHING) & (split.expand(value, "b1") == (op.kind == "or"))
            found = np.where(decided, NOTHING, found)
        return _some(found)

    def _shuffle(
        self, split: Split, op: Op, given: tuple[Any, ...], behind: list[np.ndarray | None]
    ) -> np.ndarray | None:
        for numbers in behind[1:]:
            self._use(split, op.pos, describe(op), numbers)
        source, _ = sources(split, given[1], given[2], op.attr["mode"])
        shape = (split.lanes.nb, split.lanes.P)
        found = np.full(shape, NOTHING).reshape(-1, 32)
        if behind[0] is not None:
            found = np.take_along_axis(
                np.broadcast_to(behind[0], shape).reshape(-1, 32), np.broadcast_to(source, found.shape), 1
            )
        undefined = undefined_reads(split, source, given[3])
        if undefined is not None:
            found[undefined] = NOTHING
            for numbers in behind[1:]:  # which lane it reads is undefined itself, and told already
                if numbers is not None:
                    undefined = undefined & (numbers.reshape(-1, 32) == NOTHING)
            if op not in self.used and undefined.any():
                found[undefined] = self._enter(split, op, undefined, np.broadcast_to(source, undefined.shape))
        return _some(found.reshape(shape))

    def _enter(self, split: Split, op: Op, undefined: np.ndarray, source: np.ndarray) -> np.ndarray:
        """Numbers for reads of lanes that take no part."""
        blocks, threads = np.nonzero(undefined.reshape(split.lanes.nb, split.lanes.P))
        reasons = absences(split, source)[undefined]
        reads = _Reads(
            self._count, op, blocks + split.lanes.first_block, threads + split.lanes.first_thread,
            source[undefined], reasons,
        )  # fmt: skip
        self._reads.append(reads)
        self._firsts.append(self._count)
        self._count += len(blocks)
        return np.arange(reads.first, self._count)

    # -- memory -----------------------------------------------------------------------------------------------

    def _load(self, split: Split, op: Op, given: tuple[Any, ...], k: int) -> np.ndarray | None:
        if not self._kept:
            return None
        active, size = acting(split, op, given), SIZES[op.dtype]
        numbers = np.full(np.count_nonzero(active), NOTHING)
        for place in places(split, active, given[0], size, k * size):
            if (behind := self._kept.get(place.allocation)) is not None:
                numbers[place.lanes] = np.max([behind[place.bytes + byte] for byte in range(size)], axis=0)
        found = np.full(active.shape, NOTHING)
        found[active] = numbers
        return _some(found)

    def _store(self, split: Split, op: Op, given: tuple[Any, ...], behind: list[np.ndarray | None]) -> None:
        active, size = acting(split, op, given), SIZES[op.dtype]
        array = op.attr.get("name", "")
        self._use(split, op.pos, "address", behind[0], array=array)
        for k, numbers in enumerate(behind[1 : len(behind) - bool(op.attr.get("guarded"))]):
            stored = np.array(np.broadcast_to(NOTHING if numbers is None else numbers, active.shape)[active])
            if not self._kept and not (stored != NOTHING).any():
                continue
            for place in places(split, active, given[0], size, k * size):
                if place.allocation.space != "global":
                    self._keep(place.allocation, place.bytes, size, stored[place.lanes])
                    stored[place.lanes] = NOTHING
            where = split.expand(given[0], "i8")[active] + k * size
            self._use_of(split, op.pos, "store", active, stored, partial(_element, split, where, array))
        if op.attr.get("guarded"):
            self._use(split, op.pos, "branch", behind[-1])

    def _keep(self, allocation: Allocation, bytes_of: np.ndarray, size: int, numbers: np.ndarray) -> None:
        behind = self._kept.get(allocation)
        if behind is None:
            if not (numbers != NOTHING).any():
                return
            behind = self._kept[allocation] = np.full(len(allocation.data), NOTHING)
        for byte in range(size):
            behind[bytes_of + byte] = numbers

    # -- uses -------------------------------------------------------------------------------------------------

    def _use(self, split: Split, pos: Pos, how: str, numbers: np.ndarray | None, **facts: Any) -> None:
        if numbers is not None:
            active = split.active()
            self._use_of(split, pos, how, active, np.broadcast_to(numbers, active.shape)[active], lambda _: facts)

    def _use_of(
        self,
        split: Split,
        pos: Pos,
        how: str,
        active: np.ndarray,
        numbers: np.ndarray,
        facts: Callable[[int], dict[str, Any]],
    ) -> None:
        """``numbers`` (one per lane of ``active``) are used at ``pos``: tell each shuffle's first use."""
        for at in np.flatnonzero(numbers != NOTHING).tolist():
            reads = self._reads[bisect.bisect(self._firsts, int(numbers[at])) - 1]
            if reads.op in self.used:
                continue
            row, lane = np.argwhere(active)[at].tolist()
            user = Place(pos, split.lanes.first_block + row, (split.lanes.first_thread + lane,), how)
            self.used[reads.op] = _fault(reads, int(numbers[at]) - reads.first, user, facts(at))


def _some(numbers: np.ndarray) -> np.ndarray | None:
    return numbers if (numbers != NOTHING).any() else None


def _element(split: Split, addresses: np.ndarray, name: str, at: int) -> dict[str, Any]:
    """What lies at one of the addresses, for a message."""
    address = int(addresses[at])
    found = split.group.memory.find(address, address + 1)
    assert found is not None
    return {"array": found.view(name).name, "element": found.describe(address, name)}


def _fault(reads: _Reads, k: int, user: Place, facts: dict[str, Any]) -> Fault:
    thread = int(reads.threads[k])
    reader = Place(reads.op.pos, int(reads.blocks[k]), (thread,), reads.op.kind)
    return Fault(
        "warp-sync",
        (reader, user),
        operation=describe(reads.op),
        warp=thread // 32,
        lane=thread % 32,
        source=int(reads.sources[k]),
        absence=str(reads.absences[k]),
        used=user.access,
        **facts,
    )
