"""A trace: what a run of a kernel returns.

Rules of this file: a trace answers questions and holds no machine.  Everything that shows a run (text, pictures,
pages) reads a trace and nothing else.  Counts are complete; what the log does not hold is never answered for.
"""

from __future__ import annotations

import html
import linecache
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from simulator.compiled import MachineCode
from simulator.errors import NotRecorded, UnknownName, check_question, integer, word
from simulator.findings import Finding, Launch, Shape, extent_in_words
from simulator.log import ThreadView, WarpAccess, warp_accesses
from simulator.observers.lineage import Lineage
from simulator.observers.operations import Operations
from simulator.observers.steps import ArrayInfo, Record, Steps
from simulator.observers.traffic import OPERATIONS, Counter, RowKey, Traffic


@dataclass(frozen=True, slots=True)
class LineRow:
    """Memory traffic of one source line, array and operation (see ``observers.traffic`` for the rules of counting).

    ``operation`` is load, store or atomic; in sums, a field that is not common to all parts is empty (``line`` 0).
    ``requests``: memory instructions of warps.  ``sectors``: 32-byte pieces moved, summed over the requests;
    ``ideal``: the fewest that could hold the bytes asked for; ``unique``: distinct ones in the launch; all three are
    0 outside global memory.  ``wavefronts``: how often the banks of shared memory were asked, ``ideal_wavefronts``:
    how often they would be without a conflict; None outside shared memory.  ``lanes``: active lanes, summed;
    ``bytes``: what they asked for.
    """

    file: str
    line: int
    array: str
    operation: str
    space: str
    requests: int
    sectors: int
    ideal: int
    unique: int
    wavefronts: int | None
    ideal_wavefronts: int | None
    lanes: int
    bytes: int


@dataclass(frozen=True, slots=True)
class OperationRow:
    """Operations of one kind and dtype on one source line (see ``observers.operations`` for the kinds).

    ``issued`` by warps; ``lanes``: lanes that were active in them, summed, 32 for each at most.
    """

    file: str
    line: int
    kind: str
    dtype: str
    issued: int
    lanes: int


