"""The library's kernels as ready launches for the command line: the entry points of group ``simulator.kernels``.

Each hands out the very function object that the library launches for such an array, with random numbers to work on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_norms.arrays import FLOATS, compute_dtype
from numba_norms.launch import Launch
from numba_norms.layer_norm import launch as launch_layer_norm
from numba_norms.rms_norm import launch as launch_rms_norm


def rms_norm(shape: Sequence[int], dtype: Any = "float32", threads: int | None = None) -> Launch:
    """RMSNorm over the last axis of ``shape``; without ``threads``, as many as the library takes.

    >>> launch = rms_norm((2, 3, 4096), "float16")
    >>> launch.kernel.__name__, launch.grid, launch.block, launch.names
    ('rms_norm', 6, 256, ('x', 'weight', 'y', 'rstd', 'eps'))

    Raises TypeError for a dtype and ValueError for a shape or a number of threads that the kernels do not take.
    """
    x, weight, _, y, rstd, _ = _arrays(shape, dtype)
    return launch_rms_norm(x, weight, y, rstd, 1e-6, threads)


def layer_norm(shape: Sequence[int], dtype: Any = "float32", threads: int | None = None) -> Launch:
    """LayerNorm over the last axis, the variance in a second pass; as ``rms_norm``."""
    x, weight, bias, y, rstd, mean = _arrays(shape, dtype)
    return launch_layer_norm(x, weight, bias, y, mean, rstd, 1e-5, threads=threads)


def layer_norm_welford(shape: Sequence[int], dtype: Any = "float32", threads: int | None = None) -> Launch:
    """LayerNorm over the last axis, the variance by Welford's stream and Chan's merge; as ``rms_norm``."""
    x, weight, bias, y, rstd, mean = _arrays(shape, dtype)
    return launch_layer_norm(x, weight, bias, y, mean, rstd, 1e-5, variance="welford", threads=threads)


def _arrays(shape: Sequence[int], dtype: Any) -> tuple[Any, ...]:
    """x, weight, bias, y and two statistics.  The numbers are the same every time."""
    kind = _dtype(dtype)
    *leading, columns = shape
    rows = math.prod(leading)
    if rows < 1 or columns < 1:
        raise ValueError(f"shape {tuple(shape)} has no elements to normalise")
    numbers = np.random.default_rng(0)
    x, weight, bias = (numbers.standard_normal(n).astype(kind) for n in ((rows, columns), columns, columns))
    statistics = (np.empty(rows, compute_dtype(kind)) for _ in range(2))
    return x, weight, bias, np.empty_like(x), *statistics


def _dtype(dtype: Any) -> np.dtype[Any]:
    by_name = {kind.name: kind for kind in FLOATS}
    if isinstance(dtype, str) and dtype in by_name:
        return by_name[dtype]  # NumPy alone does not know the name bfloat16
    if isinstance(dtype, str) or np.dtype(dtype) not in FLOATS:
        raise TypeError(f"dtype {dtype}: the kernels take {', '.join(by_name)}")
    return np.dtype(dtype)
