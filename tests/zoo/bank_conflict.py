"""Lanes of one request that want different words of one bank."""

import numpy as np
from numba import cuda, float32

from tests.zoo.specimen import Specimen


@cuda.jit
def transpose(x, y):
    tile = cuda.shared.array((32, 32), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    for k in range(0, 32, 8):
        tile[ty + k, tx] = x[cuda.blockIdx.x, ty + k, tx]
    cuda.syncthreads()
    for k in range(0, 32, 8):
        y[cuda.blockIdx.x, ty + k, tx] = tile[tx, ty + k]  # zoo: bank-conflict


@cuda.jit
def transpose_padded(x, y):
    tile = cuda.shared.array((32, 33), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    for k in range(0, 32, 8):
        tile[ty + k, tx] = x[cuda.blockIdx.x, ty + k, tx]
    cuda.syncthreads()
    for k in range(0, 32, 8):
        y[cuda.blockIdx.x, ty + k, tx] = tile[tx, ty + k]


@cuda.jit
def tree_interleaved(x, y):
    part = cuda.shared.array(512, float32)
    t = cuda.threadIdx.x
    part[t] = x[cuda.blockIdx.x, t]
    step = 1
    while step < 512:
        cuda.syncthreads()
        first = 2 * step * t
        if first < 512:
            part[first] += part[first + step]  # zoo: bank-conflict
        step *= 2
    if t == 0:
        y[cuda.blockIdx.x] = part[0]


@cuda.jit
def tree_sequential(x, y):
    part = cuda.shared.array(512, float32)
    t = cuda.threadIdx.x
    part[t] = x[cuda.blockIdx.x, t]
    step = 256
    while step > 0:
        cuda.syncthreads()
        if t < step:
            part[t] += part[t + step]
        step //= 2
    if t == 0:
        y[cuda.blockIdx.x] = part[0]


@cuda.jit
def private_rows(x, y):
    mine = cuda.shared.array((64, 16), float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for k in range(16):
        mine[t, k] = x[cuda.blockIdx.x, k, t]  # zoo: bank-conflict
    for k in range(16):
        total += mine[t, 15 - k]  # zoo: bank-conflict
    y[cuda.blockIdx.x, t] = total


@cuda.jit
def private_columns(x, y):
    mine = cuda.shared.array((16, 64), float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for k in range(16):
        mine[k, t] = x[cuda.blockIdx.x, k, t]
    for k in range(16):
        total += mine[15 - k, t]
    y[cuda.blockIdx.x, t] = total


ZOO = [
    Specimen(
        transpose,
        transpose_padded,
        4,
        (32, 8),
        lambda rng: (rng.standard_normal((4, 32, 32)).astype(np.float32), np.zeros((4, 32, 32), np.float32)),
        lambda x, y: {1: x.swapaxes(1, 2)},
    ),
    Specimen(
        tree_interleaved,
        tree_sequential,
        4,
        512,
        lambda rng: (rng.integers(-9, 9, (4, 512)).astype(np.float32), np.zeros(4, np.float32)),
        lambda x, y: {1: x.sum(1)},
    ),
    Specimen(
        private_rows,
        private_columns,
        4,
        64,
        lambda rng: (rng.integers(-9, 9, (4, 16, 64)).astype(np.float32), np.zeros((4, 64), np.float32)),
        lambda x, y: {1: x.sum(1)},
    ),
]
