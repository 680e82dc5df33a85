"""LayerNorm, the textbook way: a block per row, thread t takes columns t, t + threads, t + 2 threads, ...

    y[j] = weight[j] * (x[j] - mean) / sqrt(variance + eps) + bias[j]

Two kernels differ in how they get the variance.  Both avoid mean(x²) - mean², which cancels: *two-pass* reads the row
once for the mean and once more for the squares of the centred values; *Welford* reads it once, carries
(count, mean, M2) and merges them by Chan's formula.  Two-pass is the more accurate where the mean is large.

Ba, Kiros and Hinton, "Layer Normalization", 2016 (arXiv:1607.06450); Welford, "Note on a method for calculating
corrected sums of squares and products", 1962; Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm
for computing sample variances", 1979.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import cuda, int64

from numba_norms.kernels.lanes import narrow, widen
from numba_norms.kernels.moments import stream_moments
from numba_norms.kernels.reduce import block_moments, block_sum, rsqrt, warps_of


@cache
def layer_norm_kernel(
    threads: int, storage: Any, compute: Any, has_weight: bool, has_bias: bool, stats: bool = True
) -> Any:
    """The two-pass kernel ``(x[rows, D], weight[D] or (), bias[D] or (), y[rows, D], mean[rows], rstd[rows], eps)``.

    Launch it on ``[rows, threads]``.  ``storage`` is the Numba type of ``y``, ``compute`` that of ``mean``, ``rstd``
    and ``eps``.  ``y`` may be ``x``.  Without ``stats``, ``mean`` and ``rstd`` are ``()``.
    """
    warps, sum_block, inverse_root = warps_of(threads), block_sum(threads), rsqrt(compute)

    @cuda.jit(launch_bounds=threads)
    def layer_norm(x, weight, bias, y, mean, rstd, eps):
        partial_sums = cuda.shared.array(warps, compute)
        partial_squares = cuda.shared.array(warps, compute)  # a slow warp may still read the sum
        row = int64(cuda.blockIdx.x)
        thread = cuda.threadIdx.x
        columns = x.shape[1]

        # First pass: the mean.
        total = compute(0)
        for j in range(thread, columns, threads):
            total += widen(x[row, j], compute)
        centre = sum_block(total, partial_sums) / compute(columns)

        # Second pass: squares of centred values, so that nothing large cancels.
        squares = compute(0)
        for j in range(thread, columns, threads):
            centred = widen(x[row, j], compute) - centre
            squares += centred * centred
        scale = inverse_root(sum_block(squares, partial_squares) / compute(columns) + eps)

        # Normalise and store, rounded once.
        for j in range(thread, columns, threads):
            value = (widen(x[row, j], compute) - centre) * scale
            if has_weight:
                value *= widen(weight[j], compute)
            if has_bias:
                value += widen(bias[j], compute)
            y[row, j] = narrow(value, storage)
        if stats and thread == 0:
            mean[row] = centre
            rstd[row] = scale

    return layer_norm


@cache
def layer_norm_welford_kernel(
    threads: int, storage: Any, compute: Any, has_weight: bool, has_bias: bool, stats: bool = True
) -> Any:
    """The Welford kernel, with the arguments of ``layer_norm_kernel``."""
    warps, inverse_root = warps_of(threads), rsqrt(compute)
    stream, merge_block = stream_moments(threads, compute), block_moments(threads, compute)

    @cuda.jit(launch_bounds=threads)
    def layer_norm_welford(x, weight, bias, y, mean, rstd, eps):
        counts = cuda.shared.array(warps, compute)
        means = cuda.shared.array(warps, compute)
        m2s = cuda.shared.array(warps, compute)
        row = int64(cuda.blockIdx.x)
        thread = cuda.threadIdx.x
        columns = x.shape[1]

        # Load: each thread streams its own columns into (count, mean, M2).
        count, centre, m2 = stream(x, row)

        # Reduce: parts of unequal counts merge into the whole row's.
        centre, m2 = merge_block(count, centre, m2, counts, means, m2s)
        scale = inverse_root(m2 / compute(columns) + eps)

        # Normalise and store, rounded once.
        for j in range(thread, columns, threads):
            value = (widen(x[row, j], compute) - centre) * scale
            if has_weight:
                value *= widen(weight[j], compute)
            if has_bias:
                value += widen(bias[j], compute)
            y[row, j] = narrow(value, storage)
        if stats and thread == 0:
            mean[row] = centre
            rstd[row] = scale

    return layer_norm_welford
