"""Generated code: one Python function per segment of a block, one line per operation.

A segment is a run of operations that a scheduler never interrupts.  Every block is cut at synchronising operations;
``fine`` code is also cut before every memory operation, so that another split may go in between.  Values that are
needed past a cut live in the split's list of values (``E`` below), the others in local variables.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from simulator.kinds import KINDS, MEMORY, SYNC
from simulator.machine import access, atomics, elements, warp
from simulator.machine.flow import Flow, flow_of
from simulator.machine.memory import Access, make_access
from simulator.machine.narrowing import narrowed_indices
from simulator.machine.observer import Span
from simulator.machine.operations import expression
from simulator.machine.values import DT
from simulator.program import FLOATS, Const, Op, Program, Slot

Function = Callable[[Any, list[Any]], None]


OWNERS = "owners"
"""Under which a program keeps, for each generated function, the operation of each of its lines."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A function of (split, values); ``sync`` is the synchronising operation that it consists of, if it is one."""

    function: Function | None
    sync: Op | None
    start: int
    source: str = ""


@dataclass(frozen=True, slots=True)
class Style:
    """What the generated code must allow: cuts at memory operations, watched variables, a shadow of every value, an
    observer that is told of every segment, one that is told where indices lose bits.

    ``quiet`` are arrays that nobody stores to: their loads need no cut, for no order of execution shows in them.  None
    shows in local memory either.
    """

    fine: bool = False
    watch: frozenset[str] = frozenset()
    shadow: bool = False
    counted: bool = False
    narrowed: bool = False
    quiet: frozenset[str] = frozenset()


class Code:
    """The generated functions of a program.  Its accesses hold caches, so one launch uses it at a time."""

    def __init__(self, program: Program, flow: Flow, style: Style) -> None:
        self.program = program
        self.flow = flow
        self.style = style
        self.accesses: list[Access] = []
        self.reads: dict[str, list[Access]] = {}
        """The loads and atomics of each block."""
        self._purposes = _purposes(program)
        self._names: dict[str, Any] = {
            "np": np,
            "load": access.load,
            "load_many": access.load_many,
            "store": access.store,
            "atomic": atomics.atomic,
            "element1": elements.element1,
            "element": elements.element,
            "run_start": elements.run_start,
            "shuffle": warp.shuffle,
            "vote": warp.vote,
            "match": warp.match,
            "active_mask": warp.active_mask,
            "sync_warp": warp.sync_warp,
            "trapped": trapped,
            "printed": printed,
            "fenced": fenced,
        }
        self.narrowed = narrowed_indices(program) if style.narrowed else frozenset()
        self._multiply = self._bind(_multiplier())
        self.blocks = {label: self._block(label) for label in program.blocks}
        self.straight = {
            label: [segment.function for segment in segments if segment.function is not None]
            for label, segments in self.blocks.items()
            if all(segment.sync is None for segment in segments)
        }
        """The functions of blocks in which nobody waits."""
        self.unseen = {
            label for label, block in program.blocks.items() if not (block.ops and self._is_cut(block.ops[0]))
        }
        """Blocks whose first segment neither waits nor touches memory: who runs it when does not show."""
        self.terms = {label: block.term for label, block in program.blocks.items() if block.term is not None}
        self.reading = {label for label, accesses in self.reads.items() if accesses}
        """Blocks that read memory."""
        self.start, self.given = _start(program)
        """What slots hold at the kernel's entry, None where that is known only then; and how it comes about."""
        self._live: dict[tuple[str, int], frozenset[int]] = {}

    def segment_at(self, label: str, index: int) -> int:
        """The number of the segment that starts with operation ``index`` of a block."""
        return next(k for k, segment in enumerate(self.blocks[label]) if segment.start == index)

    def live(self, label: str, segment: int) -> frozenset[int]:
        """Slots live where a segment starts (or at the end of the block)."""
        key = (label, segment)
        if key not in self._live:
            segments = self.blocks[label]
            done = len(self.program.blocks[label].ops)
            start = segments[segment].start if segment < len(segments) else done
            self._live[key] = self.flow.live_before(self.program, label, start)
        return self._live[key]

    def forget_memory(self) -> None:
        """Drop what the accesses remember of the memory map."""
        for found in self.accesses:
            found.cached = found.writable = None
            found.hit.clear()

    # -- segments ---------------------------------------------------------------------------------------------

    def _block(self, label: str) -> list[Segment]:
        ops = self.program.blocks[label].ops
        cuts = {0, len(ops)}
        for k, op in enumerate(ops):
            if op.kind in SYNC:
                cuts |= {k, k + 1}
            elif self._is_cut(op):
                cuts.add(k)
        edges, known = sorted(cuts), len(self.accesses)
        segments = [self._segment(label, first, last) for first, last in pairwise(edges)]
        self.reads[label] = [access for access in self.accesses[known:] if access.kind in ("ld", "atom")]
        return segments

    def _is_cut(self, op: Op) -> bool:
        """Must a segment end before this operation?"""
        if op.kind in SYNC:
            return True
        if not self.style.fine or op.kind not in MEMORY:
            return False
        name = op.attr.get("name", "")
        alloc = self.program.allocs.get(name)
        return not ((op.kind == "ld" and name in self.style.quiet) or (alloc is not None and alloc.space == "local"))

    def _segment(self, label: str, first: int, last: int) -> Segment:
        ops = self.program.blocks[label].ops[first:last]
        sync = ops[0] if ops[0].kind in SYNC else None
        if sync is not None and sync.kind == "bar":
            return Segment(None, sync, first)
        after = self.flow.live_before(self.program, label, last)
        writer = _Lines(self, after)
        lines = writer.write(ops)
        if self.style.counted and sync is None:
            lines.insert(0, f"S.group.hooks.segment(S, {self._bind(Span(label, first, last))})")
            writer.owners.insert(0, None)
        source = "def segment(S, E):\n" + "".join(f"    {line}\n" for line in lines)
        exec(compile(source, f"<{self.program.name} {label}:{first}>", "exec"), self._names)
        function = self._names.pop("segment")
        self.program.derived.setdefault(OWNERS, {})[function.__code__] = writer.owners
        return Segment(function, sync, first, source)

    def _bind(self, thing: object) -> str:
        name = f"k{len(self._names)}"
        self._names[name] = thing
        return name

    def access(self, op: Op) -> str:
        """The name, in generated code, of an operation's static access."""
        purpose = self._purposes.get(op.dst[0], "ld") if op.kind == "elem" else ""
        found = make_access(op, len(self.accesses), purpose)
        self.accesses.append(found)
        return self._bind(found)


