"""Indices beyond the end: no guard, the wrong guard, a halo, a table that is too short."""

import numpy as np
from numba import cuda, float32

from tests.zoo.specimen import Specimen


@cuda.jit
def no_guard(x, y):
    i = cuda.grid(1)
    y[i] = x[i] + 1  # zoo: out-of-bounds


@cuda.jit
def guard(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] + 1


@cuda.jit
def axes_exchanged(x, y):
    i, j = cuda.grid(2)
    if i < x.shape[1] and j < x.shape[0]:
        y[i, j] = -x[i, j]  # zoo: out-of-bounds


@cuda.jit
def axes_in_order(x, y):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = -x[i, j]


@cuda.jit
def halo_beyond_the_end(x, y):
    i = cuda.grid(1)
    if 0 < i < x.size:
        y[i] = x[i - 1] + x[i + 1]  # zoo: out-of-bounds


@cuda.jit
def halo_inside(x, y):
    i = cuda.grid(1)
    if 0 < i < x.size - 1:
        y[i] = x[i - 1] + x[i + 1]


@cuda.jit
def tile_for_fewer_threads(x, y):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]  # zoo: out-of-bounds
    cuda.syncthreads()
    y[t] = tile[cuda.blockDim.x - 1 - t]  # zoo: out-of-bounds


@cuda.jit
def tile_for_all_threads(x, y):
    tile = cuda.shared.array(96, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    y[t] = tile[cuda.blockDim.x - 1 - t]


@cuda.jit
def bin_from_data(keys, counts):
    i = cuda.grid(1)
    if i < keys.size:
        cuda.atomic.add(counts, keys[i], 1)  # zoo: out-of-bounds


@cuda.jit
def bin_from_data_if_there_is_one(keys, counts):
    i = cuda.grid(1)
    if i < keys.size and 0 <= keys[i] < counts.size:
        cuda.atomic.add(counts, keys[i], 1)


def _row(n):
    return lambda rng: (rng.integers(-9, 9, n, np.int32), np.zeros(n, np.int32))


ZOO = [
    Specimen(no_guard, guard, 4, 32, _row(100), lambda x, y: {1: x + 1}),
    Specimen(
        axes_exchanged,
        axes_in_order,
        (1, 1),
        (8, 8),
        lambda rng: (rng.integers(-9, 9, (5, 8), np.int32), np.zeros((5, 8), np.int32)),
        lambda x, y: {1: -x},
    ),
    Specimen(
        halo_beyond_the_end,
        halo_inside,
        4,
        32,
        _row(100),
        lambda x, y: {1: np.pad(x[:-2] + x[2:], 1)},
    ),
    Specimen(
        tile_for_fewer_threads,
        tile_for_all_threads,
        1,
        96,
        lambda rng: (rng.standard_normal(96).astype(np.float32), np.zeros(96, np.float32)),
        lambda x, y: {1: x[::-1]},
    ),
    Specimen(
        bin_from_data,
        bin_from_data_if_there_is_one,
        2,
        32,
        lambda rng: (np.arange(50, dtype=np.int32) % 9, np.zeros(8, np.int32)),
        lambda keys, counts: {1: np.bincount(keys[keys < 8], minlength=8)},
    ),
]
