"""Who spins: lanes that come round a loop as they were, while memory stayed as it was, will come round for ever.

That is proof, no guess: what a lane does next follows from where it stands, its live values and what lies in memory
(what other lanes of its warp do shows in warp operations alone, and those start the proof anew).  Such lanes
sleep (see ``sleepers``): they get no turn until somebody changes what they read.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from simulator.machine.code import Code
from simulator.machine.split import Split
from simulator.machine.values import same

Stand: TypeAlias = tuple[str, bytes | None]
"""The head of a loop, and the lanes that stand there together."""


def stand_of(split: Split) -> Stand:
    """Where a split stands, and who is with it."""
    return split.block, None if split.mask is None else split.mask.tobytes()


class Rounds:
    """What lanes of a group looked like at the heads of loops since memory last changed."""

    def __init__(self, code: Code) -> None:
        self._slots = code.program.slots
        self._flow = code.flow
        self._seen: dict[tuple[int, int], dict[Stand, list[Any]]] = {}
        self._changes = -1

    def comes_round(self, split: Split) -> bool:
        """Do these lanes stand at the head of a loop as they did before, and memory with them?"""
        if split.block not in self._flow.alone:
            return False
        live = self._flow.live_in[split.block]
        changes = split.group.memory.changes
        if changes != self._changes:
            self._seen.clear()
            self._changes = changes
        seen = self._seen.setdefault(split.warp, {})
        stand = stand_of(split)
        before, now = seen.get(stand), [split.values[slot] for slot in live]
        seen[stand] = now
        return before is not None and all(map(self._unchanged, before, now, live))

    def start_anew(self, split: Split) -> None:
        """Lanes have met in an operation: what they do next may come from each other."""
        self._seen.pop(split.warp, None)

    def _unchanged(self, before: Any, now: Any, slot: int) -> bool:
        if type(before) is type(now) is np.ndarray:
            return before is now or (before.shape == now.shape and before.tobytes() == now.tobytes())
        return same(before, now, self._slots[slot].dtype)
