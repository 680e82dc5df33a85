"""The index map: which thread reads which element, round by round.

A column is a thread, a row is a round (the first, second, … time that a thread comes to the line), a cell holds the
element.  Below stand the same elements in the order in which memory holds them: a coalesced kernel paints them in
the order of the threads, a blocked one in stripes.

Rules of this file: ``IndexMap`` is the layout, taken from the trace alone; ``describe`` says in words all that
``draw`` shows; what is left out is marked by an ellipsis and counted in the note.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.axes import Axes

from simulator.draw import palette, selection
from simulator.errors import integer

if TYPE_CHECKING:
    from simulator.trace import Trace

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 9.0, 1.05, 0.25, 0.3, 0.75
_STRIP_CELLS = 32


@dataclass(frozen=True)
class IndexMap:
    """``cells[thread][round]``: the first element of that access.  ``wide`` elements go with each access."""

    title: str
    subtitle: str
    array: str
    cells: tuple[tuple[int, ...], ...]
    wide: int
    columns: tuple[int | None, ...]
    rows: tuple[int | None, ...]

    @classmethod
    def of(
        cls, trace: Trace, array: str, *, line: int | None = None, block: int = 0, rounds: int | None = None,
        threads: int | None = None,
    ) -> IndexMap:  # fmt: skip
        """The map of one block's accesses to ``array``; see ``indices``."""
        rows, columns = (
            default if most is None else integer(name, most, least=1)
            for name, most, default in (("rounds", rounds, 8), ("threads", threads, 12))
        )
        found = selection.accesses(trace, array, line=line, block=block)
        first, count = found[0], trace.block[0] * trace.block[1] * trace.block[2]
        cells: list[list[int]] = [[] for _ in range(count)]
        for access in found:
            for lane in access.mask.nonzero()[0]:
                cells[32 * access.warp + int(lane)].append(int(access.elements[lane]))
        many = max(map(len, cells))
        verb = {"load": "reads", "store": "writes"}.get(first.operation, "updates")
        place = f" in block {block}" if trace.grid != (1, 1, 1) else ""
        return cls(
            f"which thread {verb} which element of {array}{place}",
            selection.source(trace, first.file, first.line), array, tuple(map(tuple, cells)),
            max(first.nbytes // first.itemsize, 1), shown(count, columns), shown(many, rows),
        )  # fmt: skip

    @property
    def owners(self) -> dict[int, list[int]]:
        """Each element with the threads that access it, in the order of memory."""
        found: dict[int, list[int]] = {}
        for thread, elements in enumerate(self.cells):
            for start in elements:
                for element in range(start, start + self.wide):
                    threads = found.setdefault(element, [])
                    if thread not in threads:
                        threads.append(thread)
        return dict(sorted(found.items()))

    @property
    def note(self) -> str:
        """How many threads, rounds and elements there are, shown or not."""
        counts = ((len(self.cells), "thread"), (max(map(len, self.cells)), "round"), (len(self.owners), "element"))
        said = ", ".join(f"{count} {noun}{'s' if count > 1 else ''}" for count, noun in counts)
        grey = f"; grey, ×n: {self.array} read by n threads" if max(map(len, self.owners.values())) > 1 else ""
        white = "; white: read by a thread that is left out above" if None in self.columns else ""
        return f"{said} of {self.array}{grey}{white}"

    def describe(self) -> str:
        """The picture in words, a line per thread shown."""
        rows = [self.title, self.subtitle, self.note]
        for thread in self.columns:
            if thread is None:
                rows.append("…")
            else:
                rows.append(f"thread {thread}: {selection.shorten(self.cells[thread]) or 'nothing'}")
        return "\n".join(rows)

    @property
    def size(self) -> tuple[float, float]:
        """Inches."""
        return _WIDTH, _TOP + _ROW * (len(self.rows) + 1) + 1.25

    def colour(self, thread: int) -> str:
        """The thread's fill: neighbours on the picture stay apart also where most threads are left out."""
        listed = [column for column in self.columns if column is not None]
        if thread in listed:
            return palette.thread_colour(listed.index(thread), len(listed))
        return palette.UNTOUCHED

    def draw(self, ax: Axes | None = None) -> Axes:
        """The picture, on ``ax`` or on a figure of its own."""
        width, height = self.size
        ax = palette.canvas(ax, width, height)
        palette.heading(ax, height, self.title, self.subtitle, width)
        cell = min((width - _LEFT - _RIGHT) / len(self.columns), 0.8)
        for number, thread in enumerate(self.columns):
            _draw_column(ax, self, _LEFT + number * cell, cell, height - _TOP, thread)
        y = height - _TOP - _ROW
        for row in self.rows:
            y -= _ROW
            text = "…" if row is None else f"round {row}"
            palette.label(ax, 0.2, y + _ROW / 2, text, across="left", colour=palette.MUTED)
        palette.label(ax, 0.2, height - _TOP - _ROW / 2, "thread", across="left", colour=palette.MUTED)
        _draw_strip(ax, self, y - 0.62)
        palette.label(ax, 0.2, 0.22, self.note, size=8, colour=palette.MUTED, across="left", gid="note")
        return ax


def shown(count: int, room: int) -> tuple[int | None, ...]:
    """Which of ``count`` columns are shown where ``room`` fit; ``None`` stands for the ellipsis.

    >>> shown(4, 12), shown(256, 6)
    ((0, 1, 2, 3), (0, 1, 2, 3, None, 255))
    """
    if count <= room:
        return tuple(range(count))
    tail = max((room - 1) // 3, 1)
    head = max(room - 1 - tail, 1)
    return (*range(head), None, *range(count - tail, count))


def _draw_column(ax: Axes, plan: IndexMap, x: float, width: float, top: float, thread: int | None) -> None:
    middle = x + width / 2
    if thread is None:
        for step in range(len(plan.rows) + 1):
            palette.label(ax, middle, top - (step + 0.5) * _ROW, "…", size=10, colour=palette.MUTED)
        return
    palette.label(ax, middle, top - _ROW / 2, str(thread), bold=True, gid=f"thread-{thread}")
    elements, fill = plan.cells[thread], plan.colour(thread)
    for number, row in enumerate(plan.rows, start=1):
        y = top - (number + 1) * _ROW
        if row is None:
            palette.label(ax, middle, y + _ROW / 2, "⋮", size=10, colour=palette.MUTED)
            continue
        there = row < len(elements)
        palette.box(
            ax, x + 0.02, y + 0.02, width - 0.04, _ROW - 0.04, rounding=0.03, gid=f"cell-{thread}-{row}",
            fill=fill if there else palette.PAPER, dashed=not there,
            edge=palette.mix(fill, palette.INK, 0.35) if there else palette.FAINT,
        )  # fmt: skip
        text = _span(elements[row], plan.wide) if there else "–"
        palette.label(
            ax, middle, y + _ROW / 2 - 0.005, palette.fit(text, width, 8), size=8,
            colour=palette.ink_on(fill) if there else palette.MUTED,
        )  # fmt: skip


def _span(element: int, wide: int) -> str:
    return str(element) if wide == 1 else f"{element}–{element + wide - 1}"


def _draw_strip(ax: Axes, plan: IndexMap, y: float) -> None:
    """The elements as memory holds them, in the colour of the thread that accesses them."""
    words = f"{palette.fit(plan.array, 0.4, 8.5)} in\nmemory"
    palette.label(ax, 0.2, y + _ROW / 2, words, across="left", colour=palette.MUTED)
    owners = plan.owners
    elements = list(owners)
    digits = len(str(elements[-1]))
    room = _STRIP_CELLS if digits < 3 else int((_WIDTH - _LEFT - _RIGHT) / (palette.text_width("0" * digits, 7) + 0.1))
    places = shown(len(elements), min(room, _STRIP_CELLS))
    width = (_WIDTH - _LEFT - _RIGHT) / max(len(places), 12)
    for number, at in enumerate(places):
        x = _LEFT + number * width
        if at is None:
            palette.label(ax, x + width / 2, y + _ROW / 2, "…", size=10, colour=palette.MUTED)
            continue
        threads = owners[elements[at]]
        fill = plan.colour(threads[0]) if len(threads) == 1 else palette.FAINT
        palette.box(ax, x, y, width, _ROW, fill=fill, edge=palette.MUTED, line=0.5, gid=f"element-{elements[at]}")
        palette.label(ax, x + width / 2, y + _ROW / 2 - 0.005, str(elements[at]), size=7, colour=palette.ink_on(fill))
        if len(threads) > 1:
            palette.label(ax, x + width / 2, y - 0.1, f"×{len(threads)}", size=7, colour=palette.MUTED)


def indices(
    trace: Trace, array: str, *, line: int | None = None, block: int = 0, rounds: int | None = None,
    threads: int | None = None, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw which thread reads which element of ``array``: a column per thread, a row per round.

    Parameters
    ----------
    trace
        What ``simulate`` returned.
    array
        The argument's name.
    line
        The source line; by default the first that loads ``array``.
    block
        The block, by its linear index.
    rounds, threads
        How many rows and columns at most (8 and 12); the first and the last are kept, with an ellipsis between.
    ax
        Where to draw; by default on a new figure, 9 inches wide.

    Returns
    -------
    matplotlib.axes.Axes
        Cells hold flat element offsets in C order and wear the colour of their thread, as do the elements in memory
        below.  ``IndexMap.of(...).describe()`` says the same in words.

    Raises
    ------
    NothingToDraw
        The trace holds no such access.
    """
    return IndexMap.of(trace, array, line=line, block=block, rounds=rounds, threads=threads).draw(ax)
