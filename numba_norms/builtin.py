"""The library's kernels as ready launches for the command line: the entry points of group ``simulator.kernels``.

Each hands out the very function object that the library launches for such an array, with random numbers to work on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from numba_norms.across import launch_rms_norm_across
from numba_norms.add_norm import launch_add_layer_norm, launch_add_rms_norm
from numba_norms.arguments import check_dtype
from numba_norms.arrays.dtypes import compute_dtype
from numba_norms.arrays.layouts import Channels
from numba_norms.batch_norm import statistics_launch
from numba_norms.launch import Launch
from numba_norms.layer_norm import launch as launch_layer_norm
from numba_norms.plan import check_threads, tile_across
from numba_norms.rms_norm import launch as launch_rms_norm


def rms_norm(shape: Sequence[int], dtype: Any = "float32", threads: int | None = None, path: str = "strided") -> Launch:
    """RMSNorm over the last axis of ``shape``; without ``threads``, as many as the library takes.

    ``path`` is "strided" (the textbook's kernel), "vector", "stream", or "auto" for the one that the library takes.

    >>> launch = rms_norm((2, 3, 4096), "float16")
    >>> launch.kernel.__name__, launch.grid, launch.block, launch.names
    ('rms_norm', 6, 256, ('x', 'weight', 'y', 'rstd', 'eps'))
    >>> launch = rms_norm((2, 3, 4096), "float16", path="auto")
    >>> launch.kernel.__name__, launch.grid, launch.block
    ('rms_norm_vector', 6, 256)

    Raises TypeError for a dtype and ValueError for a shape, a path or a number of threads that no kernel takes.
    """
    x, weight, _, y, rstd, _ = _arrays(shape, dtype)
    return launch_rms_norm(x, weight, y, rstd, 1e-6, threads, path=path)


def rms_norm_across(shape: Sequence[int], dtype: Any = "float32", threads: int | None = None) -> Launch:
    """RMSNorm over the first axis of [n_embd, n_tokens]: neighbouring lanes take neighbouring tokens; as ``rms_norm``.

    >>> launch = rms_norm_across((768, 100), "float16")
    >>> launch.kernel.__name__, launch.grid, launch.block, launch.argument("x").shape
    ('rms_norm_across', 4, 512, (1, 768, 100))
    """
    kind = check_dtype("dtype", dtype)
    if len(shape) != 2 or shape[0] < 2 or shape[1] < 2:
        raise ValueError(f"shape {tuple(shape)}: rms_norm_across needs elements and tokens, as in 768x100")
    tokens, weight, _, _, rstd, _ = _arrays(shape[::-1], kind)
    x = np.ascontiguousarray(tokens.T)[None]
    wish = None if threads is None else check_threads(threads)
    tile = tile_across(shape[0], shape[1], rstd.itemsize, wish)
    return launch_rms_norm_across(x, weight, np.empty_like(x), rstd[None], 1e-6, tile=tile)


def layer_norm(
    shape: Sequence[int], dtype: Any = "float32", threads: int | None = None, path: str = "strided"
) -> Launch:
    """LayerNorm over the last axis, the variance in a second pass; as ``rms_norm``."""
    x, weight, bias, y, rstd, mean = _arrays(shape, dtype)
    return launch_layer_norm(x, weight, bias, y, mean, rstd, 1e-5, threads=threads, path=path)


def layer_norm_welford(
    shape: Sequence[int], dtype: Any = "float32", threads: int | None = None, path: str = "strided"
) -> Launch:
    """LayerNorm over the last axis, the variance by Welford's stream and Chan's merge; as ``rms_norm``."""
    x, weight, bias, y, rstd, mean = _arrays(shape, dtype)
    return launch_layer_norm(x, weight, bias, y, mean, rstd, 1e-5, variance="welford", threads=threads, path=path)


def add_rms_norm(
    shape: Sequence[int], dtype: Any = "float32", threads: int | None = None, path: str = "strided"
) -> Launch:
    """The residual addition and RMSNorm over the last axis in one launch; as ``rms_norm``.

    >>> launch = add_rms_norm((2, 3, 4096), "float16")
    >>> launch.kernel.__name__, launch.grid, launch.block, launch.names
    ('add_rms_norm', 6, 256, ('residual', 'update', 'weight', 'h', 'z', 'rstd', 'eps'))
    """
    update, weight, _, z, rstd, _ = _arrays(shape, dtype)
    residual = _another(update)
    h = np.empty_like(z)
    return launch_add_rms_norm(residual, update, weight, h, z, rstd, 1e-6, threads=threads, path=path)


def add_layer_norm(
    shape: Sequence[int], dtype: Any = "float32", threads: int | None = None, path: str = "strided"
) -> Launch:
    """The residual addition and LayerNorm over the last axis in one launch; as ``rms_norm``."""
    update, weight, bias, z, rstd, mean = _arrays(shape, dtype)
    h, residual = np.empty_like(z), _another(update)
    return launch_add_layer_norm(residual, update, weight, bias, h, z, mean, rstd, 1e-5, threads=threads, path=path)


def _another(x: Any) -> Any:
    """Random numbers of their own for a second input like ``x``."""
    return np.random.default_rng(1).standard_normal(x.shape).astype(x.dtype)


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
    kind = check_dtype("dtype", dtype)
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
    kind = check_dtype("dtype", dtype)
    *leading, columns = shape
    rows = math.prod(leading)
    if rows < 1 or columns < 1:
        raise ValueError(f"shape {tuple(shape)} has no elements to normalise")
    numbers = np.random.default_rng(0)
    x, weight, bias = (numbers.standard_normal(n).astype(kind) for n in ((rows, columns), columns, columns))
    statistics = (np.empty(rows, compute_dtype(kind)) for _ in range(2))
    return x, weight, bias, np.empty_like(x), *statistics
