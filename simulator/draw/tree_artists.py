"""The artists of the reduction tree: where columns and rows stand, and the boxes, arrows and words on them.

Rules of this file: it draws what a ``TreePlan`` says and decides nothing about the tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.axes import Axes

from simulator.draw import palette, selection
from simulator.draw.reduction import Partial

if TYPE_CHECKING:
    from simulator.draw.tree import TreePlan

ROOMY = 16
"""Columns up to which boxes are wide enough for a horizontal number."""

WIDTH, _LEFT, _RIGHT, _TOP = 9.0, 1.2, 0.25, 0.72
_MEDIA = {"register": palette.MUTED, "shuffle": palette.USED, "memory": "#9A6700"}
_FILLS = {"register": palette.mix(palette.USED, palette.PAPER, 0.88), "memory": palette.SHARED, "total": palette.TOTAL}


class Layout:
    """Where columns and rows stand.  ``dense`` columns carry turned numbers."""

    def __init__(self, plan: TreePlan) -> None:
        self.columns = plan.columns
        self.drawn = [i for i, partial in enumerate(plan.tree.partials) if partial.stage >= plan.first]
        self.stages = [stage for stage in plan.tree.stages if stage >= plan.first]
        self.dense = len(self.columns) > ROOMY
        room = WIDTH - _LEFT - _RIGHT
        self.pitch = min(room / len(self.columns), 1.95)
        self.left = _LEFT + (room - self.pitch * len(self.columns)) / 2 * (len(self.columns) > 2)
        self.box = (min(0.86 * self.pitch, 0.62), 0.56 if self.dense else 0.27)
        self.step = self.box[1] + (0.42 if self.dense else 0.5)
        self.single = plan.first == plan.tree.stages[0] and len(plan.expected) <= 32
        self.shelf = 0.46 if self.single else 1.12 if self.dense else 0.78
        self.height = _TOP + 0.22 + self.shelf + 0.35 + self.step * (len(self.stages) - 1) + self.box[1] + 1.2
        self.elements_top = self.height - _TOP - 0.22

    def x(self, thread: int) -> float:
        """The middle of a thread's column."""
        return self.left + (self.columns.index(thread) + 0.5) * self.pitch

    def y(self, stage: int) -> float:
        """The middle of the row of a stage."""
        return self.elements_top - self.shelf - 0.35 - self.box[1] / 2 - self.stages.index(stage) * self.step


def draw(plan: TreePlan, ax: Axes | None) -> Axes:
    """The whole picture, on ``ax`` or on a figure of its own."""
    layout = Layout(plan)
    ax = palette.canvas(ax, WIDTH, layout.height)
    palette.heading(ax, layout.height, plan.title, plan.subtitle, WIDTH)
    _draw_rows(ax, plan, layout)
    for number in layout.drawn:
        _draw_edges(ax, plan, layout, number)
    for number in layout.drawn:
        _draw_partial(ax, plan, layout, number)
    _draw_elements(ax, plan, layout)
    _draw_footer(ax, plan, layout)
    return ax


def _draw_rows(ax: Axes, plan: TreePlan, layout: Layout) -> None:
    """What each row is, at the left margin."""
    threads = len({partial.thread for partial in plan.tree.partials})
    folded = f"{threads} threads, folded" if plan.first != plan.tree.stages[0] else ""
    rows = [(layout.elements_top - layout.shelf / 2, f"{palette.fit(plan.tree.array, 0.9, 8.5)} in memory", folded)]
    for stage in layout.stages:
        here = [p for p in plan.tree.partials if p.stage == stage]
        rows.append((layout.y(stage), *_row_words(plan, here, stage == plan.tree.stages[0])))
    rows.append((layout.elements_top + 0.17, "thread", ""))
    size = 8.0 if not layout.dense else 7.0 if layout.pitch > 0.2 else 5.5
    room = palette.text_width(str(layout.columns[-1]), size) + 0.04
    for place, thread in enumerate(layout.columns):
        if place % max(1, 4 * (room > layout.pitch)) == 0:
            x = layout.x(thread)
            palette.label(ax, x, layout.elements_top + 0.17, str(thread), size=size, bold=True, gid=f"thread-{thread}")
    for y, words, more in rows:
        palette.label(ax, 0.2, y + (0.08 if more else 0), words, across="left", colour=palette.MUTED, size=8)
        palette.label(ax, 0.2, y - 0.08, more, across="left", colour=palette.MUTED, size=7)


