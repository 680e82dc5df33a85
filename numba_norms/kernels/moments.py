"""Mean and sum of squared deviations of each row, by Welford's stream and Chan's merge."""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import cuda, int64

from numba_norms.kernels.lanes import widen
from numba_norms.kernels.reduce import block_moments, warps_of


@cache
def welford_step(compute: Any) -> Any:
    """Device function ``(count, mean, m2, value) -> count, mean, m2``: one more value joins."""

    @cuda.jit(device=True)
    def welford_step(count, mean, m2, value):
        delta = value - mean  # from the old mean ...
        count += compute(1)
        mean += delta / count
        return count, mean, m2 + delta * (value - mean)  # ... times from the new

    return welford_step


@cache
def stream_moments(threads: int, compute: Any) -> Any:
    """Device function ``(x, row) -> count, mean, m2`` of the columns that the calling thread owns."""
    step = welford_step(compute)

    @cuda.jit(device=True)
    def stream_moments(x, row):
        count = compute(0)
        mean = compute(0)
        m2 = compute(0)
        for j in range(cuda.threadIdx.x, x.shape[1], threads):
            count, mean, m2 = step(count, mean, m2, widen(x[row, j], compute))
        return count, mean, m2

    return stream_moments


@cache
def stream_sum_moments(threads: int, compute: Any) -> Any:
    """Device function ``(residual, update, row) -> count, mean, m2`` of the unrounded sum, as ``stream_moments``."""
    step = welford_step(compute)

    @cuda.jit(device=True)
    def stream_sum_moments(residual, update, row):
        count = compute(0)
        mean = compute(0)
        m2 = compute(0)
        for j in range(cuda.threadIdx.x, residual.shape[1], threads):
            count, mean, m2 = step(count, mean, m2, widen(residual[row, j], compute) + widen(update[row, j], compute))
        return count, mean, m2

    return stream_sum_moments


@cache
def moments_kernel(threads: int, compute: Any) -> Any:
    """The kernel ``(x[rows, D], mean[rows], m2[rows])``; launch it on ``[rows, threads]``."""
    warps, stream, merge_block = warps_of(threads), stream_moments(threads, compute), block_moments(threads, compute)

    @cuda.jit(launch_bounds=threads)
    def moments(x, mean, m2):
        counts = cuda.shared.array(warps, compute)
        means = cuda.shared.array(warps, compute)
        m2s = cuda.shared.array(warps, compute)
        row = int64(cuda.blockIdx.x)
        count, centre, squares = stream(x, row)
        centre, squares = merge_block(count, centre, squares, counts, means, m2s)
        if cuda.threadIdx.x == 0:
            mean[row] = centre
            m2[row] = squares

    return moments
