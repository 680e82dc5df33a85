"""The library's kernels as ready launches for the command line: the entry points of group ``simulator.kernels``.

Each hands out the very function object that the library launches for such an array, with random numbers to work on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_norms.arrays import FLOATS, Channels, compute_dtype
from numba_norms.batch_norm import statistics_launch
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


def batch_norm(shape: Sequence[int], dtype: Any = "float32", threads: int | None = None) -> Launch:
    """The statistics of BatchNorm in training, the first of its two launches; the channels are axis 1 of ``shape``.

    >>> launch = batch_norm((64, 100))                          # a block for every 32 channels
    >>> launch.kernel.__name__, launch.grid, launch.block, launch.argument("x").shape
    ('batch_norm_statistics', 4, 256, (64, 100, 1))
    >>> launch = batch_norm((2, 3, 16, 16))                     # a block for every channel
    >>> launch.grid, launch.block, launch.argument("x").shape
    (3, 64, (2, 3, 256))

    Raises as ``rms_norm`` does, and ValueError for a channel with one value.
    """
    kind = _dtype(dtype)
    if len(shape) < 2 or math.prod(shape) < 1:
        raise ValueError(f"shape {tuple(shape)}: batch_norm needs samples and channels, as in 64x32 or 8x3x32x32")
    x = np.random.default_rng(0).standard_normal(shape).astype(kind)
    channels = Channels.of(x, 1)
    if channels.samples == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {tuple(shape)}")
    mean, rstd, running_mean = (np.zeros(channels.count, compute_dtype(kind)) for _ in range(3))
    running = (running_mean, np.ones_like(running_mean))
    return statistics_launch(channels.blocks(x), mean, rstd, running, 0.1, 1e-5, threads)


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
