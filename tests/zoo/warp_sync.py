"""Warp operations whose mask does not fit who is there."""

import numpy as np
from numba import cuda, float32

from tests.zoo.specimen import Specimen

FULL = 0xFFFFFFFF


@cuda.jit
def full_mask_in_branch(x, y):
    t = cuda.threadIdx.x
    value = x[t]
    if t < 20:
        value += cuda.shfl_down_sync(FULL, value, 1)  # zoo: warp-sync
    y[t] = value  # zoo: warp-sync


@cuda.jit
def full_mask_before_branch(x, y):
    t = cuda.threadIdx.x
    value = x[t]
    other = cuda.shfl_down_sync(FULL, value, 1)
    if t < 20:
        value += other
    y[t] = value


@cuda.jit
def reads_a_lane_that_left(x, y):
    t = cuda.threadIdx.x
    if t < 16:
        y[t] = x[t] + cuda.shfl_sync(0x0000FFFF, x[t], t + 8)  # zoo: warp-sync


@cuda.jit
def reads_lanes_that_stay(x, y):
    t = cuda.threadIdx.x
    other = cuda.shfl_sync(FULL, x[t], t + 8)
    if t < 16:
        y[t] = x[t] + other


@cuda.jit
def not_in_its_own_mask(x, y):
    t = cuda.threadIdx.x
    if t < 24:
        cuda.syncwarp(0x0000FFFF)  # zoo: warp-sync
        y[t] = x[t]


@cuda.jit
def in_its_own_mask(x, y):
    t = cuda.threadIdx.x
    if t < 24:
        cuda.syncwarp(0x00FFFFFF)
        y[t] = x[t]


@cuda.jit
def vote_after_the_rest_went_on(x, y):
    t = cuda.threadIdx.x
    i = t
    while i < x.size:
        if cuda.any_sync(FULL, x[i] > float32(0)):  # zoo: warp-sync
            y[i] = float32(1)
        i += 32
    cuda.syncwarp()  # zoo: warp-sync
    y[t] += x[t]


@cuda.jit
def vote_while_all_are_there(x, y):
    t = cuda.threadIdx.x
    for first in range(0, x.size, 32):
        i = first + t
        some = cuda.any_sync(FULL, i < x.size and x[i] > float32(0))
        if some and i < x.size:
            y[i] = float32(1)
    cuda.syncwarp()
    y[t] += x[t]


def _votes(x, y):
    right = y.copy()
    for first in range(0, x.size, 32):
        right[first : first + 32] = float((x[first : first + 32] > 0).any())
    right[:32] += x[:32]
    return {1: right}


def _row(n):
    return lambda rng: (rng.standard_normal(n).astype(np.float32), np.zeros(n, np.float32))


def _first_24(x, y):
    return {1: np.where(np.arange(32) < 24, x, 0)}


ZOO = [
    Specimen(
        full_mask_in_branch,
        full_mask_before_branch,
        1,
        32,
        _row(32),
        lambda x, y: {1: np.where(np.arange(32) < 20, x + np.roll(x, -1), x)},
    ),
    Specimen(
        reads_a_lane_that_left,
        reads_lanes_that_stay,
        1,
        32,
        _row(32),
        lambda x, y: {1: np.where(np.arange(32) < 16, x + np.roll(x, -8), 0)},
    ),
    Specimen(not_in_its_own_mask, in_its_own_mask, 1, 32, _row(32), _first_24),
    Specimen(
        vote_after_the_rest_went_on,
        vote_while_all_are_there,
        1,
        32,
        lambda rng: (np.repeat(np.float32([-1, 1]), (40, 30)), np.zeros(70, np.float32)),
        _votes,
    ),
]