class Trace:
    """One simulated launch; made by ``simulate``.

    ``kernel`` is the kernel's name, ``grid`` and ``block`` the launch as 3-tuples, ``schedule`` the order of execution
    that was recorded, ``arrays`` what the kernel can touch, ``findings`` what is wrong.  It can be pickled.
    """

    def __init__(
        self,
        kernel: str,
        launch: Launch,
        schedule: str,
        steps: Steps,
        traffic: Traffic,
        findings: Iterable[Finding] = (),
        lineage: Lineage | None = None,
        operations: Operations | None = None,
    ) -> None:
        self.kernel = kernel
        self.launch = launch
        self.schedule = schedule
        self.findings = tuple(findings)
        self.orders: tuple[str, ...] = (schedule,)
        """The orders of execution that were run; of a sample of blocks, which."""
        self.exception: BaseException | None = None
        """What the launch raises on the host: the exception of a kernel with ``debug=True``."""
        self._steps = steps
        self._traffic = traffic
        self._lineage = lineage
        self._operations = operations
        self.machine_code: Callable[[tuple[int, int]], MachineCode] | None = None
        """Compiles the kernel for a compute capability; None where nothing could, and in a trace that was pickled."""

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: all but the way to a compiler, which needs the kernel.

        Raises
        ------
        TypeError
            The exception that the launch raised cannot be pickled; ``trace.exception = None`` leaves it out.
        """
        if self.exception is not None:
            try:
                pickle.dumps(self.exception)
            except (pickle.PicklingError, TypeError, AttributeError) as error:
                name = type(self.exception).__name__
                raise TypeError(
                    f"this trace holds a {name} that the kernel raised, which cannot be pickled ({error}); set "
                    "trace.exception = None before"
                ) from error
        return {**self.__dict__, "machine_code": None}

    # -- the launch

    @property
    def grid(self) -> Shape:
        """Blocks along x, y, z."""
        return self.launch.grid

    @property
    def block(self) -> Shape:
        """Threads of a block along x, y, z."""
        return self.launch.block

    @property
    def arrays(self) -> dict[str, ArrayInfo]:
        """The arrays of the launch by name: arguments first, then those that the kernel declares."""
        return self._steps.arrays

    @property
    def ran(self) -> bool:
        """Did the launch begin?  If not (it does not compile, or no card runs it), ``findings`` says why."""
        return self._steps.launched

    @property
    def truncated(self) -> bool:
        """Does the log lack accesses that happened?  Counts are complete all the same; see ``recorded``."""
        return self._steps.truncated

    @property
    def recorded(self) -> tuple[int, ...]:
        """The blocks (linear numbers) whose every access is in the log."""
        return tuple(np.flatnonzero(~self._steps.missing).tolist())

    def source(self, file: str, line: int) -> str:
        """The text of a source line without its line end; "" where there is no source."""
        if "\0" in word("file", file):  # no file is called so, and Python refuses to look for it
            return ""
        return linecache.getline(file, integer("line", line)).rstrip("\n")

    # -- counts

    @property
    def lines(self) -> tuple[LineRow, ...]:
        """Traffic per (file, line, array, operation, space), in program order."""
        return tuple(_row([item]) for item in self._traffic.rows.items())

    def total(self, array: str | None = None, line: int | None = None, operation: str | None = None) -> LineRow:
        """The sum of the rows that fit.  ``unique`` counts a sector once, however many lines touch it.

        Raises
        ------
        UnknownName
            The launch has no such array.
        """
        check_question(array=array, line=line, operation=operation)
        if array is not None:
            self._known(array)
        _check_operation(operation)
        chosen = [
            (key, counter)
            for key, counter in self._traffic.rows.items()
            if array in (None, key[2]) and line in (None, key[1]) and operation in (None, key[3])
        ]
        return _row(chosen, array or "", line or 0, operation or "")

    # -- the log

    def thread(self, thread: int | tuple[int, ...], block: int | tuple[int, ...] = 0) -> ThreadView:
        """What one thread did.  ``thread`` and ``block`` are numbers (x runs fastest) or (x, y, z) tuples.

        Raises
        ------
        IndexError
            There is no such thread or block in the launch.
        TypeError
            It is neither an int nor a tuple of one to three.
        NotRecorded
            When asked, if the log does not hold the block completely.
        """
        number = _linear("thread", thread, self.block, self.launch)
        return ThreadView(self._steps, tuple(self.arrays), number, _linear("block", block, self.grid, self.launch))

    def accesses(
        self,
        array: str | None = None,
        line: int | None = None,
        block: int | tuple[int, ...] | None = None,
        warp: int | None = None,
        operation: str | None = None,
        space: str | None = None,
    ) -> Iterator[WarpAccess]:
        """The requests that fit, in the order in which they ran.

        Raises
        ------
        NotRecorded
            The log does not hold all of what is asked for.  ``recorded`` lists the blocks that may be asked for.
        """
        check_question(array=array, line=line, warp=warp, operation=operation, space=space)
        if array is not None:
            self._known(array)
        _check_operation(operation)
        number = None if block is None else _linear("block", block, self.grid, self.launch)
        if self.truncated and (number is None or not self._steps.holds(number)):
            what = "the accesses of all blocks" if number is None else f"block {number}"
            raise NotRecorded(
                f"the log does not hold {what} (budget {self._steps.max_events} requests); ask for one of the blocks "
                f"in trace.recorded, or pass keep=[{number or 0}] or a larger max_events to simulate()"
            )

        def chosen(record: Record) -> bool:
            access = record.access
            return (
                line in (None, access.pos.line)
                and space in (None, record.target.space)
                and operation in (None, OPERATIONS[access.kind])
                and array in (None, record.target.view.name)
            )

        return warp_accesses(self._steps, chosen, number, warp)

    @property
    def operations(self) -> tuple[OperationRow, ...]:
        """Operations per (file, line, kind, dtype), in program order.

        Raises
        ------
        NotRecorded
            The run did not count them.
        """
        if self._operations is None:
            raise NotRecorded("this run did not count operations; use simulate(kernel, operations=True)")
        return tuple(OperationRow(*key, row.warps, row.lanes) for key, row in self._operations.rows.items())

    # -- domains that a run computes only when asked

    @property
    def lineage(self) -> Lineage:
        """Which lanes and elements went into each value.

        Raises
        ------
        NotRecorded
            The run did not carry lineage.
        """
        if self._lineage is None:
            raise NotRecorded("this run did not carry lineage; use simulate(kernel, lineage=True)")
        return self._lineage

    def sources(self, array: str, index: int | tuple[int, ...]) -> set[tuple[str, int]]:
        """Which input elements (array, flat offset) reached ``array[index]`` (needs ``lineage=True``).

        ``index`` is a tuple, or an int: a flat C-order offset.  Negative ones count from the end.

        Raises
        ------
        IndexError
            The array has no such element.
        """
        self._known(array)
        return self.lineage.sources(array, index)

    # -- shown

    def __repr__(self) -> str:
        head = f"Trace of {self.kernel}: {self.launch}, {self.schedule}"
        head += f"\n{said}" if (said := self.orders_in_words()) else ""
        rows = [HEADINGS, *(_cells(row) for row in self.lines)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        found = [f"{finding.severity}: {finding.kind}: {finding.message}" for finding in self.findings]
        return "\n".join([head, *(table if len(rows) > 1 else ["no memory access"]), *found])

    def orders_in_words(self) -> str:
        """The orders that a check ran, as a line of text; "" where there was one."""
        return f"checked in {len(self.orders)} orders: {'; '.join(self.orders)}" if len(self.orders) > 1 else ""

    def _repr_html_(self) -> str:
        """A compact table for notebooks."""
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in (*HEADINGS, "source"))
        body = []
        for row in self.lines:
            cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(row))
            text = html.escape(self.source(row.file, row.line).strip())
            body.append(f'<tr>{cells}<td style="text-align:left"><code>{text}</code></td></tr>')
        said = (f"{self.kernel}: {self.launch}, {self.schedule}", self.orders_in_words())
        caption = "<br>".join(html.escape(line) for line in said if line)
        items = "".join(f"<li>{html.escape(str(finding))}</li>" for finding in self.findings)
        found = f"<ul>{items}</ul>" if items else ""
        return f"<table><caption>{caption}</caption><tr>{head}</tr>{''.join(body)}</table>{found}"

    def _known(self, array: str) -> None:
        if word("array", array) not in self.arrays:
            raise UnknownName(f"the launch has no array {array!r}; it has {', '.join(self.arrays) or 'none'}")


HEADINGS = ("line", "array", "operation", "requests", "sectors", "ideal", "unique")


def _cells(row: LineRow) -> tuple[str, ...]:
    where = f"{PurePath(row.file).name}:{row.line}"
    if row.space != "global":
        return where, row.array, f"{row.operation} {row.space}", str(row.requests), "-", "-", "-"
    return where, row.array, row.operation, str(row.requests), str(row.sectors), str(row.ideal), str(row.unique)


def _row(parts: list[tuple[RowKey, Counter]], array: str = "", line: int = 0, operation: str = "") -> LineRow:
    """The sum of some counters; what they have in common names it."""
    common = [values.pop() if len(values := {key[k] for key, _ in parts}) == 1 else "" for k in range(5)]
    banked = [counter for key, counter in parts if key[4] == "shared"]
    touched: dict[int, np.ndarray] = {}
    for _, counter in parts:
        for base, flags in counter.touched.items():
            touched[base] = touched[base] | flags if base in touched else flags
    return LineRow(
        file=str(common[0]),
        line=int(common[1] or line),
        array=str(common[2] or array),
        operation=str(common[3] or operation),
        space=str(common[4]),
        requests=sum(counter.requests for _, counter in parts),
        sectors=sum(counter.sectors for _, counter in parts),
        ideal=sum(counter.ideal for _, counter in parts),
        unique=sum(int(np.count_nonzero(flags)) for flags in touched.values()),
        wavefronts=sum(counter.wavefronts for counter in banked) if banked else None,
        ideal_wavefronts=sum(counter.ideal_wavefronts for counter in banked) if banked else None,
        lanes=sum(counter.lanes for _, counter in parts),
        bytes=sum(counter.bytes for _, counter in parts),
    )


def _check_operation(operation: str | None) -> None:
    if operation is not None and operation not in OPERATIONS.values():
        raise ValueError(f"operation is one of {', '.join(OPERATIONS.values())}, not {operation!r}")


def _linear(what: str, index: int | tuple[int, ...], shape: Shape, launch: Launch) -> int:
    """The linear number of a thread or block given as a number or a tuple."""
    items = index if isinstance(index, tuple) else (index,)
    try:
        given = [integer(f"a {what}", item) for item in items]
    except TypeError:
        given = []
    if not 1 <= len(given) <= 3:
        raise TypeError(f"a {what} is an int or a tuple of up to three, not {index!r}")
    if isinstance(index, tuple):
        x, y, z = (*given, 0, 0)[:3]
        inside = all(0 <= k < extent for k, extent in zip((x, y, z), shape, strict=True))
        number = x + shape[0] * (y + shape[1] * z)
    else:
        number = given[0]
        inside = 0 <= number < shape[0] * shape[1] * shape[2]
    if not inside:
        raise IndexError(f"there is no {what} {index} in this launch: {what}s {extent_in_words(shape)}; {launch}")
    return number