def _row_words(plan: TreePlan, partials: list[Partial], first: bool) -> tuple[str, str]:
    media = {medium for partial in partials for _, medium in partial.sources}
    if first or not media - {"register"}:
        return "registers", f"{len(partials)} threads" if len(partials) > 1 else ""
    if "memory" in media:
        arrays = sorted({name for partial in partials for name in partial.arrays})
        return "shared memory", palette.fit(", ".join(arrays), 0.9, 7)
    pairs = [(plan.tree.partials[s].thread, p.thread) for p in partials for s, m in p.sources if m == "shuffle"]
    apart = sorted({abs(one - other) for one, other in pairs})
    return "shuffle", f"{apart[0]} apart" if len(apart) == 1 else f"{apart[0]} to {apart[-1]} apart"


def _draw_edges(ax: Axes, plan: TreePlan, layout: Layout, number: int) -> None:
    partial, half = plan.tree.partials[number], layout.box[1] / 2
    for (source, medium), count in partial.sources.items():
        other = plan.tree.partials[source]
        if other.stage < plan.first:
            continue
        start = layout.x(other.thread), layout.y(other.stage) - half
        aside = (other.thread > partial.thread) - (other.thread < partial.thread)  # heads do not cover each other
        end = layout.x(partial.thread) + 0.25 * aside * layout.box[0], layout.y(partial.stage) + half
        palette.arrow(
            ax, start, end, colour=_MEDIA[medium], line=1.1, head=4.0 if layout.dense else 5.0,
            gid=f"edge-{source}-{number}-{medium}",
        )  # fmt: skip
        if count > 1:
            middle = (start[0] + end[0]) / 2 + 0.12, (start[1] + end[1]) / 2
            palette.label(ax, *middle, f"×{count}", size=7.5, colour=palette.WRONG, bold=True)


def _draw_partial(ax: Axes, plan: TreePlan, layout: Layout, number: int) -> None:
    partial, (width, height) = plan.tree.partials[number], layout.box
    total = partial is plan.tree.total
    kind = "total" if total else "memory" if partial.arrays else "register"
    twice = partial.times > 1
    x, y = layout.x(partial.thread), layout.y(partial.stage)
    palette.box(
        ax, x - width / 2, y - height / 2, width, height, rounding=0.05 if layout.dense else 0.09, fill=_FILLS[kind],
        edge=palette.WRONG if twice else palette.INK if total else palette.MUTED, line=1.6 if twice or total else 0.8,
        gid=f"partial-{number}", order=4,
    )  # fmt: skip
    size = min(8.0, 72 * width / 1.25) if layout.dense else 8.0
    text = number_words(partial.value, 3 if layout.dense else 4)
    palette.label(ax, x, y - 0.005, text, size=size, turned=layout.dense, bold=total)
    if twice and not layout.dense:
        beside = x + width / 2 + 0.02, y + height / 2
        palette.label(ax, *beside, f"×{partial.times}", size=7, colour=palette.WRONG, bold=True, across="left")


def _draw_elements(ax: Axes, plan: TreePlan, layout: Layout) -> None:
    """What each thread of the first row holds, above it."""
    first = {plan.tree.partials[n].thread: n for n in layout.drawn if plan.tree.partials[n].stage == plan.first}
    later = [p for p in plan.tree.partials if p.own and p.stage > plan.first]
    lost: dict[int, list[int]] = {}
    for element in plan.missing:
        if plan.readers.get(element) in layout.columns:
            lost.setdefault(plan.readers[element], []).append(element)
    for thread in layout.columns:
        held = plan.tree.held(first[thread]) if thread in first else []
        held += [element for partial in later if partial.thread == thread for element in partial.own]
        elements = sorted({*held, *lost.get(thread, [])})
        if not elements:
            continue
        if layout.single:
            _draw_singly(ax, plan, layout, thread, elements)
        else:
            _draw_list(ax, plan, layout, thread, elements)
        if held:
            x, half = layout.x(thread), layout.box[1] / 2
            start = layout.elements_top - layout.shelf - 0.02
            palette.arrow(
                ax, (x, start), (x, layout.y(plan.first) + half), colour=palette.MUTED, head=4.0, gid=f"load-{thread}"
            )


