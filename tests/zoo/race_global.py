"""Races in global memory: blocks and threads that meet in one place without an atomic or a second launch."""

import numpy as np
from numba import cuda, float32, int32

from tests.zoo.specimen import Specimen


@cuda.jit
def total_without_atomic(x, total):
    i = cuda.grid(1)
    if i < x.size:
        total[0] += x[i]  # zoo: race-global


@cuda.jit
def total_with_atomic(x, total):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(total, 0, x[i])


@cuda.jit
def smooth_in_place(x):
    i = cuda.grid(1)
    if 0 < i < x.size:
        x[i] = (x[i] + x[i - 1]) // 2  # zoo: race-global


@cuda.jit
def difference_of_pairs(x):
    i = 2 * cuda.grid(1) + 1
    if i < x.size:
        x[i] = (x[i] + x[i - 1]) // 2


@cuda.jit
def scratch_by_thread_alone(x, scratch, y):
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    scratch[t] = x[i] * float32(2)  # zoo: race-global
    cuda.syncthreads()
    y[i] = scratch[cuda.blockDim.x - 1 - t]  # zoo: race-global


@cuda.jit
def scratch_by_thread_and_block(x, scratch, y):
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    first = cuda.blockIdx.x * cuda.blockDim.x
    scratch[first + t] = x[i] * float32(2)
    cuda.syncthreads()
    y[i] = scratch[first + cuda.blockDim.x - 1 - t]


@cuda.jit
def sum_of_sums_by_last_block(x, part, y, done):
    b = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        part[b] = x[2 * b] + x[2 * b + 1]
        cuda.threadfence()
        if cuda.atomic.add(done, 0, 1) == cuda.gridDim.x - 1:
            cuda.threadfence()
            total = float32(0)
            for k in range(part.size):
                total += part[k]
            y[0] = total


def _sums(rng):
    return rng.integers(-8, 9, 8).astype(np.float32), np.zeros(4, np.float32), np.zeros(1, np.float32)


@cuda.jit
def sum_of_sums_without_fence(x, part, y, done):
    b = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        part[b] = x[2 * b] + x[2 * b + 1]  # zoo: race-global
        if cuda.atomic.add(done, 0, 1) == cuda.gridDim.x - 1:
            total = float32(0)
            for k in range(part.size):
                total += part[k]  # zoo: race-global
            y[0] = total


@cuda.jit
def claim_without_atomic(wanted, owner):
    i = cuda.grid(1)
    seat = wanted[i]
    if owner[seat] == -1:  # zoo: race-global
        owner[seat] = i  # zoo: race-global


@cuda.jit
def claim_the_greatest(wanted, owner):
    cuda.atomic.max(owner, wanted[cuda.grid(1)], int32(cuda.grid(1)))


def _greatest(wanted, owner):
    right = owner.copy()
    np.maximum.at(right, wanted, np.arange(wanted.size, dtype=np.int32))
    return {1: right}


def _pairs(x):
    right = x.copy()
    right[1::2] = (x[1::2] + x[::2]) // 2
    return {0: right}


ZOO = [
    Specimen(
        total_without_atomic,
        total_with_atomic,
        2,
        64,
        lambda rng: (rng.integers(-8, 9, 100, np.int32), np.zeros(1, np.int32)),
        lambda x, total: {1: [x.sum()]},
    ),
    Specimen(smooth_in_place, difference_of_pairs, 2, 64, lambda rng: (rng.integers(0, 99, 128, np.int32),), _pairs),
    Specimen(
        scratch_by_thread_alone,
        scratch_by_thread_and_block,
        2,
        64,
        lambda rng: (rng.integers(-8, 9, 128).astype(np.float32), np.zeros(128, np.float32), np.zeros(128, np.float32)),
        lambda x, scratch, y: {2: 2 * x.reshape(2, 64)[:, ::-1].reshape(-1)},
    ),
    Specimen(
        sum_of_sums_without_fence,
        sum_of_sums_by_last_block,
        4,
        32,
        lambda rng: (*_sums(rng), np.zeros(1, np.int32)),
        lambda x, part, y, done: {2: [x.sum()]},
    ),
    Specimen(
        claim_without_atomic,
        claim_the_greatest,
        2,
        64,
        lambda rng: (rng.integers(0, 16, 128, np.int32), np.full(16, -1, np.int32)),
        _greatest,
    ),
]
