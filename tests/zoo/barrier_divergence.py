"""Barriers that not every thread of the block reaches."""

import numpy as np
from numba import cuda, float32, int32

from tests.zoo.specimen import Specimen


@cuda.jit
def barrier_in_branch(x, y):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    if t < 40:
        cuda.syncthreads()  # zoo: barrier-divergence
        y[t] = tile[t + 24]
    y[t] += x[t]  # zoo: barrier-divergence


@cuda.jit
def barrier_before_branch(x, y):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    if t < 40:
        y[t] = tile[t + 24]
    y[t] += x[t]


@cuda.jit
def barrier_in_uneven_loop(x, y):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for i in range(t, x.size, 64):
        tile[t] = x[i]
        cuda.syncthreads()  # zoo: barrier-divergence
        total += tile[63 - t]
        cuda.syncthreads()
    y[t] = total  # zoo: barrier-divergence


@cuda.jit
def barrier_in_even_loop(x, y):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for first in range(0, x.size, 64):
        tile[t] = x[first + t] if first + t < x.size else float32(0)
        cuda.syncthreads()
        total += tile[63 - t]
        cuda.syncthreads()
    y[t] = total


@cuda.jit(device=True)
def sum_of_block(tile, value):
    t = cuda.threadIdx.x
    tile[t] = value
    cuda.syncthreads()  # zoo: barrier-divergence
    total = float32(0)
    for k in range(tile.size):
        total += tile[k]
    return total


@cuda.jit
def helper_called_by_some(x, y):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if x[t] > float32(0):
        y[t] = sum_of_block(tile, x[t])
    y[t] += x[t]  # zoo: barrier-divergence


@cuda.jit
def helper_called_by_all(x, y):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    tile[t] = max(x[t], float32(0))
    cuda.syncthreads()
    total = float32(0)
    for k in range(tile.size):
        total += tile[k]
    if x[t] > float32(0):
        y[t] = total
    y[t] += x[t]


@cuda.jit
def count_in_branch(x, y):
    t = cuda.threadIdx.x
    if t % 2 == 0:
        positive = cuda.syncthreads_count(int32(x[t] > 0))  # zoo: barrier-divergence
        y[t] = positive
    y[t] += x[t]  # zoo: barrier-divergence


@cuda.jit
def count_before_branch(x, y):
    t = cuda.threadIdx.x
    positive = cuda.syncthreads_count(int32(x[t] > 0 and t % 2 == 0))
    if t % 2 == 0:
        y[t] = positive
    y[t] += x[t]


def _sums_by_thread(x, y):
    rows = np.pad(x, (0, -x.size % 64)).reshape(-1, 64)
    return {1: rows[:, ::-1].sum(0)}


ZOO = [
    Specimen(
        barrier_in_branch,
        barrier_before_branch,
        1,
        64,
        lambda rng: (rng.standard_normal(64).astype(np.float32), np.zeros(64, np.float32)),
        lambda x, y: {1: x + np.where(np.arange(64) < 40, np.roll(x, -24), 0)},
    ),
    Specimen(
        barrier_in_uneven_loop,
        barrier_in_even_loop,
        1,
        64,
        lambda rng: (rng.integers(-8, 9, 100).astype(np.float32), np.zeros(64, np.float32)),
        _sums_by_thread,
    ),
    Specimen(
        helper_called_by_some,
        helper_called_by_all,
        1,
        64,
        lambda rng: (np.arange(-20, 44).astype(np.float32), np.zeros(64, np.float32)),
        lambda x, y: {1: x + np.where(x > 0, x[x > 0].sum(), 0)},
    ),
    Specimen(
        count_in_branch,
        count_before_branch,
        1,
        64,
        lambda rng: (rng.integers(-1, 2, 64, np.int32), np.zeros(64, np.int32)),
        lambda x, y: {1: x + np.where(np.arange(64) % 2 == 0, np.count_nonzero(x[::2] > 0), 0)},
    ),
]
