"""Threads that wait for what never comes."""

import numpy as np
from numba import cuda

from tests.zoo.specimen import Specimen


@cuda.jit
def lock_never_released(lock, total):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:  # zoo: deadlock
        pass
    total[0] += 1
    cuda.threadfence()


@cuda.jit
def lock_released(lock, total):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    total[0] += 1
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


@cuda.jit
def flag_that_nobody_sets(ready, y):
    if cuda.threadIdx.x == 32:
        while cuda.atomic.add(ready, 0, 0) == 0:  # zoo: deadlock
            pass
    y[cuda.threadIdx.x] = 1


@cuda.jit
def flag_that_somebody_sets(ready, y):
    if cuda.threadIdx.x == 0:
        cuda.atomic.exch(ready, 0, 1)
    if cuda.threadIdx.x == 32:
        while cuda.atomic.add(ready, 0, 0) == 0:
            pass
    y[cuda.threadIdx.x] = 1


@cuda.jit
def two_locks_in_two_orders(locks, total):
    if cuda.threadIdx.x < 2:
        mine = cuda.threadIdx.x
        while cuda.atomic.cas(locks, mine, 0, 1) != 0:
            pass
        cuda.syncwarp(0x3)
        while cuda.atomic.cas(locks, 1 - mine, 0, 1) != 0:  # zoo: deadlock
            pass
        cuda.atomic.add(total, 0, 1)
        cuda.atomic.exch(locks, 1 - mine, 0)
        cuda.atomic.exch(locks, mine, 0)


@cuda.jit
def two_locks_in_one_order(locks, total):
    if cuda.threadIdx.x < 2:
        while cuda.atomic.cas(locks, 0, 0, 1) != 0:
            pass
        while cuda.atomic.cas(locks, 1, 0, 1) != 0:
            pass
        cuda.atomic.add(total, 0, 1)
        cuda.atomic.exch(locks, 1, 0)
        cuda.atomic.exch(locks, 0, 0)


def _zeros(*sizes):
    return lambda rng: tuple(np.zeros(n, np.int32) for n in sizes)


ZOO = [
    Specimen(lock_never_released, lock_released, 1, 8, _zeros(1, 1), lambda lock, total: {0: [0], 1: [8]}, steps=2_000),
    Specimen(
        flag_that_nobody_sets,
        flag_that_somebody_sets,
        1,
        64,
        _zeros(1, 64),
        lambda ready, y: {1: np.ones(64)},
        steps=2_000,
    ),
    Specimen(
        two_locks_in_two_orders,
        two_locks_in_one_order,
        1,
        32,
        _zeros(2, 1),
        lambda locks, total: {1: [2]},
        steps=2_000,
    ),
]