def _draw_singly(ax: Axes, plan: TreePlan, layout: Layout, thread: int, elements: list[int]) -> None:
    """A box per element: its offset above, its value inside."""
    width = min(0.9 * layout.pitch / len(elements), 0.46)
    left = layout.x(thread) - width * len(elements) / 2
    top = layout.elements_top - 0.14
    counts = plan.tree.elements
    values = {element: value for partial in plan.tree.partials for element, value in partial.values.items()}
    for place, element in enumerate(elements):
        x, count = left + place * width, counts[element]
        wrong = count != 1
        fill = palette.thread_colour(layout.columns.index(thread), len(layout.columns))
        palette.box(
            ax, x + 0.015, top - 0.3, width - 0.03, 0.27, fill=fill if count else palette.PAPER, rounding=0.02,
            edge=palette.WRONG if wrong else palette.MUTED, line=1.8 if wrong else 0.6, dashed=not count,
            gid=f"element-{element}", order=4,
        )  # fmt: skip
        text = number_words(values[element], 3) if count else "lost"
        size = 7.0 if palette.text_width(text, 7.0) < width else 6.0
        ink = palette.ink_on(fill) if count else palette.WRONG
        palette.label(ax, x + width / 2, top - 0.17, palette.fit(text, width, size), size=size, colour=ink)
        mark = f"{element} ×{count}" if count > 1 else str(element)
        palette.label(
            ax, x + width / 2, top + 0.06, mark, size=7, colour=palette.WRONG if wrong else palette.MUTED, bold=wrong
        )


def _draw_list(ax: Axes, plan: TreePlan, layout: Layout, thread: int, elements: list[int]) -> None:
    """A box per thread that lists its elements."""
    counts = plan.tree.elements
    wrong = sorted({counts[e] for e in elements} - {1})
    width, height = min(0.9 * layout.pitch, 0.8), layout.shelf - 0.04
    x, top = layout.x(thread), layout.elements_top
    palette.box(
        ax, x - width / 2, top - height, width, height, rounding=0.03, fill=palette.UNTOUCHED, gid=f"elements-{thread}",
        edge=palette.WRONG if wrong else palette.MUTED, line=1.8 if wrong else 0.6, dashed=wrong == [0], order=4,
    )  # fmt: skip
    ink = palette.WRONG if wrong else palette.INK
    if wrong and wrong[-1] > 1:
        palette.label(ax, x, top + 0.05, f"×{wrong[-1]}", size=6, colour=palette.WRONG, bold=True)
    if layout.dense:
        size = 6.5 if 72 * width > 8 else 6.0
        text = next(
            t
            for keep in (3, 2, 1)
            if palette.text_width(t := selection.shorten(elements, keep), size) < height or keep == 1
        )
        palette.label(ax, x, top - height / 2, text, size=size, colour=ink, turned=True)
    else:
        rows = [*elements] if len(elements) <= 4 else [*elements[:2], "⋮", elements[-1]]
        palette.label(ax, x, top - height / 2, "\n".join(map(str, rows)), size=7, colour=ink)


def _draw_footer(ax: Axes, plan: TreePlan, layout: Layout) -> None:
    wrong = plan.missing or plan.doubled
    last = plan.tree.total
    x, y = layout.x(last.thread), layout.y(last.stage) - layout.box[1] / 2
    palette.arrow(ax, (x, y), (x, y - 0.25), colour=palette.INK, head=4.0, dashed=True)
    side = "left" if x < WIDTH * 0.7 else "right"
    palette.label(
        ax,
        x - layout.box[0] / 2 if side == "left" else x,
        y - 0.36,
        plan.output,
        size=8.5,
        across=side,
        bold=True,
        gid="output",
    )
    colour = palette.WRONG if wrong else palette.INK
    text = palette.fit(("✗ " if wrong else "✓ ") + plan.verdict, WIDTH - 0.4, 8)
    palette.label(ax, 0.2, 0.2, text, size=8, colour=colour, across="left", bold=bool(wrong), gid="verdict")
    media = [m for m in _MEDIA if any(m == medium for p in plan.tree.partials for _, medium in p.sources)]
    place = 0.2
    for medium in media:
        words = {"register": "own register", "shuffle": "shuffle", "memory": "shared memory"}[medium]
        palette.arrow(ax, (place, 0.42), (place + 0.22, 0.42), colour=_MEDIA[medium], line=1.3, head=4.0)
        palette.label(ax, place + 0.28, 0.42, words, size=8, colour=palette.MUTED, across="left")
        place += 0.28 + palette.text_width(words, 8) + 0.25


def number_words(value: object, digits: int = 4) -> str:
    """A value as short as ``digits`` allow.

    >>> number_words(0.125), number_words(30.0), number_words(None)
    ('0.125', '30', '')
    """
    if value is None:
        return ""
    number = float(value)  # type: ignore[arg-type]
    text = f"{number:.0f}" if 10**digits <= abs(number) < 10**5 else f"{number:.{digits}g}"
    return text.replace("e+0", "e").replace("e-0", "e-").replace("-", "−")
