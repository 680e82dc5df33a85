"""Kernels that Numba refuses."""

import numpy as np
from numba import cuda, float32

from tests.zoo.specimen import Specimen


@cuda.jit
def tile_sized_at_run_time(x):
    tile = cuda.shared.array(x.size, float32)  # zoo: does-not-compile
    tile[0] = x[0]


@cuda.jit
def tile_sized_at_compile_time(x):
    tile = cuda.shared.array(32, float32)
    tile[cuda.threadIdx.x] = x[cuda.threadIdx.x] + 1
    x[cuda.threadIdx.x] = tile[cuda.threadIdx.x]


@cuda.jit
def one_name_for_two_types(x):
    value = x
    if cuda.threadIdx.x == 0:
        value = 1
    x[0] = value  # zoo: does-not-compile


@cuda.jit
def two_names(x):
    one = 1
    x[cuda.threadIdx.x] += one


@cuda.jit
def new_array_in_kernel(x):
    y = np.array([1, 2, 3]).tolist()  # zoo: does-not-compile
    x[0] = y[0]


@cuda.jit
def local_array_in_kernel(x):
    y = cuda.local.array(1, float32)
    y[0] = 1
    x[cuda.threadIdx.x] += y[0]


def _args(rng):
    return (np.arange(32, dtype=np.float32),)


ZOO = [
    Specimen(faulty, mended, 1, 32, _args, lambda x: {0: x + 1})
    for faulty, mended in (
        (tile_sized_at_run_time, tile_sized_at_compile_time),
        (one_name_for_two_types, two_names),
        (new_array_in_kernel, local_array_in_kernel),
    )
]
