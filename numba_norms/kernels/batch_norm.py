"""BatchNorm, the textbook way: a channel's statistics over all samples, then every element by its channel's.

    y = weight[c] * (x - mean[c]) / sqrt(variance[c] + eps) + bias[c]

``x`` comes as [outer, channel, inner], and who lies next to whom in memory decides which lane takes what:

* *planes*, where ``inner`` is contiguous ([N, C, H, W]): a block per channel, lanes along ``inner``;
* *tiles*, where channels are contiguous and ``inner`` is 1 ([N, C], channels last): a block per tile of ``width``
  channels, lanes along the channels, row after row of threads along the samples.  A lane's partners, who hold the same
  channel, sit in other warps, so partial results meet in shared memory.

Either way neighbouring lanes read neighbouring elements.  Each has a kernel for the statistics, which reads ``x``
once by Welford's stream, merges by Chan's formula and moves the running statistics on; and a kernel that normalises.

Ioffe and Szegedy, "Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift",
2015 (arXiv:1502.03167).  The running variance takes the unbiased estimate, as the paper's Algorithm 2 does.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import cuda, int64

from numba_norms.kernels.lanes import narrow, widen
from numba_norms.kernels.moments import welford_step
from numba_norms.kernels.reduce import block_moments, merge_rows, rsqrt, warps_of

ROUNDS = 16
"""Elements that one thread normalises: enough to pay for loading its channel's four numbers."""


# -- statistics ------------------------------------------------------------------------------------------------------


@cache
def store_statistics(compute: Any, running: tuple[Any, Any, Any] | None) -> Any:
    """Device function that stores a channel's ``mean`` and ``rstd`` and moves its running statistics on.

    ``running`` holds the types of ``running_mean``, of ``running_var`` and of the sum that updates them; None if there
    are none.
    """
    inverse_root, has_running = rsqrt(compute), running is not None
    mean_type, var_type, wide = running or (compute, compute, compute)

    @cuda.jit(device=True)
    def store_statistics(channel, samples, centre, m2, mean, rstd, running_mean, running_var, momentum, eps):
        mean[channel] = centre
        rstd[channel] = inverse_root(m2 / compute(samples) + eps)
        if has_running:
            keep = wide(1) - momentum
            unbiased = m2 / compute(samples - 1)
            moved_mean = keep * widen(running_mean[channel], wide) + momentum * wide(centre)
            moved_var = keep * widen(running_var[channel], wide) + momentum * wide(unbiased)
            running_mean[channel] = narrow(moved_mean, mean_type)
            running_var[channel] = narrow(moved_var, var_type)

    return store_statistics


@cache
def plane_statistics_kernel(threads: int, compute: Any, running: tuple[Any, Any, Any] | None) -> Any:
    """The kernel ``(x[outer, C, inner], mean[C], rstd[C], running_mean[C], running_var[C], momentum, eps)``.

    Launch it on ``[C, threads]``.  ``compute`` is the Numba type of ``mean``, ``rstd`` and ``eps``; ``running`` as for
    ``store_statistics``; ``momentum`` has its third type.  Running arrays that are not there are ``()``.
    """
    warps, step = warps_of(threads), welford_step(compute)
    merge_block, store = block_moments(threads, compute), store_statistics(compute, running)

    @cuda.jit(launch_bounds=threads)
    def batch_norm_statistics(x, mean, rstd, running_mean, running_var, momentum, eps):
        counts = cuda.shared.array(warps, compute)
        means = cuda.shared.array(warps, compute)
        m2s = cuda.shared.array(warps, compute)
        channel = int64(cuda.blockIdx.x)
        thread = cuda.threadIdx.x
        inner = x.shape[2]
        samples = x.shape[0] * inner

        # Load: sample s is element [s // inner, s % inner] of the channel; both are carried, not divided anew.
        i, k = thread // inner, thread % inner
        planes, rest = threads // inner, threads % inner
        count, centre, m2 = compute(0), compute(0), compute(0)
        for _ in range(thread, samples, threads):
            count, centre, m2 = step(count, centre, m2, widen(x[i, channel, k], compute))
            i += planes
            k += rest
            if k >= inner:
                i += 1
                k -= inner

        # Reduce, and let one thread speak for the channel.
        centre, m2 = merge_block(count, centre, m2, counts, means, m2s)
        if thread == 0:
            store(channel, samples, centre, m2, mean, rstd, running_mean, running_var, momentum, eps)

    return batch_norm_statistics


