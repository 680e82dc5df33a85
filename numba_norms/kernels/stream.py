"""RMSNorm and LayerNorm of rows too long for registers, alone or of a sum: a block per row, tile after tile, twice.

    h[j] = x[j] + update[j]                                             where there is an update
    y    = norm(h)                                                      of the unrounded sum

They differ from the kernels of ``vector`` in one thing: the row is read a second time to be normalised, by then most
likely from the cache.  LayerNorm needs no third reading for its variance: each lane takes (count, mean, M2) of its part
of a tile, whose squares are of centred values, and merges tiles, lanes and warps by Chan's formula.

Results are stored in the second pass only, and a thread stores the elements that it alone has read: ``y`` or ``h`` may
be ``x``, and ``y`` may be ``update``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import cuda, int32

from numba_norms.kernels.reduce import merge, quotient, ratio, row_moments, row_sum, rsqrt
from numba_norms.kernels.scale import scale_by_deviation, scale_by_rms
from numba_norms.kernels.tile import (
    Tile,
    centre_row,
    count_row,
    load_parameter,
    load_sum,
    place,
    store_row,
    sum_registers,
    sum_squares,
)


@cache
def tile_moments(tile: Tile, compute: Any) -> Any:
    """Device function ``(values, first, columns) -> count, mean, m2`` of a lane's part; leaves it centred."""
    count_of, sum_of = count_row(tile, compute), sum_registers(tile.size, compute)
    squares_of, centre = sum_squares(tile.size, compute), centre_row(tile)
    share, divide = ratio(compute), quotient(compute)

    @cuda.jit(device=True)
    def tile_moments(values, first, columns):
        count = count_of(first, columns)
        mean = divide(sum_of(values), count, share(compute(1), count))
        centre(values, mean, first, columns)
        return count, mean, squares_of(values)

    return tile_moments


@cache
def rms_norm_stream_kernel(
    tile: Tile,
    storage: Any,
    compute: Any,
    has_update: bool,
    has_weight: bool,
    weight_offset: float,
    llama: bool,
    stats: bool = True,
) -> Any:
    """The kernel with the arguments of ``rms_norm_vector_kernel``, for any number of columns."""
    size, warps, width, step = tile.size, tile.warps, tile.width, tile.columns
    where, load, store = place(tile), load_sum(tile, compute, has_update), store_row(tile)
    parameter, squares_of = load_parameter(tile), sum_squares(tile.size, compute)
    total, inverse_root = row_sum(tile.lanes), rsqrt(compute)
    scale_row = scale_by_rms(tile, storage, compute, has_weight, weight_offset, llama)

    @cuda.jit(launch_bounds=tile.threads)
    def rms_norm_stream(x, update, weight, h, y, rstd, inverse, eps):
        partial = cuda.shared.array(warps, compute)
        values = cuda.local.array(size, compute)
        factors = cuda.local.array(size, compute)
        row, lane, columns = where(x)

        # Load, and reduce: from then on every lane holds the row's scale.
        squares = compute(0)
        first = int32(lane * width)
        while first < columns:
            load(x, update, row, first, columns, values)
            squares += squares_of(values)
            first = int32(first + step)
        scale = inverse_root(total(squares, partial) * inverse + eps)

        # Load again, normalise and store, rounded once.
        first = int32(lane * width)
        while first < columns:
            load(x, update, row, first, columns, values)
            if has_weight:
                parameter(weight, first, factors)
            if has_update:
                store(h, row, first, columns, values)
            scale_row(values, factors, scale)
            store(y, row, first, columns, values)
            first = int32(first + step)
        if stats and lane == 0:
            rstd[row] = scale

    return rms_norm_stream


@cache
def layer_norm_stream_kernel(
    tile: Tile, compute: Any, has_update: bool, has_weight: bool, has_bias: bool, stats: bool = True
) -> Any:
    """The kernel with the arguments of ``layer_norm_vector_kernel``, for any number of columns."""
    size, warps, width, step = tile.size, tile.warps, tile.width, tile.columns
    where, load, store = place(tile), load_sum(tile, compute, has_update), store_row(tile)
    parameter, moments_of = load_parameter(tile), tile_moments(tile, compute)
    merge_two, merge_row = merge(compute), row_moments(tile.lanes, compute)
    centre, scale_row, inverse_root = centre_row(tile), scale_by_deviation(tile, has_weight, has_bias), rsqrt(compute)

    @cuda.jit(launch_bounds=tile.threads)
    def layer_norm_stream(x, update, weight, bias, h, y, mean, rstd, inverse, eps):
        counts = cuda.shared.array(warps, compute)
        means = cuda.shared.array(warps, compute)
        m2s = cuda.shared.array(warps, compute)
        values = cuda.local.array(size, compute)
        factors = cuda.local.array(size, compute)
        shifts = cuda.local.array(size, compute)
        row, lane, columns = where(x)

        # Load, and reduce: parts of unequal counts merge into the whole row's moments.
        count, middle, m2 = compute(0), compute(0), compute(0)
        first = int32(lane * width)
        while first < columns:
            load(x, update, row, first, columns, values)
            part, part_mean, part_m2 = moments_of(values, first, columns)
            count, middle, m2 = merge_two(count, middle, m2, part, part_mean, part_m2)
            first = int32(first + step)
        middle, m2 = merge_row(count, middle, m2, counts, means, m2s)
        scale = inverse_root(m2 * inverse + eps)

        # Load again, normalise and store, rounded once.
        first = int32(lane * width)
        while first < columns:
            load(x, update, row, first, columns, values)
            if has_weight:
                parameter(weight, first, factors)
            if has_bias:
                parameter(bias, first, shifts)
            if has_update:
                store(h, row, first, columns, values)
            centre(values, middle, first, columns)
            scale_row(values, factors, shifts, scale)
            store(y, row, first, columns, values)
            first = int32(first + step)
        if stats and lane == 0:
            mean[row] = middle
            rstd[row] = scale

    return layer_norm_stream
