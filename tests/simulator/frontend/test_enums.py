"""Members of enumerations: constants, arguments, comparisons; those of an IntEnum compute like integers."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Any

import numpy as np
import pytest
from numba import cuda, int16

Run = Callable[..., Any]


class Mode(Enum):
    copy = 1
    scale = 2
    same_as_scale = 2


class Size(Enum):
    small = (1.5, 2)
    large = (3.5, 2)


class Code(IntEnum):
    ok = 0
    missing = 404


class Other(IntEnum):
    missing = 404


def test_members_are_constants_of_a_kernel(run: Run) -> None:
    @cuda.jit(device=True)
    def pick(i):
        if i == 0:
            return Mode.copy
        return Mode["scale"]

    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        mode = pick(i)
        out[i, 0] = mode == Mode.copy
        out[i, 1] = mode is Mode.same_as_scale
        out[i, 2] = mode != Mode.scale
        out[i, 3] = mode.value
        size = Size.small if i else Size.large
        out[i, 4] = size == Size.large
        out[i, 5] = size is not Size.small

    assert run(kernel, 1, 2, np.zeros((2, 6))).tolist() == [[1, 0, 1, 1, 1, 1], [0, 1, 0, 2, 0, 0]]


@pytest.mark.parametrize("one", [Mode.copy, Mode.scale, Size.large, Code.missing])
@pytest.mark.parametrize("other", [Mode.scale, Size.large, Code.missing, Other.missing])
def test_members_are_arguments(run: Run, one: Any, other: Any) -> None:
    @cuda.jit
    def compare(a, b, out):
        out[0] = a is b
        out[1] = a is not b

    assert run(compare, 1, 1, one, other, np.zeros(2, bool)).tolist() == [one is other, one is not other]

    @cuda.jit
    def equal(a, b, out):
        out[0] = a == b
        out[1] = a != b

    if type(one) is type(other) or (isinstance(one, int) and isinstance(other, int)):
        assert run(equal, 1, 1, one, other, np.zeros(2, bool)).tolist() == [one == other, one != other]


def test_integer_members_compute_like_integers(run: Run) -> None:
    @cuda.jit
    def kernel(code, out):
        i = cuda.grid(1)
        out[i] = code + int16(Code.missing) + i if i >= Code.ok and code > i else -Code.missing
        if i == Other.missing - 402:
            out[i] = Code.missing

    assert run(kernel, 1, 4, Code.missing, np.zeros(4, np.int64)).tolist() == [808, 809, 404, 811]
