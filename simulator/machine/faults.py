"""What the machine reports when a launch cannot go on: plain facts, no sentences.

The machine raises a ``Fault``; the catalogue in ``simulator.catalogue`` turns its facts into a message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulator.program import Pos

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Place:
    """Where a fault happened: source position, block (linear index) and threads (linear within the block)."""

    pos: Pos
    block: int
    threads: tuple[int, ...]
    access: str = ""


class Fault(Exception):
    """An error found while running.

    ``kind`` is one of the closed vocabulary of findings (``out-of-bounds``, ``barrier-divergence``, ``warp-sync``,
    ``deadlock``, ``misaligned-access``, ``launch-limit``, ``step-limit`` ...), ``places`` where it happened (two for
    a pair), ``facts`` what the message needs (array, axis, index, extent, missing threads ...).  ``lanes`` (bool, one
    per lane of the split) are those whose address is wrong, if that is what it is; the others could go on.
    """

    def __init__(self, kind: str, places: tuple[Place, ...] = (), **facts: Any) -> None:
        super().__init__(kind, places, facts)
        self.kind = kind
        self.places = places
        self.facts = facts
        self.lanes: np.ndarray | None = None

    def of(self, lanes: np.ndarray) -> Fault:
        """The same fault, of these lanes."""
        self.lanes = lanes
        return self
