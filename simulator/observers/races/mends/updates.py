"""Updates of one element: which atomic would do what a load and a store do?

Rules of this file: it looks at operations and blocks, at no run.  A wrong guess costs a mend, never a finding.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from simulator.kinds import MEMORY, SYNC
from simulator.machine.flow import flow_of
from simulator.observers.races.mends.places import Spot, leads, spot
from simulator.program import Op, Program

Definitions = dict[int, list[Op]]
"""Who writes each slot."""
LOOP, NONE = "loop", "none"
"""It takes a loop of compare-and-swap; there is no atomic for elements of this type."""
_ATOMICS = {
    "add": "add",
    "fma": "add",
    "sub": "sub",
    "max": "max",
    "min": "min",
    "and": "and_",
    "or": "or_",
    "xor": "xor",
}
"""The function of ``cuda.atomic`` for what an operation does to the value that was loaded."""
_TYPES = frozenset({"i4", "u4", "i8", "u8", "f4", "f8"})


def update(program: Program, load: Op, store: Op) -> str:
    """How a store makes a new value of the one that ``load`` gives, of the same element; "" if it does not.

    The name of a function of ``cuda.atomic``: ``add`` for ``h[k] += v``, ``max`` for ``if h[k] < v: h[k] = v``, ``cas``
    where the old value decides whether another one is stored.  ``LOOP`` and ``NONE``: see there.
    """
    values = store.src[1 : -1 if "guarded" in store.attr else None]
    if len(values) != 1 or not one_element(program, load, store):
        return ""
    element = _Element(program, store)
    found = element.by_value(values[0]) or element.by_test()
    if found and (store.dtype not in _TYPES or (found in ("and_", "or_", "xor") and store.dtype[0] == "f")):
        return NONE
    return found


def one_element(program: Program, load: Op, store: Op) -> bool:
    """Is the address that is stored to computed as the one that is loaded from: ``x[i] += 1``, not ``x[i] += x[j]``?"""
    return _alike(load.src[0], store.src[0], program)


def found_by_data(program: Program, op: Op) -> bool:
    """Does it hang on data which element ``op`` accesses, as of a bin, and not only on who asks and in which round?"""
    return any(one.kind in ("ld", "atom", "shfl") for one in behind(op.src[0], defined(program)))


def mixes(program: Program, store: Op) -> bool:
    """Is what is stored made of other elements of the same array: ``s[i] += s[j]``?"""
    name = store.attr.get("name")
    sources = (op for slot in store.src[1:] for op in behind(slot, defined(program)))
    return any(
        op.kind == "ld" and op.attr.get("name") == name and not one_element(program, op, store) for op in sources
    )


# -- where values come from --------------------------------------------------------------------------------------------


def defined(program: Program) -> Definitions:
    """Who writes each slot of a finished program."""
    found: Definitions | None = program.derived.get("defined")
    if found is None:
        found = program.derived["defined"] = definitions(program.ops())
    return found


def definitions(ops: Iterable[Op]) -> Definitions:
    """Who of these operations writes each slot."""
    found: Definitions = {}
    for op in ops:
        for slot in op.dst:
            found.setdefault(slot, []).append(op)
    return found


def behind(slot: int, known: Definitions, stop: frozenset[str] = frozenset()) -> set[Op]:
    """All operations that a value is computed from; not what those of the kinds ``stop`` were computed from."""
    seen: set[Op] = set()
    todo = list(known.get(slot, ()))
    while todo:
        op = todo.pop()
        if op not in seen:
            seen.add(op)
            if op.kind not in stop:
                todo += [other for source in op.src for other in known.get(source, ())]
    return seen


def _source(slot: int, known: Definitions) -> Op | int:
    """The operation that made a value, before it was copied or converted; the slot, if several did or none."""
    while len(found := known.get(slot, [])) == 1:
        if found[0].kind not in ("mov", "cvt"):
            return found[0]
        slot = found[0].src[0]
    return slot


def _alike(one: int, other: int, program: Program) -> bool:
    """Are two values computed the same way from the same slots, and from memory that nobody changes?"""
    known = defined(program)
    a, b = known.get(one, []), known.get(other, [])
    if one == other:
        return len(a) < 2  # else it may have changed in between
    return len(a) == len(b) == 1 and _alike_made(a[0], b[0], program)


def _alike_made(this: Op, that: Op, program: Program) -> bool:
    if (this.kind, this.dtype, this.attr) != (that.kind, that.dtype, that.attr) or this.kind in (MEMORY | SYNC) - {
        "ld"
    }:
        return False
    if this.kind == "ld" and this.attr.get("name") in _changed(program):
        return False
    return len(this.src) == len(that.src) and all(
        _alike(x, y, program) for x, y in zip(this.src, that.src, strict=True)
    )


def _made_by(op: Op, known: Definitions) -> Op | int:
    """The operation that made what ``op`` gives, before it was copied or converted; see ``_source``."""
    return _source(op.src[0], known) if op.kind in ("mov", "cvt") else op


def _same(one: Op | int, other: Op | int, program: Program) -> bool:
    """Are two sources of values computed the same way?"""
    if isinstance(one, int) or isinstance(other, int):
        return one == other
    return one is other or _alike_made(one, other, program)


def _changed(program: Program) -> frozenset[str]:
    """The arrays that the program stores to."""
    found: frozenset[str] | None = program.derived.get("changed")
    if found is None:
        names = (op.attr.get("name", "") for op in program.ops() if op.kind in ("st", "atom"))
        found = program.derived["changed"] = frozenset(names)
    return found


# -- by a value, h[k] = max(h[k], v), or by a test, if h[k] < v: h[k] = v ----------------------------------------------


@dataclass(frozen=True, slots=True)
class _Element:
    """The element that a store goes to, which may be loaded several times on the way."""

    program: Program
    store: Op

    def by_value(self, slot: int) -> str:
        """The atomic that makes the value that is stored, if it is computed from the old one."""
        way = self._way(slot)
        if way is None:
            return LOOP if self._old(behind(slot, defined(self.program), MEMORY)) else ""
        names = {_ATOMICS[kind] for kind in way}
        return names.pop() if len(names) == 1 else LOOP if names else ""

    def by_test(self) -> str:
        """The atomic that does the test of the old value and the store behind it."""
        flow, at = flow_of(self.program), spot(self.program, self.store)
        for label in reversed(flow.controlling(at[0])):
            if self._old(behind(self._condition(label), defined(self.program), MEMORY)):
                value = _source(self.store.src[1], defined(self.program))
                return self._greater_or_less(label, value, at) or "cas"
        return ""

    def _old(self, ops: Iterable[Op]) -> bool:
        return any(self._is_old(op) for op in ops)

    def _is_old(self, op: Op | int) -> bool:
        return isinstance(op, Op) and op.kind == "ld" and one_element(self.program, op, self.store)

    def _condition(self, label: str) -> int:
        term = self.program.blocks[label].term
        assert term is not None and term.cond is not None
        return term.cond

    def _way(self, slot: int) -> list[str] | None:
        """The kinds of the operations through which the old value went; None if it came otherwise, or several times."""
        known = defined(self.program)
        op = _source(slot, known)
        if isinstance(op, int):
            return self._one_of_two(op)
        if self._is_old(op):
            return []
        if op.kind == "select":
            return self._chosen(op)
        if op.kind not in _ATOMICS:
            return None
        old = [number for number, source in enumerate(op.src) if self._old(behind(source, known, MEMORY))]
        if len(old) != 1 or (op.kind == "sub" and old != [0]) or (op.kind == "fma" and old != [2]):
            return None
        way = self._way(op.src[old[0]])
        return None if way is None else [*way, op.kind]

    def _chosen(self, choice: Op) -> list[str] | None:
        """The greater or the lesser of the old value and another one, as one operation chooses."""
        test, yes, no = (_source(slot, defined(self.program)) for slot in choice.src)
        if self._is_old(no):
            found = self._compared(test, yes, True)
        else:
            found = self._compared(test, no, False) if self._is_old(yes) else ""
        return [found] if found else None

    def _one_of_two(self, slot: int) -> list[str] | None:
        """The same, where a branch chooses: ``v if h[k] < v else h[k]``."""
        known = defined(self.program)
        givers = known.get(slot, [])
        other = [op for op in givers if not self._is_old(_made_by(op, known))]
        if len(givers) != 2 or len(other) != 1:
            return None
        at = spot(self.program, other[0])
        over = flow_of(self.program).controlling(at[0])
        found = self._greater_or_less(over[-1], _made_by(other[0], known), at) if over else ""
        return [found] if found else None

    def _greater_or_less(self, label: str, value: Op | int, at: Spot) -> str:
        """``max`` or ``min``, if the branch of block ``label`` leads so to ``at``, where ``value`` is taken."""
        term = self.program.blocks[label].term
        assert term is not None
        taken = term.to[0] == at[0] or leads(self.program, (term.to[0], -1), at, avoid=label)
        return self._compared(_source(self._condition(label), defined(self.program)), value, taken)

    def _compared(self, test: Op | int, value: Op | int, taken: bool) -> str:
        """Which one is kept, if ``value`` is taken where a test of it and the old value comes out as ``taken``?"""
        if isinstance(test, int) or test.kind != "cmp" or test.attr["how"] in ("eq", "ne"):
            return ""
        sides = [_source(slot, defined(self.program)) for slot in test.src]
        old = [self._is_old(side) for side in sides]
        if sum(old) != 1 or not _same(sides[old.index(False)], value, self.program):
            return ""
        less = (test.attr["how"] in ("lt", "le")) == old[0]  # the test: is the old one less?
        return "max" if less == taken else "min"
