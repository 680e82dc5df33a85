"""A trace as text: what one thread touches, what each source line costs, what is wrong.

Rules of this file: functions make rich renderables and print nothing.  Everything is readable without colour and in 80
columns: only the source text is shortened, numbers never.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from simulator.findings import Finding
    from simulator.trace import LineRow, Trace

HEAD, QUIET, CODE, COSTLY = "bold", "dim", "cyan", "bold yellow"
SEVERITY = {"error": "bold red", "warning": "bold yellow", "note": "bold blue"}


def report(
    trace: Trace, thread: int | tuple[int, ...] = 0, block: int | tuple[int, ...] = 0, watch: Sequence[str] = ()
) -> Group:
    """The whole trace: head, one thread, the costs, the findings; of a launch that never began, what there is."""
    if not trace.ran:
        return Group(head(trace), Text(), findings(trace.findings))
    parts: list[RenderableType] = [head(trace), Text(), thread_table(trace, thread, block)]
    parts += [watched(trace, name, thread, block) for name in watch]
    parts += [Text(), lines_table(trace), Text(), findings(trace.findings)]
    return Group(*parts)


def head(trace: Trace) -> Text:
    """Kernel, launch and arrays."""
    said = _unbroken(trace.kernel, HEAD)
    said.append(f"  {trace.launch}, {trace.schedule}", style=QUIET)
    said.append(f"\n{trace.orders_in_words()}" if trace.orders_in_words() else "", style=QUIET)
    arrays = [f"{a.name} {a.dtype}{list(a.shape)}" for a in trace.arrays.values() if a.space == "global"]
    return said.append(f"\n{', '.join(arrays)}", style=QUIET) if arrays else said


def thread_table(trace: Trace, thread: int | tuple[int, ...], block: int | tuple[int, ...]) -> RenderableType:
    """The elements that one thread reads and writes, by source line and array, as flat offsets."""
    rows: dict[tuple[str, int, str, str], list[int]] = {}
    for step in trace.thread(thread, block).table():
        rows.setdefault((step.file, step.line, step.operation, step.array), []).append(step.element)
    title = Text(f"thread {thread} of block {block}", style=HEAD)
    if not rows:
        return Group(title, Text("  accesses no memory"))
    several = len({file for file, *_ in rows}) > 1
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for name in ("where", "access", "elements", "count"):
        table.add_column(name, no_wrap=name != "elements", justify="right" if name == "count" else "left")
    for (file, line, operation, array), elements in rows.items():
        where = f"{PurePath(file).name}:{line}" if several else f"line {line}"
        count = f"{len(elements)} element{'s' if len(elements) > 1 else ''}"
        table.add_row(Text(where, QUIET), f"{operation} {array}", Text(series(elements), CODE), Text(count, QUIET))
    return Group(title, Padding(table, (0, 0, 0, 2), expand=False))


def _unbroken(text: str, style: str) -> Text:
    """A text that is never wrapped: paths and sentences stay whole for grep, a terminal wraps them itself."""
    return Text(text, style=style, no_wrap=True, overflow="ignore", end="\n")


def watched(trace: Trace, name: str, thread: int | tuple[int, ...], block: int | tuple[int, ...]) -> Text:
    """The values that a variable took in one thread."""
    values = trace.thread(thread, block).values(name)
    said = [str(value.item()) if value.dtype.kind in "biu" else f"{float(value):.6g}" for value in values]
    if len(said) > 8:
        said = [*said[:5], f"… {said[-1]}"]
    return (
        _unbroken(f"  {name} = ", "")
        .append(", ".join(said), style=CODE)
        .append(f"  ({len(values)} value{'' if len(values) == 1 else 's'})", style=QUIET)
    )


def series(elements: Sequence[int]) -> str:
    """Indices as a textbook writes them: all if they are few, else the first three and the last.

    >>> series(range(0, 4096, 256)), series([7, 9])
    ('0, 256, 512, … 3840', '7, 9')
    """
    if len(elements) <= 5:
        return ", ".join(map(str, elements))
    return f"{', '.join(map(str, elements[:3]))}, … {elements[-1]}"


def lines_table(trace: Trace) -> RenderableType:
    """Requests, sectors, ideal and sectors per request of each source line, with its text, file by file."""
    if not trace.lines:
        return Text("no memory access")
    return LinesTable(trace)


COLUMNS = ("line", "source", "access", "requests", "sectors", "ideal", "sect/req")


class LinesTable:
    """The costs of each source line as a table that fits any width: the source text alone gives way."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def cells(self) -> dict[str, list[tuple[Text, ...]]]:
        """The rows of each file, a cell per column."""
        found: dict[str, list[tuple[Text, ...]]] = {}
        above = ("", 0)
        for row in self.trace.lines:
            fresh, above = (row.file, row.line) != above, (row.file, row.line)
            source = self.trace.source(row.file, row.line).strip() if fresh else ""
            number = str(row.line) if fresh else ""
            access = Text(f"{row.operation} {row.array}")
            found.setdefault(row.file, []).append((Text(number), Text(source, CODE), access, *_counts(row)))
        return found

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """A table per file, all with the same columns."""
        cells = self.cells()
        rows = [row for listed in cells.values() for row in listed]
        widths = [max(len(name), *(row[k].cell_len for row in rows)) for k, name in enumerate(COLUMNS)]
        widths[1] = max(min(widths[1], options.max_width - sum(widths) + widths[1] - len(COLUMNS) + 1), 6)
        for place, (file, listed) in enumerate(cells.items()):
            yield Text(PurePath(file).name, style=HEAD)
            table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style=QUIET, show_header=place == 0)
            for k, name in enumerate(COLUMNS):
                justify: Literal["left", "right"] = "left" if k in (1, 2) else "right"
                table.add_column(name, justify=justify, width=widths[k], no_wrap=True, overflow="ellipsis")
            for row in listed:
                table.add_row(*row)
            yield from console.render(table, options.update(width=sum(widths) + len(COLUMNS) - 1))


def _counts(row: LineRow) -> tuple[Text, ...]:
    """The four numbers; sectors stand out where there are more than ideal.  Shared memory has no sectors."""
    if row.space != "global":
        return Text(str(row.requests)), Text(row.space, QUIET), Text("", QUIET), Text("", QUIET)
    style = COSTLY if row.sectors > row.ideal else ""
    each = f"{row.sectors / row.requests:.2f}" if row.requests else ""
    return Text(str(row.requests)), Text(str(row.sectors), style), Text(str(row.ideal)), Text(each, style)


def findings(found: Iterable[Finding]) -> RenderableType:
    """What is wrong: severity, kind, sentence, place and the likely mend."""
    lines = []
    for finding in found:
        said = _unbroken(f"{finding.severity}: {finding.kind}: ", SEVERITY[finding.severity]).append(
            finding.message, style="not bold default"
        )
        said.append(f"\n  {finding.mend}" if finding.mend else "", style=QUIET)
        lines.append(said)
    return Group(*lines) if lines else Text("no findings", style="green")
