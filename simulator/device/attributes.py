"""What the stand-in device answers to questions about itself: a card's attributes by the CUDA driver's names.

Rules of this file: numbers come from ``simulator.cost.cards`` and ``simulator.machine.limits``.  What no document says
of a card, and what a simulation has not (clocks, buses), is not here, and asking for it is refused.
"""

from __future__ import annotations

from simulator.cost.cards import REGISTERS, Card
from simulator.machine.limits import BLOCK, GRID, STATIC_SHARED, THREADS

SINGLE_TO_DOUBLE = {(7, 0): 2, (7, 5): 32, (8, 0): 2, (8, 6): 64, (8, 9): 64, (9, 0): 2, (10, 0): 2, (12, 0): 64}
"""How many times as fast single precision is (throughput of arithmetic in the CUDA programming guide)."""


def attributes(card: Card) -> dict[str, int]:
    """The attributes of a card by name, as in ``device.WARP_SIZE``."""
    sm = card.sm
    return {
        "WARP_SIZE": 32,
        "MAX_THREADS_PER_BLOCK": THREADS,
        **{f"MAX_BLOCK_DIM_{axis}": extent for axis, extent in zip("XYZ", BLOCK, strict=True)},
        **{f"MAX_GRID_DIM_{axis}": extent for axis, extent in zip("XYZ", GRID, strict=True)},
        "COMPUTE_CAPABILITY_MAJOR": card.capability[0],
        "COMPUTE_CAPABILITY_MINOR": card.capability[1],
        "MULTIPROCESSOR_COUNT": card.multiprocessors,
        "MAX_THREADS_PER_MULTIPROCESSOR": sm.threads,
        "MAX_BLOCKS_PER_MULTIPROCESSOR": sm.blocks,
        "MAX_REGISTERS_PER_BLOCK": REGISTERS,
        "MAX_REGISTERS_PER_MULTIPROCESSOR": REGISTERS,
        "MAX_SHARED_MEMORY_PER_BLOCK": STATIC_SHARED,
        "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": sm.shared_per_block,
        "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": sm.shared,
        "RESERVED_SHARED_MEMORY_PER_BLOCK": sm.reserved,
        "TOTAL_CONSTANT_MEMORY": 64 * 1024,
        "L2_CACHE_SIZE": card.l2,
        "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO": SINGLE_TO_DOUBLE[card.capability],
        "UNIFIED_ADDRESSING": 1,
        "MANAGED_MEMORY": 1,
        "CONCURRENT_MANAGED_ACCESS": 1,
        "CAN_MAP_HOST_MEMORY": 1,
        "COOPERATIVE_LAUNCH": 1,
        "CONCURRENT_KERNELS": 1,
        "INTEGRATED": 0,
        "COMPUTE_MODE": 0,
        "KERNEL_EXEC_TIMEOUT": 0,
        "TCC_DRIVER": 0,
        "PCI_DOMAIN_ID": 0,
        "PCI_BUS_ID": 0,
        "PCI_DEVICE_ID": 0,
    }
