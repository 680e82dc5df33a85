"""Blocks that wait for each other: a second run in which all of them are alive at once.

The schedulers run a few blocks at a time.  A barrier of the grid made by hand, or a scan whose blocks look back, may
wait for blocks that have not begun; a card would hold them all.  Rules of this file: only a program that waits in a
loop pays, with a copy of its arguments.
"""

from __future__ import annotations

from math import prod

import numpy as np

from simulator.findings import Launch
from simulator.machine.faults import Fault
from simulator.machine.launch import resident
from simulator.machine.limits import THREADS_TOGETHER
from simulator.observers.races.mends.roles import waits
from simulator.program import Program
from simulator.runs.arguments import Arguments


class Again:
    """What a run began with, if it may have to begin again."""

    def __init__(self, program: Program, launch: Launch, args: Arguments) -> None:
        blocks, threads = prod(launch.grid), -(-prod(launch.block) // 32) * 32
        self._arrays: list[np.ndarray] = []
        fits = 0 < blocks * threads <= THREADS_TOGETHER  # a launch of nothing is refused later
        if fits and blocks > resident(threads) and waits(program):
            self._arrays = [array for _, array in args.arrays(program.arguments) if array.flags.writeable]
            self._arrays += [flags for _, flags in args.written]
        self._before = [array.copy() for array in self._arrays]

    def wanted(self, fault: Fault | None) -> bool:
        """Did it end where everybody waits for blocks that do not run?"""
        return bool(self._arrays) and fault is not None and fault.facts.get("spins") == "for others"

    def restore(self) -> None:
        """Back to the beginning."""
        for array, before in zip(self._arrays, self._before, strict=True):
            array[...] = before
