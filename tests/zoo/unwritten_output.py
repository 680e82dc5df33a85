"""Outputs of which a part is never written: too few blocks, a step too wide, a guard that excludes too many."""

import numpy as np
from numba import cuda

from tests.zoo.specimen import Specimen


@cuda.jit
def thread_per_element(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] + 1  # zoo: unwritten-output


@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] + 1


@cuda.jit
def step_of_all_blocks_twice(x, y):
    for i in range(cuda.grid(1), x.size, 2 * cuda.gridsize(1)):
        y[i] = x[i] + 1  # zoo: unwritten-output


@cuda.jit
def step_of_all_blocks(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = x[i] + 1


@cuda.jit
def guard_without_the_last(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        if i < x.size - 1:
            y[i] = x[i] + 1  # zoo: unwritten-output


@cuda.jit
def guard_with_the_last(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        if i <= x.size - 1:
            y[i] = x[i] + 1


def _args(rng):
    return rng.integers(0, 9, 300, np.int32), np.zeros(300, np.int32)


ZOO = [
    Specimen(faulty, mended, 4, 64, _args, lambda x, y: {1: x + 1})
    for faulty, mended in (
        (thread_per_element, grid_stride),
        (step_of_all_blocks_twice, step_of_all_blocks),
        (guard_without_the_last, guard_with_the_last),
    )
]
