"""Cards and what one of their multiprocessors (SMs) holds: the numbers that the simulator itself cannot count.

Rules of this file: plain tables, each number from a document that is named here, and nothing is derived from a guess.
A card that is not listed is not known: ``card`` says which are.

Sources.  ``CAPABILITIES``: the table "Technical Specifications per Compute Capability" of NVIDIA's CUDA programming
guide; ``cuda_occupancy.h`` of the CUDA toolkit 13 for the units in which an SM hands out registers (256 of them a warp,
warps by fours) and for the blocks of an SM; the tuning guides of Volta to Blackwell for shared memory, of which the
system keeps 1 KiB a block from compute capability 8.0 on.  ``CARDS``: NVIDIA's data sheets and architecture papers, as
each row says.  Bandwidths are the documents' peaks: a copy reaches about nine tenths of them.  Their GB of memory are
2**30 bytes; a driver reports a little less.
"""

from __future__ import annotations

from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20

REGISTER_UNIT = 256
"""Registers are handed out to a warp in multiples of this, ..."""
WARP_UNIT = 4
"""... to warps by fours, one for each part of an SM."""
REGISTERS = 65_536
"""32-bit registers of an SM, on every card from compute capability 7.0 on."""


@dataclass(frozen=True, slots=True)
class Capability:
    """What an SM of one compute capability holds.  Shared memory in bytes; ``reserved`` is the system's, per block.

    ``shared_per_block`` is the most that a kernel may ask for; above 48 KiB it has to be dynamic.
    """

    warps: int
    blocks: int
    shared: int
    shared_per_block: int
    reserved: int
    shared_unit: int

    @property
    def threads(self) -> int:
        """Threads that an SM holds at once."""
        return 32 * self.warps


CAPABILITIES: dict[tuple[int, int], Capability] = {
    (7, 0): Capability(64, 32, 96 * KIB, 96 * KIB, 0, 256),
    (7, 5): Capability(32, 16, 64 * KIB, 64 * KIB, 0, 256),
    (8, 0): Capability(64, 32, 164 * KIB, 163 * KIB, KIB, 128),
    (8, 6): Capability(48, 16, 100 * KIB, 99 * KIB, KIB, 128),
    (8, 9): Capability(48, 24, 100 * KIB, 99 * KIB, KIB, 128),
    (9, 0): Capability(64, 32, 228 * KIB, 227 * KIB, KIB, 128),
    (10, 0): Capability(64, 32, 228 * KIB, 227 * KIB, KIB, 128),
    (12, 0): Capability(48, 24, 100 * KIB, 99 * KIB, KIB, 128),
}


@dataclass(frozen=True, slots=True)
class Card:
    """A card: its name as the driver gives it, and its extents.  Memory and caches in bytes, bandwidth in bytes/s."""

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    memory: int
    bandwidth: float
    l2: int

    @property
    def sm(self) -> Capability:
        """What each of its multiprocessors holds."""
        return CAPABILITIES[self.capability]


CARDS: dict[str, Card] = {
    # data sheet of the T4 (2,560 cores, 64 an SM); Turing architecture paper: 256 bits of 10 Gbit/s, L2 of TU104
    "t4": Card("Tesla T4", (7, 5), 40, 16 << 30, 320e9, 4 * MIB),
    # Volta architecture paper, the table of Tesla accelerators; data sheet of the V100 SXM2
    "v100": Card("Tesla V100-SXM2-16GB", (7, 0), 80, 16 << 30, 900e9, 6 * MIB),
    # A100 architecture paper: SMs, L2; data sheet of the A100 80GB SXM: memory and its bandwidth
    "a100": Card("NVIDIA A100-SXM4-80GB", (8, 0), 108, 80 << 30, 2039e9, 40 * MIB),
    # H100 architecture paper, the SXM5 card: SMs, L2; data sheet of the H100 SXM
    "h100": Card("NVIDIA H100 80GB HBM3", (9, 0), 132, 80 << 30, 3350e9, 50 * MIB),
    # data sheet of the H200 SXM; SMs and L2 are the H100's, the same chip
    "h200": Card("NVIDIA H200", (9, 0), 132, 141 << 30, 4800e9, 50 * MIB),
    # GA102 architecture paper
    "rtx3090": Card("NVIDIA GeForce RTX 3090", (8, 6), 82, 24 << 30, 936e9, 6 * MIB),
    # Ada architecture paper
    "rtx4090": Card("NVIDIA GeForce RTX 4090", (8, 9), 128, 24 << 30, 1008e9, 72 * MIB),
    # RTX Blackwell architecture paper
    "rtx5090": Card("NVIDIA GeForce RTX 5090", (12, 0), 170, 32 << 30, 1792e9, 96 * MIB),
}
"""The cards that can be chosen, by the names that commands take."""

DEFAULT = "h200"
"""The card, where none is chosen."""


def card(name: str) -> Card:
    """The card of this name, whatever its case.

    >>> card("H200").multiprocessors
    132

    Raises
    ------
    ValueError
        No such card is listed.
    """
    found = CARDS.get(name.lower()) if isinstance(name, str) else None
    if found is None:
        raise ValueError(f"no card {name!r}; the cards are {', '.join(CARDS)}")
    return found
