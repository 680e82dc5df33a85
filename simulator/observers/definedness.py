"""The value domain ``definedness``: what becomes of values that nobody made.

Rules of this file:

* Undefined is what a shuffle read from a lane which takes no part, and what was read of memory that nobody has written.
  Behind every value that one went into stands a number, which leads back to the reads (see ``origins``).  Selecting,
  overwriting and meeting lanes again take values lane by lane, and so their numbers.
* A value is *used* where it leaves the block or steers it: it reaches a store to global memory, an address, a branch,
  an atomic, the lane or the mask of a warp operation, a vote.  That is an error; a value that is received and dropped
  is none.
* Shared and local memory keep the numbers: a store there is no use, and a load brings the number back.  So does an
  atomic, but one that reads memory which nobody has written uses it at once.
* One finding per operation that read, its first use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from simulator.kinds import KINDS
from simulator.machine.faults import Fault, Place
from simulator.machine.group import Group
from simulator.machine.memory import Allocation
from simulator.machine.shadow import NOTHING, Shadow
from simulator.machine.split import Split
from simulator.machine.warp import absences, describe, sources, undefined_reads
from simulator.observers.initialisation import Unwritten
from simulator.observers.origins import OfLanes, OfMemory, Origins
from simulator.observers.places import acting, places
from simulator.program import SIZES, Op, Pos, Term

PURE = frozenset({"move", "arithmetic", "bits", "compare", "math"})
"""Groups of operations whose results are undefined where an operand is."""
KEEPS = frozenset({"ld", "st", "atom"})
"""Operations that meet the numbers which memory keeps."""


class Definedness(Shadow):
    """Follows undefined values to where they are used."""

    def __init__(self) -> None:
        super().__init__()
        self._origins = Origins()
        self._group: Group | None = None
        self._kept: dict[Allocation, np.ndarray] = {}
        self._fresh: dict[int, np.ndarray] = {}
        self._counts: Counter[Op] = Counter()

    def faults(self) -> list[Fault]:
        """Facts for the catalogue: who read what, why that is undefined, and where the value is used."""
        told = self._origins.told()
        return [
            Fault(fault.kind, fault.places, **fault.facts, count=self._counts[op]) if op in self._counts else fault
            for op, fault in told
        ]

    def unwritten(self, split: Split, read: Unwritten) -> None:
        """Lanes are about to read what nobody has written."""
        op, lanes = read.access.op, read.lanes
        self._counts[op] += int(np.count_nonzero(lanes))
        if self._origins.knows(op):
            return
        self._meet(split.group)
        blocks, threads = np.nonzero(lanes)
        blocks, threads = blocks + split.lanes.first_block, threads + split.lanes.first_thread
        addresses = split.expand(read.address, "i8")[lanes]
        numbers = self._origins.enter(OfMemory(op, blocks, threads, read, addresses))
        if op.kind == "ld":
            self._fresh.setdefault(read.element, np.full(lanes.shape, NOTHING))[lanes] = numbers
        else:
            self._origins.tell(int(numbers[0]), None, {})

    # -- the machine's side -----------------------------------------------------------------------------------

    def before(self, split: Split, op: Op) -> None:
        for slot in op.src:
            self._use(split, op.pos, "address", self.behind(split, slot), array=op.attr.get("name", ""))

    def branch(self, split: Split, term: Term) -> None:
        assert term.cond is not None
        self._use(split, term.pos, "branch", self.behind(split, term.cond))

    def after(self, split: Split, op: Op, given: tuple[Any, ...], made: tuple[Any, ...]) -> None:
        self._meet(split.group)
        behind = [self.behind(split, slot) for slot in op.src]
        found: list[np.ndarray | None] = [None] * len(op.dst)
        if op.kind == "shfl":
            found[0] = self._shuffle(split, op, given, behind)
        elif all(numbers is None for numbers in behind) and not (op.kind in KEEPS and (self._kept or self._fresh)):
            pass
        elif KINDS[op.kind].group in PURE:
            found = [self._combine(split, op, given, behind)] * len(op.dst)
        elif op.kind == "ld":
            self._use(split, op.pos, "address", behind[0], array=op.attr.get("name", ""))
            found = [self._load(split, op, given, k) for k in range(len(op.dst))]
            self._fresh.clear()
        elif op.kind == "st":
            self._store(split, op, given, behind)
        else:
            for numbers in behind:
                self._use(split, op.pos, "atomic" if op.kind == "atom" else describe(op), numbers)
            if op.kind == "atom" and self._kept:
                found = self._atomic(split, op, given)
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
            return _some(self._origins.join(columns[0], chosen))
        found = reduce(self._origins.join, columns)
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
            if not self._origins.knows(op) and undefined.any():
                found[undefined] = self._enter(split, op, undefined, np.broadcast_to(source, undefined.shape))
        return _some(found.reshape(shape))

    def _enter(self, split: Split, op: Op, undefined: np.ndarray, source: np.ndarray) -> np.ndarray:
        """Numbers for reads of lanes that take no part."""
        blocks, threads = np.nonzero(undefined.reshape(split.lanes.nb, split.lanes.P))
        reasons = absences(split, source)[undefined]
        blocks, threads = blocks + split.lanes.first_block, threads + split.lanes.first_thread
        return self._origins.enter(OfLanes(op, blocks, threads, source[undefined], reasons))

    # -- memory -----------------------------------------------------------------------------------------------

    def _load(self, split: Split, op: Op, given: tuple[Any, ...], k: int) -> np.ndarray | None:
        fresh = self._fresh.get(k)
        if not self._kept:
            return fresh
        active, size = acting(split, op, given), SIZES[op.dtype]
        numbers = np.full(np.count_nonzero(active), NOTHING)
        for place in places(split, active, given[0], size, k * size):
            if (behind := self._kept.get(place.allocation)) is not None:
                numbers[place.lanes] = reduce(self._origins.join, [behind[place.bytes + byte] for byte in range(size)])
        found = np.full(active.shape, NOTHING)
        found[active] = numbers
        return _some(found if fresh is None else self._origins.join(found, fresh))

    def _atomic(self, split: Split, op: Op, given: tuple[Any, ...]) -> list[np.ndarray | None]:
        """What an atomic finds is undefined if what lies there is; an exchange leaves nothing of it to later lanes."""
        found = self._load(split, op, given, 0)
        if op.attr["op"] == "exch" and found is not None:
            active, size = acting(split, op, given), SIZES[op.dtype]
            numbers = found[active]
            for place in places(split, active, given[0], size):
                later = np.ones(len(place.lanes), bool)
                later[np.unique(place.bytes, return_index=True)[1]] = False
                numbers[place.lanes[later]] = NOTHING
                self._keep(place.allocation, place.bytes, size, np.full(len(place.lanes), NOTHING))
            found[active] = numbers
        return [found] * len(op.dst)

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
        """``numbers`` (one per lane of ``active``) are used at ``pos``: tell the first use of each operation."""
        left = np.flatnonzero(self._origins.live(numbers))
        while left.size:
            at = int(left[0])
            row, lane = np.argwhere(active)[at].tolist()
            user = Place(pos, split.lanes.first_block + row, (split.lanes.first_thread + lane,), how)
            self._origins.tell(int(numbers[at]), user, facts(at))
            left = left[1:][self._origins.live(numbers[left[1:]])]

    def _meet(self, group: Group) -> None:
        """What another group of blocks kept is gone."""
        if group is not self._group:
            self._group = group
            self._kept.clear()
            self._origins.forget()


def _some(numbers: np.ndarray) -> np.ndarray | None:
    return numbers if (numbers != NOTHING).any() else None


def _element(split: Split, addresses: np.ndarray, name: str, at: int) -> dict[str, Any]:
    """What lies at one of the addresses, for a message."""
    address = int(addresses[at])
    found = split.group.memory.find(address, address + 1)
    assert found is not None
    return {"array": found.view(name).name, "element": found.describe(address, name)}
