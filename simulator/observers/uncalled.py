"""Barriers that the source names and does not call: ``cuda.syncthreads`` without its parentheses does nothing."""

from __future__ import annotations

from typing import Any

from simulator.machine.faults import Fault, Place
from simulator.observers.verdict import Verdict
from simulator.program import Program


class Uncalled(Verdict):
    """One fault for each line that names a barrier in vain.  The program alone says it."""

    def __init__(self) -> None:
        self._program: Program | None = None

    def launch(self, program: Program, grid: Any, block: Any, memory: Any) -> None:
        self._program = program

    def faults(self) -> list[Fault]:
        """In the order of the source."""
        named = [] if self._program is None else self._program.uncalled
        return [Fault("barrier-not-called", (Place(pos, 0, ()),), name=name) for name, pos in named]
