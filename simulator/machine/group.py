"""A group: the blocks that run together, with their shared and local memory and who has left.

Both schedulers work on a group.  A wave that cannot go on hands its group over to the split scheduler as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from simulator.machine import grids, whereabouts
from simulator.machine.code import Code
from simulator.machine.faults import Fault, Place
from simulator.machine.memory import LOCAL_BASE, POISON, SHARED_BASE, WORD, Allocation, Memory, View, numpy_of
from simulator.machine.observer import Observer
from simulator.machine.registers import Geometry, register
from simulator.machine.shadow import Shadow
from simulator.machine.split import Split
from simulator.machine.values import Lanes
from simulator.machine.warp import describe
from simulator.program import (
    Alloc,
    FromAlloc,
    FromParam,
    FromRegister,
    Op,
    Program,
    c_strides,
)

Hook = Callable[..., None] | None


class Hooks:
    """The observers' methods, resolved once: a hook that nobody overrides is None and costs one test.

    ``forgiving``: the launch goes on past an address that is wrong.
    """

    def __init__(self, observers: Iterable[Observer], forgiving: bool = False) -> None:
        self.observers = tuple(observers)
        self.forgiving = forgiving
        self.access = self._hook("access")
        self.store = self._hook("store")
        self.atomic = self._hook("atomic")
        self.fault = self._hook("fault")
        self.lost = self._hook("lost")
        self.fence = self._hook("fence")
        self.barrier = self._hook("barrier")
        self.warp = self._hook("warp")
        self.segment = self._hook("segment")
        self.overflow = self._hook("overflow")
        self.narrowed = self._hook("narrowed")
        self.branch = self._hook("branch")
        self.value = self._hook("value")
        self.trap = self._hook("trap")
        self.print = self._hook("print")
        self.undefined = self._hook("undefined")
        self.hand_over = self._hook("hand_over")
        self.wrap = self._hook("wrap")

    def _hook(self, name: str) -> Hook:
        found = [getattr(o, name) for o in self.observers if getattr(type(o), name) is not getattr(Observer, name)]
        if len(found) < 2:
            return found[0] if found else None

        def every(*event: Any) -> None:
            for one in found:
                one(*event)

        return every


class Group:
    """Blocks first_block … first_block + nb - 1, running ``code`` over ``memory``."""

    def __init__(
        self,
        code: Code,
        memory: Memory,
        geometry: Geometry,
        params: dict[str, Any],
        hooks: Hooks,
        budget: int,
        first_block: int,
        nb: int,
        values: str,
        shadow: Shadow | None = None,
    ) -> None:
        self.program: Program = code.program
        self.code = code
        self.memory = memory
        self.geometry = geometry
        self.params = params
        self.budget = self.steps = budget
        self.first_block = first_block
        self.nb = nb
        self.values = values
        self.shadow = shadow
        self.hooks = hooks
        self.alive = True
        self.on_access, self.on_warp, self.on_value = hooks.access, hooks.warp, hooks.value
        self.on_trap = hooks.trap
        self.exited = np.zeros((nb, geometry.padded), bool)
        self.exited[:, geometry.threads :] = True
        self.exit_block = np.full((nb, geometry.padded), -1, np.int32)
        self.labels = list(self.program.blocks)
        self._exits: set[int] = set()
        self.sides = {
            branch: np.zeros(self.exited.shape, np.int8)
            for branches in code.flow.steering.values()
            for branch in branches
        }
        """Which side each lane last took (1 jump, 2 fall through, 0 neither) at branches that lead to waiting."""
        self._addresses: dict[str, int] = {}
        self._windows: list[Allocation] = []
        code.forget_memory()
        self._open_windows()

    # -- memory -----------------------------------------------------------------------------------------------

    def _open_windows(self) -> None:
        for space, base, copies in (
            ("shared", SHARED_BASE, self.nb),
            ("local", LOCAL_BASE, self.nb * self.geometry.padded),
        ):
            allocs = [alloc for alloc in self.program.allocs.values() if alloc.space == space]
            offsets, size = window_layout(allocs, self.geometry.dynamic_shared)
            if not allocs:
                continue
            data = np.full(copies * size, POISON, np.uint8)
            # a window is a multiple of 16 bytes, so of words
            strides = (size, 0, 0) if space == "shared" else (WORD * self.geometry.padded, WORD, WORD * copies)
            for offset, members in _by_offset(allocs, offsets).items():
                extent = max(_size(alloc, self.geometry.dynamic_shared) for alloc in members)
                views = tuple(_view(alloc, self.geometry.dynamic_shared) for alloc in members)
                window = Allocation(
                    base + offset,
                    base + offset + extent,
                    views[0].name,
                    space,
                    data[offset // WORD * strides[2] if strides[2] else offset :],
                    views,
                    *strides,
                    pos=members[0].pos,
                )
                self._windows.append(self.memory.add(window))
                self._addresses.update({alloc.name: base + offset for alloc in members})

    def address_of(self, name: str) -> int:
        """Where a declared shared or local array starts."""
        return self._addresses[name]

    def close(self) -> None:
        """Forget the windows: the next group has new ones at the same addresses."""
        self.alive = False
        for window in self._windows:
            self.memory.remove(window)
        self.code.forget_memory()

    # -- lanes ------------------------------------------------------------------------------------------------

    def lanes(self) -> Lanes:
        """All lanes of the group."""
        padded = self.geometry.padded
        return Lanes(self.nb, padded, 0, self.first_block, values=self.values, row=self.geometry.row(padded))

    def warp_lanes(self, block: int, warp: int) -> Lanes:
        """The lanes of one warp; ``block`` counts from the group's first."""
        return Lanes(1, 32, 32 * warp, self.first_block + block, values=self.values, row=self.geometry.row(32))

    def start(self, lanes: Lanes) -> list[Any]:
        """Slots at the kernel's entry (and behind them those of a shadow)."""
        slots = self.code.start[:]
        for k, slot in self.code.given:
            match slot.init:
                case FromRegister(name):
                    slots[k] = register(name, slot.dtype, lanes, self.geometry)
                case FromParam(name):
                    slots[k] = self.params[name]
                case FromAlloc(name):
                    slots[k] = self._addresses[name] if name in self._addresses else self.params[f"&{name}"]
        if self.shadow is not None:
            slots += [None] * len(slots)
        return slots

    def region(self, split: Split) -> tuple[slice, slice]:
        """Where the split's lanes are in arrays of shape (blocks, threads) of the whole group."""
        row = split.lanes.first_block - self.first_block
        column = split.lanes.first_thread
        return slice(row, row + split.lanes.nb), slice(column, column + split.lanes.P)

    def live(self, split: Split) -> np.ndarray:
        """Lanes in the split's region that have not exited."""
        return np.asarray(~self.exited[self.region(split)])

    def leave(self, split: Split) -> None:
        """The split's active lanes exit."""
        region = self.region(split)
        label = self.labels.index(split.block)
        self._exits.add(label)
        if split.mask is None:
            self.exited[region], self.exit_block[region] = True, label
        else:
            self.exited[region] |= split.mask
            self.exit_block[region][split.mask] = label

    # -- barriers ---------------------------------------------------------------------------------------------

    def took(self, split: Split, taken: bool | np.ndarray) -> None:
        """The active lanes go where ``taken`` sends them, from a branch that decides who waits."""
        sides = self.sides[split.block][self.region(split)]
        side = np.int8(2) - taken
        if split.mask is None:
            sides[...] = side
        else:
            np.copyto(sides, side, where=split.mask)

    def check_skipped(self, splits: Sequence[Split], op: Op) -> None:
        """Threads that went past a barrier and exited never come: that is divergence, an early return is not."""
        label = splits[0].block
        skipping = [k for k in self._exits if self.code.flow.skipped(label, self.labels[k])]
        if not skipping:
            return
        waiting = grids.waiting_lanes(self, splits)
        missing = np.isin(self.exit_block, skipping)
        if not grids.of_grid(op):
            missing &= waiting.any(1, keepdims=True)
        if not missing.any():
            return
        if grids.of_grid(op):
            raise grids.skipped(self, splits, op, missing)
        row = int(np.argwhere(missing)[0][0])
        here, gone = (tuple(np.flatnonzero(lanes[row]).tolist()) for lanes in (waiting, missing))
        raise Fault(
            "barrier-divergence",
            (Place(op.pos, self.first_block + row, here, describe(op)),),
            missing=gone,
            waiting=here,
            elsewhere=whereabouts.returned(self, row, missing[row]),
            exited=gone,
            parted=whereabouts.parting(self, label, row, here, gone),
        )

    def spend(self, split: Split) -> None:
        """One segment of code is about to run; the launch stops when the group's budget is gone."""
        self.steps -= 1
        if self.steps < 0:
            raise self.hangs(split)

    def sleeps(self, split: Split, waiting: Sequence[Split], asleep: Sequence[Split]) -> Fault:
        """The verdict where everybody in the group waits or spins: for ever, unless a block elsewhere would end it."""
        return self.hangs(split, waiting, asleep, "forever" if self.whole else "for others")

    @property
    def whole(self) -> bool:
        """Are these all blocks of the launch?"""
        return self.nb == self.geometry.blocks

    def hangs(
        self, split: Split, waiting: Sequence[Split] = (), running: Sequence[Split] = (), spins: str = ""
    ) -> Fault:
        """The verdict on ``split``, which has spent the group's budget; or ``spins`` "forever", or "for others": until
        blocks do something that do not run together with it."""
        row = int(split.active().any(1).argmax())
        block = split.lanes.first_block + row
        place = Place(whereabouts.position(self, split), block, split.threads(block=row))
        others = [other for other in running if other is not split]
        elsewhere = whereabouts.waiting(waiting, block) + whereabouts.going(self, others, block)
        return Fault("step-limit", (place,), budget=self.budget, elsewhere=elsewhere, spins=spins)


