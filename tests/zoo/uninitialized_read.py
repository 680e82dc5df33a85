"""Memory that is read before anybody wrote to it."""

import numpy as np
from numba import cuda, float32, int32

from tests.zoo.specimen import Specimen


@cuda.jit
def histogram_from_nothing(keys, counts):
    bins = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    cuda.atomic.add(bins, keys[t], 1)  # zoo: uninitialized-read
    cuda.syncthreads()
    if t < 16:
        counts[t] = bins[t]  # zoo: uninitialized-read


@cuda.jit
def histogram_from_zero(keys, counts):
    bins = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    if t < 16:
        bins[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, keys[t], 1)
    cuda.syncthreads()
    if t < 16:
        counts[t] = bins[t]


@cuda.jit
def ragged_tile_left_open(x, y):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i < x.size:
        tile[t] = x[i]
    cuda.syncthreads()
    if t == 0:
        total = float32(0)
        for k in range(64):
            total += tile[k]  # zoo: uninitialized-read
        y[cuda.blockIdx.x] = total


@cuda.jit
def ragged_tile_filled_up(x, y):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile[t] = x[i] if i < x.size else float32(0)
    cuda.syncthreads()
    if t == 0:
        total = float32(0)
        for k in range(64):
            total += tile[k]
        y[cuda.blockIdx.x] = total


@cuda.jit
def registers_from_nothing(x, y):
    sums = cuda.local.array(4, int32)
    t = cuda.threadIdx.x
    for k in range(x.shape[1]):
        sums[k % 4] += x[t, k]  # zoo: uninitialized-read
    for k in range(4):
        y[t, k] = sums[k]


@cuda.jit
def registers_from_zero(x, y):
    sums = cuda.local.array(4, int32)
    t = cuda.threadIdx.x
    for k in range(4):
        sums[k] = 0
    for k in range(x.shape[1]):
        sums[k % 4] += x[t, k]
    for k in range(4):
        y[t, k] = sums[k]


@cuda.jit
def partial_sums_of_absent_warps(x, y):
    part = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    value = x[t]
    for offset in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
    if t % 32 == 0:
        part[t // 32] = value
    cuda.syncthreads()
    if t < 32:
        value = part[t]  # zoo: uninitialized-read
        for offset in (16, 8, 4, 2, 1):
            value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
        if t == 0:
            y[0] = value


@cuda.jit
def partial_sums_of_present_warps(x, y):
    part = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    value = x[t]
    for offset in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
    if t % 32 == 0:
        part[t // 32] = value
    cuda.syncthreads()
    if t < 32:
        value = part[t] if t < cuda.blockDim.x // 32 else float32(0)
        for offset in (16, 8, 4, 2, 1):
            value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
        if t == 0:
            y[0] = value


def _tiles(x, y):
    return {1: np.pad(x, (0, -x.size % 64)).reshape(-1, 64).sum(1)}


def _columns(x, y):
    return {1: np.stack([x[:, k::4].sum(1) for k in range(4)], 1)}


ZOO = [
    Specimen(
        histogram_from_nothing,
        histogram_from_zero,
        1,
        64,
        lambda rng: (rng.integers(0, 16, 64, np.int32), np.zeros(16, np.int32)),
        lambda keys, counts: {1: np.bincount(keys, minlength=16)},
    ),
    Specimen(
        ragged_tile_left_open,
        ragged_tile_filled_up,
        2,
        64,
        lambda rng: (rng.integers(-9, 9, 100).astype(np.float32), np.zeros(2, np.float32)),
        _tiles,
    ),
    Specimen(
        registers_from_nothing,
        registers_from_zero,
        1,
        32,
        lambda rng: (rng.integers(-9, 9, (32, 10), np.int32), np.zeros((32, 4), np.int32)),
        _columns,
    ),
    Specimen(
        partial_sums_of_absent_warps,
        partial_sums_of_present_warps,
        1,
        128,
        lambda rng: (rng.integers(-9, 9, 128).astype(np.float32), np.zeros(1, np.float32)),
        lambda x, y: {1: [x.sum()]},
    ),
]
