"""Runs a program over a grid: binds the arguments, makes groups of blocks, gives them to a scheduler.

``schedule="waves"`` runs whole blocks in lock step, about 16k lanes at a time; ``"splits"`` runs a few blocks at a time
by independent thread scheduling, in a named order or by a seed.  Both run the same program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any

import numpy as np

from simulator.machine.code import OWNERS, Code, Style, borrow, give_back
from simulator.machine.grids import grid_barrier
from simulator.machine.group import Group, Hooks, display_name, window_layout
from simulator.machine.limits import check_limits, check_together
from simulator.machine.memory import CONST_BASE, GUARD, Allocation, Memory, View, numpy_of
from simulator.machine.observer import Observer
from simulator.machine.order import Pick
from simulator.machine.overflow import Overflow
from simulator.machine.registers import Dim3, Geometry
from simulator.machine.shadow import Shadow
from simulator.machine.splits import Splits
from simulator.machine.values import DT
from simulator.machine.waves import Wave, hand_over
from simulator.program import FLOATS, Param, Program, c_strides

Progress = Callable[[int, int], None]

LANES = 16_384
"""Lanes of a wave.  1k lanes are about 4x slower (calls), 256k about 2x (the cache)."""
RESIDENT = 1024
"""Lanes of blocks that the split scheduler runs at once: blocks that wait for their neighbours find them there."""
WINDOWS = 256 << 20
"""Bytes of shared and local memory that blocks which run together may have."""
KEPT = 16 << 20
"""Bytes of a block that is allocated and freed once, at the start.  The arrays of a wave come and go by the thousand,
and glibc's malloc gives what is freed back to the system, so that each one faults its pages in anew (half of the time
of a wave), unless it has seen a larger block go: then it keeps up to twice as much."""
STEPS = 500_000
"""Segments of code that a group of blocks may run before it counts as hanging: about half a minute where each split
goes on alone and every observer looks on."""

np.empty(KEPT, np.uint8)


def launch(
    program: Program,
    grid: Dim3,
    block: Dim3,
    args: Sequence[Any],
    *,
    written: Sequence[tuple[np.ndarray, np.ndarray]] = (),
    dynamic_shared: int = 0,
    schedule: str = "waves",
    order: str = "first",
    seed: int = 0,
    values: str = "affine",
    observers: Iterable[Observer] = (),
    shadow: Shadow | None = None,
    forgiving: bool = False,
    watch: Iterable[str] = (),
    step_budget: int | None = STEPS,
    progress: Progress | None = None,
    lanes: int = LANES,
    blocks: Sequence[range] | None = None,
    together: bool = False,
    uncut: bool = False,
) -> None:
    """Run ``program``; arrays in ``args`` are updated in place.

    ``values="vector"`` switches the affine values off: slower, the same bits and events.
    ``written`` pairs arrays that came without contents with a flag per byte, which observers keep.
    ``forgiving``: it goes on past accesses out of bounds or misaligned, without the lanes whose address is wrong, and
    tells observers instead of raising (see ``simulator.machine.going_on``).
    ``step_budget=None`` lets a kernel run for ever.  ``progress(done, all)`` is called with numbers of blocks as groups
    of blocks finish.  ``blocks`` are the parts of the grid that run, None for all of it.  ``together``: all blocks
    are alive at once, as where they meet at a barrier of the grid.  ``uncut``: threads are known to touch nothing that
    others touch unordered, so that splits need no turns but where they wait.  Raises ``Fault``.
    """
    check_limits(program, grid, block, dynamic_shared)
    memory = Memory()
    params = bind(program, args, memory, written)
    hooks = Hooks(observers, forgiving)
    run = _Run(program, Geometry(grid, block, dynamic_shared), memory, params, hooks, values, shadow, frozenset(watch))
    run.budget = sys.maxsize if step_budget is None else step_budget
    run.progress = progress
    run.parts = [range(run.geometry.blocks)] if blocks is None else blocks
    run.together, run.uncut = together, uncut
    try:
        for observer in hooks.observers:
            observer.launch(program, grid, block, memory)
        if shadow is not None:
            shadow.launch(program, memory)
        with _floating_point(program, hooks):
            if schedule == "waves":
                run.waves(lanes)
            else:
                run.splits(order, seed)
    finally:
        for observer in hooks.observers:
            observer.finish()
        memory.return_flags()


def _floating_point(program: Program, hooks: Hooks) -> np.errstate:
    """What NumPy does about floats that overflow and such: nothing, or call back who wants to know."""
    if hooks.overflow is None:
        return np.errstate(all="ignore")
    call_back = Overflow(program.derived.setdefault(OWNERS, {}), hooks.overflow)
    return np.errstate(all="ignore", over="call", call=call_back)


class _Run:
    """One launch on its way."""

    def __init__(
        self,
        program: Program,
        geometry: Geometry,
        memory: Memory,
        params: dict[str, Any],
        hooks: Hooks,
        values: str,
        shadow: Shadow | None,
        watch: frozenset[str],
    ) -> None:
        self.program = program
        self.geometry = geometry
        self.memory = memory
        self.params = params
        self.hooks = hooks
        self.values = values
        self.shadow = shadow
        self.watch = watch
        self.budget = STEPS
        self.progress: Progress | None = None
        self.parts: Sequence[range] = ()
        self.everybody = grid_barrier(program) is not None
        self.together = self.uncut = False

    def _style(self, fine: bool) -> Style:
        return Style(
            fine,
            self.watch,
            self.shadow is not None,
            self.hooks.segment is not None,
            self.hooks.narrowed is not None,
            self._quiet() if fine else frozenset(),
        )

    def _quiet(self) -> frozenset[str]:
        """Arguments that the program never stores to, nor to anything that shares their memory."""
        stored = {op.attr.get("name") for op in self.program.ops() if op.kind in ("st", "atom")}
        arrays = [{view.name for view in found.views} for found in self.memory.allocations if found.space == "global"]
        return frozenset(name for names in arrays if not names & stored for name in names)

    def _group(self, code: Code, first_block: int, nb: int) -> Group:
        return Group(
            code,
            self.memory,
            self.geometry,
            self.params,
            self.hooks,
            self.budget,
            first_block,
            nb,
            self.values,
            self.shadow,
        )

    def waves(self, lanes: int) -> None:
        """Blocks in lock step, as many at a time as make up ``lanes`` lanes."""
        code = borrow(self.program, self._style(fine=False))
        for group in self._groups(code, lanes // self.geometry.padded):
            pending = Wave(group).run()
            if pending:
                self._finish(group, pending, code)
            self._close(group)
        give_back(code)

    def _groups(self, code: Code, together: int) -> Iterator[Group]:
        """The blocks of the grid in order, in groups of so many, fewer if they have much memory.

        All are one group where the program has a barrier of the whole grid.
        """
        padded = self.geometry.padded
        spaces = {space: [a for a in self.program.allocs.values() if a.space == space] for space in ("shared", "local")}
        shared, local = (window_layout(allocs, self.geometry.dynamic_shared)[1] for allocs in spaces.values())
        memory = shared + local * padded
        together = max(1, min(together, WINDOWS // (memory or 1)))
        if self.everybody:
            check_together(self.program, self.geometry.blocks, self.geometry.padded, memory, WINDOWS)
            together = self.geometry.blocks
        elif self.together and self.geometry.blocks * memory <= WINDOWS:
            together = self.geometry.blocks
        for part in self.parts:
            for first in part[::together]:
                yield self._group(code, first, min(together, part.stop - first))

    def _finish(self, group: Group, pending: list[Any], coarse: Code) -> None:
        """What a wave could not decide, the split scheduler does: all its blocks at once, in a fair order."""
        if self.hooks.hand_over is not None:
            self.hooks.hand_over(group.first_block, group.nb)
        fine = borrow(self.program, self._style(fine=True))
        group.code = fine
        Splits(group, Pick("random", seed=0)).run(hand_over(pending, coarse, fine))
        give_back(fine)

    def _close(self, group: Group) -> None:
        group.close()
        if self.progress is not None:
            self.progress(group.first_block + group.nb, self.geometry.blocks)

    def splits(self, order: str, seed: int) -> None:
        """A few blocks at a time by independent thread scheduling."""
        code = borrow(self.program, self._style(fine=not self.uncut))
        for group in self._groups(code, resident(self.geometry.padded)):
            Splits(group, Pick(order, seed + (group.first_block << 32))).run()
            self._close(group)
        give_back(code)


def resident(padded: int) -> int:
    """Blocks of so many lanes that the split scheduler runs at once: two at the least, so that they mix."""
    return max(2, RESIDENT // padded)


# -- arguments ----------------------------------------------------------------------------------------------------


def bind(
    program: Program, args: Sequence[Any], memory: Memory, written: Sequence[tuple[np.ndarray, np.ndarray]] = ()
) -> dict[str, Any]:
    """Enter argument arrays and constant memory, and give every parameter its value."""
    arrays: dict[tuple[int, ...], np.ndarray] = {}
    for param in program.params:
        if param.role == "address":
            arrays[param.path] = _item(args, param.path)
    names = [(_name(program, args, path), array) for path, array in arrays.items()]
    addresses = dict(zip(arrays, memory.add_arrays(names, written), strict=True))
    params = {param.name: _value(param, args, addresses) for param in program.params}
    params.update(_add_constants(program, memory))
    return params


def _item(args: Sequence[Any], path: tuple[int, ...]) -> Any:
    found: Any = args
    for k in path:
        found = _plain(found)[k]
    return _plain(found)


def _plain(value: Any) -> Any:
    """What a launch hands over for a Python object: the value of an enumeration's member, a record as an array."""
    if isinstance(value, Enum):
        return _plain(value.value)
    return np.asarray(value) if isinstance(value, np.void) else value


