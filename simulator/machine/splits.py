"""The split scheduler: independent thread scheduling, as on Volta and later.

The unit is a set of lanes of one warp that has not diverged.  Code is cut at every memory and synchronising
operation, and a named order or a seed chooses who goes next.  Lanes meet where they happen to stand at the same place;
a shuffle, vote or syncwarp waits until every lane that it names and that has not exited is there, a barrier for every
thread of the block that has not exited.  Lanes that spin sleep until memory changes.  When nobody can go on, that is
the verdict.
"""

from __future__ import annotations

import sys
from collections import defaultdict

import numpy as np

from simulator.machine import grids, warp, whereabouts
from simulator.machine.gathering import Gathering
from simulator.machine.group import Group
from simulator.machine.order import Pick
from simulator.machine.sleepers import Sleepers
from simulator.machine.spinning import Rounds
from simulator.machine.split import Split
from simulator.machine.whereabouts import by_operation
from simulator.program import Op, Term


class Splits:
    """Runs the splits of one group, in an order of choice."""

    def __init__(self, group: Group, pick: Pick) -> None:
        self.group = group
        self.code = group.code
        self.program = group.program
        self.pick = pick
        self.awake: list[Split] = []
        self.sleepers = Sleepers(group.code, group.memory)
        self.waiting: list[Split] = []
        self.rounds = Rounds(group.code)
        self.gathering = Gathering(group.code.flow)
        self.mates: defaultdict[tuple[int, int], list[Split]] = defaultdict(list)
        """The splits of each warp, wherever they are."""
        self.going: defaultdict[int, int] = defaultdict(int)
        """How many splits of each block do not wait."""

    def run(self, splits: list[Split] | None = None) -> None:
        """Run to the end, from the kernel's entry or from where a wave handed over."""
        for split in self._fresh() if splits is None else splits:
            self._join(split)
        sleepers = self.sleepers
        while True:
            if sleepers.naps:
                self.awake += sleepers.wake()
            if self.awake:
                split = self._next()
                if sleepers.woken and sleepers.sleeps_on(split):
                    self.awake.remove(split)
                else:
                    self._step(split)
            elif sleepers.naps:
                self._stir()
            elif self.waiting:
                raise whereabouts.never_arrive(self.group, self.waiting, self._absent)
            else:
                return

    def _next(self) -> Split:
        """Who gets a turn: the choice of the order, or who is farthest behind in its warp."""
        split = self.pick(self.awake)
        mates = self.mates[split.warp]
        if len(mates) == 1 or not (self.pick.gathers() and self.gathering.has_patience(split.warp)):
            return split
        naps = self.sleepers.naps
        return self.gathering.behind([mate for mate in mates if mate.waiting is None and mate not in naps])

    def _stir(self) -> None:
        """Everybody sleeps or waits: the verdict, unless something has changed or the launch may run for ever."""
        group, asleep = self.group, list(self.sleepers.naps)
        for_ever = group.budget == sys.maxsize and group.whole  # the host may write what they wait for
        since = -1 if for_ever else group.memory.changes
        self.awake += self.sleepers.stir(since)
        if not self.awake:
            raise group.sleeps(min(asleep, key=lambda split: split.rank), self.waiting, asleep)

    def _fresh(self) -> list[Split]:
        group, splits = self.group, []
        for block in range(group.nb):
            for number in range(group.geometry.padded // 32):
                lanes = group.warp_lanes(block, number)
                live = ~group.exited[block : block + 1, 32 * number : 32 * number + 32]
                mask = None if live.all() else live
                splits.append(Split(self.program.entry, mask, group.start(lanes), lanes, group))
        return splits

    # -- who is where -----------------------------------------------------------------------------------------

    def _join(self, split: Split) -> None:
        """A split is new here."""
        self.mates[split.warp].append(split)
        self._set_off(split)

    def _set_off(self, split: Split) -> None:
        """A split has a turn from now on."""
        self._rank(split)
        self.going[split.lanes.first_block] += 1
        self.awake.append(split)

    def _halt(self, split: Split) -> None:
        """A split that was running waits, or is no more."""
        self.going[split.lanes.first_block] -= 1
        self.awake.remove(split)

    def _rank(self, split: Split) -> None:
        first = 0 if split.mask is None else split.box()[2]
        split.rank = split.lanes.first_block * self.group.geometry.padded + split.lanes.first_thread + first

    # -- one step ---------------------------------------------------------------------------------------------

    def _step(self, split: Split) -> None:
        """One segment of one split; a whole warp goes on to where its turn could make a difference."""
        if split.points:
            self.gathering.go_on(split, self.mates[split.warp])
        group, blocks, unseen, naps = self.group, self.code.blocks, self.code.unseen, self.sleepers.naps
        overheard = self.sleepers.eavesdropper.warps
        while True:
            group.steps -= 1
            if group.steps < 0:
                raise group.hangs(split, self.waiting, [*self.awake, *naps])
            segments = blocks[split.block]
            if split.segment < len(segments):
                segment = segments[split.segment]
                if segment.sync is not None:
                    self._wait(split, segment.sync)
                    return
                assert segment.function is not None
                if split.warp in overheard:
                    self.sleepers.eavesdropper.run(segment.function, split)
                else:
                    segment.function(split, split.values)
                split.segment += 1
                if split.segment < len(segments):
                    return
            split.segment = 0
            term = self.program.blocks[split.block].term
            assert term is not None
            self._terminate(split, term)
            if term.kind == "exit" or split.mask is not None or split.block not in unseen or split in naps:
                return

    def _terminate(self, split: Split, term: Term) -> None:
        if term.kind == "exit":
            self.group.leave(split)
            self.pick.progress()
            self._halt(split)
            self.mates[split.warp].remove(split)
            self._somebody_left(split)
            return
        if term.kind == "jump":
            split.block = term.to[0]
        else:
            assert term.cond is not None
            if self.group.shadow is not None:
                self.group.shadow.branch(split, term)
            condition = split.values[term.cond]
            if split.block in self.group.sides:
                self.group.took(split, condition)
            if type(condition) is np.ndarray:
                condition = split.expand(condition, "b1")
                active = split.active()
                taken, fallen = condition & active, active & ~condition
                if taken.any() and fallen.any():
                    self._diverge(split, term, taken, fallen)
                    return
                condition = bool(taken.any())
            split.block = term.to[0] if condition else term.to[1]
        self._arrive(split)

    def _diverge(self, split: Split, term: Term, taken: np.ndarray, fallen: np.ndarray) -> None:
        if self.group.hooks.branch is not None:
            self.group.hooks.branch(split, term, taken, fallen)
        other = Split(term.to[0], taken, split.values[:], split.lanes, self.group)
        other.tired = split.tired
        self.gathering.part(split, other, split.block)
        split.mask, split.block = fallen, term.to[1]
        self._join(other)
        self._rank(split)
        self._arrive(other)
        self._arrive(split)

    def _arrive(self, split: Split) -> None:
        """At the entry of a block: lanes of a warp that stand there go on together, and who comes round sleeps."""
        if split.mask is not None:
            split = self._meet(split)
        if self.rounds.comes_round(split) and self.sleepers.add(split):
            self.awake.remove(split)

    def _meet(self, split: Split) -> Split:
        mates = self.mates[split.warp]
        for other in mates:
            if other is not split and other.block == split.block and other.segment == 0 and other.waiting is None:
                other.absorb(split, self.code.flow.live_in[split.block])
                self.gathering.meet(other, split)
                self._rank(other)
                self._halt(split)
                mates.remove(split)
                if self.sleepers.forget(other):
                    self.awake.append(other)
                return other
        return split

    # -- waiting ----------------------------------------------------------------------------------------------

    def _wait(self, split: Split, op: Op) -> None:
        split.waiting = op
        split.tired = 0
        self.pick.progress()
        self._halt(split)
        self.waiting.append(split)
        if op.kind == "bar":
            self._try_barrier(split.lanes.first_block)
        else:
            self._try_warp(split)

    def _somebody_left(self, split: Split) -> None:
        """Lanes exited: operations that waited only for them can run."""
        mates = self.mates[split.warp]
        for other in list(mates):
            if other in mates and other.waiting is not None and other.waiting.kind != "bar":
                self._try_warp(other)
        self._try_barrier(split.lanes.first_block)
        if self.waiting and not self._somebody_goes():
            self._try_grid()

    def _somebody_goes(self) -> bool:
        return bool(self.awake or self.sleepers.naps)

    def _try_warp(self, split: Split) -> None:
        """Run a warp operation once every named lane that has not exited stands at it."""
        op = split.waiting
        assert op is not None
        mates = self.mates[split.warp]
        here = [found for found in mates if found.waiting is not None and _meets(found.waiting, op)]
        present = np.logical_or.reduce([found.active() for found in here])
        absent = (self.group.live(split) & ~present).reshape(-1, 32)
        ready = [found for found in here if not (self._named(found) & absent).any()]
        if not ready:
            return
        together = [self._merged(members) for members in by_operation(ready)]
        self._run_warp(together)
        for found in together:
            self._release(found)
        for found in together:
            self._go_on(found)

    def _named(self, split: Split) -> np.ndarray:
        assert split.waiting is not None
        return warp.named(split, split.values[split.waiting.src[-1]])

    def _run_warp(self, splits: list[Split]) -> None:
        """Run one warp operation for splits that stand at it, or at copies of it that the compiler made."""
        group, n = self.group, len(self.program.slots)
        whole = _together(splits)
        op = whole.waiting
        assert op is not None
        operands = tuple(whole.values[slot] for slot in op.src)
        results = warp.apply(whole, op, operands)
        if group.shadow is not None:
            group.shadow.after(whole, op, operands, results)
        for split in splits:
            mine = split.waiting
            assert mine is not None
            for slot, slot_of_whole, result in zip(mine.dst, op.dst, results, strict=True):
                split.values[slot] = result
                if group.shadow is not None:
                    split.values[n + slot] = whole.values[n + slot_of_whole]
                if self.program.slots[slot].name in self.code.style.watch:
                    assert group.hooks.value is not None
                    group.hooks.value(split, mine, slot, result)

    def _release(self, split: Split) -> None:
        split.waiting = None
        split.segment += 1
        self.rounds.start_anew(split)
        self.waiting.remove(split)
        self._set_off(split)

    def _go_on(self, split: Split) -> None:
        """Past the operation: end the block if that was its last, once all that were let off with it are runnable."""
        segments = self.code.blocks[split.block]
        if split.segment == len(segments):
            split.segment = 0
            term = self.program.blocks[split.block].term
            assert term is not None
            self._terminate(split, term)

    def _try_barrier(self, block: int) -> None:
        """Let a block's threads pass once all that have not exited wait at a barrier."""
        if self.going[block]:
            return
        here = [found for found in self.waiting if found.lanes.first_block == block]
        at_barrier = [found for found in here if found.waiting is not None and found.waiting.kind == "bar"]
        if not at_barrier or len(at_barrier) < len(here):
            return
        if not _one_barrier(at_barrier):
            raise whereabouts.barriers_differ(self.group, at_barrier)
        if grids.of_grid(at_barrier[0].waiting):
            self._try_grid()
        else:
            self._open(at_barrier)

    def _try_grid(self) -> None:
        """Let all blocks pass a barrier of the grid once all threads that have not exited wait at it."""
        if self._somebody_goes() or not all(grids.of_grid(found.waiting) for found in self.waiting):
            return
        if not _one_barrier(self.waiting):
            raise grids.differ(self.group, self.waiting)
        op = self.waiting[0].waiting
        assert op is not None
        grids.check_arrived(self.group, self.waiting, op)
        self._open(list(self.waiting))

    def _open(self, at_barrier: list[Split]) -> None:
        """Everybody is there: let them pass."""
        passing: list[tuple[Split, Op]] = []
        for members in by_operation(at_barrier):
            op = members[0].waiting
            assert op is not None
            self.group.check_skipped(members, op)
            by_warp: dict[tuple[int, int], list[Split]] = {}
            for split in members:
                by_warp.setdefault(split.warp, []).append(split)
            passing += [(self._merged(found), op) for found in by_warp.values()]
        if passing[0][1].dst:
            warp.reduce_at_barrier(passing)
            for split, op in passing:
                if self.group.shadow is not None:
                    self.group.shadow.after(split, op, (split.values[op.src[0]],), (split.values[op.dst[0]],))
        for split, op in passing:
            if self.group.hooks.barrier is not None:
                self.group.hooks.barrier(split, op)
            self._release(split)
        for split, _ in passing:
            self._go_on(split)

    def _merged(self, splits: list[Split]) -> Split:
        """Splits of one warp that wait at one operation, as one."""
        first = splits[0]
        for other in splits[1:]:
            first.absorb(other, self.code.live(first.block, first.segment))
            self.gathering.meet(first, other)
            self.waiting.remove(other)
            self.mates[other.warp].remove(other)
        return first

    # -- verdicts ---------------------------------------------------------------------------------------------

    def _absent(self, split: Split) -> list[int]:
        """Lanes that the mask of a waiting split names and that have not come."""
        named = self._named(split)[0] & self.group.live(split)[0] & ~split.active()[0]
        return np.flatnonzero(named).tolist()


def _together(splits: list[Split]) -> Split:
    """Splits at copies of one operation, as one that stands at the first copy with everybody's operands."""
    first = splits[0]
    if len(splits) == 1:
        return first
    n = len(first.group.program.slots)
    whole = Split(first.block, first.mask, first.values[:], first.lanes, first.group)
    whole.waiting = first.waiting
    assert first.waiting is not None
    for split in splits[1:]:
        assert split.waiting is not None
        other = Split(split.block, split.mask, first.values[:], split.lanes, split.group)
        for slot, theirs in zip(first.waiting.src, split.waiting.src, strict=True):
            other.values[slot] = split.values[theirs]
            if first.group.shadow is not None:
                other.values[n + slot] = split.values[n + theirs]
        whole.absorb(other, first.waiting.src)
    return whole


def _one_barrier(splits: list[Split]) -> bool:
    """Do these splits all wait at one barrier, or at copies of it?"""
    return all(_meets(members[0].waiting, splits[0].waiting) for members in by_operation(splits))


def _meets(one: Op | None, other: Op | None) -> bool:
    """May lanes that wait at these operations go on together?  Any two syncwarps may (PTX ISA, bar.warp.sync)."""
    assert one is not None and other is not None
    return warp.same_source(one, other) or one.kind == other.kind == "syncwarp"
