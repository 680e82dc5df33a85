"""What the callable things of a kernel mean: one module per noun, one table.

A meaning is registered under the qualified name of the callable, with its parameters.  A call is bound to them
completely: an argument that the meaning does not name is refused, never ignored.
"""

from simulator.frontend.lowering.calls import (
    arrays,
    atomics,
    bits,
    cache_hints,
    casts,
    complexes,
    fp16,
    grid,
    libdevice,
    maths,
    methods,
    numbers,
    pointers,
    sequences,
    sync,
    texts,
    vectors,
    warp,
)
from simulator.frontend.lowering.calls.table import call, meanings

__all__ = ["call", "meanings"]

# importing a module registers its meanings
_REGISTERED = (
    arrays, atomics, bits, cache_hints, casts, complexes, fp16, grid, libdevice, maths, methods, numbers, pointers,
    sequences, sync, texts, vectors, warp,
)  # fmt: skip
