"""Lanes that read a lane which takes no part, and drop what they got."""

import numpy as np
from numba import cuda

from tests.zoo.specimen import Specimen


@cuda.jit
def tree_over_a_ragged_block(x, y):
    t = cuda.threadIdx.x
    value = x[t]
    other = cuda.shfl_down_sync(0x00FFFFFF, value, 8)  # zoo: partial-warp
    if t < 16:
        y[t] = value + other


@cuda.jit
def tree_over_a_ragged_block_inside(x, y):
    t = cuda.threadIdx.x
    value = x[t]
    other = cuda.shfl_sync(0x00FFFFFF, value, (t + 8) % 24)
    if t < 16:
        y[t] = value + other


@cuda.jit
def neighbour_beyond_the_block(x, y):
    t = cuda.threadIdx.x
    other = cuda.shfl_sync(0x000FFFFF, x[t], t + 1)  # zoo: partial-warp
    y[t] = other if t < 19 else x[t]


@cuda.jit
def neighbour_inside_the_block(x, y):
    t = cuda.threadIdx.x
    other = cuda.shfl_sync(0x000FFFFF, x[t], min(t + 1, 19))
    y[t] = other if t < 19 else x[t]


@cuda.jit
def butterfly_across_the_edge(x, y):
    t = cuda.threadIdx.x
    other = cuda.shfl_xor_sync(0x000FFFFF, x[t], 16)  # zoo: partial-warp
    y[t] = x[t] + other if t < 4 or t >= 16 else x[t]


@cuda.jit
def butterfly_inside(x, y):
    t = cuda.threadIdx.x
    far = t ^ 16
    other = cuda.shfl_sync(0x000FFFFF, x[t], far if far < 20 else t)
    y[t] = x[t] + other if t < 4 or t >= 16 else x[t]


def _row(n, size):
    return lambda rng: (rng.standard_normal(n).astype(np.float32), np.zeros(size, np.float32))


def _shifted(x, y):
    return {1: np.concatenate([x[1:], x[-1:]])}


def _crossed(x, y):
    right = x.copy()
    right[:4] += x[16:]
    right[16:] += x[:4]
    return {1: right}


ZOO = [
    Specimen(
        tree_over_a_ragged_block,
        tree_over_a_ragged_block_inside,
        1,
        24,
        _row(24, 16),
        lambda x, y: {1: x[:16] + x[8:24]},
    ),
    Specimen(neighbour_beyond_the_block, neighbour_inside_the_block, 1, 20, _row(20, 20), _shifted),
    Specimen(butterfly_across_the_edge, butterfly_inside, 1, 20, _row(20, 20), _crossed),
]
