"""Colours and drawing primitives that every picture shares.

Rules of this file:

* Lengths are inches: the axes of a picture run from 0 to its width and from 0 to its height in inches, so that a
  box can be sized for the text it holds.  On an ``ax`` that the caller brings, the picture keeps its proportions.
* Colour never carries a meaning alone; a hatch, a dash or a word goes with it.  The hues are those of Okabe and
  Ito (2008), which readers with a colour vision deficiency tell apart.
* Every artist gets a ``gid`` that names what it shows (``lane-3``, ``sector-0-2``): an SVG keeps it as the id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.text import Text

INK, MUTED, FAINT, PAPER = "#1B1F24", "#59636E", "#C9D1D9", "#FFFFFF"
USED, FETCHED, UNTOUCHED = "#0072B2", "#BFDDF0", "#F6F8FA"
SHARED, TOTAL, WRONG = "#F3D9A4", "#A8DCC7", "#C1440E"
THREADS = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#0072B2", "#D55E00", "#8C8C8C")
"""One hue per thread while there are few; past eight threads ``thread_colour`` walks along a scale instead."""

_SCALE = ("#12365B", "#2C6E9E", "#62A7C9", "#B9D9D0", "#F2E2A0", "#EDB458", "#C9772B")
_POINT = 1 / 72
_WIDTH = {"DejaVu Sans": 0.60, "DejaVu Sans Mono": 0.603}


def mix(colour: str, other: str, share: float) -> str:
    """``colour`` with ``share`` (0..1) of ``other`` in it, as a hex string.

    >>> mix("#000000", "#ffffff", 0.5)
    '#808080'
    """
    pairs = zip(to_rgb(colour), to_rgb(other), strict=True)
    return "#" + "".join(f"{round(255 * (one + (two - one) * share)):02x}" for one, two in pairs)


def thread_colour(thread: int, threads: int) -> str:
    """The fill that stands for ``thread`` of ``threads``: light enough, or dark enough, to be written on."""
    if threads <= len(THREADS):
        return mix(THREADS[thread], PAPER, 0.45)
    place = thread / (threads - 1) * (len(_SCALE) - 1)
    left = min(int(place), len(_SCALE) - 2)
    return mix(mix(_SCALE[left], _SCALE[left + 1], place - left), PAPER, 0.12)


def ink_on(fill: str) -> str:
    """Black or white, whichever is read better on ``fill``.

    >>> ink_on("#ffffff") == INK, ink_on("#12365B") == PAPER
    (True, True)
    """
    red, green, blue = to_rgb(fill)
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else PAPER


def text_width(text: str, size: float, mono: bool = False) -> float:
    """Roughly how many inches wide ``text`` stands at ``size`` points."""
    return len(text) * size * _POINT * _WIDTH["DejaVu Sans Mono" if mono else "DejaVu Sans"]


def fit(text: str, width: float, size: float, mono: bool = False) -> str:
    """``text``, cut with an ellipsis where it would stand wider than ``width`` inches."""
    room = int(width / text_width("0", size, mono))
    return text if len(text) <= room else text[: max(room - 1, 1)].rstrip() + "…"


def canvas(ax: Axes | None, width: float, height: float) -> Axes:
    """Axes of ``width`` x ``height`` inches without frame: a new figure's, or ``ax`` made ready."""
    if ax is None:
        from matplotlib import pyplot  # only here: it costs more than the rest and keeps the figure in a registry

        ax = pyplot.figure(figsize=(width, height)).add_axes((0.0, 0.0, 1.0, 1.0))
    elif not isinstance(ax, Axes):
        raise TypeError(f"ax is a matplotlib Axes, not {type(ax).__name__}")
    ax.set_xlim(0, width)
    ax.set_ylim(0, height)
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax


