"""Barriers that are named but not called: Python evaluates the name and goes on."""

import numpy as np
from numba import cuda, float32

from tests.zoo.specimen import Specimen


@cuda.jit
def reversed_without_call(x, y):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]  # zoo: race-shared
    cuda.syncthreads  # zoo: barrier-not-called
    y[t] = tile[63 - t]  # zoo: race-shared


@cuda.jit
def reversed_with_call(x, y):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    y[t] = tile[63 - t]


@cuda.jit
def neighbour_in_warp_without_call(x, y):
    tile = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]  # zoo: race-shared
    cuda.syncwarp  # zoo: barrier-not-called
    y[t] = tile[t ^ 1]  # zoo: race-shared


@cuda.jit
def neighbour_in_warp_with_call(x, y):
    tile = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncwarp()
    y[t] = tile[t ^ 1]


@cuda.jit(device=True)
def put_without_call(tile, value):
    tile[cuda.threadIdx.x] = value  # zoo: race-shared
    cuda.syncthreads  # zoo: barrier-not-called


@cuda.jit
def helper_without_call(x, y):
    tile = cuda.shared.array(64, float32)
    put_without_call(tile, x[cuda.threadIdx.x])
    y[cuda.threadIdx.x] = tile[63 - cuda.threadIdx.x]  # zoo: race-shared


@cuda.jit(device=True)
def put_with_call(tile, value):
    tile[cuda.threadIdx.x] = value
    cuda.syncthreads()


@cuda.jit
def helper_with_call(x, y):
    tile = cuda.shared.array(64, float32)
    put_with_call(tile, x[cuda.threadIdx.x])
    y[cuda.threadIdx.x] = tile[63 - cuda.threadIdx.x]


def _row(n):
    return lambda rng: (rng.standard_normal(n).astype(np.float32), np.zeros(n, np.float32))


ZOO = [
    Specimen(reversed_without_call, reversed_with_call, 1, 64, _row(64), lambda x, y: {1: x[::-1]}),
    Specimen(
        neighbour_in_warp_without_call,
        neighbour_in_warp_with_call,
        1,
        32,
        _row(32),
        lambda x, y: {1: x.reshape(-1, 2)[:, ::-1].reshape(-1)},
    ),
    Specimen(helper_without_call, helper_with_call, 1, 64, _row(64), lambda x, y: {1: x[::-1]}),
]
