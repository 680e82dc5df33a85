"""What a launch costs: counts per source line, bytes against the least, the time of the bytes on a card, occupancy.

Rules of this file: it computes from a trace and the tables of cards, and shows nothing.  No cycle is invented: the one
time is bytes divided by a card's bandwidth, and says so.

The *least* bytes are the distinct sectors that each array was read from and written to, each moved once: what a launch
moves that finds nothing in a cache and asks for nothing twice.  The *requested* ones are all sectors of all requests:
what it would move without any cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.compiled import NotCompiled
from simulator.cost.cards import Card
from simulator.cost.occupancy import Occupancy, occupancy
from simulator.observers.traffic import SECTOR

if TYPE_CHECKING:
    from simulator.trace import LineRow, OperationRow, Trace

WARP = 32


@dataclass(frozen=True, slots=True)
class Line:
    """One source line: its memory traffic per array and operation, and its other work by kind and dtype."""

    file: str
    line: int
    memory: tuple[LineRow, ...]
    operations: tuple[OperationRow, ...]

    @property
    def active(self) -> float:
        """Active lanes of its operations on average, of 32; 0 where nothing was issued."""
        issued = sum(row.issued for row in self.operations)
        return sum(row.lanes for row in self.operations) / issued if issued else 0.0


@dataclass(frozen=True, slots=True)
class ArrayBytes:
    """Bytes of one array in global memory: requested, and the least, read and written."""

    array: str
    requested: int
    read: int
    written: int

    @property
    def least(self) -> int:
        """Read once and written once."""
        return self.read + self.written


@dataclass(frozen=True, slots=True)
class Profile:
    """What a launch costs on a card.  ``occupancy`` is None where nothing compiles; ``no_occupancy`` says why."""

    trace: Trace
    card: Card
    lines: tuple[Line, ...]
    arrays: tuple[ArrayBytes, ...]
    occupancy: Occupancy | None
    no_occupancy: str

    @property
    def requested(self) -> int:
        """Bytes of all requests' sectors."""
        return sum(row.requested for row in self.arrays)

    @property
    def least(self) -> int:
        """Bytes that have to move."""
        return sum(row.least for row in self.arrays)

    @property
    def seconds(self) -> float:
        """What the least bytes alone take at the card's bandwidth."""
        return self.least / self.card.bandwidth

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        x, y, z = self.trace.grid
        return x * y * z

    @property
    def waves(self) -> float:
        """How often the card is filled with the blocks of the launch; 0 where the occupancy is not known."""
        if self.occupancy is None or not self.occupancy.blocks:
            return 0.0
        return self.blocks / (self.occupancy.blocks * self.card.multiprocessors)


def profile(trace: Trace, card: Card) -> Profile:
    """The profile of a trace that counted operations (``simulate(kernel, operations=True)``); of a launch that never
    began, an empty one.

    Raises
    ------
    NotRecorded
        It did not.
    """
    if not trace.ran:
        return Profile(trace, card, (), (), None, "the launch never began")
    found, why = _occupancy(trace, card)
    return Profile(trace, card, tuple(_lines(trace)), tuple(_arrays(trace)), found, why)


def _lines(trace: Trace) -> Iterator[Line]:
    """The lines of each file, in the order of the file."""
    places = {(row.file, row.line) for row in trace.operations} | {(row.file, row.line) for row in trace.lines}
    files = dict.fromkeys(row.file for row in trace.operations)
    for file in files:
        for line in sorted(line for name, line in places if name == file):
            memory = tuple(row for row in trace.lines if (row.file, row.line) == (file, line))
            operations = tuple(row for row in trace.operations if (row.file, row.line) == (file, line))
            yield Line(file, line, memory, operations)


def _arrays(trace: Trace) -> Iterator[ArrayBytes]:
    rows = [row for row in trace.lines if row.space == "global"]
    for array in dict.fromkeys(row.array for row in rows):
        operations = {row.operation for row in rows if row.array == array}
        unique = {operation: trace.total(array, operation=operation).unique for operation in operations}
        written = max((unique.get(operation, 0) for operation in ("store", "atomic")), default=0)
        sectors = trace.total(array).sectors
        yield ArrayBytes(array, sectors * SECTOR, unique.get("load", 0) * SECTOR, written * SECTOR)


def _occupancy(trace: Trace, card: Card) -> tuple[Occupancy | None, str]:
    if trace.machine_code is None:
        return None, "the kernel was not compiled"
    try:
        resources = trace.machine_code(card.capability).resources()
    except NotCompiled as error:
        return None, str(error)
    x, y, z = trace.block
    return occupancy(card, resources, x * y * z, trace.launch.dynamic_shared), ""