def box(
    ax: Axes, x: float, y: float, width: float, height: float, *, fill: str = PAPER, edge: str = FAINT,
    line: float = 0.7, dashed: bool = False, hatch: str | None = None, rounding: float = 0.0, gid: str = "",
    order: float = 2.0,
) -> FancyBboxPatch:  # fmt: skip
    """A rectangle with its lower left corner at (x, y)."""
    style = f"round,pad=0,rounding_size={rounding}" if rounding else "square,pad=0"
    patch = FancyBboxPatch(
        (x, y), width, height, boxstyle=style, facecolor=fill, edgecolor=edge, linewidth=line, hatch=hatch,
        linestyle="--" if dashed else "-", zorder=order, mutation_aspect=1.0,
    )  # fmt: skip
    patch.set_gid(gid or None)
    ax.add_patch(patch)
    return patch


def label(
    ax: Axes, x: float, y: float, text: str, *, size: float = 8.5, colour: str = INK, across: str = "center",
    up: str = "center", mono: bool = False, bold: bool = False, turned: bool = False, gid: str = "",
) -> Text:  # fmt: skip
    """Words at (x, y); ``turned`` by a quarter, reading upwards."""
    style: dict[str, Any] = {"fontfamily": "DejaVu Sans Mono" if mono else "DejaVu Sans"}
    written = ax.text(
        x, y, text, fontsize=size, color=colour, ha=across, va=up, zorder=6, rotation=90 if turned else 0,
        fontweight="bold" if bold else "normal", parse_math=False, linespacing=1.3, **style,
    )  # fmt: skip
    written.set_gid(gid or None)
    return written


def arrow(
    ax: Axes, start: tuple[float, float], end: tuple[float, float], *, colour: str = MUTED, line: float = 0.9,
    head: float = 5.0, bend: float = 0.0, dashed: bool = False, gid: str = "",
) -> FancyArrowPatch:  # fmt: skip
    """An arrow from ``start`` to ``end``; ``head`` in points, 0 for a plain line."""
    patch = FancyArrowPatch(
        start, end, arrowstyle=f"-|>,head_length={head},head_width={head / 2.6}" if head else "-",
        connectionstyle=f"arc3,rad={bend}", color=colour, linewidth=line, shrinkA=0, shrinkB=0, mutation_scale=1,
        linestyle="--" if dashed else "-", zorder=3, capstyle="butt", joinstyle="miter",
    )  # fmt: skip
    patch.set_gid(gid or None)
    ax.add_patch(patch)
    return patch


def stroke(
    ax: Axes, xs: Sequence[float], ys: Sequence[float], *, colour: str = MUTED, line: float = 0.8, order: float = 2.5
) -> Line2D:
    """A line through the points."""
    drawn = Line2D(list(xs), list(ys), color=colour, linewidth=line, zorder=order, solid_capstyle="round")
    ax.add_line(drawn)
    return drawn


def gap(ax: Axes, x: float, y: float, height: float) -> None:
    """The sign for left-out addresses: two slanted strokes across a strip."""
    for shift in (-0.025, 0.025):
        stroke(ax, (x + shift - 0.02, x + shift + 0.02), (y + 0.3 * height, y + 0.7 * height), colour=MUTED)


def legend(ax: Axes, x: float, y: float, entries: Sequence[tuple[str, str]], *, size: float = 8.0) -> None:
    """Filled squares with words, in one row that starts at (x, y)."""
    for fill, words in entries:
        box(ax, x, y - 0.06, 0.15, 0.12, fill=fill, edge=MUTED, line=0.5)
        label(ax, x + 0.21, y, words, size=size, colour=MUTED, across="left")
        x += 0.21 + text_width(words, size) + 0.22


def heading(ax: Axes, height: float, title: str, subtitle: str, width: float, margin: float = 0.2) -> None:
    """The two lines on top of every picture: what it shows, and the source line that did it."""
    above = fit(title, width - 2 * margin, 10.5)
    label(ax, margin, height - 0.22, above, size=10.5, across="left", bold=True, gid="title")
    below = fit(subtitle, width - 2 * margin, 8.5, mono=True)
    label(ax, margin, height - 0.46, below, size=8.5, across="left", colour=MUTED, mono=True, gid="subtitle")
