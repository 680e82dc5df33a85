"""The graph that ``lineage`` leaves: one node per value of one thread, each with the nodes it was made of.

Nodes are numbered in the order in which they were made and kept in batches, as the machine's lanes made them.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.machine.shadow import NOTHING


@dataclass(frozen=True, slots=True)
class Node:
    """One value of one thread.

    ``kind`` is ``input`` (``array`` and ``element`` say which; flat C-order offset), ``store``, ``load``, ``shfl``,
    ``atom`` or the operation's kind; ``parents`` are the numbers of the nodes it was made of; ``block`` and ``thread``
    are linear.
    """

    id: int
    kind: str
    value: Any
    parents: tuple[int, ...]
    block: int
    thread: int
    line: int
    array: str = ""
    element: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Nodes that one operation made at once, for several lanes."""

    first: int
    kind: str
    line: int
    array: str
    values: np.ndarray
    parents: tuple[np.ndarray, ...]
    blocks: np.ndarray
    threads: np.ndarray
    elements: np.ndarray | None


class Nodes(Sequence[Node]):
    """All nodes of a run, numbered in the order in which they were made."""

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        self._firsts: list[int] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[k] for k in range(*number.indices(self._count))]
        if not 0 <= number < self._count:
            raise IndexError(f"there is no node {number}; the run made {self._count}")
        batch = self._batches[bisect.bisect(self._firsts, number) - 1]
        k = number - batch.first
        return Node(
            int(number),
            batch.kind,
            batch.values[k],
            tuple(int(column[k]) for column in batch.parents if column[k] != NOTHING),
            int(batch.blocks[k]),
            int(batch.threads[k]),
            batch.line,
            batch.array,
            NOTHING if batch.elements is None else int(batch.elements[k]),
        )

    def __iter__(self) -> Iterator[Node]:
        return (self[k] for k in range(self._count))

    def extend(self, batch: Batch) -> np.ndarray:
        """Enter a batch; returns its node numbers."""
        self._batches.append(batch)
        self._firsts.append(batch.first)
        self._count += len(batch.values)
        return np.arange(batch.first, self._count)
