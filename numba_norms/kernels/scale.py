"""The last step of the norms that keep rows in registers: scaled, shifted, not yet rounded.

Gemma's offset and Llama's rounding are explained in ``rms_norm``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import cuda

from numba_norms.kernels.lanes import narrow, widen
from numba_norms.kernels.reduce import constant
from numba_norms.kernels.tile import Tile


@cache
def scale_by_rms(tile: Tile, storage: Any, compute: Any, has_weight: bool, weight_offset: float, llama: bool) -> Any:
    """Device function ``(values, factors, scale)`` for RMSNorm: a lane's part times ``scale`` and its weights."""
    size, has_offset, offset = tile.size, weight_offset != 0, constant(weight_offset, compute)

    @cuda.jit(device=True)
    def scale_by_rms(values, factors, scale):
        for i in range(size):
            values[i] *= scale
            if llama:
                values[i] = widen(narrow(values[i], storage), compute)
            if has_weight:
                if has_offset:
                    factors[i] += offset
                values[i] *= factors[i]

    return scale_by_rms


@cache
def scale_by_deviation(tile: Tile, has_weight: bool, has_bias: bool) -> Any:
    """Device function ``(values, factors, shifts, scale)`` for LayerNorm, whose values are centred."""
    size = tile.size

    @cuda.jit(device=True)
    def scale_by_deviation(values, factors, shifts, scale):
        for i in range(size):
            values[i] *= scale
            if has_weight:
                values[i] *= factors[i]
            if has_bias:
                values[i] += shifts[i]

    return scale_by_deviation
