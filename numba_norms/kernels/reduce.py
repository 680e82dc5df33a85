"""Reductions, named by hardware level: a warp reduces through shuffles, a block through shared memory.

Rules of this file:

* The tree is fixed by the number of threads alone.  Sums therefore repeat bit for bit, and a row's result does not
  depend on how many rows there are.
* Every barrier is needed: take one away and some order of the warps gives another result (a test does that).  The
  exceptions: ``moments`` and BatchNorm's planes, where thread 0 alone reads the result, could do without the last.
* Shared arrays come from the kernel, one set per reduction, so a second reduction cannot overwrite what a slow warp
  still reads of the first.
* ``lanes`` and ``threads`` are powers of two.  A shuffle names exactly the lanes that take part, and starts at
  ``lanes // 2``, so small blocks work too; exclusive or keeps every lane's partner among them.

The sum of 4 lanes, with partners at distance 2, then 1; read upwards from any lane, it is a tree::

    lane        0           1           2           3
    xor 2     0 + 2       1 + 3       2 + 0       3 + 1
    xor 1    02 + 13     13 + 02     20 + 31     31 + 20
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numba import cuda, float64
from numba.cuda import libdevice

WARP = 32


def warps_of(threads: int) -> int:
    """How many warps hold this many threads, the length of the shared arrays that a reduction needs."""
    return max(1, threads // WARP)


@cache
def warp_sum(lanes: int) -> Any:
    """Device function ``(value) -> sum`` over the first ``lanes`` lanes of a warp, which all get the same bits."""
    first, mask = lanes // 2, (1 << lanes) - 1

    @cuda.jit(device=True)
    def warp_sum(value):
        offset = first
        while offset > 0:
            value += cuda.shfl_xor_sync(mask, value, offset)
            offset >>= 1
        return value

    return warp_sum


@cache
def block_sum(threads: int) -> Any:
    """Device function ``(value, partial) -> sum``: adds over the block; every thread gets the sum.

    ``partial`` is a shared array of ``warps_of(threads)`` values.
    """
    warps = warps_of(threads)
    within_warp, across_warps = warp_sum(min(threads, WARP)), warp_sum(warps)

    @cuda.jit(device=True)
    def block_sum(value, partial):
        thread = cuda.threadIdx.x
        value = within_warp(value)
        if warps == 1:
            return value
        if thread % WARP == 0:
            partial[thread // WARP] = value
        cuda.syncthreads()  # every warp's partial sum stands before the first warp adds them
        if thread < warps:
            value = across_warps(partial[thread])
            if thread == 0:
                partial[0] = value
        cuda.syncthreads()  # the sum stands before anybody reads it
        return partial[0]

    return block_sum


@cache
def merge(compute: Any) -> Any:
    """Device function ``(count_a, mean_a, m2_a, count_b, mean_b, m2_b) -> count, mean, m2`` of both parts together.

    Chan's formula.  An empty part changes nothing: threads past the end of a short row have one.
    """

    @cuda.jit(device=True)
    def merge(count_a, mean_a, m2_a, count_b, mean_b, m2_b):
        if count_b > compute(0):
            count = count_a + count_b
            share = count_b / count
            delta = mean_b - mean_a
            mean_a += delta * share
            m2_a += m2_b + delta * (delta * (count_a * share))
            count_a = count
        return count_a, mean_a, m2_a

    return merge


@cache
def warp_moments(lanes: int, compute: Any) -> Any:
    """Device function ``(count, mean, m2) -> count, mean, m2`` of the first ``lanes`` lanes of a warp.

    Each of these lanes gets them, but not to the last bit: the order of the parts differs.  Lane 0 speaks for all.
    """
    first, mask, merge_two = lanes // 2, (1 << lanes) - 1, merge(compute)

    @cuda.jit(device=True)
    def warp_moments(count, mean, m2):
        offset = first
        while offset > 0:
            other_count = cuda.shfl_xor_sync(mask, count, offset)
            other_mean = cuda.shfl_xor_sync(mask, mean, offset)
            other_m2 = cuda.shfl_xor_sync(mask, m2, offset)
            count, mean, m2 = merge_two(count, mean, m2, other_count, other_mean, other_m2)
            offset >>= 1
        return count, mean, m2

    return warp_moments


@cache
def block_moments(threads: int, compute: Any) -> Any:
    """Device function ``(count, mean, m2, counts, means, m2s) -> mean, m2`` of the block, for every thread.

    ``counts``, ``means`` and ``m2s`` are shared arrays of ``warps_of(threads)`` values.
    """
    warps = warps_of(threads)
    within_warp, across_warps = warp_moments(min(threads, WARP), compute), warp_moments(warps, compute)
    mask = (1 << min(threads, WARP)) - 1

    @cuda.jit(device=True)
    def block_moments(count, mean, m2, counts, means, m2s):
        thread = cuda.threadIdx.x
        count, mean, m2 = within_warp(count, mean, m2)
        if warps == 1:  # lane 0 tells the others
            return cuda.shfl_sync(mask, mean, 0), cuda.shfl_sync(mask, m2, 0)
        if thread % WARP == 0:
            counts[thread // WARP], means[thread // WARP], m2s[thread // WARP] = count, mean, m2
        cuda.syncthreads()  # every warp's moments stand before the first warp merges them
        if thread < warps:
            count, mean, m2 = across_warps(counts[thread], means[thread], m2s[thread])
            if thread == 0:
                means[0], m2s[0] = mean, m2
        cuda.syncthreads()  # the moments stand before anybody reads them
        return means[0], m2s[0]

    return block_moments


@cuda.jit(device=True)
def _rsqrt_float64(value):
    return float64(1) / math.sqrt(value)


def rsqrt(compute: Any) -> Any:
    """Device function ``(value) -> 1 / sqrt(value)`` in ``compute``; float32 is one instruction on the hardware."""
    return _rsqrt_float64 if compute is float64 else libdevice.rsqrtf


def constant(value: float, compute: Any) -> Any:
    """``value`` as a NumPy scalar of ``compute``: a Python float in a kernel would be float64."""
    return np.float64(value) if compute is float64 else np.float32(value)
