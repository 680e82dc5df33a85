"""The reduction tree of a run: elements, registers, shuffles, shared memory, total, with the partial values.

A column is a thread.  Rows run downwards: the elements that each thread took from memory, what it made of them in its
registers, then a row per exchange (a shuffle round, a trip through shared memory) up to the total.  An element that
does not reach the total, or reaches it more than once, is marked and listed.

Rules of this file: ``TreePlan`` is the layout, taken from the trace's lineage; ``describe`` says in words all that
``draw`` shows; threads that do not fit are folded into the first row that does, which says how many they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from matplotlib.axes import Axes

from simulator.draw import selection, tree_artists
from simulator.draw.reduction import Reduction, reductions
from simulator.draw.tree_artists import number_words
from simulator.errors import integer, word
from simulator.observers.lineage import element_at

if TYPE_CHECKING:
    from simulator.trace import Trace

MOST_COLUMNS, FOLDED = 64, 32
"""Threads that are drawn at most, and how many where more are folded."""


@dataclass(frozen=True)
class TreePlan:
    """One tree with what should be in it.

    ``first`` is the stage of the first row of partials that is drawn; ``readers`` maps a missing element to the
    thread that read it, if any did.
    """

    title: str
    subtitle: str
    output: str
    tree: Reduction
    expected: tuple[int, ...]
    readers: dict[int, int]
    names: dict[int, str]

    @classmethod
    def of(
        cls, trace: Trace, array: str, index: int | tuple[int, ...] = 0, *, source: str | None = None,
        reduction: int = -1, expected: Iterable[int] | None = None,
    ) -> TreePlan:  # fmt: skip
        """The tree behind ``array[index]``; see ``tree``."""
        selection.check(trace, array)
        lineage = trace.lineage
        shape = trace.arrays[array].shape
        if not isinstance(index, tuple) and shape:
            index = (*(0,) * (len(shape) - 1), index)
        place = element_at(array, shape, index)
        output = lineage.output(array, place)
        try:
            trees = reductions(lineage.nodes, output, None if source is None else word("source", source))
        except LookupError as error:
            raise selection.NothingToDraw(f"{array}[{', '.join(map(str, place))}]: {error.args[0]}") from None
        if not -len(trees) <= integer("reduction", reduction) < len(trees):
            passes = "is 1 pass" if len(trees) == 1 else f"are {len(trees)} passes"
            raise selection.NothingToDraw(
                f"there is no reduction {reduction}: there {passes} (0 the first, -1 the last)"
            )
        tree = trees[reduction]
        node = lineage.nodes[output]
        readers = _readers(trace, tree)
        wanted = _expected(trace, tree) if expected is None else _given(expected)
        which = "" if len(trees) == 1 else f" ({_ordinal(reduction % len(trees))} of {len(trees)} passes)"
        named = f"{array}[{', '.join(map(str, place))}]"
        return cls(
            f"how {tree.array} is reduced for {named}{which}", _line(trace, lineage.nodes, output, node),
            f"{named} = {number_words(node.value)}", tree, wanted, readers,
            {element: selection.place(trace, tree.array, element) for element in {*wanted, *tree.elements}},
        )  # fmt: skip

    @cached_property
    def missing(self) -> list[int]:
        """Expected elements that do not reach the total."""
        return [element for element in self.expected if not self.tree.elements[element]]

    @cached_property
    def doubled(self) -> list[int]:
        """Elements that reach the total more than once."""
        return sorted(element for element, count in self.tree.elements.items() if count > 1)

    @cached_property
    def first(self) -> int:
        """The stage of the first row drawn: the first with few enough threads."""
        stages = self.tree.stages
        if len(self._threads(stages[0])) <= MOST_COLUMNS:
            return stages[0]
        return next((s for s in stages if len(self._threads(s)) <= FOLDED), stages[-1])

    def _threads(self, stage: int) -> set[int]:
        return {partial.thread for partial in self.tree.partials if partial.stage >= stage}

    @cached_property
    def columns(self) -> list[int]:
        """The threads that get a column, those that read a missing element included."""
        threads = self._threads(self.first)
        lost = {self.readers[element] for element in self.missing if element in self.readers}
        return sorted(threads | lost) if len(threads | lost) <= MOST_COLUMNS else sorted(threads)

    @property
    def verdict(self) -> str:
        """Whether the total is what it should be."""
        faults = [
            f"{word}: {', '.join(self.names.get(e, str(e)) for e in found[:4])}"
            + (f", … {len(found)} in all" if len(found) > 4 else "")
            for word, found in (("missing", self.missing), ("counted more than once", self.doubled)) if found
        ]  # fmt: skip
        count = len(self.tree.elements)
        each = f"each of the {count} elements" if count > 1 else "the one element"
        return "; ".join(faults) or f"{each} is in the total exactly once"

    def describe(self) -> str:
        """The picture in words, a line per partial."""
        rows = [self.title, self.subtitle, self.output, self.verdict]
        for number, partial in enumerate(self.tree.partials):
            if partial.stage < self.first:
                continue
            parts = [f"{selection.shorten(sorted(partial.own))}"] if partial.own and partial.stage > self.first else []
            if partial.stage == self.first:
                parts = [selection.shorten(self.tree.held(number)) or "nothing"]
            else:
                parts += [f"thread {self.tree.partials[s].thread} by {medium}" for s, medium in partial.sources]
            what = "total" if partial is self.tree.total else f"stage {partial.stage}"
            rows.append(f"{what}, thread {partial.thread}: {number_words(partial.value)} from {' and '.join(parts)}")
        return "\n".join(rows)

    @property
    def size(self) -> tuple[float, float]:
        """Inches."""
        return tree_artists.WIDTH, tree_artists.Layout(self).height

    def draw(self, ax: Axes | None = None) -> Axes:
        """The picture, on ``ax`` or on a figure of its own."""
        return tree_artists.draw(self, ax)


def _readers(trace: Trace, tree: Reduction) -> dict[int, int]:
    """Which thread of the block read which element first."""
    found: dict[int, int] = {}
    for access in trace.accesses(array=tree.array, block=tree.total.block):
        if access.operation != "store":
            for lane in access.mask.nonzero()[0]:
                for step in range(max(access.nbytes // access.itemsize, 1)):
                    found.setdefault(int(access.elements[lane]) + step, 32 * access.warp + int(lane))
    return found


def _expected(trace: Trace, tree: Reduction) -> tuple[int, ...]:
    """All elements along the axes in which the tree's elements differ, less those that only other blocks read."""
    shape = trace.arrays[tree.array].shape
    coordinates = [_unravel(element, shape) for element in tree.elements]
    spans = []
    for axis, extent in enumerate(shape):
        met = {index[axis] for index in coordinates}
        whole = len(met) > 1 or (len(coordinates) == 1 and axis == len(shape) - 1)
        spans.append(range(extent) if whole else sorted(met))
    elements = [0]
    for extent, span in zip(shape, spans, strict=True):
        elements = [element * extent + index for element in elements for index in span]
    if trace.grid == (1, 1, 1):
        return tuple(elements)
    mine, others = set(_readers(trace, tree)), set()
    for access in trace.accesses(array=tree.array):
        if access.block != tree.total.block and access.operation != "store":
            others.update(access.elements[access.mask].tolist())
    return tuple(element for element in elements if element in mine or element not in others)


