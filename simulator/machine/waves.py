"""The wave scheduler: whole blocks in lock step, reconvergence at the immediate post-dominator.

It is fast and gives numbers and counts.  It never judges: where lanes that a synchronising operation needs are
elsewhere, or where waiting lanes starve behind a loop, it runs what else there is to run and, when that does not
help, hands its splits over to the split scheduler.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.machine import warp
from simulator.machine.code import Code
from simulator.machine.grids import check_arrived, of_grid
from simulator.machine.group import Group
from simulator.machine.spinning import Rounds
from simulator.machine.split import Join, Split
from simulator.machine.values import narrow
from simulator.program import Op, Term

PATIENCE = 5_000
"""Segments that one split may run while lanes wait for it, before the wave is handed over."""
GAP = 64
"""Steps before a wave looks for the first time whether a split spins; then twice as many each time ..."""
WIDEST = 4_096
"""... up to this."""


class Wave:
    """One group in lock step.  ``run`` returns the splits that it could not finish (none, usually)."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.code = group.code
        self.blocks = group.code.blocks
        self.terms = group.code.terms
        self.reading = group.code.reading
        self.straight = group.code.straight
        self.patience = PATIENCE
        self.starving = False
        self.rounds = Rounds(group.code)
        self.gap = GAP
        self.look = max(group.steps - GAP, 0)
        self.attention = 16 + 2 * len(self.terms)
        """For how many steps a wave looks: a few rounds of any loop."""
        self.parked: list[Split] = []
        self.work: list[Split] = []

    def run(self) -> list[Split]:
        """Run to the end, or to where only the split scheduler can go on."""
        group = self.group
        lanes = group.lanes()
        mask = ~group.exited if group.exited.any() else None
        self.work = [Split(group.program.entry, mask, group.start(lanes), lanes, group)]
        while self.work:
            split: Split | None = self.work.pop()
            while split is not None:
                split = self._advance(split)
                if self.starving and split is not None:
                    self.work.append(split)
                    return self._pending()
            self._unpark()
        return self._pending()

    # -- going on ---------------------------------------------------------------------------------------------

    def _advance(self, split: Split) -> Split | None:
        """Run a split until it exits, waits, diverges or starves others; returns who goes on."""
        group = self.group
        while True:
            if (split.join is not None or self.parked or self.work) and self._loses_patience(split):
                return split
            straight = self.straight.get(split.block)
            if straight is None:
                if not self._run_block(split):
                    return None
            else:
                group.steps -= 1
                if group.steps < self.look and self._spins(split):
                    return split
                for function in straight:
                    function(split, split.values)
            term = self.terms[split.block]
            if term.kind == "jump":
                split.block = term.to[0]
            elif term.kind == "exit":
                group.leave(split)
                self.patience = PATIENCE
                return self._leave(split.join)
            else:
                taken = self._side(split, term)
                if split.block in group.sides:
                    group.took(split, taken)
                if type(taken) is not bool:
                    return self._diverge(split, term, taken)
                split.block = term.to[0] if taken else term.to[1]
            join = split.join
            if join is not None and split.block == join.block:
                return self._arrive(split)

    def _run_block(self, split: Split) -> bool:
        """Run the segments that are left of a block with places to wait at; False if the split must wait at one."""
        segments, values = self.blocks[split.block], split.values
        self.group.spend(split)
        for number in range(split.segment, len(segments)):
            segment = segments[number]
            if segment.sync is not None and not self._complete(split, segment.sync):
                split.segment = number
                split.waiting = segment.sync
                self.parked.append(split)
                return False
            if segment.function is not None:
                segment.function(split, values)
            else:
                assert segment.sync is not None
                split.segment = number
                self._pass_barrier(split, segment.sync)
        split.segment = 0
        return True

    def _loses_patience(self, split: Split) -> bool:
        """Somebody else may be waiting for what this split does not do: who spins reads memory, so that is counted."""
        if split.block not in self.reading:
            return False
        self.patience -= 1
        self.starving = self.patience < 0
        return self.starving

    def _spins(self, split: Split) -> bool:
        """Does it come round its loop as it was?  A wave looks for some steps, then not for twice as many as before."""
        steps = self.group.steps
        if steps < 0:
            raise self.group.hangs(split)
        if steps < self.look - self.attention:
            self.gap = min(2 * self.gap, WIDEST)
            self.look = max(steps - self.gap, 0)
            return False
        self.starving = self.rounds.comes_round(split)
        return self.starving

    def _side(self, split: Split, term: Term) -> bool | np.ndarray:
        """Where a branch sends the active lanes: all to one side (a bool), or those that jump."""
        assert term.cond is not None
        if self.group.shadow is not None:
            self.group.shadow.branch(split, term)
        condition = split.values[term.cond]
        if type(condition) is not np.ndarray:
            return bool(condition)
        mask = split.mask
        taken = condition if mask is None else condition & mask
        count = np.count_nonzero(taken)
        if count == 0:
            return False
        return True if count == (taken.size if mask is None else np.count_nonzero(mask)) else taken

    def _diverge(self, split: Split, term: Term, taken: np.ndarray) -> Split | None:
        """Both sides go on by themselves, up to where they meet again."""
        lanes = split.lanes
        taken = split.expand(taken, "b1")
        fallen = ~taken if split.mask is None else split.mask & ~taken
        if self.group.hooks.branch is not None:
            self.group.hooks.branch(split, term, taken, fallen)
        meeting = self.code.flow.ipdom[split.block]
        join = split.join
        if join is None or join.block != meeting:
            join = Join(meeting, join)
        join.expected += 1
        other = Split(term.to[0], taken, split.values[:], lanes, self.group, join)
        split.mask, split.join, split.block = fallen, join, term.to[1]
        going = [found for found in (self._arrive(split), self._arrive(other)) if found is not None]
        if not going:
            return None
        self.work += going[:-1]
        return going[-1]

    # -- joins ------------------------------------------------------------------------------------------------

    def _arrive(self, split: Split) -> Split | None:
        """At its join's place a split waits, or goes on with everybody when it is the last."""
        while split.join is not None and split.block == split.join.block:
            join = split.join
            if join.arrived is None:
                join.arrived = split
            else:
                join.arrived.absorb(split, self.code.flow.live_in[join.block])
            join.expected -= 1
            if join.expected:
                return None
            split = join.arrived
            split.join = join.parent
        return split

    def _leave(self, join: Join | None) -> Split | None:
        """Lanes exited: who waited only for them goes on."""
        while join is not None:
            join.expected -= 1
            if join.expected:
                return None
            if join.arrived is not None:
                split = join.arrived
                split.join = join.parent
                return self._arrive(split)
            join = join.parent
        return None

    # -- synchronising operations -----------------------------------------------------------------------------

    def _complete(self, split: Split, op: Op) -> bool:
        """Is everybody here whom the operation needs?"""
        mask = split.mask
        if op.kind == "bar":
            if mask is None:
                return True
            missing = self.group.live(split) & ~mask
            return not (missing if of_grid(op) else missing[mask.any(1)]).any()
        members = split.values[op.src[-1]]
        if mask is None:
            return True
        return not (warp.named(split, members) & (self.group.live(split) & ~mask).reshape(-1, 32)).any()

    def _pass_barrier(self, split: Split, op: Op) -> None:
        self.group.check_skipped([split], op)
        if of_grid(op):
            check_arrived(self.group, [split], op)
        self.patience = PATIENCE
        if op.dst:
            warp.reduce_at_barrier([(split, op)])
            if self.group.shadow is not None:
                self.group.shadow.after(split, op, (split.values[op.src[0]],), (split.values[op.dst[0]],))
        if self.group.hooks.barrier is not None:
            self.group.hooks.barrier(split, op)

    def _unpark(self) -> None:
        """Lanes left or arrived: let go on whoever waited for that."""
        for split in list(self.parked):
            assert split.waiting is not None
            if self._complete(split, split.waiting):
                split.waiting = None
                self.patience = PATIENCE
                self.parked.remove(split)
                self.work.append(split)

    # -- handing over -----------------------------------------------------------------------------------------

    def _pending(self) -> list[Split]:
        """Every split that has not finished: runnable, parked, or waiting at a join."""
        pending: dict[int, Split] = {}
        for split in (*self.work, *self.parked):
            pending[id(split)] = split
            join = split.join
            while join is not None:
                if join.arrived is not None:
                    pending[id(join.arrived)] = join.arrived
                join = join.parent
        return list(pending.values())