def _start(program: Program) -> tuple[list[Any], list[tuple[int, Slot]]]:
    values: list[Any] = [None] * len(program.slots)
    given = []
    for k, slot in enumerate(program.slots):
        if isinstance(slot.init, Const):
            values[k] = DT[slot.dtype].type(slot.init.value) if slot.dtype in FLOATS else slot.init.value
        elif slot.init is not None:
            given.append((k, slot))
    return values, given


def _multiplier() -> Callable[[Any, Any], Any]:
    from simulator.machine.operations.integers import multiplier

    return multiplier("i8")


def _purposes(program: Program) -> dict[int, str]:
    """What addresses (slots) are for: a memory operation's, also by way of a field's offset or a row's elements."""
    found: dict[int, str] = {}
    for op in reversed(list(program.ops())):
        if op.kind in MEMORY:
            found.setdefault(op.src[0], op.kind)
        elif op.kind in ("add", "elem") and op.dst[0] in found:
            found.setdefault(op.src[0], found[op.dst[0]])
    return found


class _Lines:
    """Writes the lines of one segment; ``after`` are the slots that live past its end."""

    def __init__(self, code: Code, after: frozenset[int]) -> None:
        self.code = code
        self.after = after
        self.local: set[int] = set()
        self.lines: list[str] = []
        self.owners: list[Op | None] = []  # whose each line is

    def write(self, ops: list[Op]) -> list[str]:
        for op in ops:
            sources = [self._read(slot) for slot in op.src]
            line = self._line(op, sources)
            if self.code.style.shadow and op.kind == "elem":
                self.lines.append(f"S.group.shadow.before(S, {self.code._bind(op)})")
            results = [f"t{slot}" for slot in op.dst]
            self.lines.append(f"{', '.join(results)} = {line}" if results else line)
            self.local |= set(op.dst)
            self.lines += [f"E[{slot}] = t{slot}" for slot in op.dst if slot in self.after]
            self._extras(op, sources, results)
            self.owners += [op] * (len(self.lines) - len(self.owners))
        return self.lines or ["pass"]

    def _read(self, slot: int) -> str:
        if slot in self.local:
            return f"t{slot}"
        init = self.code.program.slots[slot].init
        if isinstance(init, Const) and type(init.value) in (int, bool):
            return f"({init.value!r})"
        return f"E[{slot}]"

    def _extras(self, op: Op, sources: list[str], results: list[str]) -> None:
        bind = self.code._bind
        for slot, result in zip(op.dst, results, strict=True):
            if self.code.program.slots[slot].name in self.code.style.watch:
                self.lines.append(f"S.group.on_value(S, {bind(op)}, {slot}, {result})")
        if op in self.code.narrowed:
            self.lines.append(f"S.group.hooks.narrowed(S, {bind(op)}, {sources[0]}, {results[0]})")
        if self.code.style.shadow and op.kind != "elem":
            given, made = (f"({''.join(f'{name}, ' for name in names)})" for names in (sources, results))
            self.lines.append(f"S.group.shadow.after(S, {bind(op)}, {given}, {made})")

    def _element(self, op: Op, s: list[str]) -> str:
        static = self.code.access(op)
        if len(s) == 4 and "run" not in op.attr:
            return f"element1(S, {', '.join(s)}, {static}, {self.code._multiply})"
        function = "run_start" if "run" in op.attr else "element"
        return f"{function}(S, {s[0]}, {static}, {self.code._multiply}, {', '.join(s[1:])})"

    def _line(self, op: Op, s: list[str]) -> str:
        if KINDS[op.kind].group in ("move", "arithmetic", "bits", "compare", "math"):
            return expression(op, s, self.code._bind)
        if op.attr.get("guarded"):
            return self._guarded(op, s)
        match op.kind:
            case "elem":
                return self._element(op, s)
            case "ld":
                return f"{'load' if len(op.dst) == 1 else 'load_many'}(S, {s[0]}, {self.code.access(op)})"
            case "st":
                return f"store(S, {s[0]}, {self.code.access(op)}, {', '.join(s[1:])})"
            case "atom":
                return f"atomic(S, {s[0]}, {self.code.access(op)}, {bool(op.dst)}, {', '.join(s[1:])})"
            case "shfl":
                return f"shuffle(S, {', '.join(s)}, {self.code._bind(op)})"
            case "vote" | "match":
                return f"{op.kind}(S, {', '.join(s)}, {self.code._bind(op)})"
            case "activemask":
                return "active_mask(S)"
            case "syncwarp":
                return f"sync_warp(S, {s[0]}, {self.code._bind(op)})"
            case "print":
                return f"printed(S, {', '.join([self.code._bind(op), *s])})"
            case "trap":
                return f"trapped(S, {self.code._bind(op)})"
            case "fence":
                return f"fenced(S, {self.code._bind(op)})"
        raise AssertionError(op.kind)

    def _guarded(self, op: Op, s: list[str]) -> str:
        bare = Op(op.kind, op.dtype, op.dst, op.src[:-1], op.pos, {**op.attr, "guarded": False})
        call = self._line(bare, s[:-1])
        bind = self.code._bind
        return f"{bind(under_guard)}(S, {s[-1]}, lambda: {call}, {len(op.dst)}, {bind(DT[op.dtype])})"


