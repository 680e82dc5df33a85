"""A profile as text and as JSON: what each source line costs, the bytes and their time, occupancy.

Rules of this file: functions make rich renderables and print nothing.  Numbers are never shortened, only source text
is; what costs more than it has to stands out, and everything is readable without colour.

JSON is schema ``numba-sim/profile``, version 1: kernel, launch; card {name, capability, multiprocessors, bandwidth};
``memory`` (table: file line source array operation space requests sectors ideal wavefronts ideal_wavefronts lanes
bytes), ``operations`` (table: file line kind dtype issued lanes); ``arrays`` (table: array requested read written);
``bytes`` {requested, least, seconds}; ``occupancy`` {registers, shared, blocks, warps, most, part, limits, limited_by,
waves} or null, then ``no_occupancy`` says why; findings as in ``views.json``.  Of a script ``numba-sim/profiles``:
``launches``, a list of these, each with ``times``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from simulator.views.text import CODE, COSTLY, HEAD, QUIET, findings, head

if TYPE_CHECKING:
    from simulator.cost.profile import Line, Profile
    from simulator.trace import LineRow, OperationRow

SCHEMA, VERSION = "numba-sim/profile", 1

MEMORY = ("line", "source", "access", "requests", "moved", "ideal", "excess", "lanes")
NARROWEST = 12
"""Columns that the source text keeps on a narrow terminal."""


def report(profile: Profile) -> Group:
    """The whole profile."""
    trace = profile.trace
    if not trace.ran:
        return Group(head(trace), Text(), findings(trace.findings))
    return Group(
        head(trace), Text(),
        memory_table(profile), Text(),
        work_table(profile), Text(),
        bytes_table(profile), Text(),
        occupancy_lines(profile), Text(),
        findings(trace.findings),
    )  # fmt: skip


def reports(launches: Sequence[tuple[Profile, int]]) -> list[RenderableType]:
    """Several profiles, each with how often it was launched so."""
    said: list[RenderableType] = []
    for profile, times in launches:
        said += [
            report(profile),
            Text(f"launched so {times} times" if times > 1 else "launched so once", QUIET),
            Text(),
        ]
    return said


# -- source lines ---------------------------------------------------------------------------------------------------

Row = tuple[Text, ...]


class Sheet:
    """A table of source lines that fits any width: the source, its second column, alone gives way."""

    def __init__(self, title: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        self.title, self.columns, self.rows = title, tuple(columns), rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The title and the table."""
        widths = [max(len(name), *(row[k].cell_len for row in self.rows)) for k, name in enumerate(self.columns)]
        others = sum(widths) - widths[1] + len(widths) - 1
        widths[1] = max(min(widths[1], options.max_width - others), NARROWEST)
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style=QUIET)
        for k, name in enumerate(self.columns):
            left = name in ("source", "access")
            table.add_column(
                name, justify="left" if left else "right", width=widths[k], no_wrap=True, overflow="ellipsis"
            )
        for row in self.rows:
            table.add_row(*row)
        yield Text(self.title, HEAD)
        yield from console.render(table, options.update(width=sum(widths) + len(widths)))


def memory_table(profile: Profile) -> RenderableType:
    """Requests of each line, and what they move against what they have to: sectors, or wavefronts of shared memory."""
    lines = [line for line in profile.lines if line.memory]
    if not lines:
        return Text("no memory access")
    rows: list[Row] = []
    for line in _by_file(lines, rows, len(MEMORY)):
        for place, row in enumerate(line.memory):
            head = _head(profile, line) if place == 0 else (Text(""), Text(""))
            lanes = f"{row.lanes / row.requests:.1f}" if row.requests else ""
            rows.append((*head, Text(f"{row.operation} {row.array}"), _count(row.requests), *_moved(row), Text(lanes)))
    return Sheet("memory: moved are sectors, or wavefronts of shared memory (w)", MEMORY, rows)


