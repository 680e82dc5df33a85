"""Reductions, named by hardware level: a warp reduces through shuffles, a block through shared memory.

Rules of this file:

* The tree is fixed by the number of threads alone.  Sums therefore repeat bit for bit, and a row's result does not
  depend on how many rows there are.
* Every barrier is needed: take one away and some order of the warps gives another result (a test does that).  The
  exceptions: ``moments`` and BatchNorm's planes, where thread 0 alone reads the result, could do without the last.
* Shared arrays come from the kernel, one set per reduction, so a second reduction cannot overwrite what a slow warp
  still reads of the first.
* Kernels state how many threads they are for (``launch_bounds``): the compiler then spends no more registers on each
  than so many threads can have.
* Threads are counted without a sign: Python's remainder of a signed integer takes ten instructions.
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
from numba import cuda, float64, uint32
from numba.cuda import libdevice

WARP = 32
WHOLE_WARP = 0xFFFFFFFF


def warps_of(threads: int) -> int:
    """How many warps hold this many threads, the length of the shared arrays that a reduction needs."""
    return max(1, threads // WARP)


@cache
def warp_sum(lanes: int, among: int | None = None) -> Any:
    """Device function ``(value) -> sum`` over the first ``lanes`` lanes of a warp, which all get the same bits.

    ``among`` lanes take part, in groups of ``lanes`` neighbours with a sum each; without it these lanes alone.
    """
    first, mask = lanes // 2, (1 << (among or lanes)) - 1

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
        thread = uint32(cuda.threadIdx.x)
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
def row_sum(lanes: int) -> Any:
    """Device function ``(value, partial) -> sum`` over neighbouring ``lanes`` of a warp, or over a block of so many.

    All threads of the block call it; each gets the sum of its row, the same bits.  Past a warp, every warp adds up the
    partial sums for itself, which saves ``block_sum``'s second barrier.  ``partial`` is a shared array of
    ``warps_of(lanes)`` values.
    """
    warps, within, across = warps_of(lanes), warp_sum(min(lanes, WARP), WARP), warp_sum(warps_of(lanes), WARP)

    @cuda.jit(device=True)
    def row_sum(value, partial):
        value = within(value)
        if warps > 1:
            thread = uint32(cuda.threadIdx.x)
            if thread % WARP == 0:
                partial[thread // WARP] = value
            cuda.syncthreads()  # every warp's partial sum stands before anybody adds them
            value = across(partial[thread % warps])
        return value

    return row_sum


@cache
def merge(compute: Any) -> Any:
    """Device function ``(count_a, mean_a, m2_a, count_b, mean_b, m2_b) -> count, mean, m2`` of both parts together.

    Chan's formula, without a branch.  An empty part (0, 0, 0) weighs nothing: threads past the end of a row have one.
    """
    divide = ratio(compute)

    @cuda.jit(device=True)
    def merge(count_a, mean_a, m2_a, count_b, mean_b, m2_b):
        count = count_a + count_b
        share = divide(count_b, count)
        if count_a == compute(0):
            share = compute(1)  # which n / n need not be (``ratio``), nor 0 / 0
        delta = mean_b - mean_a
        m2 = m2_a + (m2_b + delta * (delta * (count_a * share)))
        return count, mean_a + delta * share, m2

    return merge


@cache
def warp_moments(lanes: int, compute: Any, among: int | None = None) -> Any:
    """Device function ``(count, mean, m2) -> count, mean, m2`` of the first ``lanes`` lanes of a warp.

    Each of these lanes gets them, but not to the last bit: the order of the parts differs.  Lane 0 speaks for all.
    ``among`` is that of ``warp_sum``.
    """
    first, mask, merge_two = lanes // 2, (1 << (among or lanes)) - 1, merge(compute)

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
        thread = uint32(cuda.threadIdx.x)
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


@cache
def row_moments(threads: int, compute: Any) -> Any:
    """Device function like that of ``block_moments`` for 32 threads and more, with one barrier, as ``row_sum``."""
    warps = warps_of(threads)
    within_warp, across_warps = warp_moments(WARP, compute), warp_moments(warps, compute, WARP)

    @cuda.jit(device=True)
    def row_moments(count, mean, m2, counts, means, m2s):
        count, mean, m2 = within_warp(count, mean, m2)
        if warps > 1:
            thread = uint32(cuda.threadIdx.x)
            if thread % WARP == 0:
                counts[thread // WARP], means[thread // WARP], m2s[thread // WARP] = count, mean, m2
            cuda.syncthreads()  # every warp's moments stand before anybody merges them
            part = thread % warps
            count, mean, m2 = across_warps(counts[part], means[part], m2s[part])
        return cuda.shfl_sync(WHOLE_WARP, mean, 0), cuda.shfl_sync(WHOLE_WARP, m2, 0)

    return row_moments


@cache
def merge_rows(threads: int, width: int, compute: Any) -> Any:
    """Device function ``(count, mean, m2, counts, means, m2s) -> mean, m2`` over all threads of a lane's channel.

    Threads ``width`` apart hold parts of one channel; the first ``width`` threads get the whole.  ``counts``, ``means``
    and ``m2s`` are shared arrays of ``threads`` values.  The upper half hands over to the lower, again and again.
    """
    first, merge_two = threads // 2, merge(compute)

    @cuda.jit(device=True)
    def merge_rows(count, mean, m2, counts, means, m2s):
        thread = cuda.threadIdx.x
        counts[thread], means[thread], m2s[thread] = count, mean, m2
        distance = first
        while distance >= width:
            cuda.syncthreads()  # the upper half stands before the lower reads it
            if thread < distance:
                other = thread + distance
                count, mean, m2 = merge_two(count, mean, m2, counts[other], means[other], m2s[other])
                counts[thread], means[thread], m2s[thread] = count, mean, m2
            distance >>= 1
        return mean, m2

    return merge_rows


@cuda.jit(device=True)
def _quotient(value, divisor):
    return value / divisor


@cuda.jit(device=True)
def _rsqrt_float64(value):
    return float64(1) / math.sqrt(value)


def rsqrt(compute: Any) -> Any:
    """Device function ``(value) -> 1 / sqrt(value)`` in ``compute``; float32 is one instruction on the hardware."""
    return _rsqrt_float64 if compute is float64 else libdevice.rsqrtf


def ratio(compute: Any) -> Any:
    """Device function ``(a, b) -> a / b``, in float32 to 2 units in the last place, for a share of a whole.

    The exact division of float32 has rare cases, which the compiler puts into a function; this one is an instruction
    (PTX ISA, "div.approx").
    """
    return _quotient if compute is float64 else libdevice.fast_fdividef


def constant(value: float, compute: Any) -> Any:
    """``value`` as a NumPy scalar of ``compute``: a Python float in a kernel would be float64."""
    return np.float64(value) if compute is float64 else np.float32(value)


@cuda.jit(device=True)
def _quotient_by_inverse(value, divisor, inverse):
    return value / divisor


@cuda.jit(device=True)
def _corrected_quotient(value, divisor, inverse):
    near = value * inverse
    return libdevice.fmaf(libdevice.fmaf(-near, divisor, value), inverse, near)


def quotient(compute: Any) -> Any:
    """Device function ``(value, divisor, inverse) -> value / divisor``, where ``inverse`` is near 1 / divisor.

    For float32 without a division (see ``ratio``): the remainder corrects the product, so a quotient that is a number
    of float32 comes out exactly (Markstein, "Computation of elementary functions on the IBM RISC System/6000
    processor", 1990).  The mean of equal values whose sum is exact is then that
    value, lest 1 / sqrt(eps) blow up its error.
    """
    return _quotient_by_inverse if compute is float64 else _corrected_quotient
