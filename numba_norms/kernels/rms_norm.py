"""RMSNorm, the textbook way: a block per row, thread t takes columns t, t + threads, t + 2 threads, ...

    y[j] = (offset + weight[j]) * x[j] / sqrt(mean(x²) + eps)

Gemma stores weight - 1 and means offset = 1: the sum is formed in the compute type, since 1 + w in bfloat16 loses bits
of w.  Llama rounds x[j] / sqrt(...) to storage before it multiplies; ``llama`` does so too, to give the same bits.

Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019 (arXiv:1910.07467).
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import cuda, int64

from numba_norms.kernels.lanes import narrow, widen
from numba_norms.kernels.reduce import block_sum, constant, rsqrt, warps_of


@cache
def rms_norm_kernel(
    threads: int, storage: Any, compute: Any, has_weight: bool, weight_offset: float, llama: bool, stats: bool = True
) -> Any:
    """The kernel ``(x[rows, D], weight[D] or (), y[rows, D], rstd[rows] or (), eps)``.

    Launch it on ``[rows, threads]``.  ``storage`` is the Numba type of ``y``, ``compute`` that of ``rstd`` and ``eps``.
    ``y`` may be ``x``.
    """
    warps, sum_block, inverse_root = warps_of(threads), block_sum(threads), rsqrt(compute)
    has_offset, offset = weight_offset != 0, constant(weight_offset, compute)

    @cuda.jit(launch_bounds=threads)
    def rms_norm(x, weight, y, rstd, eps):
        partial = cuda.shared.array(warps, compute)
        row = int64(cuda.blockIdx.x)
        thread = cuda.threadIdx.x
        columns = x.shape[1]

        # Load: neighbouring lanes read neighbouring columns, one element each a round.
        squares = compute(0)
        for j in range(thread, columns, threads):
            value = widen(x[row, j], compute)  # widen before squaring: 300² is no float16
            squares += value * value

        # Reduce: from here on every thread holds the row's scale.
        scale = inverse_root(sum_block(squares, partial) / compute(columns) + eps)

        # Normalise and store: the row is read again, and rounded once.
        for j in range(thread, columns, threads):
            value = widen(x[row, j], compute) * scale
            if llama:
                value = widen(narrow(value, storage), compute)
            if has_weight:
                factor = widen(weight[j], compute)
                if has_offset:
                    factor += offset
                value *= factor
            y[row, j] = narrow(value, storage)
        if stats and thread == 0:
            rstd[row] = scale

    return rms_norm