@cache
def tile_statistics_kernel(threads: int, width: int, compute: Any, running: tuple[Any, Any, Any] | None) -> Any:
    """The kernel with the arguments of ``plane_statistics_kernel``, ``x`` being [samples, C, 1].

    Launch it on ``[tiles, threads]``, a block for every ``width`` channels.
    """
    rows, step = threads // width, welford_step(compute)
    merge_block, store = merge_rows(threads, width, compute), store_statistics(compute, running)

    @cuda.jit(launch_bounds=threads)
    def batch_norm_statistics(x, mean, rstd, running_mean, running_var, momentum, eps):
        counts = cuda.shared.array(threads, compute)
        means = cuda.shared.array(threads, compute)
        m2s = cuda.shared.array(threads, compute)
        thread = cuda.threadIdx.x
        row = thread // width
        channel = int64(cuda.blockIdx.x) * width + thread % width
        samples, channels = x.shape[0], x.shape[1]

        # Load: neighbouring lanes read neighbouring channels of one sample.
        count, centre, m2 = compute(0), compute(0), compute(0)
        if channel < channels:
            for i in range(row, samples, rows):
                count, centre, m2 = step(count, centre, m2, widen(x[i, channel, 0], compute))

        # Reduce: lanes past the last channel come along, the barriers are for all.
        centre, m2 = merge_block(count, centre, m2, counts, means, m2s)
        if row == 0 and channel < channels:
            store(channel, samples, centre, m2, mean, rstd, running_mean, running_var, momentum, eps)

    return batch_norm_statistics


# -- normalising -----------------------------------------------------------------------------------------------------


@cache
def load_channel(compute: Any, training: bool, has_weight: bool, has_bias: bool) -> Any:
    """Device function ``(channel, location, spread, weight, bias, eps) -> centre, scale, gain, shift`` of a channel.

    ``spread`` is ``rstd`` in training, the running variance otherwise.
    """
    inverse_root = rsqrt(compute)

    @cuda.jit(device=True)
    def load_channel(channel, location, spread, weight, bias, eps):
        centre, scale = widen(location[channel], compute), widen(spread[channel], compute)
        gain, shift = compute(1), compute(0)
        if not training:
            scale = inverse_root(scale + eps)
        if has_weight:
            gain = widen(weight[channel], compute)
        if has_bias:
            shift = widen(bias[channel], compute)
        return centre, scale, gain, shift

    return load_channel


@cache
def plane_normalise_kernel(
    threads: int, storage: Any, compute: Any, training: bool, has_weight: bool, has_bias: bool
) -> Any:
    """The kernel ``(x[outer, C, inner], location[C], spread[C], weight[C], bias[C], y[outer, C, inner], eps)``.

    ``weight`` and ``bias`` may be ``()``.  Launch it on ``[C * parts, threads]``, a part for every ``threads * ROUNDS``
    samples.  ``storage`` is the Numba type of ``y``, which may be ``x``; ``spread`` as for ``load_channel``.
    """
    load, span = load_channel(compute, training, has_weight, has_bias), threads * ROUNDS

    @cuda.jit(launch_bounds=threads)
    def batch_norm(x, location, spread, weight, bias, y, eps):
        block = int64(cuda.blockIdx.x)
        channels, inner = x.shape[1], x.shape[2]
        samples = x.shape[0] * inner
        channel = block % channels
        first = block // channels * span + cuda.threadIdx.x
        centre, scale, gain, shift = load(channel, location, spread, weight, bias, eps)
        i, k = first // inner, first % inner
        planes, rest = threads // inner, threads % inner
        for _ in range(first, min(first + span, samples), threads):
            value = (widen(x[i, channel, k], compute) - centre) * scale
            y[i, channel, k] = narrow(value * gain + shift, storage)
            i += planes
            k += rest
            if k >= inner:
                i += 1
                k -= inner

    return batch_norm


@cache
def tile_normalise_kernel(
    threads: int, width: int, storage: Any, compute: Any, training: bool, has_weight: bool, has_bias: bool
) -> Any:
    """The kernel with the arguments of ``plane_normalise_kernel``, ``x`` and ``y`` being [samples, C, 1].

    Launch it on ``[tiles * parts, threads]``: a tile for every ``width`` channels, and a part of it for every
    ``threads // width * ROUNDS`` samples.
    """
    rows = threads // width
    load, span = load_channel(compute, training, has_weight, has_bias), rows * ROUNDS

    @cuda.jit(launch_bounds=threads)
    def batch_norm(x, location, spread, weight, bias, y, eps):
        block = int64(cuda.blockIdx.x)
        thread = cuda.threadIdx.x
        samples, channels = x.shape[0], x.shape[1]
        tiles = (channels + width - 1) // width
        channel = block % tiles * width + thread % width
        first = block // tiles * span + thread // width
        if channel < channels:
            centre, scale, gain, shift = load(channel, location, spread, weight, bias, eps)
            for i in range(first, min(first + span, samples), rows):
                value = (widen(x[i, channel, 0], compute) - centre) * scale
                y[i, channel, 0] = narrow(value * gain + shift, storage)

    return batch_norm
