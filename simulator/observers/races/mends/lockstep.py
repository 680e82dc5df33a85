"""In which round of a loop did two racing accesses run?  Waves tell: there a block's threads go round in lock step.

Rules of this file: of each operation the last execution is remembered, and only where all threads of a block run
together.  Splits tell nothing: there a thread may be rounds ahead.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.machine.flow import flow_of
from simulator.machine.memory import Access
from simulator.machine.split import Split
from simulator.machine.values import Lanes, expand
from simulator.observers.races.footprints import Footprint
from simulator.observers.races.mends.places import common_loops, leads, spot
from simulator.program import Op, Program

WITHIN, AGAIN, LATER = 1, 2, 4
"""Two accesses raced within a round; the one that stands first raced with the other's round before its own; the one
that stands second did, which a barrier at either place orders."""
ALL = WITHIN | AGAIN | LATER


class LockStep:
    """The last executions of a launch's accesses."""

    def __init__(self) -> None:
        self._program: Program | None = None
        self._padded = 32
        self._watched: frozenset[Op] = frozenset()
        self._last: dict[Op, tuple[Lanes, np.ndarray | None, Any] | None] = {}

    def launch(self, program: Program, padded: int) -> None:
        """A launch of this program begins, with blocks of ``padded`` threads."""
        self._program, self._padded, self._last = program, padded, {}
        blocks = frozenset().union(*flow_of(program).loops.values())
        self._watched = frozenset(op for label in blocks for op in program.blocks[label].ops)

    def finish(self) -> None:
        """The launch is over."""
        self._last = {}

    def ran(self, split: Split, access: Access, address: Any) -> None:
        """An access runs for the active lanes of ``split``."""
        if access.op in self._watched:
            alone = self._padded == 32 and split.join is None and split.mask is not None
            known = split.lanes.P == self._padded and not alone
            self._last[access.op] = (split.lanes, split.mask, address) if known else None

    def rounds(self, footprint: Footprint, old: Access, before: np.ndarray, new: Op, cells: np.ndarray) -> int:
        """The bits of what is known: the threads ``before`` ran ``old`` at
        ``cells``, both (n,), and now other threads of their blocks run ``new``."""
        program, last = self._program, self._last.get(old.op)
        assert program is not None
        if last is None or self._last.get(new) is None:
            return 0
        if old.op is new:
            return AGAIN
        flow, a, b = flow_of(program), spot(program, old.op), spot(program, new)
        loops = common_loops(flow, a[0], b[0])
        if not loops:
            return 0
        if not leads(program, a, b, avoid=loops[0]):
            return AGAIN if leads(program, b, a, avoid=loops[0]) else 0
        if common_loops(flow, a[0])[0] != loops[0]:
            return 0  # an inner loop has run it several times in this round
        covered = _covers(footprint, *last, old.nbytes, before, cells, self._padded)
        return (WITHIN if covered.any() else 0) | (0 if covered.all() else LATER)


def _covers(
    footprint: Footprint,
    lanes: Lanes,
    mask: np.ndarray | None,
    address: Any,
    nbytes: int,
    threads: np.ndarray,
    cells: np.ndarray,
    padded: int,
) -> np.ndarray:
    """Did an execution, by lanes under a mask at addresses, touch ``cells`` for ``threads``?  bool (n,)."""
    block, lane = np.divmod(threads, padded)
    row = block - lanes.first_block
    here = (row >= 0) & (row < lanes.nb)
    row = np.where(here, row, 0)
    if mask is not None:
        here &= mask[row, lane]
    allocation = footprint.allocation
    offset = (cells << footprint.shift) - footprint.skew
    if allocation.block_stride:
        offset = offset % allocation.block_stride
    past = expand(address, lanes, "i8")[row, lane] - allocation.base - offset
    return here & (past > -nbytes) & (past < 1 << footprint.shift)
