"""A residual addition and the norm of its sum in one launch, the textbook way: a block per row, strided columns.

    h[j] = residual[j] + update[j]
    z    = norm(h)

The statistics are those of the *unrounded* sum in the compute type, not of ``h`` as it is stored.  Whoever rounds first
(as several libraries do) normalises another row where ``residual`` and ``update`` are of unlike size.

A thread here holds one element at a time, so every phase reads ``residual`` and ``update`` again and adds them again:
reading ``h`` back would be the rounded sum.  All phases form the same sum, bit for bit, since the inputs stand
unchanged: ``h`` and ``z`` are stored in the last phase only, by the one thread that reads these columns, after its
reads.  That is why ``h`` may be ``residual`` itself, and ``z`` may be ``update``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import cuda, int64

from numba_norms.kernels.lanes import narrow, widen
from numba_norms.kernels.moments import stream_sum_moments
from numba_norms.kernels.reduce import block_moments, block_sum, constant, rsqrt, warps_of


@cache
def add_rms_norm_kernel(
    threads: int,
    sums: Any,
    storage: Any,
    compute: Any,
    has_weight: bool,
    weight_offset: float,
    llama: bool,
    stats: bool = True,
) -> Any:
    """The kernel ``(residual[rows, D], update[rows, D], weight[D] or (), h[rows, D], z[rows, D], rstd[rows], eps)``.

    Launch it on ``[rows, threads]``.  ``sums`` is the Numba type of ``h``, ``storage`` that of ``z``, ``compute`` that
    of ``rstd`` and ``eps``.  Without ``stats``, ``rstd`` is ``()``.  ``h`` may be ``residual``,
    ``z`` may be ``update``.
    """
    warps, sum_block, inverse_root = warps_of(threads), block_sum(threads), rsqrt(compute)
    has_offset, offset = weight_offset != 0, constant(weight_offset, compute)

    @cuda.jit(launch_bounds=threads)
    def add_rms_norm(residual, update, weight, h, z, rstd, eps):
        partial = cuda.shared.array(warps, compute)
        row = int64(cuda.blockIdx.x)
        thread = cuda.threadIdx.x
        columns = residual.shape[1]

        # Load: widen, then add.
        squares = compute(0)
        for j in range(thread, columns, threads):
            value = widen(residual[row, j], compute) + widen(update[row, j], compute)
            squares += value * value

        # Reduce: from here on every thread holds the row's scale.
        scale = inverse_root(sum_block(squares, partial) / compute(columns) + eps)

        # Add again, normalise and store: h and z are rounded once each.
        for j in range(thread, columns, threads):
            value = widen(residual[row, j], compute) + widen(update[row, j], compute)
            h[row, j] = narrow(value, sums)
            value *= scale
            if llama:
                value = widen(narrow(value, storage), compute)
            if has_weight:
                factor = widen(weight[j], compute)
                if has_offset:
                    factor += offset
                value *= factor
            z[row, j] = narrow(value, storage)
        if stats and thread == 0:
            rstd[row] = scale

    return add_rms_norm


@cache
def add_layer_norm_kernel(
    threads: int, sums: Any, storage: Any, compute: Any, has_weight: bool, has_bias: bool, stats: bool = True
) -> Any:
    """The two-pass kernel ``(residual, update, weight, bias[D] or (), h, z, mean[rows], rstd[rows], eps)``.

    Launch and types are those of ``add_rms_norm_kernel``; ``mean`` is of type ``compute``.
    """
    warps, sum_block, inverse_root = warps_of(threads), block_sum(threads), rsqrt(compute)

    @cuda.jit(launch_bounds=threads)
    def add_layer_norm(residual, update, weight, bias, h, z, mean, rstd, eps):
        partial_sums = cuda.shared.array(warps, compute)
        partial_squares = cuda.shared.array(warps, compute)  # a slow warp may still read the sum
        row = int64(cuda.blockIdx.x)
        thread = cuda.threadIdx.x

        # First pass: the mean of the sum.
        total = compute(0)
        for j in range(thread, residual.shape[1], threads):
            total += widen(residual[row, j], compute) + widen(update[row, j], compute)
        centre = sum_block(total, partial_sums) / compute(residual.shape[1])

        # Second pass: squares of centred values, so that nothing large cancels.
        squares = compute(0)
        for j in range(thread, residual.shape[1], threads):
            centred = widen(residual[row, j], compute) + widen(update[row, j], compute) - centre
            squares += centred * centred
        scale = inverse_root(sum_block(squares, partial_squares) / compute(residual.shape[1]) + eps)

        # Add again, normalise and store: h and z are rounded once each.
        for j in range(thread, residual.shape[1], threads):
            value = widen(residual[row, j], compute) + widen(update[row, j], compute)
            h[row, j] = narrow(value, sums)
            value = (value - centre) * scale
            if has_weight:
                value *= widen(weight[j], compute)
            if has_bias:
                value += widen(bias[j], compute)
            z[row, j] = narrow(value, storage)
        if stats and thread == 0:
            mean[row] = centre
            rstd[row] = scale

    return add_layer_norm


@cache
def add_layer_norm_welford_kernel(
    threads: int, sums: Any, storage: Any, compute: Any, has_weight: bool, has_bias: bool, stats: bool = True
) -> Any:
    """The Welford kernel, with the arguments of ``add_layer_norm_kernel``."""
    warps, inverse_root = warps_of(threads), rsqrt(compute)
    stream, merge_block = stream_sum_moments(threads, compute), block_moments(threads, compute)

    @cuda.jit(launch_bounds=threads)
    def add_layer_norm_welford(residual, update, weight, bias, h, z, mean, rstd, eps):
        counts = cuda.shared.array(warps, compute)
        means = cuda.shared.array(warps, compute)
        m2s = cuda.shared.array(warps, compute)
        row = int64(cuda.blockIdx.x)
        thread = cuda.threadIdx.x
        columns = residual.shape[1]

        # Load: each thread streams the sums of its own columns into (count, mean, M2).
        count, centre, m2 = stream(residual, update, row)

        # Reduce: parts of unequal counts merge into the whole row's.
        centre, m2 = merge_block(count, centre, m2, counts, means, m2s)
        scale = inverse_root(m2 / compute(columns) + eps)

        # Add again, normalise and store: h and z are rounded once each.
        for j in range(thread, columns, threads):
            value = widen(residual[row, j], compute) + widen(update[row, j], compute)
            h[row, j] = narrow(value, sums)
            value = (value - centre) * scale
            if has_weight:
                value *= widen(weight[j], compute)
            if has_bias:
                value += widen(bias[j], compute)
            z[row, j] = narrow(value, storage)
        if stats and thread == 0:
            mean[row] = centre
            rstd[row] = scale

    return add_layer_norm_welford
