"""What a kernel prints: a line (or more) per lane, in the order of execution, lanes of one ``print`` in order.

Numbers are written as CUDA's printf writes them for Numba: integers in full, floats with six digits after the point.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.machine.observer import Observer
from simulator.machine.split import Split
from simulator.program import FLOATS, Op, Program


def prints(program: Program) -> bool:
    """Whether a program prints anything."""
    return any(op.kind == "print" for op in program.ops())


class Printout(Observer):
    """Collects what a launch prints; ``str()`` is all of it."""

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def print(self, split: Split, op: Op, values: tuple[Any, ...]) -> None:
        active = split.active()
        codes = [split.group.program.slots[slot].dtype for slot in op.src]
        lanes = [split.expand(value, code)[active] for value, code in zip(values, codes, strict=True)]
        columns = [_written(lane, code) for lane, code in zip(lanes, codes, strict=True)]
        for lane in range(int(np.count_nonzero(active))):
            items = iter(columns)
            self.pieces += [next(items)[lane] if piece is None else piece for piece in op.attr["text"]]

    def __str__(self) -> str:
        return "".join(self.pieces)


def _written(values: np.ndarray, code: str) -> list[str]:
    if code in FLOATS:
        return [f"{value:f}" for value in values.astype(np.float64).tolist()]
    return [str(value) for value in values.tolist()]
