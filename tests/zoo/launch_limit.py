"""Launches that no card takes."""

import numpy as np
from numba import cuda, float32

from tests.zoo.specimen import Specimen


@cuda.jit  # zoo: launch-limit
def one_block_for_all(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


@cuda.jit
def blocks_for_all(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


@cuda.jit  # zoo: launch-limit
def tile_beyond_48_kb(x):
    tile = cuda.shared.array(16_384, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    x[t] = tile[31 - t]


@cuda.jit
def tile_of_the_block(x):
    tile = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    x[t] = tile[31 - t]


@cuda.jit  # zoo: launch-limit
def rows_along_y(x):
    row = cuda.blockIdx.y
    if row < x.size:
        x[row] += 1


@cuda.jit
def rows_along_x(x):
    row = cuda.blockIdx.x
    if row < x.size:
        x[row] += 1


def _row(n, dtype=np.int32):
    return lambda rng: (rng.integers(-9, 9, n).astype(dtype),)


ZOO = [
    Specimen(one_block_for_all, blocks_for_all, 1, 2000, _row(2000), lambda x: {0: x + 1}, mended_launch=(8, 256, 0)),
    Specimen(tile_beyond_48_kb, tile_of_the_block, 1, 32, _row(32, np.float32), lambda x: {0: x[::-1]}),
    Specimen(
        rows_along_y,
        rows_along_x,
        (1, 70_000),
        1,
        _row(300),
        lambda x: {0: x + 1},
        mended_launch=(300, 1, 0),
    ),
]
