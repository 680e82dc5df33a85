"""Arrays past what 32 bits can count, on a card with 24 GB or more: the first rows, the last, and all between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import numba_norms
from numba_norms import reference
from tests.tolerances import FLOAT16, RESULT, assert_close, condition

NORMS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "rms_norm": (numba_norms.rms_norm, reference.rms_norm),
    "layer_norm": (numba_norms.layer_norm, reference.layer_norm),
}
every_norm = pytest.mark.parametrize("norm", NORMS)

GIGABYTES = 24
STEP = 1 << 16
"""Rows that are looked at together."""


@pytest.fixture(autouse=True)
def room() -> Iterator[None]:
    """Memory for the largest of them, which is given back after each."""
    import cupy

    if cupy.cuda.Device(0).mem_info[1] < GIGABYTES * 10**9 * 0.9:
        pytest.skip(f"a card with less than {GIGABYTES} GB")
    yield
    cupy.get_default_memory_pool().free_all_blocks()


def assert_norm_in_place(norm: str, rows: int, columns: int) -> None:
    """All rows alike but the last three: all results alike, and the last three right."""
    import cupy

    function, oracle = NORMS[norm]
    numbers = np.random.default_rng(rows).standard_normal((4, columns)).astype(np.float16)
    x = cupy.empty((rows, columns), np.float16)
    x[...] = cupy.asarray(numbers[0])
    x[-3:] = cupy.asarray(numbers[1:])
    assert function(x, out=x) is x
    ends = cupy.asnumpy(cupy.concatenate([x[:1], x[-3:]]))
    assert_close(ends, oracle(numbers), RESULT[FLOAT16], condition(numbers, 1e-6))
    for first in range(0, rows - 3, STEP):
        assert bool((x[first : min(first + STEP, rows - 3)] == x[0]).all()), first


@every_norm
def test_past_31_bits(norm: str) -> None:
    """2^31 + 512 elements."""
    assert_norm_in_place(norm, 2**22 + 1, 512)


@every_norm
def test_past_32_bits(norm: str) -> None:
    """2^32 + 4096 elements, 8.6 GB."""
    assert_norm_in_place(norm, 2**20 + 1, 4096)


@pytest.mark.parametrize("columns", [64, 77])
@every_norm
def test_rows_far_apart(norm: str, columns: int) -> None:
    """A row stride of 2^31 elements."""
    import cupy

    function, oracle = NORMS[norm]
    memory = cupy.zeros(2**31 + columns, np.float16)
    x = cupy.lib.stride_tricks.as_strided(memory, (2, columns), (2**32, 2))
    numbers = np.random.default_rng(columns).standard_normal((2, columns)).astype(np.float16)
    x[...] = cupy.asarray(numbers)
    y = cupy.asnumpy(function(x))
    assert_close(y, oracle(numbers), RESULT[FLOAT16], condition(numbers, 1e-6))
