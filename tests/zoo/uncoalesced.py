"""Requests that touch many sectors for few bytes."""

import numpy as np
from numba import cuda, float32

from tests.zoo.specimen import Specimen


@cuda.jit
def row_by_thread(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        total = float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]  # zoo: uncoalesced
        y[i] = total


@cuda.jit
def row_by_warp(x, y):
    i = cuda.grid(1) // 32
    lane = cuda.laneid
    if i < x.shape[0]:
        total = float32(0)
        for j in range(lane, x.shape[1], 32):
            total += x[i, j]
        for offset in (16, 8, 4, 2, 1):
            total += cuda.shfl_down_sync(0xFFFFFFFF, total, offset)
        if lane == 0:
            y[i] = total


@cuda.jit
def first_axis_along_x(x, y):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = x[i, j] * x[i, j]  # zoo: uncoalesced


@cuda.jit
def last_axis_along_x(x, y):
    j, i = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = x[i, j] * x[i, j]


@cuda.jit
def chunk_by_thread(x, y):
    t = cuda.grid(1)
    chunk = x.size // (cuda.gridDim.x * cuda.blockDim.x)
    for k in range(chunk):
        i = t * chunk + k
        y[i] = -x[i]  # zoo: uncoalesced


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = -x[i]


def _rows(rng):
    return rng.integers(-9, 9, (64, 64)).astype(np.float32), np.zeros(64, np.float32)


def _matrix(rng):
    return rng.integers(-9, 9, (64, 64)).astype(np.float32), np.zeros((64, 64), np.float32)


ZOO = [
    Specimen(row_by_thread, row_by_warp, 1, 64, _rows, lambda x, y: {1: x.sum(1)}, mended_launch=(16, 128, 0)),
    Specimen(first_axis_along_x, last_axis_along_x, (2, 8), (32, 8), _matrix, lambda x, y: {1: x * x}),
    Specimen(
        chunk_by_thread,
        grid_stride,
        2,
        64,
        lambda rng: (rng.standard_normal(4096).astype(np.float32), np.zeros(4096, np.float32)),
        lambda x, y: {1: -x},
    ),
]
