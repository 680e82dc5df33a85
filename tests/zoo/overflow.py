"""Numbers that leave their type: squares in half precision, lengths of long vectors, products of indices."""

import math

import numpy as np
from numba import cuda, float32, int32

from tests.zoo.specimen import Specimen


@cuda.jit
def square_in_half(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = float32(x[i] * x[i])  # zoo: overflow


@cuda.jit
def square_in_single(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = float32(x[i]) * float32(x[i])


@cuda.jit
def sum_kept_in_half(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = np.float16(float32(x[i]) * float32(300))  # zoo: overflow


@cuda.jit
def sum_scaled_for_half(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = np.float16(float32(x[i]) * float32(0.25))


@cuda.jit
def length(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        total = x[i, 0] * x[i, 0] + x[i, 1] * x[i, 1]  # zoo: overflow
        y[i] = math.sqrt(total)


@cuda.jit
def length_scaled(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        largest = max(abs(x[i, 0]), abs(x[i, 1]))
        a, b = x[i, 0] / largest, x[i, 1] / largest
        y[i] = largest * math.sqrt(a * a + b * b)


@cuda.jit
def offset_in_32_bits(x, y, stride):
    i = cuda.grid(1)
    if i < y.size:
        offset = int32(int32(i) * int32(stride))  # zoo: overflow
        y[i] = x[offset % x.size]


@cuda.jit
def offset_in_64_bits(x, y, stride):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[i * stride % x.size]


ZOO = [
    Specimen(
        square_in_half,
        square_in_single,
        1,
        32,
        lambda rng: (np.linspace(1, 300, 32).astype(np.float16), np.zeros(32, np.float32)),
        lambda x, y: {1: x.astype(np.float32) ** 2},
    ),
    Specimen(
        sum_kept_in_half,
        sum_scaled_for_half,
        1,
        32,
        lambda rng: (np.linspace(1, 300, 32).astype(np.float16), np.zeros(32, np.float16)),
        lambda x, y: {1: x / np.float16(4)},
    ),
    Specimen(
        length,
        length_scaled,
        1,
        32,
        lambda rng: (np.float32(10) ** rng.uniform(-3, 21, (32, 2)).astype(np.float32), np.zeros(32, np.float32)),
        lambda x, y: {1: np.linalg.norm(x.astype(np.float64), axis=1)},
    ),
    Specimen(
        offset_in_32_bits,
        offset_in_64_bits,
        1,
        32,
        lambda rng: (np.arange(97, dtype=np.int32), np.zeros(32, np.int32), 100_000_000),
        lambda x, y, stride: {1: np.arange(32) * stride % 97},
    ),
]