def window_layout(allocs: list[Alloc], dynamic_shared: int) -> tuple[dict[str, int], int]:
    """Offsets of declared allocations in their window, and the window's size in bytes (a multiple of 16).

    Local ones start at a word, since words are interleaved.  Dynamic shared ones come last and all start at one place.
    """
    offsets: dict[str, int] = {}
    top = 0
    for alloc in allocs:
        if not alloc.dynamic:
            align = max(alloc.align, WORD) if alloc.space == "local" else alloc.align
            top = -(-top // align) * align
            offsets[alloc.name] = top
            top += alloc.size
    if dynamic := [alloc for alloc in allocs if alloc.dynamic]:
        top = -(-top // 16) * 16
        offsets.update({alloc.name: top for alloc in dynamic})
        top += dynamic_shared
    return offsets, -(-top // 16) * 16


def _by_offset(allocs: list[Alloc], offsets: dict[str, int]) -> dict[int, list[Alloc]]:
    found: dict[int, list[Alloc]] = {}
    for alloc in allocs:
        # dynamic arrays share one place; an array of no bytes stands where the next one does
        found.setdefault(offsets[alloc.name], []).append(alloc)
    return found


def _size(alloc: Alloc, dynamic_shared: int) -> int:
    return dynamic_shared if alloc.dynamic else alloc.size


def _view(alloc: Alloc, dynamic_shared: int) -> View:
    dtype = numpy_of(alloc.dtype)
    shape = (dynamic_shared // dtype.itemsize,) if alloc.dynamic else alloc.shape
    return View(display_name(alloc.name), dtype, shape, c_strides(shape, dtype.itemsize), 0)


def display_name(name: str) -> str:
    """An allocation's name without what the front end added to make it unique (``tile@12`` -> ``tile``)."""
    return name.partition("@")[0]