def _given(expected: Iterable[int]) -> tuple[int, ...]:
    """The elements that the caller expects, in order."""
    if not isinstance(expected, Iterable):
        raise TypeError(f"expected lists flat offsets, not {expected!r}")
    return tuple(sorted(integer("an element in expected", element, least=0) for element in expected))


def _unravel(element: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index = []
    for extent in reversed(shape):
        element, coordinate = divmod(element, extent)
        index.append(coordinate)
    return tuple(reversed(index))


def _line(trace: Trace, nodes: object, output: int, node: object) -> str:
    file = next((row.file for row in trace.lines if row.line == getattr(node, "line", None)), "")
    return selection.source(trace, file, getattr(node, "line", 0)) if file else trace.kernel


def _ordinal(number: int) -> str:
    return f"{('first', 'second', 'third', 'fourth')[number]}" if number < 4 else f"{number + 1}th"


def tree(
    trace: Trace, array: str, index: int | tuple[int, ...] = 0, *, source: str | None = None, reduction: int = -1,
    expected: Iterable[int] | None = None, ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw how the elements of a row met in ``array[index]``: registers, shuffles, shared memory, total.

    Parameters
    ----------
    trace
        What ``simulate(kernel, lineage=True)`` returned.
    array, index
        An output element: a tuple, or the last index with zeros before it.
    source
        Which input array is followed; by default the one that gave the most elements.
    reduction
        Which pass, where a row is reduced more than once: 0 is the first (a mean), -1 the last (a variance).
    expected
        The flat offsets that should be in the total once each; by default the whole row (column, array).
    ax
        Where to draw; by default on a new figure, 9 inches wide.

    Returns
    -------
    matplotlib.axes.Axes
        Elements that are missing or counted twice have a thick outline and are listed below.
        ``TreePlan.of(...).describe()`` says the same in words.

    Raises
    ------
    NotRecorded
        The run did not carry lineage.
    NothingToDraw
        Nothing of ``source`` went into the output, or it has no such pass.
    IndexError
        The array has no such element.
    """
    plan = TreePlan.of(trace, array, index, source=source, reduction=reduction, expected=expected)
    return plan.draw(ax)
