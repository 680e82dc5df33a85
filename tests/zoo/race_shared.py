"""Races in shared memory: a barrier is missing, or plain additions meet."""

import numpy as np
from numba import cuda, float32, int32

from tests.zoo.specimen import Specimen


@cuda.jit
def tree_without_barrier(x, y):
    part = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    part[t] = x[t]
    cuda.syncthreads()
    step = 64
    while step > 0:
        if t < step:
            part[t] += part[t + step]  # zoo: race-shared
        step //= 2
    if t == 0:
        y[0] = part[0]


@cuda.jit
def tree_with_barrier(x, y):
    part = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    part[t] = x[t]
    cuda.syncthreads()
    step = 64
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        y[0] = part[0]


@cuda.jit
def halo_without_barrier(x, y):
    tile = cuda.shared.array(66, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t + 1] = x[i]  # zoo: race-shared
    if t == 0:
        tile[0] = x[i - 1] if i > 0 else float32(0)
    if t == 63:
        tile[65] = x[i + 1] if i + 1 < x.size else float32(0)
    y[i] = tile[t] + tile[t + 1] + tile[t + 2]  # zoo: race-shared


@cuda.jit
def halo_with_barrier(x, y):
    tile = cuda.shared.array(66, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t + 1] = x[i]
    if t == 0:
        tile[0] = x[i - 1] if i > 0 else float32(0)
    if t == 63:
        tile[65] = x[i + 1] if i + 1 < x.size else float32(0)
    cuda.syncthreads()
    y[i] = tile[t] + tile[t + 1] + tile[t + 2]


@cuda.jit
def scratch_used_again(x, y):
    part = cuda.shared.array(2, float32)
    t = cuda.threadIdx.x
    if t == 0:
        part[0] = x[0]
    cuda.syncthreads()
    first = part[0]  # zoo: race-shared
    if t == 0:
        part[0] = x[1]  # zoo: race-shared
    cuda.syncthreads()
    y[t] = first - part[0]


@cuda.jit
def scratch_kept_apart(x, y):
    part = cuda.shared.array(2, float32)
    t = cuda.threadIdx.x
    if t == 0:
        part[0] = x[0]
    cuda.syncthreads()
    first = part[0]
    cuda.syncthreads()
    if t == 0:
        part[0] = x[1]
    cuda.syncthreads()
    y[t] = first - part[0]


@cuda.jit
def tally_without_atomic(keys, counts):
    bins = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        bins[t] = 0
    cuda.syncthreads()
    bins[keys[t]] += 1  # zoo: race-shared
    cuda.syncthreads()
    if t < 8:
        counts[t] = bins[t]


@cuda.jit
def tally_with_atomic(keys, counts):
    bins = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        bins[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, keys[t], 1)
    cuda.syncthreads()
    if t < 8:
        counts[t] = bins[t]


@cuda.jit
def tail_in_one_warp(x, y):
    part = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    part[t] = x[t]
    cuda.syncwarp()
    if t < 8:
        part[t] += part[t + 8]  # zoo: race-shared
        part[t] += part[t + 4]  # zoo: race-shared
    if t == 0:
        y[0] = part[0]


@cuda.jit
def tail_in_one_warp_in_step(x, y):
    part = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    part[t] = x[t]
    cuda.syncwarp()
    if t < 8:
        part[t] += part[t + 8]
    cuda.syncwarp()
    if t < 4:
        part[t] += part[t + 4]
    cuda.syncwarp()
    if t == 0:
        y[0] = part[0]


def _row(n, out):
    def make(rng):
        return rng.integers(-8, 9, n).astype(np.float32), np.zeros(out, np.float32)

    return make


def _neighbours(x, y):
    padded = np.pad(x, 1)
    return {1: padded[:-2] + padded[1:-1] + padded[2:]}


ZOO = [
    Specimen(tree_without_barrier, tree_with_barrier, 1, 128, _row(128, 1), lambda x, y: {1: [x.sum()]}),
    Specimen(halo_without_barrier, halo_with_barrier, 2, 64, _row(128, 128), _neighbours),
    Specimen(scratch_used_again, scratch_kept_apart, 1, 96, _row(2, 96), lambda x, y: {1: np.full(96, x[0] - x[1])}),
    Specimen(
        tally_without_atomic,
        tally_with_atomic,
        1,
        96,
        lambda rng: (rng.integers(0, 8, 96, np.int32), np.zeros(8, np.int32)),
        lambda keys, counts: {1: np.bincount(keys, minlength=8)},
    ),
    Specimen(tail_in_one_warp, tail_in_one_warp_in_step, 1, 32, _row(32, 1), lambda x, y: {1: [x[:16:4].sum()]}),
]