def under_guard(split: Any, guard: Any, run: Callable[[], Any], results: int, dtype: np.dtype[Any]) -> Any:
    """Run a memory operation for the lanes whose guard holds; the results of the others are anything."""
    whole = split.mask
    mask = split.expand(guard, "b1") & split.active()
    if not mask.any():
        nothing = np.zeros((1, 1), dtype)
        return nothing if results == 1 else (nothing,) * results if results else None
    split.mask = None if mask.all() else mask
    try:
        return run()
    finally:
        split.mask = whole


def fenced(split: Any, op: Op) -> None:
    """Memory is as if it were written in the order of the program: a fence matters to observers alone."""
    if split.group.hooks.fence is not None:
        split.group.hooks.fence(split, op)


def trapped(split: Any, op: Op) -> None:
    """A ``raise`` was reached: without debug=True Numba lets the thread end, and so does the machine."""
    if split.group.on_trap is not None:
        split.group.on_trap(split, op)


def printed(split: Any, op: Op, *values: Any) -> None:
    """A ``print`` was reached: what becomes of it is an observer's business."""
    if split.group.hooks.print is not None:
        split.group.hooks.print(split, op, values)


# -- a pool of code ----------------------------------------------------------------------------------------------

_lock = threading.Lock()


def borrow(program: Program, style: Style) -> Code:
    """Code that nobody else uses now; give it back when the launch is over."""
    with _lock:
        idle = program.derived.setdefault(style, [])
        if idle:
            found: Code = idle.pop()
            return found
        flow = flow_of(program)
    return Code(program, flow, style)


def give_back(code: Code) -> None:
    """Put code back for the next launch."""
    code.forget_memory()
    with _lock:
        code.program.derived[code.style].append(code)
