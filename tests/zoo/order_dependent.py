"""Results that depend on who comes first, without a race: atomics keep what the last one left."""

import numpy as np
from numba import cuda, float32

from tests.zoo.specimen import Specimen


@cuda.jit
def positive_ones_as_they_come(x, count, found):
    i = cuda.grid(1)
    if i < x.size and x[i] > 0:
        found[cuda.atomic.add(count, 0, 1)] = x[i]  # zoo: order-dependent


@cuda.jit
def positive_ones_in_their_order(x, count, found):
    i = cuda.grid(1)
    if i < x.size and x[i] > 0:
        before = 0
        for k in range(i):
            before += x[k] > 0
        found[before] = x[i]
        cuda.atomic.add(count, 0, 1)


@cuda.jit
def rounded_sum(x, total):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(total, 0, x[i])  # zoo: order-dependent


@cuda.jit
def sum_in_one_order(x, total):
    if cuda.grid(1) == 0:
        value = float32(0)
        for k in range(x.size):
            value += x[k]
        total[0] = value


@cuda.jit
def last_one_stays(x, last):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.exch(last, 0, x[i])  # zoo: order-dependent


@cuda.jit
def greatest_one_stays(x, last):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.max(last, 0, x[i])


ZOO = [
    Specimen(
        positive_ones_as_they_come,
        positive_ones_in_their_order,
        2,
        64,
        lambda rng: (rng.integers(-9, 9, 100, np.int32), np.zeros(1, np.int32), np.zeros(100, np.int32)),
        lambda x, count, found: {1: [(x > 0).sum()], 2: np.pad(x[x > 0], (0, (x <= 0).sum()))},
    ),
    Specimen(
        rounded_sum,
        sum_in_one_order,
        2,
        64,
        lambda rng: ((10.0 ** rng.integers(-6, 7, 100)).astype(np.float32), np.zeros(1, np.float32)),
        lambda x, total: {1: [x.sum(dtype=np.float64)]},
    ),
    Specimen(
        last_one_stays,
        greatest_one_stays,
        2,
        64,
        lambda rng: (rng.permutation(100).astype(np.int32), np.zeros(1, np.int32)),
        lambda x, last: {1: [99]},
    ),
]
