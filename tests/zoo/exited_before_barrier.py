"""Threads that return before a barrier which the others pass: legal since Volta, and a trap for older habits."""

import numpy as np
from numba import cuda, float32

from tests.zoo.specimen import Specimen


@cuda.jit
def returns_past_the_end(x, y):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i >= x.size:
        return
    tile[t] = x[i]
    cuda.syncthreads()  # zoo: exited-before-barrier
    y[i] = tile[t ^ 1]


@cuda.jit
def stays_past_the_end(x, y):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i < x.size:
        tile[t] = x[i]
    cuda.syncthreads()
    if i < x.size:
        y[i] = tile[t ^ 1]


@cuda.jit
def half_of_the_block_leaves(x, y):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t >= 32:
        return
    tile[t] = x[t]
    cuda.syncthreads()  # zoo: exited-before-barrier
    y[t] = tile[t ^ 1]


@cuda.jit
def half_of_the_block_waits(x, y):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t < 32:
        tile[t] = x[t]
    cuda.syncthreads()
    if t < 32:
        y[t] = tile[t ^ 1]


@cuda.jit
def leaves_in_a_loop(x, y):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    for first in range(0, x.size, 64):
        if first + t >= x.size:
            return
        tile[t] = x[first + t]
        cuda.syncthreads()  # zoo: exited-before-barrier
        y[first + t] = tile[t ^ 1]
        cuda.syncthreads()  # zoo: exited-before-barrier


@cuda.jit
def stays_in_the_loop(x, y):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    for first in range(0, x.size, 64):
        if first + t < x.size:
            tile[t] = x[first + t]
        cuda.syncthreads()
        if first + t < x.size:
            y[first + t] = tile[t ^ 1]
        cuda.syncthreads()


def _row(n, size):
    return lambda rng: (rng.standard_normal(n).astype(np.float32), np.zeros(size, np.float32))


def _exchanged(n):
    return lambda x, y: {1: np.pad(x[:n].reshape(-1, 2)[:, ::-1].reshape(-1), (0, y.size - n))}


ZOO = [
    Specimen(returns_past_the_end, stays_past_the_end, 2, 64, _row(100, 100), _exchanged(100)),
    Specimen(half_of_the_block_leaves, half_of_the_block_waits, 1, 64, _row(32, 32), _exchanged(32)),
    Specimen(leaves_in_a_loop, stays_in_the_loop, 1, 64, _row(100, 100), _exchanged(100)),
]
