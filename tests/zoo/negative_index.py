"""Indices that count from the end without anybody having meant it."""

import numpy as np
from numba import cuda, int32

from tests.zoo.specimen import Specimen


@cuda.jit
def left_neighbour_of_the_first(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] - x[i - 1]  # zoo: negative-index


@cuda.jit
def left_neighbour_of_the_others(x, y):
    i = cuda.grid(1)
    if 0 < i < x.size:
        y[i] = x[i] - x[i - 1]


@cuda.jit
def lag_from_the_wrong_end(x, y, lag):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i - lag]  # zoo: negative-index


@cuda.jit
def lag_where_there_is_one(x, y, lag):
    i = cuda.grid(1)
    if lag <= i < x.size:
        y[i] = x[i - lag]


@cuda.jit
def parent_of_the_root(parent, depth):
    i = cuda.grid(1)
    if i < parent.size:
        depth[i] = parent[parent[i]]  # zoo: negative-index


@cuda.jit
def parent_of_the_others(parent, depth):
    i = cuda.grid(1)
    if i < parent.size:
        above = parent[i]
        depth[i] = parent[above] if above >= 0 else int32(-1)


def _row(n, *more):
    return lambda rng: (rng.integers(-9, 9, n, np.int32), np.zeros(n, np.int32), *more)


def _difference(x, y):
    return {1: np.concatenate([[0], np.diff(x)])}


def _lagged(x, y, lag):
    return {1: np.concatenate([np.zeros(lag), x[:-lag]])}


def _grandparents(parent, depth):
    return {1: [parent[above] if above >= 0 else -1 for above in parent]}


ZOO = [
    Specimen(left_neighbour_of_the_first, left_neighbour_of_the_others, 2, 32, _row(50), _difference),
    Specimen(lag_from_the_wrong_end, lag_where_there_is_one, 2, 32, _row(50, 7), _lagged),
    Specimen(
        parent_of_the_root,
        parent_of_the_others,
        1,
        32,
        lambda rng: ((np.arange(31, dtype=np.int32) + 1) // 2 - 1, np.zeros(31, np.int32)),
        _grandparents,
    ),
]
