"""Double precision that nobody asked for: a literal, an accumulator, a division of whole numbers."""

import numpy as np
from numba import cuda, float32

from tests.zoo.specimen import Specimen


@cuda.jit
def literal(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * 0.1 + x[i] * x[i]  # zoo: float64


@cuda.jit
def literal_in_single(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * float32(0.1) + x[i] * x[i]


@cuda.jit
def accumulator(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        total = 0.0  # zoo: float64
        for j in range(x.shape[1]):
            total += x[i, j]
        y[i] = total


@cuda.jit
def accumulator_in_single(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        total = float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        y[i] = total


@cuda.jit
def mean_of_a_row(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        total = float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        y[i] = total / x.shape[1]  # zoo: float64


@cuda.jit
def mean_of_a_row_in_single(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        total = float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        y[i] = total / float32(x.shape[1])


@cuda.jit
def ratio_of_counts(n, y):
    i = cuda.grid(1)
    if i < n.size:
        part = (i + 1) / (n[i] + 1)  # zoo: float64
        y[i] = part * part


@cuda.jit
def ratio_of_counts_in_single(n, y):
    i = cuda.grid(1)
    if i < n.size:
        part = float32(i + 1) / float32(n[i] + 1)
        y[i] = part * part


def _row(n):
    return lambda rng: (rng.standard_normal(n).astype(np.float32), np.zeros(n, np.float32))


def _rows(rng):
    # columns in memory order: what is wrong here is the precision, not the access
    return np.asfortranarray(rng.standard_normal((64, 12)).astype(np.float32)), np.zeros(64, np.float32)


ZOO = [
    Specimen(literal, literal_in_single, 2, 32, _row(50), lambda x, y: {1: x * np.float32(0.1) + x * x}),
    Specimen(accumulator, accumulator_in_single, 2, 32, _rows, lambda x, y: {1: x.sum(1)}, rtol=1e-4),
    Specimen(mean_of_a_row, mean_of_a_row_in_single, 2, 32, _rows, lambda x, y: {1: x.mean(1)}, rtol=1e-4),
    Specimen(
        ratio_of_counts,
        ratio_of_counts_in_single,
        2,
        32,
        lambda rng: (rng.integers(1, 99, 64, np.int32), np.zeros(64, np.float32)),
        lambda n, y: {1: (np.arange(1, 65) / (n + 1)) ** 2},
    ),
]