def hand_over(splits: list[Split], coarse: Code, fine: Code) -> list[Split]:
    """A wave's splits as splits of single warps, standing at the same places of ``fine`` code."""
    handed = []
    for split in splits:
        group = split.group
        segments = coarse.blocks[split.block]
        start = segments[split.segment].start if split.segment < len(segments) else 0
        place = fine.segment_at(split.block, start) if segments else 0
        active = split.active()
        for row in range(split.lanes.nb):
            for number in range(split.lanes.P // 32):
                mask = active[row : row + 1, 32 * number : 32 * number + 32]
                if mask.any():
                    handed.append(_one_warp(split, group, row, number, mask, place))
    return handed


def _one_warp(split: Split, group: Group, row: int, number: int, mask: np.ndarray, place: int) -> Split:
    lanes = group.warp_lanes(row, number)
    codes = [slot.dtype for slot in group.program.slots]
    if group.shadow is not None:
        codes += ["i8"] * len(codes)  # a shadow holds node numbers

    def seen(value: Any, code: str) -> Any:
        return None if value is None else narrow(value, split.lanes, row, 32 * number, lanes, code)

    values = [seen(value, code) for value, code in zip(split.values, codes, strict=True)]
    one = Split(split.block, None if mask.all() else mask.copy(), values, lanes, group)
    one.segment = place
    return one