def _name(program: Program, args: Sequence[Any], path: tuple[int, ...]) -> str:
    """``x``; of an item of a tuple ``t[0]``, of a named tuple ``p.x``."""
    name = program.arguments[path[0]]
    for depth, k in enumerate(path[1:], 1):
        fields = getattr(_item(args, path[:depth]), "_fields", None)
        name += f".{fields[k]}" if fields else f"[{k}]"
    return name


def _value(param: Param, args: Sequence[Any], addresses: dict[tuple[int, ...], int]) -> Any:
    if param.role == "zero":
        return 0
    found = _item(args, param.path)
    match param.role:
        case "address":
            return addresses[param.path]
        case "shape":
            return int(found.shape[param.axis])
        case "stride":
            return int(found.strides[param.axis])
        case "size":
            return int(found.size)
        case "itemsize":
            return int(found.itemsize)
        case "real" | "imag":
            return DT[param.dtype].type(getattr(found, param.role))
    if param.dtype == "b1":
        return bool(found)
    if isinstance(found, np.datetime64 | np.timedelta64):
        return int(found.astype(np.int64))
    return DT[param.dtype].type(found) if param.dtype in FLOATS else int(found)


def _add_constants(program: Program, memory: Memory) -> dict[str, int]:
    """Constant arrays enter the memory once; their addresses by ``&name``."""
    allocs = [alloc for alloc in program.allocs.values() if alloc.space == "const"]
    addresses = {}
    top = CONST_BASE
    for alloc in allocs:
        data = np.frombuffer(alloc.data, np.uint8)
        dtype = numpy_of(alloc.dtype)
        strides = c_strides(alloc.shape, dtype.itemsize)
        view = View(display_name(alloc.name), dtype, alloc.shape, strides, 0, writable=False)
        memory.add(Allocation(top, top + len(data), view.name, "const", data, (view,), pos=alloc.pos))
        addresses[f"&{alloc.name}"] = top
        top = -(-(top + len(data) + GUARD) // 256) * 256
    return addresses
