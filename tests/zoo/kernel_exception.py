"""A ``raise`` or a failed ``assert`` in a kernel: without debug=True the thread stops and nobody hears of it."""

import numpy as np
from numba import cuda

from tests.zoo.specimen import Specimen


@cuda.jit
def raises_for_a_bad_key(keys, y):
    i = cuda.grid(1)
    if i < keys.size:
        if keys[i] < 0:
            raise ValueError("a key is negative")  # zoo: kernel-exception
        y[i] = keys[i] + 1


@cuda.jit
def marks_a_bad_key(keys, y):
    i = cuda.grid(1)
    if i < keys.size:
        y[i] = keys[i] + 1 if keys[i] >= 0 else 0


@cuda.jit
def asserts_the_size(keys, y):
    i = cuda.grid(1)
    assert i < keys.size  # zoo: kernel-exception
    y[i] = max(keys[i] + 1, 0)


@cuda.jit
def asks_for_the_size(keys, y):
    i = cuda.grid(1)
    if i < keys.size:
        y[i] = max(keys[i] + 1, 0)


@cuda.jit(device=True)
def checked(key):
    if key > 40:
        raise OverflowError("a key is above 40")  # zoo: kernel-exception
    return key + 1


@cuda.jit
def helper_raises(keys, y):
    i = cuda.grid(1)
    if i < keys.size:
        y[i] = max(checked(keys[i]), 0)


@cuda.jit
def helper_bounds(keys, y):
    i = cuda.grid(1)
    if i < keys.size:
        y[i] = max(min(keys[i], 48) + 1, 0)


def _keys(rng):
    return np.arange(-1, 49, dtype=np.int32), np.zeros(50, np.int32)


ZOO = [
    Specimen(faulty, mended, 2, 32, _keys, lambda keys, y: {1: np.arange(50)})
    for faulty, mended in (
        (raises_for_a_bad_key, marks_a_bad_key),
        (asserts_the_size, asks_for_the_size),
        (helper_raises, helper_bounds),
    )
]
