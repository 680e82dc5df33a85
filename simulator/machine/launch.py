"""Runs a program over a grid: binds the arguments, makes groups of blocks, gives them to a scheduler.

``schedule="waves"`` runs whole blocks in lock step, about 16k lanes at a time; ``"splits"`` runs a few blocks at a time
by independent thread scheduling, in a named order or by a seed.  Both run the same program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from simulator.machine.code import Code, Style, borrow, give_back
from simulator.machine.group import Group, Hooks, display_name, window_layout
from simulator.machine.limits import check_limits
from simulator.machine.memory import CONST_BASE, GUARD, Allocation, Memory, View
from simulator.machine.observer import Observer
from simulator.machine.registers import Dim3, Geometry
from simulator.machine.splits import Pick, Splits
from simulator.machine.values import DT
from simulator.machine.waves import Wave, hand_over
from simulator.program import FLOATS, SIZES, Param, Program, c_strides

Progress = Callable[[int, int], None]

LANES = 16_384
"""Lanes of a wave.  1k lanes are about 4x slower (calls), 256k about 2x (the cache)."""
RESIDENT = 1024
"""Lanes of blocks that the split scheduler runs at once: blocks that wait for their neighbours find them there."""
WINDOWS = 256 << 20
"""Bytes of shared and local memory that blocks which run together may have."""
STEPS = 2_000_000
"""Segments of code that a group of blocks may run before it counts as hanging: about half a minute."""


def launch(
    program: Program,
    grid: Dim3,
    block: Dim3,
    args: Sequence[Any],
    *,
    dynamic_shared: int = 0,
    schedule: str = "waves",
    order: str = "first",
    seed: int = 0,
    values: str = "affine",
    observers: Iterable[Observer] = (),
    shadow: Any = None,
    watch: Iterable[str] = (),
    step_budget: int | None = STEPS,
    progress: Progress | None = None,
    lanes: int = LANES,
) -> None:
    """Run ``program``; arrays in ``args`` are updated in place.

    ``values="vector"`` switches the affine values off: slower, the same bits and events.
    ``step_budget=None`` lets a kernel run for ever.  ``progress(done, all)`` is called with numbers of blocks as groups
    of blocks finish.  Raises ``Fault``.
    """
    check_limits(program, grid, block, dynamic_shared)
    memory = Memory()
    params = bind(program, args, memory)
    hooks = Hooks(observers)
    run = _Run(program, Geometry(grid, block, dynamic_shared), memory, params, hooks, values, shadow, frozenset(watch))
    run.budget = sys.maxsize if step_budget is None else step_budget
    run.progress = progress
    try:
        for observer in hooks.observers:
            observer.launch(program, grid, block, memory)
        if shadow is not None:
            shadow.launch(program, memory)
        with np.errstate(all="ignore"):
            if schedule == "waves":
                run.waves(lanes)
            else:
                run.splits(order, seed)
    finally:
        for observer in hooks.observers:
            observer.finish()


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
        shadow: Any,
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

    def _style(self, fine: bool) -> Style:
        return Style(fine, self.watch, self.shadow is not None)

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
        for group in self._groups(code, lanes):
            pending = Wave(group).run()
            if pending:
                self._finish(group, pending, code)
            self._close(group)
        give_back(code)

    def _groups(self, code: Code, lanes: int) -> Iterator[Group]:
        """The blocks of the grid in order, in groups of about so many lanes, fewer if they have much memory."""
        padded = self.geometry.padded
        spaces = {space: [a for a in self.program.allocs.values() if a.space == space] for space in ("shared", "local")}
        shared, local = (window_layout(allocs, self.geometry.dynamic_shared)[1] for allocs in spaces.values())
        together = max(1, min(lanes // padded, WINDOWS // (shared + local * padded or 1)))
        for first in range(0, self.geometry.blocks, together):
            yield self._group(code, first, min(together, self.geometry.blocks - first))

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
        code = borrow(self.program, self._style(fine=True))
        pick = Pick(order, seed)
        for group in self._groups(code, RESIDENT):
            Splits(group, pick).run()
            self._close(group)
        give_back(code)


# -- arguments ----------------------------------------------------------------------------------------------------


def bind(program: Program, args: Sequence[Any], memory: Memory) -> dict[str, Any]:
    """Enter argument arrays and constant memory, and give every parameter its value."""
    arrays: dict[tuple[int, ...], np.ndarray] = {}
    for param in program.params:
        if param.role == "address":
            arrays[param.path] = _item(args, param.path)
    names = [(_name(program, path), array) for path, array in arrays.items()]
    addresses = dict(zip(arrays, memory.add_arrays(names), strict=True))
    params = {param.name: _value(param, args, addresses) for param in program.params}
    params.update(_add_constants(program, memory))
    return params


def _item(args: Sequence[Any], path: tuple[int, ...]) -> Any:
    found: Any = args
    for k in path:
        found = found[k]
    return found


def _name(program: Program, path: tuple[int, ...]) -> str:
    return program.arguments[path[0]] + "".join(f"[{k}]" for k in path[1:])


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
    if param.dtype == "b1":
        return bool(found)
    return DT[param.dtype].type(found) if param.dtype in FLOATS else int(found)


def _add_constants(program: Program, memory: Memory) -> dict[str, int]:
    """Constant arrays enter the memory once; their addresses by ``&name``."""
    allocs = [alloc for alloc in program.allocs.values() if alloc.space == "const"]
    addresses = {}
    top = CONST_BASE
    for alloc in allocs:
        data = np.frombuffer(alloc.data, np.uint8)
        strides = c_strides(alloc.shape, SIZES[alloc.dtype])
        view = View(display_name(alloc.name), alloc.dtype, alloc.shape, strides, 0, writable=False)
        memory.add(Allocation(top, top + len(data), view.name, "const", data, (view,), pos=alloc.pos))
        addresses[f"&{alloc.name}"] = top
        top = -(-(top + len(data) + GUARD) // 256) * 256
    return addresses
