"""What stands in for NRT, numba-cuda's runtime that counts the memory which kernels allocate.

A kernel that allocates is refused by the simulator, so nothing is ever counted: the counters are there, and zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba.cuda.memory_management import nrt

from simulator.device.session import Device

STATISTICS = 4
"""Counters that are read together: allocations and frees, of memory and of its descriptors."""


def runtime(made: Device) -> tuple[Any, dict[str, Any]]:
    """What is replaced of Numba's runtime: nothing is compiled or loaded, and its kernels are carried out here."""
    enabled = False

    def carry_out(self: Any, module: Any, stream: Any, name: str, params: Sequence[Any] = ()) -> None:
        nonlocal enabled
        if name in ("NRT_MemSys_enable_stats", "NRT_MemSys_disable_stats"):
            enabled = name == "NRT_MemSys_enable_stats"
        for pointer in params:  # where it puts what is asked for
            asks_state = name == "NRT_MemSys_stats_enabled"
            dtype = np.dtype(np.uint8 if asks_state else np.uint64)
            count = STATISTICS if name == "NRT_MemSys_read" else 1
            asked = made.memory.view(pointer.value, (count,), (dtype.itemsize,), dtype)
            asked.array[...] = enabled if asks_state else 0
            asked.mark()

    def ready(self: Any, stream: Any = None) -> None:
        """It is there without being loaded."""

    return nrt._Runtime, {
        "_single_thread_launch": carry_out, "ensure_allocated": ready, "ensure_initialized": ready,
        "allocate": ready, "initialize": ready,
    }  # fmt: skip