def _moved(row: LineRow) -> tuple[Text, Text, Text]:
    """Moved, ideal and excess."""
    if row.space == "global":
        moved, ideal, unit = row.sectors, row.ideal, ""
    elif row.wavefronts is not None and row.ideal_wavefronts is not None:
        moved, ideal, unit = row.wavefronts, row.ideal_wavefronts, " w"
    else:
        return Text(row.space, QUIET), Text(""), Text("")
    style = COSTLY if moved > ideal else ""
    return (
        Text(f"{moved}{unit}", style),
        Text(f"{ideal}{unit}"),
        Text(str(moved - ideal) if moved > ideal else "", style),
    )


def _by_file(lines: Sequence[Line], rows: list[Row], columns: int) -> Iterator[Line]:
    """The lines; where there are several files, a row of its own names each."""
    several, above = len({line.file for line in lines}) > 1, ""
    for line in lines:
        if several and line.file != above:
            above = line.file
            rows.append((Text(""), Text(PurePath(line.file).name, HEAD), *[Text("")] * (columns - 2)))
        yield line


def _head(profile: Profile, line: Line) -> Row:
    return Text(str(line.line)), Text(_source(profile, line), CODE)


def _source(profile: Profile, line: Line) -> str:
    return profile.trace.source(line.file, line.line).strip()


def _count(number: int) -> Text:
    return Text(str(number) if number else "")


# -- what is computed -----------------------------------------------------------------------------------------------

WORK = ("float64", "float32", "float16", "special", "integer", "convert", "address", "memory", "sync")
"""Columns of what is computed.  Special functions and conversions stand out where they are float64."""

_FLOATS = {"f8": "float64", "f4": "float32", "f2": "float16", "bf": "float16"}
_KINDS = {"conversion": "convert", "warp": "sync", "barrier": "sync"}


def work_table(profile: Profile) -> RenderableType:
    """What each line computes, by kind and width, in operations of warps; lanes are active ones, of 32."""
    lines = [line for line in profile.lines if line.operations]
    used = {_column(row) for line in lines for row in line.operations}
    shown = [name for name in WORK if name in used]
    rows: list[Row] = []
    for line in _by_file(lines, rows, len(shown) + 3):
        cells = (_work(line, name) for name in shown)
        rows.append((*_head(profile, line), Text(f"{line.active:.1f}"), *cells))
    if not rows:
        return Text("nothing is computed")
    return Sheet(
        "work: operations of warps, and the lanes of 32 that are active in them",
        ("line", "source", "lanes", *shown),
        rows,
    )


def _column(row: OperationRow) -> str:
    return _FLOATS[row.dtype] if row.kind == "float" else _KINDS.get(row.kind, row.kind)


def _work(line: Line, column: str) -> Text:
    rows = [row for row in line.operations if _column(row) == column]
    wide = any(row.dtype == "f8" and row.kind in ("float", "special", "conversion") for row in rows)
    found = _count(sum(row.issued for row in rows))
    if wide:
        found.stylize(COSTLY)
        if column != "float64":
            found.append(" f64", COSTLY)
    return found


# -- the launch -----------------------------------------------------------------------------------------------------


def bytes_table(profile: Profile) -> RenderableType:
    """Bytes requested against the least, for each array, and what the least takes on the card."""
    if not profile.arrays:
        return Text("no global memory is touched")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=QUIET)
    for name in ("array", "requested", "read once", "written once", "requested / least"):
        table.add_column(name, justify="left" if name == "array" else "right")
    for row in profile.arrays:
        table.add_row(
            row.array, f"{row.requested:,}", f"{row.read:,}", f"{row.written:,}", _ratio(row.requested, row.least)
        )
    read, written = (sum(getattr(row, side) for row in profile.arrays) for side in ("read", "written"))
    if len(profile.arrays) > 1:
        total = _ratio(profile.requested, profile.least)
        table.add_row("all", f"{profile.requested:,}", f"{read:,}", f"{written:,}", total, style=HEAD)
    card = profile.card
    said = Text(f"{profile.least:,} bytes at {card.bandwidth / 1e9:,.0f} GB/s: ", QUIET)
    said.append(duration(profile.seconds), HEAD).append(f" for the bytes alone ({card.name})", QUIET)
    if profile.requested > profile.least:
        whole = duration(profile.requested / card.bandwidth)
        said.append(f"; {whole} for all that is requested, if no cache helped", QUIET)
    return Group(Text("bytes of global memory", HEAD), table, said)


