"""A kernel that raises, for ``test_raise``: pytest rewrites the ``assert`` of test modules, and Numba knows no such."""

from __future__ import annotations

from numba import cuda


class Refused(Exception):
    """An exception of the user's."""


@cuda.jit(debug=True, opt=False)
def picky(x, y):
    i = cuda.grid(1)
    if x[i] == 1:
        raise Refused
    if x[i] == 2:
        raise Refused("two", 7)
    if x[i] == 3:
        raise ValueError("three")
    assert x[i] != 4, "not four"
    assert x[i] != 5
    y[i] = 1 / x[i]
