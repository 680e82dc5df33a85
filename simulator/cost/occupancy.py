"""How many blocks of a kernel a multiprocessor holds at once, and what keeps it from holding more.

Rules of this file: the arithmetic is that of ``cuda_occupancy.h`` in the CUDA toolkit, for compute capability 7.0 on;
the limits are those of ``simulator.cost.cards``.  Registers come from compiled code, never from the source.
"""

from __future__ import annotations

from dataclasses import dataclass

from simulator.compiled import Resources
from simulator.cost.cards import REGISTER_UNIT, REGISTERS, WARP_UNIT, Card


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Blocks and warps that a multiprocessor of ``card`` holds at once.

    ``limits`` are the blocks that each resource would allow: warps, blocks, registers, shared memory.
    """

    card: str
    registers: int
    shared: int
    blocks: int
    warps: int
    most: int
    limits: dict[str, int]

    @property
    def part(self) -> float:
        """Warps held, of the most that it can hold: 0 to 1."""
        return self.warps / self.most

    @property
    def limited_by(self) -> tuple[str, ...]:
        """The resources that run out first."""
        return tuple(name for name, blocks in self.limits.items() if blocks == self.blocks)


def occupancy(card: Card, resources: Resources, threads: int, dynamic_shared: int = 0) -> Occupancy:
    """The occupancy of blocks of so many threads; ``dynamic_shared`` in bytes.

    >>> from simulator.cost.cards import card
    >>> found = occupancy(card("h200"), Resources(registers=40, shared=0, local=0, spills=0), threads=256)
    >>> found.blocks, found.part, found.limited_by
    (6, 0.75, ('registers',))
    """
    sm, warps = card.sm, -(-threads // 32)
    each = _up(32 * resources.registers, REGISTER_UNIT)
    held = REGISTERS // WARP_UNIT // each * WARP_UNIT if each else sm.warps
    shared = resources.shared + dynamic_shared
    taken = _up(shared + sm.reserved, sm.shared_unit)
    limits = {
        "warps": sm.warps // warps,
        "blocks": sm.blocks,
        "registers": held // warps if each * _up(warps, WARP_UNIT) <= REGISTERS else 0,
        "shared memory": (sm.shared // taken if taken else sm.blocks) if shared <= sm.shared_per_block else 0,
    }
    blocks = min(limits.values())
    return Occupancy(card.name, resources.registers, shared, blocks, blocks * warps, sm.warps, limits)


def _up(number: int, unit: int) -> int:
    """The next multiple."""
    return -(-number // unit) * unit
