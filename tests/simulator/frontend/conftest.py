"""Runs a kernel in every way that must agree, for the tests of the front end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from simulator.frontend import lower_kernel
from simulator.machine.launch import launch

WAYS: tuple[dict[str, Any], ...] = (
    {"schedule": "waves"},
    {"schedule": "waves", "values": "vector"},
    {"schedule": "splits", "order": "random", "seed": 1},
)


def bytes_of(array: np.ndarray) -> bytes:
    """All bytes of an array: of records also those between the fields, which NumPy drops."""
    return bytes(memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8)))


def _copy(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_copy, value))
    if not isinstance(value, np.ndarray) or value.base is not None:
        return value
    if value.dtype.names:  # with the bytes that lie between the fields, which NumPy does not copy
        return np.ndarray(value.shape, value.dtype, bytearray(bytes_of(value)))
    return value.copy(order="K")


def run_kernel(kernel: Any, grid: Any, block: Any, *args: Any, dynamic_shared: int = 0) -> Any:
    """The last argument's contents after the launch, which all schedules and value modes must agree on."""

    def three(extent: Any) -> tuple[int, int, int]:
        extent = (extent,) if isinstance(extent, int) else tuple(extent)
        return (*extent, 1, 1)[:3]

    program = lower_kernel(kernel, args)
    results = []
    for way in WAYS:
        copies = tuple(map(_copy, args))
        launch(program, three(grid), three(block), copies, dynamic_shared=dynamic_shared, **way)
        results.append(copies[-1])
    for other in results[1:]:
        assert bytes_of(results[0]) == bytes_of(other)
    return results[0]


@pytest.fixture
def run() -> Callable[..., Any]:
    """``run(kernel, grid, block, *args)`` gives the last argument after the launch."""
    return run_kernel
