"""The benchmark's results as tables: lines of results.jsonl in, rich and Markdown out.

A share is bytes per second by the least bytes (``gpu_points.PASSES``), over those of a copy that was measured in the
same rounds.  Only what plan.py chooses is set beside the others; the rest is a table of its own, for tuning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Table

OTHERS = ("torch", "torch.compile", "CuPy")

Row = dict[str, Any]
Cells = list[list[str]]


def bandwidth(row: Row) -> float:
    """Bytes per second.

    >>> bandwidth({"bytes": 4e9, "median": 0.002})
    2000000000000.0
    """
    return float(row["bytes"] / row["median"])


def share(row: Row, copy: Row) -> float:
    """Of the bandwidth of the copy."""
    return bandwidth(row) / bandwidth(copy)


def by_point(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The measurements of each point, in order.  Where one was repeated, the last counts."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row.get("kind") == "bench":
            found.setdefault(row["point"], {})[row["way"]] = row
    return {point: list(ways.values()) for point, ways in found.items()}


def _only(rows: Sequence[Row], way: str) -> Row | None:
    return next((row for row in rows if row["way"] == way), None)


def _chosen(rows: Sequence[Row]) -> Row | None:
    return next((row for row in rows if row.get("chosen")), None)


HEADINGS = ("what", "path", "µs", "spread", "GB/s", "of a copy", "copy GB/s", *(f"{other} µs" for other in OTHERS))


def compared(rows: Iterable[Row]) -> Cells:
    """A line for each point: what the public function does, and how long others take for the same."""
    cells = []
    for point, ways in by_point(rows).items():
        ours, copy = _chosen(ways), _only(ways, "copy")
        if ours is None or copy is None:
            continue
        others = [_only(ways, other) for other in OTHERS]
        cells.append([
            point, ours["way"] + (" WRONG" if ours.get("wrong") else ""), _microseconds(ours), _spread(ours),
            f"{bandwidth(ours) / 1e9:.0f}", f"{share(ours, copy):.0%}", f"{bandwidth(copy) / 1e9:.0f}",
            *("-" if other is None else _microseconds(other) for other in others),
        ])  # fmt: skip
    return cells


def _microseconds(row: Row) -> str:
    return f"{row['median'] * 1e6:.1f}"


def _spread(row: Row) -> str:
    """Half the way from quartile to quartile, of the median."""
    return f"±{(row['high'] - row['low']) / 2 / row['median']:.1%}"


TUNING = ("what", "chosen", "fastest", "gain", "all, µs")


def tuned(rows: Iterable[Row]) -> Cells:
    """A line for each point where there was a choice: the chosen way, the fastest, and all of them in order."""
    cells = []
    for point, ways in by_point(rows).items():
        ours, chosen = sorted((w for w in ways if "chosen" in w), key=lambda way: way["median"]), _chosen(ways)
        if len(ours) > 1 and chosen is not None:
            times = "; ".join(f"{way['way']}: {_microseconds(way)}" for way in ours)
            gain = f"{chosen['median'] / ours[0]['median'] - 1:.1%}"
            cells.append([point, chosen["way"], ours[0]["way"], gain, times])
    return cells


HOST = ("call on the host", "µs", "spread", "of a bare launch")


def on_host(rows: Iterable[Row]) -> Cells:
    """A line for each call."""
    found = [row for row in rows if row.get("kind") == "host"]
    bare = next((row["median"] for row in found if row["call"] == "bare launch"), float("nan"))
    return [[row["call"], f"{row['median'] * 1e6:.2f}", _spread(row), f"{row['median'] / bare:.2f}"] for row in found]


TABLES = (("Norms on the card", HEADINGS, compared), ("Ways", TUNING, tuned), ("On the host", HOST, on_host))


def markdown(rows: Sequence[Row]) -> str:
    """All tables that have a line."""
    parts = []
    for title, headings, make in TABLES:
        if cells := make(rows):
            lines = [headings, ["---"] * len(headings), *cells]
            parts.append(f"## {title}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(parts) + "\n" if parts else ""


def rich_tables(rows: Sequence[Row]) -> list[Table]:
    """The same for a terminal."""
    tables = []
    for title, headings, make in TABLES:
        if cells := make(rows):
            table = Table(*headings, title=title)
            for line in cells:
                table.add_row(*line)
            tables.append(table)
    return tables
