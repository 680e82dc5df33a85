"""RMSNorm and LayerNorm with the row in registers, alone or of a sum: each element is read once.

    h[j] = x[j] + update[j]                                             where there is an update
    y    = norm(h)                                                      of the unrounded sum

They compute what ``rms_norm``, ``layer_norm`` and ``add_norm`` compute the textbook way, from one reading of each input
and with 16 bytes a lane.  All loads come before the first store and before the first barrier, so that they are in
flight together; only where parameters would not fit into the registers beside the row are they loaded at the end.

A thread reads and writes the same elements, all of them read before the first is written: ``y`` or ``h`` may be ``x``,
and ``y`` may be ``update``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import cuda, float64, int32

from numba_norms.kernels.reduce import WARP, quotient, row_sum, rsqrt
from numba_norms.kernels.scale import scale_by_deviation, scale_by_rms
from numba_norms.kernels.tile import (
    Tile,
    centre_row,
    load_parameter,
    load_sum,
    place,
    store_row,
    sum_registers,
    sum_squares,
)

EARLY = 32
"""A lane that holds the row in up to so many registers of 32 bits has some left for the parameters as well."""


def has_room(tile: Tile, compute: Any) -> bool:
    """Whether the parameters are loaded before the reduction, to be there when it ends."""
    return tile.size * (2 if compute is float64 else 1) <= EARLY


@cache
def rms_norm_vector_kernel(
    tile: Tile,
    storage: Any,
    compute: Any,
    has_update: bool,
    has_weight: bool,
    weight_offset: float,
    llama: bool,
    stats: bool = True,
) -> Any:
    """The kernel ``(x[rows, D], update, weight[D], h, y[rows, D], rstd[rows], inverse, eps)``.

    ``update`` and ``h`` are like ``x`` or ``()``, ``weight`` may be ``()``, so is ``rstd`` without ``stats``;
    ``inverse`` is 1 / D.  Launch it on ``[ceil(rows / tile.rows), tile.threads]``.  ``storage`` is the Numba type of
    ``y``, ``compute`` that of ``rstd``.
    """
    size, warps, width = tile.size, tile.warps, tile.width
    alone, early = tile.rows == 1, has_room(tile, compute)
    leaves = not alone and tile.lanes == WARP
    where, load, store = place(tile), load_sum(tile, compute, has_update), store_row(tile)
    parameter = load_parameter(tile)
    squares_of, total, inverse_root = sum_squares(tile.size, compute), row_sum(tile.lanes), rsqrt(compute)
    scale_row = scale_by_rms(tile, storage, compute, has_weight, weight_offset, llama)

    @cuda.jit(launch_bounds=tile.threads)
    def rms_norm_vector(x, update, weight, h, y, rstd, inverse, eps):
        partial = cuda.shared.array(warps, compute)
        values = cuda.local.array(size, compute)
        factors = cuda.local.array(size, compute)
        row, lane, columns = where(x)
        first = int32(lane * width)
        if leaves and columns == 0:
            return

        # Load, and add.
        load(x, update, row, first, columns, values)
        if has_weight and early:
            parameter(weight, first, factors)
        if has_update:
            store(h, row, first, columns, values)

        # Reduce: from here on every lane holds the row's scale.
        scale = inverse_root(total(squares_of(values), partial) * inverse + eps)

        # Normalise and store, rounded once.
        if has_weight and not early:
            parameter(weight, first, factors)
        scale_row(values, factors, scale)
        store(y, row, first, columns, values)
        if stats and lane == 0 and (alone or columns > 0):
            rstd[row] = scale

    return rms_norm_vector


@cache
def layer_norm_vector_kernel(
    tile: Tile, compute: Any, has_update: bool, has_weight: bool, has_bias: bool, stats: bool = True
) -> Any:
    """The kernel ``(x[rows, D], update, weight[D], bias[D], h, y[rows, D], mean[rows], rstd[rows], inverse, eps)``.

    The variance is that of centred values.  For the rest see ``rms_norm_vector_kernel``; ``bias`` may be ``()``.
    """
    size, warps, width = tile.size, tile.warps, tile.width
    alone, early = tile.rows == 1, has_room(tile, compute)
    leaves = not alone and tile.lanes == WARP
    where, load, store = place(tile), load_sum(tile, compute, has_update), store_row(tile)
    parameter = load_parameter(tile)
    sum_of, squares_of, total = sum_registers(tile.size, compute), sum_squares(tile.size, compute), row_sum(tile.lanes)
    centre, divide, inverse_root = centre_row(tile), quotient(compute), rsqrt(compute)
    scale_row = scale_by_deviation(tile, has_weight, has_bias)

    @cuda.jit(launch_bounds=tile.threads)
    def layer_norm_vector(x, update, weight, bias, h, y, mean, rstd, inverse, eps):
        partial_sums = cuda.shared.array(warps, compute)
        partial_squares = cuda.shared.array(warps, compute)  # a slow warp may still read the sums
        values = cuda.local.array(size, compute)
        factors = cuda.local.array(size, compute)
        shifts = cuda.local.array(size, compute)
        row, lane, columns = where(x)
        first = int32(lane * width)
        if leaves and columns == 0:
            return

        # Load, and add.
        load(x, update, row, first, columns, values)
        if has_weight and early:
            parameter(weight, first, factors)
        if has_bias and early:
            parameter(bias, first, shifts)
        if has_update:
            store(h, row, first, columns, values)

        # Reduce twice: the mean, then the squares of what is left, so that nothing large cancels.
        middle = divide(total(sum_of(values), partial_sums), compute(columns), inverse)
        centre(values, middle, first, columns)
        scale = inverse_root(total(squares_of(values), partial_squares) * inverse + eps)

        # Normalise and store, rounded once.
        if has_weight and not early:
            parameter(weight, first, factors)
        if has_bias and not early:
            parameter(bias, first, shifts)
        scale_row(values, factors, shifts, scale)
        store(y, row, first, columns, values)
        if stats and lane == 0 and (alone or columns > 0):
            mean[row] = middle
            rstd[row] = scale

    return layer_norm_vector
