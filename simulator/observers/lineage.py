"""The value domain ``lineage``: where every value came from.

The machine runs the same generated code and after each operation hands its operands and results to this shadow.
Behind every slot stands an array with one *node number* per lane (-1: nothing from the inputs went in), behind every
written byte of memory the node that was stored.  A node is one value of one thread: an element that it loaded
(``input``), the result of an operation, a value that came through a shuffle (``shfl``), a store or a load of it.

Copies and conversions keep their operand's node, and so do stores to local arrays and loads from them: those are a
thread's registers.  Comparisons and votes carry nothing: what only steers control is not
part of a value.  Meant for small launches; ``LIMIT`` nodes are the most.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from simulator.errors import integer
from simulator.kinds import KINDS
from simulator.machine.memory import Allocation, Memory
from simulator.machine.shadow import NOTHING, Shadow
from simulator.machine.split import Split
from simulator.machine.values import expand
from simulator.machine.warp import sources, undefined_reads
from simulator.observers.graph import Batch, Nodes
from simulator.observers.places import Places, acting, places
from simulator.program import SIZES, Op, Program

LIMIT = 2_000_000
"""Nodes of a launch; past it the launch is too large to be drawn anyway."""

CONSTANT = -2
"""Behind a byte of memory: it was written, with nothing that came from an input."""

PASS = frozenset({"mov", "cvt", "bitcast"})


def element_at(array: str, shape: tuple[int, ...], index: int | tuple[int, ...]) -> tuple[int, ...]:
    """The index of an element: ``index`` along every axis, or a flat C-order offset; negative ones count from the end.

    Raises
    ------
    IndexError
        The array has no such element.

    >>> element_at("y", (4, 8), (-1, 2)), element_at("y", (4, 8), 9)
    ((3, 2), (1, 1))
    """
    if not isinstance(index, tuple | list):
        size, offset = math.prod(shape), integer("an index is a tuple or a flat offset: it", index)
        if not -size <= offset < size:
            raise IndexError(f"there is no element {offset} in {array}, which has {size}: its shape is {shape}")
        return tuple(int(k) for k in np.unravel_index(offset % size, shape))
    where = tuple(integer("an index along an axis", k) for k in index)
    if len(where) != len(shape):
        raise IndexError(
            f"the index {where} of {array} has {len(where)} numbers, but its shape {shape} has {len(shape)}"
        )
    if not all(-extent <= k < extent for k, extent in zip(where, shape, strict=True)):
        raise IndexError(f"the index {where} is outside {array}, whose shape is {shape}")
    return tuple(k % extent for k, extent in zip(where, shape, strict=True))


class Lineage(Shadow):
    """The shadow that a launch carries for ``lineage=True``, and afterwards the graph of what came from what."""

    def __init__(self, limit: int = LIMIT) -> None:
        super().__init__()
        self.nodes = Nodes()
        self.limit = limit
        self._memory: Memory = Memory()
        self._written: dict[Allocation, np.ndarray] = {}

    # -- questions --------------------------------------------------------------------------------------------

    def output(self, array: str, index: int | tuple[int, ...]) -> int:
        """The node that was last stored to an element of a global array; see ``element_at`` for ``index``.

        Raises
        ------
        IndexError
            The array has no such element.
        LookupError
            There is no such array in global memory, or nothing that came from an input was stored there.
        """
        found = self._memory.named(array)
        if found is None or found.space != "global":
            known = [view.name for a in self._memory.allocations if a.space == "global" for view in a.views]
            has = ", ".join(known) or "none"
            raise LookupError(f"outputs are asked of global arrays, and {array!r} is none; the launch has {has}")
        view = found.view(array)
        where = element_at(array, view.shape, index)
        offset = view.offset + sum(k * stride for k, stride in zip(where, view.strides, strict=True))
        written = self._written.get(found)
        number = NOTHING if written is None else int(written[offset])
        if number < 0:
            raise LookupError(f"nothing that came from an input was stored to {array}{list(where)}")
        return number

    def sources(self, array: str, index: int | tuple[int, ...]) -> set[tuple[str, int]]:
        """The input elements, as (array, flat offset), that reached an element of an output."""
        return self.inputs(self.output(array, index))

    def inputs(self, number: int) -> set[tuple[str, int]]:
        """The input elements, as (array, flat offset), from which a node was made."""
        seen, todo, found = {number}, [number], set()
        while todo:
            node = self.nodes[todo.pop()]
            if node.kind == "input":
                found.add((node.array, node.element))
            for parent in node.parents:
                if parent not in seen:
                    seen.add(parent)
                    todo.append(parent)
        return found

    # -- the machine's side -----------------------------------------------------------------------------------

    def launch(self, program: Program, memory: Memory) -> None:
        super().launch(program, memory)
        self._memory = memory

    def after(self, split: Split, op: Op, given: tuple[Any, ...], made: tuple[Any, ...]) -> None:
        values, n = split.values, self._slots
        behind = [values[n + slot] for slot in op.src]
        group = KINDS[op.kind].group
        if op.kind in PASS:
            found = [behind[0]]
        elif op.kind == "select":
            found = [self._select(split, given[0], behind[1], behind[2])]
        elif op.kind == "ld":
            found = self._load(split, op, given, made)
        elif op.kind == "st":
            self._store(split, op, given, behind)
            return
        elif op.kind == "atom":
            found = self._atomic(split, op, given, behind)
        elif op.kind == "shfl":
            found = [self._shuffle(split, op, given, made[0], behind[0]), None]
        elif group in ("arithmetic", "math", "bits"):
            found = [self._combine(split, op, result, behind) for result in made]
        else:
            found = [None] * len(op.dst)
        for slot, numbers in zip(op.dst, found, strict=False):
            values[n + slot] = numbers

    # -- operations -------------------------------------------------------------------------------------------

    def _select(self, split: Split, condition: Any, first: Any, second: Any) -> Any:
        if first is None and second is None:
            return None
        first, second = (NOTHING if x is None else x for x in (first, second))
        where = split.expand(condition, "b1")
        return np.where(where, first, second)

    def _combine(self, split: Split, op: Op, result: Any, behind: list[Any]) -> Any:
        behind = [numbers for numbers in behind if numbers is not None]
        if not behind:
            return None
        active = split.active()
        parents = [np.broadcast_to(numbers, active.shape)[active] for numbers in behind]
        some = np.logical_or.reduce([numbers != NOTHING for numbers in parents])
        items = expand(result, split.lanes, op.dtype)[active]
        return self._scatter(split, active, self._add(split, op, op.kind, items, tuple(parents)), some)

    def _shuffle(self, split: Split, op: Op, given: tuple[Any, ...], result: Any, behind: Any) -> Any:
        if behind is None:
            return None
        active = split.active()
        source, _ = sources(split, given[1], given[2], op.attr["mode"])
        numbers = np.broadcast_to(behind, active.shape).reshape(-1, 32)
        found = np.take_along_axis(numbers, np.broadcast_to(source, numbers.shape), 1)
        undefined = undefined_reads(split, source, given[3])
        if undefined is not None:
            found = np.where(undefined, NOTHING, found)
        parents = found.reshape(active.shape)[active]
        items = expand(result, split.lanes, op.dtype)[active]
        return self._scatter(split, active, self._add(split, op, "shfl", items, (parents,)), parents != NOTHING)

    def _load(self, split: Split, op: Op, given: tuple[Any, ...], made: tuple[Any, ...]) -> list[Any]:
        active = acting(split, op, given)
        found = []
        for k, result in enumerate(made):
            items = expand(result, split.lanes, op.dtype)[active]
            numbers = np.full(len(items), NOTHING)
            for place in places(split, active, given[0], SIZES[op.dtype], k * SIZES[op.dtype]):
                numbers[place.lanes] = self._load_from(split, op, active, place, items)
            found.append(self._scatter(split, active, numbers, numbers != NOTHING))
        return found

    def _load_from(self, split: Split, op: Op, active: np.ndarray, place: Places, items: np.ndarray) -> np.ndarray:
        columns = self._stored(place, SIZES[op.dtype])
        fresh = np.logical_and.reduce([column == NOTHING for column in columns])
        known = np.logical_or.reduce([column >= 0 for column in columns])
        columns = [np.maximum(column, NOTHING) for column in columns]
        if place.allocation.space == "local" and len(columns) == 1:
            return columns[0]
        result = np.full(len(fresh), NOTHING)
        name = place.allocation.view(op.attr.get("name", "")).name
        elements = place.allocation.view(name).element(place.offsets)
        for kind, which in (("input", fresh), ("load", known)):
            if not which.any() or (kind == "input" and place.allocation.space not in ("global", "const")):
                continue
            lanes = place.lanes[which]
            parents = () if kind == "input" else tuple(column[which] for column in columns)
            result[which] = self._add(split, op, kind, items[lanes], parents, active, lanes, name, elements[which])
        return result

    def _store(self, split: Split, op: Op, given: tuple[Any, ...], behind: list[Any]) -> None:
        active = acting(split, op, given)
        stored = given[1:-1] if op.attr.get("guarded") else given[1:]
        for k, value in enumerate(stored):
            numbers = behind[1 + k]
            parents = np.broadcast_to(NOTHING if numbers is None else numbers, active.shape)[active]
            items = split.expand(value, op.dtype)[active]
            for place in places(split, active, given[0], SIZES[op.dtype], k * SIZES[op.dtype]):
                mine = parents[place.lanes]
                name = place.allocation.view(op.attr.get("name", "")).name
                elements = place.allocation.view(name).element(place.offsets)
                some = mine != NOTHING
                made = np.where(some, mine, CONSTANT)
                lanes = place.lanes[some]
                if place.allocation.space != "local":
                    made[some] = self._add(
                        split, op, "store", items[lanes], (mine[some],), active, lanes, name, elements[some]
                    )
                self._write(place, made, SIZES[op.dtype])

    def _atomic(self, split: Split, op: Op, given: tuple[Any, ...], behind: list[Any]) -> list[Any]:
        """Lane after lane: each sees what the one before it left.  The values of the steps are not kept."""
        active = acting(split, op, given)
        operand = behind[len(op.src) - 1]
        parents = np.broadcast_to(NOTHING if operand is None else operand, active.shape)[active]
        before = np.full(len(parents), NOTHING)
        items = split.expand(given[len(op.src) - 1], op.dtype)[active]
        for place in places(split, active, given[0], SIZES[op.dtype]):
            written = self._behind(place.allocation)
            name = place.allocation.view(op.attr.get("name", "")).name
            elements = place.allocation.view(name).element(place.offsets)
            for k, lane in enumerate(place.lanes):
                where = place.bytes[k]
                before[lane] = max(int(written[where]), NOTHING)
                pair = (before[lane : lane + 1].copy(), parents[lane : lane + 1])
                one = np.array([lane])
                if pair[0][0] != NOTHING or pair[1][0] != NOTHING:
                    numbers = self._add(split, op, "atom", items[one], pair, active, one, name, elements[k : k + 1])
                    written[where : where + SIZES[op.dtype]] = numbers[0]
        return [self._scatter(split, active, before, before != NOTHING)]

    # -- bookkeeping ------------------------------------------------------------------------------------------

    def _add(
        self,
        split: Split,
        op: Op,
        kind: str,
        items: np.ndarray,
        parents: tuple[np.ndarray, ...],
        active: np.ndarray | None = None,
        lanes: np.ndarray | None = None,
        array: str = "",
        elements: np.ndarray | None = None,
    ) -> np.ndarray:
        """New nodes for active lanes (of them, those numbered in ``lanes``); returns their numbers."""
        if len(self.nodes) + len(items) > self.limit:
            raise ValueError(
                f"lineage follows {self.limit} values at most and this launch has more:"
                " launch fewer blocks, or smaller rows"
            )
        rows, columns = np.nonzero(split.active() if active is None else active)
        if lanes is not None:
            rows, columns = rows[lanes], columns[lanes]
        return self.nodes.extend(
            Batch(
                len(self.nodes), kind, op.pos.line, array, np.array(items), parents,
                rows + split.lanes.first_block, columns + split.lanes.first_thread, elements,
            )
        )  # fmt: skip

    @staticmethod
    def _scatter(split: Split, active: np.ndarray, numbers: np.ndarray, some: np.ndarray) -> np.ndarray | None:
        if not some.any():
            return None
        found = np.full(active.shape, NOTHING)
        found[active] = np.where(some, numbers, NOTHING)
        return found

    def _behind(self, allocation: Allocation) -> np.ndarray:
        """The node behind every byte of an allocation: NOTHING where nobody wrote, or CONSTANT."""
        if allocation not in self._written:
            self._written[allocation] = np.full(len(allocation.data), NOTHING)
        return self._written[allocation]

    def _write(self, place: Places, numbers: np.ndarray, size: int) -> None:
        written = self._behind(place.allocation)
        for k in range(size):
            written[place.bytes + k] = numbers

    def _stored(self, place: Places, size: int) -> list[np.ndarray]:
        """The nodes behind the bytes of each lane's element, every node once."""
        written = self._behind(place.allocation)
        columns = [written[place.bytes]]
        for k in range(1, size):
            column = written[place.bytes + k]
            known = np.logical_or.reduce([column == other for other in columns])
            if not known.all():
                columns.append(np.where(known, NOTHING, column))
        return columns