def _ratio(requested: int, least: int) -> Text:
    ratio = requested / least if least else 0.0
    return Text(f"{ratio:.2f}", COSTLY if ratio >= 2 else "")


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> duration(2.56e-06), duration(0.0123)
    ('2.56 µs', '12.3 ms')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def occupancy_lines(profile: Profile) -> RenderableType:
    """Blocks that a multiprocessor holds at once, and what limits them."""
    found, card = profile.occupancy, profile.card
    if found is None:
        return Text(f"occupancy is not known: {profile.no_occupancy}", QUIET)
    said = Text("occupancy ", HEAD).append(f"{found.part:.0%}", HEAD if found.part >= 0.5 else COSTLY)
    said.append(
        f"  {found.blocks} blocks, {found.warps} of {found.most} warps on each of {card.multiprocessors} SMs", QUIET
    )
    limits = ", ".join(f"{name} {blocks}" for name, blocks in found.limits.items())
    lines = [
        f"a thread takes {found.registers} registers, a block {found.shared} bytes of shared memory",
        f"blocks that would fit by {limits}: limited by {' and '.join(found.limited_by)}",
        f"the launch has {profile.blocks:,} blocks, the card holds {found.blocks * card.multiprocessors:,} at once",
    ]
    return Group(said, Padding(Text("\n".join(lines), QUIET), (0, 0, 0, 2), expand=False))


# -- JSON -----------------------------------------------------------------------------------------------------------


def document(profile: Profile) -> dict[str, Any]:
    """The profile as one object that ``json.dumps`` takes."""
    trace, card, found = profile.trace, profile.card, profile.occupancy
    memory = [{**asdict(row), "source": _source(profile, line)} for line in profile.lines for row in line.memory]
    operations = [asdict(row) for line in profile.lines for row in line.operations]
    occupancy = None
    if found is not None:
        facts = asdict(found)
        del facts["card"]
        occupancy = {**facts, "part": found.part, "limited_by": list(found.limited_by), "waves": profile.waves}
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "kernel": trace.kernel,
        "launch": asdict(trace.launch),
        "card": {
            "name": card.name,
            "capability": list(card.capability),
            "multiprocessors": card.multiprocessors,
            "bandwidth": card.bandwidth,
        },
        "memory": _columns(memory, _MEMORY),
        "operations": _columns(operations, ("file", "line", "kind", "dtype", "issued", "lanes")),
        "arrays": _columns(map(asdict, profile.arrays), ("array", "requested", "read", "written")),
        "bytes": {"requested": profile.requested, "least": profile.least, "seconds": profile.seconds},
        "occupancy": occupancy,
        "no_occupancy": profile.no_occupancy,
        "findings": [{**asdict(finding), "launch": None} for finding in trace.findings],
    }


def documents(launches: Sequence[tuple[Profile, int]]) -> dict[str, Any]:
    """Several profiles as one object: ``launches`` is a list of profiles, each with how often it was launched so."""
    listed = [{**document(profile), "times": times} for profile, times in launches]
    return {"schema": f"{SCHEMA}s", "version": VERSION, "launches": listed}


_MEMORY = (
    "file", "line", "source", "array", "operation", "space", "requests", "sectors", "ideal", "wavefronts",
    "ideal_wavefronts", "lanes", "bytes",
)  # fmt: skip


def _columns(rows: Iterable[dict[str, Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    listed = list(rows)
    return {name: [row[name] for row in listed] for name in names}
