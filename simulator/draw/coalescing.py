"""The coalescing strip: which bytes the 32 lanes of a warp ask for, and which sectors that fetches.

Theory.  A memory instruction of a warp is one *request*.  The memory system answers it in *sectors* of 32 bytes,
four to a cache line of 128 bytes.  Every sector that any active lane touches is fetched whole, once.  The *ideal* is
the number of sectors that the distinct bytes would fill if they lay side by side.

Rules of this file: ``Strip`` is the layout, taken from the trace alone; ``describe`` says in words all that ``draw``
shows; nothing is simulated here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from simulator.draw import palette, selection
from simulator.errors import integer

if TYPE_CHECKING:
    from simulator.trace import Trace

SECTOR, LINE, LANES = 32, 128, 32
_WIDTH, _HEIGHT, _LEFT, _RIGHT = 9.0, 3.35, 0.85, 0.25
_LEGEND = ((palette.USED, "bytes used"), (palette.FETCHED, "fetched with them"), (palette.UNTOUCHED, "not fetched"))
_LANE_TOP, _LANE, _STRIP_TOP, _STRIP = 2.62, 0.25, 1.52, 0.42


@dataclass(frozen=True)
class Strip:
    """One request of one warp.  ``begins`` and ``elements`` hold a value per lane, ``None`` where it is inactive.

    ``begins`` are bytes from the start of the array, ``nbytes`` what a lane moves; ``origin`` is the address of the
    array modulo 128, so that sectors and lines fall where they fall on the card.
    """

    title: str
    subtitle: str
    note: str
    begins: tuple[int | None, ...]
    elements: tuple[int | None, ...]
    nbytes: int
    origin: int

    @classmethod
    def of(
        cls, trace: Trace, array: str, *, line: int | None = None, warp: int = 0, block: int = 0, request: int = 0
    ) -> Strip:
        """The strip of the ``request``-th request of that warp for ``array`` (at ``line``); see ``coalescing``."""
        found = selection.accesses(trace, array, line=line, block=block, warp=integer("warp", warp))
        if not -len(found) <= integer("request", request) < len(found):
            made = "1 request" if len(found) == 1 else f"{len(found)} requests"
            raise selection.NothingToDraw(f"warp {warp} of block {block} made {made}: there is no request {request}")
        access = found[request]
        start = trace.arrays[array].address or 0
        mask = [bool(on) for on in access.mask]
        begins = tuple(int(a) - start if on else None for a, on in zip(access.addresses, mask, strict=True))
        elements = tuple(int(e) if on else None for e, on in zip(access.elements, mask, strict=True))
        strip = cls("", "", "", begins, elements, access.nbytes, start % LINE)
        many = "sector" if len(strip.sectors) == 1 else "sectors"
        return cls(
            f"{access.operation} of {array}: 1 request, {len(strip.sectors)} {many}, ideal {strip.ideal}",
            selection.source(trace, access.file, access.line),
            f"request {request % len(found) + 1} of {len(found)} by warp {warp} of block {block}"
            f"{_launch(trace, array, access.line, access.operation)}",
            begins, elements, access.nbytes, start % LINE,
        )  # fmt: skip

    @property
    def active(self) -> list[int]:
        """The lanes that take part."""
        return [lane for lane, begin in enumerate(self.begins) if begin is not None]

    def _bytes(self) -> np.ndarray:
        first = np.array([begin for begin in self.begins if begin is not None], dtype=np.int64)
        return np.unique(first[:, None] + np.arange(self.nbytes)) + self.origin

    @property
    def sectors(self) -> list[int]:
        """The sectors that are fetched, numbered from the line in which the array begins."""
        return [int(sector) for sector in np.unique(self._bytes() // SECTOR)]

    @property
    def ideal(self) -> int:
        """Sectors that the distinct bytes would fill."""
        return -(-self._bytes().size // SECTOR)

    @property
    def lines(self) -> list[int]:
        """The cache lines that are touched, numbered from the one in which the array begins."""
        return sorted({sector * SECTOR // LINE for sector in self.sectors})

    @property
    def used(self) -> dict[int, int]:
        """How many distinct bytes of each fetched sector are used."""
        sectors, counts = np.unique(self._bytes() // SECTOR, return_counts=True)
        return {int(sector): int(count) for sector, count in zip(sectors, counts, strict=True)}

    def describe(self) -> str:
        """The picture in words, a line per fetched sector."""
        rows = [self.title, self.subtitle, self.note, f"active lanes: {len(self.active)} of {LANES}"]
        rows.append("sector  bytes of the array  used  lanes")
        for sector, used in self.used.items():
            first = sector * SECTOR - self.origin
            lanes = [lane for lane in self.active if self._touches(lane, first)]
            rows.append(f"{sector:6d}  {f'{first}..{first + SECTOR - 1}':>18}  {used:4d}  {_ranges(lanes)}")
        return "\n".join(rows)

    def _touches(self, lane: int, first: int) -> bool:
        begin = self.begins[lane]
        return begin is not None and begin < first + SECTOR and begin + self.nbytes > first

    def draw(self, ax: Axes | None = None) -> Axes:
        """The picture, on ``ax`` or on a figure of its own."""
        ax = palette.canvas(ax, _WIDTH, _HEIGHT)
        palette.heading(ax, _HEIGHT, self.title, self.subtitle, _WIDTH)
        scale = _Scale(self)
        _draw_lanes(ax, self)
        _draw_memory(ax, self, scale)
        _draw_bytes(ax, self, scale)
        palette.legend(ax, _LEFT, 0.52, _LEGEND)
        palette.label(ax, _LEFT, 0.22, self.note, size=8, colour=palette.MUTED, across="left", gid="note")
        return ax

    size = (_WIDTH, _HEIGHT)


class _Scale:
    """Where a byte stands: touched lines side by side, with a break where lines are left out."""

    def __init__(self, strip: Strip) -> None:
        self.lines = strip.lines
        breaks = [b - a > 1 for a, b in zip(self.lines, self.lines[1:], strict=False)]
        between, broken = (0.05, 0.2) if len(self.lines) <= 16 else (0.025, 0.075)
        gaps = [broken if wide else between for wide in breaks]
        room = _WIDTH - _LEFT - _RIGHT
        self.width = (room - sum(gaps)) / max(len(self.lines), 1)
        self.starts = [_LEFT + i * self.width + sum(gaps[:i]) for i in range(len(self.lines))]
        self.breaks = [i for i, wide in enumerate(breaks) if wide]
        self.broken = broken

    def x(self, byte: int) -> float:
        """The place of a byte, counted from the line in which the array begins."""
        number = self.lines.index(byte // LINE)
        return self.starts[number] + byte % LINE / LINE * self.width


def _draw_lanes(ax: Axes, strip: Strip) -> None:
    palette.label(ax, 0.2, _LANE_TOP - _LANE / 2, "lanes", across="left", colour=palette.MUTED)
    for lane in range(LANES):
        on = strip.begins[lane] is not None
        palette.box(
            ax, _lane_x(lane), _LANE_TOP - _LANE, _lane_x(1) - _LEFT - 0.02, _LANE, rounding=0.03, gid=f"lane-{lane}",
            fill=palette.mix(palette.USED, palette.PAPER, 0.75) if on else palette.UNTOUCHED,
            edge=palette.USED if on else palette.FAINT, dashed=not on, hatch=None if on else "/////",
        )  # fmt: skip
        colour = palette.INK if on else palette.MUTED
        palette.label(ax, _lane_x(lane + 0.5) - 0.01, _LANE_TOP - _LANE / 2 - 0.005, str(lane), size=7, colour=colour)


def _lane_x(lane: float) -> float:
    return _LEFT + lane * (_WIDTH - _LEFT - _RIGHT) / LANES


def _draw_memory(ax: Axes, strip: Strip, scale: _Scale) -> None:
    palette.label(ax, 0.2, _STRIP_TOP - _STRIP / 2 + 0.07, "sectors", across="left", colour=palette.MUTED)
    palette.label(ax, 0.2, _STRIP_TOP - _STRIP / 2 - 0.08, "(32 B)", across="left", colour=palette.MUTED, size=7.5)
    palette.label(ax, 0.2, _STRIP_TOP - _STRIP - 0.24, "lines", across="left", colour=palette.MUTED)
    palette.label(ax, 0.2, _STRIP_TOP - _STRIP - 0.39, "(128 B)", across="left", colour=palette.MUTED, size=7.5)
    if not scale.lines:
        palette.label(ax, _WIDTH / 2, _STRIP_TOP - _STRIP / 2, "no lane is active: nothing is fetched", bold=True)
        return
    fetched = set(strip.sectors)
    for line, start in zip(scale.lines, scale.starts, strict=True):
        quarter = scale.width / 4
        for sector in range(4 * line, 4 * line + 4):
            on = sector in fetched
            palette.box(
                ax, start + sector % 4 * quarter, _STRIP_TOP - _STRIP, quarter, _STRIP, gid=f"sector-{sector}",
                line=0.6, order=2.2 if on else 2.1, fill=palette.FETCHED if on else palette.UNTOUCHED,
                edge=palette.MUTED if on else palette.FAINT,
            )  # fmt: skip
            if on:  # once more above the bytes, so that full sectors stay apart
                outline = _outline(start + sector % 4 * quarter, quarter)
                palette.stroke(ax, *outline, colour=palette.INK, line=1.3, order=2.6)
        palette.stroke(ax, (start, start, start + scale.width, start + scale.width), _bracket(), colour=palette.MUTED)
    for number in scale.breaks:
        palette.gap(ax, scale.starts[number] + scale.width + scale.broken / 2, _STRIP_TOP - _STRIP, _STRIP)
    _label_lines(ax, strip, scale)


def _outline(x: float, width: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    low = _STRIP_TOP - _STRIP
    return (x, x + width, x + width, x, x), (low, low, _STRIP_TOP, _STRIP_TOP, low)


def _bracket() -> tuple[float, float, float, float]:
    low = _STRIP_TOP - _STRIP - 0.1
    return low + 0.06, low, low, low + 0.06


def _label_lines(ax: Axes, strip: Strip, scale: _Scale) -> None:
    """Below each line its first byte, counted from the start of the array; where they would collide, only some."""
    y, full, size = _STRIP_TOP - _STRIP - 0.24, scale.width > 1.3, 7.5
    texts = [f"bytes {_signed(n * LINE - strip.origin)} … {n * LINE - strip.origin + LINE - 1}" if full
             else _signed(n * LINE - strip.origin) for n in scale.lines]  # fmt: skip
    room = max(palette.text_width(text, size) for text in texts) + 0.1
    every = max(1, int(-(-room // scale.width)))
    for number in range(0, len(texts), every):
        palette.label(ax, scale.starts[number] + scale.width / 2, y, texts[number], size=size, colour=palette.MUTED)
    if not full:
        tail = f"first byte of {'each' if every == 1 else f'every {_ordinal(every)}'} line, from the start of the array"
        palette.label(ax, _WIDTH - _RIGHT, y - 0.17, tail, size=7, colour=palette.MUTED, across="right")


def _draw_bytes(ax: Axes, strip: Strip, scale: _Scale) -> None:
    """The used bytes, and an arrow from each active lane to the middle of its own."""
    drawn: set[int] = set()
    for lane in strip.active:
        begin = (strip.begins[lane] or 0) + strip.origin
        if begin not in drawn:
            drawn.add(begin)
            _draw_element(ax, strip, scale, lane, begin)
        middle = begin + (strip.nbytes - 1) // 2
        target = scale.x(middle) + (0.5 if strip.nbytes % 2 else 1.0) / LINE * scale.width
        palette.arrow(
            ax, (_lane_x(lane + 0.5) - 0.01, _LANE_TOP - _LANE), (target, _STRIP_TOP), line=0.7, head=3.5,
            colour=palette.mix(palette.USED, palette.PAPER, 0.25), gid=f"arrow-{lane}",
        )  # fmt: skip


def _draw_element(ax: Axes, strip: Strip, scale: _Scale, lane: int, begin: int) -> None:
    """One lane's bytes, cut where a line ends, with the element's number if it fits."""
    end = begin + strip.nbytes
    while begin < end:
        stop = min(end, (begin // LINE + 1) * LINE)
        x, width = scale.x(begin), (stop - begin) / LINE * scale.width
        palette.box(
            ax, x, _STRIP_TOP - _STRIP, width, _STRIP, fill=palette.USED, edge=palette.PAPER, order=2.4,
            line=0.5 if width > 0.05 else 0, gid=f"bytes-{lane}",
        )  # fmt: skip
        text = str(strip.elements[lane])
        if palette.text_width(text, 6.5) + 0.05 < width:
            palette.label(ax, x + width / 2, _STRIP_TOP - _STRIP / 2, text, size=6.5, colour=palette.PAPER)
        begin = stop


def _launch(trace: Trace, array: str, line: int, operation: str) -> str:
    """The whole launch in numbers, for the footnote."""
    total = trace.total(array=array, line=line, operation=operation)
    if not total.requests:
        return ""
    each = f"{total.sectors / total.requests:.4g}"
    sums = f"{total.requests} requests, {total.sectors} sectors ({each} each), ideal {total.ideal}"
    return f";  whole launch, this line: {sums}"


def _signed(number: int) -> str:
    return str(number).replace("-", "−")


def _ordinal(number: int) -> str:
    """The number as it counts places.

    >>> _ordinal(2), _ordinal(4)
    ('2nd', '4th')
    """
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10 if number % 100 // 10 != 1 else 0, 'th') }"


def _ranges(lanes: list[int]) -> str:
    """Lanes as ranges.

    >>> _ranges([0, 1, 2, 7])
    '0-2, 7'
    """
    runs: list[list[int]] = []
    for lane in lanes:
        if runs and lane == runs[-1][1] + 1:
            runs[-1][1] = lane
        else:
            runs.append([lane, lane])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def coalescing(
    trace: Trace, array: str, *, line: int | None = None, warp: int = 0, block: int = 0, request: int = 0,
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw one request of one warp: 32 lanes over the 32-byte sectors and 128-byte lines that they touch.

    Parameters
    ----------
    trace
        What ``simulate`` returned.
    array
        The argument's name.
    line
        The source line; by default the first that loads ``array``.
    warp, block
        Whose request: the warp within the block, and the block's linear index.
    request
        Which of that warp's requests there, counted from 0.
    ax
        Where to draw; by default on a new figure of 9 x 3.35 inches.

    Returns
    -------
    matplotlib.axes.Axes
        Fetched sectors are filled, the bytes that lanes use stand darker in them.
        ``Strip.of(...).describe()`` says the same in words.

    Raises
    ------
    NothingToDraw
        The trace holds no such request.
    """
    return Strip.of(trace, array, line=line, warp=warp, block=block, request=request).draw(ax)
