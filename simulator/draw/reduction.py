"""The reduction tree inside a lineage graph: who added what, and through which medium it came.

Theory.  A lineage graph has a node per value.  Values meet in three places: in the registers of a thread, through a
shuffle of its warp, through memory that its block shares.  All values that one thread computes between two such
exchanges are one *partial*; its *stage* is the number of exchanges behind it.  Partials and the exchanges between
them are the tree that textbooks draw.  Which elements it holds, and how often, is counted along its edges, so that a
wrong shuffle offset shows as a missing or a doubled element.

A row that is reduced twice (mean, then variance) has two trees; the values that already hold the whole row count as
constants in the second.

Rules of this file: it reads the graph and draws nothing; coverage is kept as an integer with a bit per element.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

JOINS = frozenset({"add", "fma", "min", "max", "atom"})
"""Operations that merge partials.  The others (``mul``, ``div``, ``rsqrt`` …) finish an element with a total."""

MOVES = frozenset({"mov", "cvt", "bitcast", "store", "shfl"})


@dataclass
class Partial:
    """What one thread computed between two exchanges.

    ``own`` counts the elements it took from memory itself, ``values`` has their values, ``sources`` maps (partial,
    medium) to how often that partial enters; a medium is ``register``, ``shuffle`` or ``memory``.  ``times`` is how
    often this partial is contained in the total.
    """

    block: int
    thread: int
    stage: int
    value: Any = None
    own: Counter[int] = field(default_factory=Counter)
    values: dict[int, Any] = field(default_factory=dict)
    sources: dict[tuple[int, str], int] = field(default_factory=dict)
    times: int = 0
    arrays: set[str] = field(default_factory=set)


@dataclass
class Reduction:
    """A tree of ``array``.  ``partials`` are sorted by stage and thread; the last one is the total, ``value``."""

    array: str
    partials: list[Partial]
    value: Any

    @property
    def total(self) -> Partial:
        """The partial that holds the total."""
        return self.partials[-1]

    @cached_property
    def stages(self) -> list[int]:
        """The stages, in order."""
        return sorted({partial.stage for partial in self.partials})

    @cached_property
    def elements(self) -> Counter[int]:
        """How often each element of the array is in the total."""
        found: Counter[int] = Counter()
        for partial in self.partials:
            for element, count in partial.own.items():
                found[element] += count * partial.times
        return found

    def held(self, partial: int) -> list[int]:
        """The elements in one partial, its sources included."""
        todo, seen = [partial], {partial}
        found: set[int] = set()
        while todo:
            here = self.partials[todo.pop()]
            found.update(here.own)
            fresh = {source for source, _ in here.sources} - seen
            seen |= fresh
            todo.extend(fresh)
        return sorted(found)


class Ancestry:
    """The part of a graph from which one node came, with coverage (which elements) and stage (how many exchanges).

    ``cut`` nodes count as constants.
    """

    def __init__(self, nodes: Any, root: int, array: str | None = None, cut: Iterable[int] = ()) -> None:
        self.nodes, self.root, self.cut = nodes, root, frozenset(cut)
        self.order = self._topological()
        inputs = [nodes[n] for n in self.order if nodes[n].kind == "input"]
        self.array = array if array is not None else _most_read(inputs)
        self.bits = {e: i for i, e in enumerate(sorted({n.element for n in inputs if n.array == self.array}))}
        self.coverage: dict[int, int] = {}
        self.stage: dict[int, int] = {}
        for number in self.order:
            self._measure(number)

    def parents(self, number: int) -> tuple[int, ...]:
        """Where a value came from; nothing for a constant."""
        return () if number in self.cut else tuple(self.nodes[number].parents)

    def exchange(self, number: int) -> str | None:
        """The medium, if the value came from another thread by this node."""
        node = self.nodes[number]
        if node.kind == "shfl":
            return "shuffle"
        if node.kind == "load" and any(self.nodes[p].kind in ("store", "atom") for p in self.parents(number)):
            return "memory"
        return None

    def _topological(self) -> list[int]:
        order, seen, todo = [], set(), [(self.root, False)]
        while todo:
            number, done = todo.pop()
            if done:
                order.append(number)
            elif number not in seen:
                seen.add(number)
                todo.append((number, True))
                todo.extend((parent, False) for parent in self.parents(number) if parent not in seen)
        return order

    def _measure(self, number: int) -> None:
        node, parents = self.nodes[number], self.parents(number)
        own = node.kind == "input" and node.array == self.array and number not in self.cut
        covered = 1 << self.bits[node.element] if own else 0
        for parent in parents:
            covered |= self.coverage[parent]
        self.coverage[number] = covered
        behind = max((self.stage[parent] for parent in parents if self.coverage[parent]), default=0)
        self.stage[number] = behind + (1 if covered and self.exchange(number) else 0)


def _most_read(inputs: list[Any]) -> str:
    """The array that gave the most elements, of equals the one that was read more often."""
    reads = Counter(node.array for node in inputs)
    elements = Counter(name for name, _ in {(node.array, node.element) for node in inputs})
    return max(elements, key=lambda name: (elements[name], reads[name]), default="")


def reductions(nodes: Any, output: int, array: str | None = None) -> list[Reduction]:
    """The trees behind an output value, first pass first.

    Raises
    ------
    LookupError
        No element of the array went into the output.
    """
    whole = Ancestry(nodes, output, array)
    if not whole.coverage[output]:
        raise LookupError(f"no element of {array or 'any array'} went into it")
    root, found = _join(whole), []
    while True:
        here = Ancestry(nodes, root, whole.array)
        full = here.coverage[root]
        complete = [n for n in here.order if here.coverage[n] == full]
        first = [n for n in complete if not any(here.coverage[p] == full for p in here.parents(n))]
        again = _pass_over(here, first, [n for n in complete if n != root])
        if again is None:
            found.append(_tree(here))
            return found[::-1]
        found.append(_tree(again))
        root = min(first, key=lambda n: (nodes[n].block, nodes[n].thread, n))


def _pass_over(here: Ancestry, totals: list[int], complete: list[int]) -> Ancestry | None:
    """The root's own pass, with the ``totals`` of an earlier pass as constants; None if there was none.

    In a second pass every element meets a total of the first on its way (``x[j] - mean``), so that without the
    ``complete`` values nothing is left.  Welford's merge also has them (the difference of two means), beside partials.
    """
    root = here.root
    if root in totals or _covered(Ancestry(here.nodes, root, here.array, complete), root):
        return None
    again = Ancestry(here.nodes, root, here.array, totals)
    return again if _covered(again, root) == _covered(here, root) else None


def _covered(ancestry: Ancestry, number: int) -> set[int]:
    return {element for element, bit in ancestry.bits.items() if ancestry.coverage[number] >> bit & 1}


def _join(whole: Ancestry) -> int:
    """From the output down to the value in which the last partials meet."""
    number = whole.root
    while True:
        node, covered = whole.nodes[number], whole.coverage
        parents = sorted({p for p in whole.parents(number) if covered[p]}, key=lambda p: (whole.stage[p], covered[p]))
        if not parents:
            return number
        if len(parents) == 1:
            if node.kind in JOINS and _doubles(whole, number):
                return number
        elif node.kind in JOINS and not _finishes(whole, parents):
            return number
        number = parents[-1]


def _doubles(whole: Ancestry, number: int) -> bool:
    return list(whole.nodes[number].parents).count(whole.nodes[number].parents[0]) > 1


def _finishes(whole: Ancestry, parents: list[int]) -> bool:
    """Is this a sum of one element and a value that holds it already (as in ``x + f(total)``)?"""
    *others, last = parents
    union = 0
    for other in others:
        union |= whole.coverage[other]
    alone = union.bit_count() == 1 and all(whole.stage[other] == 0 for other in others)
    return alone and whole.coverage[last].bit_count() > 1 and whole.coverage[last] | union == whole.coverage[last]


Key = tuple[int, int, int]
"""Block, thread and stage of a partial."""


def _tree(ancestry: Ancestry) -> Reduction:
    """Fold the values of a thread between two exchanges into one partial."""
    folding = _Folding(ancestry)
    for number in ancestry.order:
        if ancestry.coverage[number] and not folding.moves(number):
            folding.add(number)
    return folding.finish()


class _Folding:
    """Partials under construction.  ``entering`` counts the exchanges by which a value enters a partial."""

    def __init__(self, ancestry: Ancestry) -> None:
        self.ancestry, self.nodes = ancestry, ancestry.nodes
        self.partials: dict[Key, Partial] = {}
        self.home: dict[int, Key] = {}
        self.entering: dict[tuple[Key, Key, str], dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))

    def moves(self, number: int) -> bool:
        """Does the node only hand on a value?  A load of what another thread stored begins a partial."""
        kind = self.nodes[number].kind
        return kind in MOVES or (kind == "load" and self.ancestry.exchange(number) is None)

    def add(self, number: int) -> None:
        """Put a value into its partial, and book where its operands came from."""
        node = self.nodes[number]
        key = self.home[number] = (node.block, node.thread, self.ancestry.stage[number])
        partial = self.partials.setdefault(key, Partial(*key))
        if node.kind == "input":
            partial.own[node.element] += 1
            partial.values[node.element] = node.value
        elif medium := self.ancestry.exchange(number):
            partial.arrays.add(node.array)
            self._enter(key, self.ancestry.parents(number)[0], medium, number)
        else:
            for parent in self.ancestry.parents(number):
                self._enter(key, parent, "register", parent)

    def _enter(self, key: Key, parent: int, medium: str, conduit: int) -> None:
        while self.ancestry.coverage[parent] and self.moves(parent):
            if found := self.ancestry.exchange(parent):
                medium, conduit = found, parent
            parent = next(iter(self.ancestry.parents(parent)))
        if self.ancestry.coverage[parent] and (source := self.home[parent]) != key:
            self.entering[key, source, medium][parent].add(conduit)

    def finish(self) -> Reduction:
        """Sort the partials, number their sources, count how often each is in the total."""
        root = self.ancestry.root
        while self.moves(root):
            root = self.ancestry.parents(root)[0]
        last = self.home[root]
        order = sorted(self.partials, key=lambda key: (key == last, key[2], key[0], key[1]))
        number = {key: i for i, key in enumerate(order)}
        shows = {last: root}
        for (key, source, medium), values in self.entering.items():
            # a register holds its value once, however often it is used
            count = 1 if medium == "register" else max(map(len, values.values()))
            self.partials[key].sources[number[source], medium] = count
            if source != last:
                shows[source] = max(shows.get(source, 0), *values)
        partials = [self.partials[key] for key in order]
        for key, partial in zip(order, partials, strict=True):
            partial.value = self.nodes[shows[key]].value if key in shows else None
        _count(partials)
        return Reduction(self.ancestry.array, partials, self.nodes[self.ancestry.root].value)


def _count(partials: list[Partial]) -> None:
    """Fill in ``times``; an element that every contribution reads twice, as ``x[j] * x[j]`` does, counts once."""
    base = min((count for partial in partials for count in partial.own.values()), default=1)
    for partial in partials:
        partial.own = Counter({element: -(-count // base) for element, count in partial.own.items()})
    partials[-1].times = 1
    for partial in reversed(partials):
        for (source, _), count in partial.sources.items():
            partials[source].times += partial.times * count
