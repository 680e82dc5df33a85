"""Dynamic shared arrays that all start at one place."""

import numpy as np
from numba import cuda, float32, int32

from tests.zoo.specimen import Specimen


@cuda.jit
def two_arrays_at_one_place(x, keys, y):
    values = cuda.shared.array(0, float32)
    order = cuda.shared.array(0, int32)
    t = cuda.threadIdx.x
    values[t] = x[t]
    order[t] = keys[t]
    cuda.syncthreads()
    y[t] = values[t] + float32(order[t])  # zoo: shared-overlap


@cuda.jit
def two_slices_of_one_array(x, keys, y):
    whole = cuda.shared.array(0, float32)
    values = whole[:64]
    order = whole[64:128]
    t = cuda.threadIdx.x
    values[t] = x[t]
    order[t] = float32(keys[t])
    cuda.syncthreads()
    y[t] = values[t] + order[t]


@cuda.jit
def slices_that_meet(x, keys, y):
    whole = cuda.shared.array(0, float32)
    sums = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    whole[t] = x[t]
    cuda.syncthreads()
    if t == 0:
        sums[0] = float32(keys[0])
    cuda.syncthreads()
    y[t] = whole[t] + sums[0]  # zoo: shared-overlap


@cuda.jit
def slices_that_do_not_meet(x, keys, y):
    whole = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    whole[t] = x[t]
    if t == 0:
        whole[64] = float32(keys[0])
    cuda.syncthreads()
    y[t] = whole[t] + whole[64]


@cuda.jit(device=True)
def own_scratch(value):
    scratch = cuda.shared.array(0, float32)
    scratch[cuda.threadIdx.x] = value
    cuda.syncthreads()
    return scratch[63 - cuda.threadIdx.x]


@cuda.jit
def helper_with_its_own_scratch(x, keys, y):
    tile = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    other = own_scratch(float32(keys[t]))
    cuda.syncthreads()
    y[t] = tile[t] + other  # zoo: shared-overlap


@cuda.jit(device=True)
def given_scratch(scratch, value):
    scratch[cuda.threadIdx.x] = value
    cuda.syncthreads()
    return scratch[63 - cuda.threadIdx.x]


@cuda.jit
def helper_with_given_scratch(x, keys, y):
    whole = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    whole[t] = x[t]
    cuda.syncthreads()
    other = given_scratch(whole[64:128], float32(keys[t]))
    y[t] = whole[t] + other


def _args(rng):
    return (
        rng.integers(-9, 9, 64).astype(np.float32),
        rng.permutation(64).astype(np.int32),
        np.zeros(64, np.float32),
    )


def _turned(x, keys, y):
    return {2: x + keys[::-1]}


ZOO = [
    Specimen(two_arrays_at_one_place, two_slices_of_one_array, 1, 64, _args, lambda x, k, y: {2: x + k}, 512),
    Specimen(slices_that_meet, slices_that_do_not_meet, 1, 64, _args, lambda x, k, y: {2: x + k[0]}, 512),
    Specimen(helper_with_its_own_scratch, helper_with_given_scratch, 1, 64, _args, _turned, 512),
]
