"""batch_norm: checks, allocation, the choice of kernels by where the channels lie, and their launches."""

from __future__ import annotations

from typing import Any

import numpy as np

from numba_norms.arguments import (
    check_array,
    check_channel_axis,
    check_eps,
    check_flag,
    check_momentum,
    check_out,
    check_per_channel,
    check_updated,
)
from numba_norms.arrays import Array
from numba_norms.arrays.dtypes import compute_dtype, numba_type
from numba_norms.arrays.layouts import Channels
from numba_norms.binding.bound import bindable
from numba_norms.kernels import batch_norm as kernels
from numba_norms.launch import Launch
from numba_norms.plan import Form, check_threads, threads_for, tile_for

PLANES = "neighbouring lanes take neighbouring elements of a channel"
TILES = "neighbouring lanes take neighbouring channels"
NORMALISING_THREADS = 256


@bindable("out", "running_mean", "running_var")
def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    *,
    training: bool,
    momentum: float = 0.1,
    eps: float = 1e-5,
    channel_axis: int = 1,
    out: Any = None,
    return_stats: bool = False,
) -> Any:
    """Centre each channel and divide it by its deviation: ``weight * (x - mean) / sqrt(variance + eps) + bias``.

    In training, mean and variance are those of the batch, over every axis but the channels'; in inference they are
    ``running_mean`` and ``running_var``, so that one sample is enough and samples do not touch each other.

    Parameters
    ----------
    x
        Array of float16, bfloat16, float32 or float64, with a channel axis, any strides, of any kind that
        ``rms_norm`` takes.
    running_mean, running_var
        Arrays [C] of any of these dtypes, float32 as a rule.  Training updates them in place,
        ``running = (1 - momentum) * running + momentum * batch``, or may have None for both; inference needs them.
    weight, bias
        Arrays [C], each in any of these dtypes; None for no scaling, no shift.
    training
        Whether the statistics are the batch's.
    momentum
        Share of the new batch in the running statistics, from 0 (they stay) to 1 (they are replaced).
    eps
        Added to the variance, inside the root.
    channel_axis
        The axis of the channels: 1 for [N, C] and [N, C, H, W], -1 for [N, H, W, C].
    out
        Array like ``x`` that takes the result; it may be ``x`` itself.
    return_stats
        In training, return ``(y, mean, rstd)`` of the batch: ``rstd`` is ``1 / sqrt(variance + eps)``; both float32
        (float64 for float64), shaped like ``x`` with every axis but the channels' kept as 1.

    Returns
    -------
    y
        Shape, dtype and kind of ``x``, and, without ``out``, its order of memory.  Everything is computed in float32
        (float64 for float64) and rounded once.  The result repeats bit for bit.  NaN and Inf stay in their channel, in
        its running statistics too.

    Notes
    -----
    Two variances: ``y`` is made with the biased one, which divides by the number of samples n; ``running_var``
    takes the unbiased one, which divides by n - 1, as in the paper and in torch.  ONNX averages the biased one: its
    running variance is smaller by the factor (n - 1) / n, with every batch.

    Training is two launches.  The first reads ``x`` once for the statistics and updates the running ones, the second
    normalises; inference is the second alone.  Channels contiguous in memory are taken 32 a block, lanes along the
    channels; otherwise a block takes a channel, lanes along its elements.

    An empty batch gives an empty result and leaves the running statistics alone; its mean and rstd are NaN.

    Raises
    ------
    TypeError
        Something is no array, or not of these dtypes; arrays of two libraries are mixed; ``training`` is no bool;
        ``momentum`` or ``eps`` is no number, or ``channel_axis`` no int; ``out`` has another dtype or a mask; a tensor
        requires gradients.
    ValueError
        Training with one value per channel; inference without running statistics, or with ``return_stats``; one
        running array without the other; shapes or the axis do not fit; ``momentum`` or ``eps`` out of range; ``out``,
        or in training a running array, is read-only or overlaps itself or an input.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1, 10], [2, 20], [3, 60]], np.float32)                       # three samples, two features
    >>> running_mean, running_var = np.zeros(2, np.float32), np.ones(2, np.float32)
    >>> batch_norm(x, running_mean, running_var, training=True, momentum=0.5).round(3)
    array([[-1.225, -0.926], [ 0.   , -0.463], [ 1.225,  1.389]], dtype=float32)
    >>> running_mean, running_var               # half way to the means 2, 30 and the unbiased variances 1, 700
    (array([ 1., 15.], dtype=float32), array([  1. , 350.5], dtype=float32))
    >>> batch_norm(x[:1], running_mean, running_var, training=False).round(3)       # one sample
    array([[ 0.   , -0.267]], dtype=float32)
    """
    x = check_array("x", x)
    axis = check_channel_axis(channel_axis, x)
    named = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    per_channel = {name: check_per_channel(name, array, x, axis) for name, array in named.items()}
    momentum, eps = check_momentum(momentum), check_eps(eps, x)
    channels = Channels.of(x, axis)
    y = None if out is None else check_out(out, x, per_channel)
    _check_mode(x, y, per_channel, channels, training, return_stats)
    y, blocks = channels.empty(x) if y is None else y, channels.blocks(x)
    mean: Any = per_channel["running_mean"]
    spread: Any = per_channel["running_var"]
    if training:
        running = None if mean is None else (mean, spread)
        mean, spread = (x.new((channels.count,), compute_dtype(x.dtype)) for _ in range(2))
        _measure(x, blocks, mean, spread, running, momentum, eps)
    if x.size:
        into = channels.target(y)
        given = (_vector(array) for array in (mean, spread, per_channel["weight"], per_channel["bias"]))
        normalising_launch(blocks, *given, y=into.memory, eps=eps, training=bool(training)).run(x.place)
        into.finish()
    if not return_stats:
        return y.given
    return y.given, *(array.given.reshape(channels.statistics) for array in (mean, spread))


def _check_mode(
    x: Array,
    out: Array | None,
    per_channel: dict[str, Array | None],
    channels: Channels,
    training: bool,
    return_stats: bool,
) -> None:
    """What training and inference ask for beyond the types and shapes."""
    given = ((name, per_channel[name]) for name in ("running_mean", "running_var"))
    running = {name: array for name, array in given if array is not None}
    check_flag("training", training)
    check_flag("return_stats", return_stats)
    if len(running) == 1:
        (name,) = running
        raise ValueError(f"{name} comes without the other; pass running_mean and running_var, or None for both")
    if not training:
        if not running:
            raise ValueError("inference normalises by running_mean and running_var; they are None")
        if return_stats:
            raise ValueError("return_stats returns the batch's statistics, which inference does not compute")
        return
    if channels.samples == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {x.shape}")
    others = {"x": x, "out": out, **per_channel}
    for name, array in running.items():
        del others[name]  # each pair once
        check_updated(name, array, others)


def _vector(array: Array | None) -> Any:
    """The numbers of the channels as kernels take them; None stays None."""
    return None if array is None else array.arranged((0,), array.shape)


def _measure(
    x: Array,
    blocks: Any,
    mean: Array,
    rstd: Array,
    running: tuple[Any, Any] | None,
    momentum: float,
    eps: float,
) -> None:
    """The statistics of ``x`` (``blocks`` [outer, C, inner]) into ``mean`` and ``rstd``; the running ones move on.

    An empty batch has NaN, and leaves the running ones alone.
    """
    if not x.size:
        for statistic in (mean, rstd):
            x.place.fill(statistic.native, np.nan)
        return
    updated = [array.target((0,), array.shape, updated=True) for array in running or ()]
    moved = (updated[0].memory, updated[1].memory) if updated else None
    statistics_launch(blocks, mean.memory, rstd.memory, moved, momentum, eps).run(x.place)
    for target in updated:
        target.finish()


def statistics_launch(
    x: Any,
    mean: Any,
    rstd: Any,
    running: tuple[Any, Any] | None,
    momentum: float,
    eps: float,
    threads: int | None = None,
) -> Launch:
    """The launch for ``x`` [outer, C, inner], ``mean`` and ``rstd`` [C], and mean and variance so far [C] or None."""
    outer, channels, inner = x.shape
    compute, wide = numba_type(mean.dtype), mean.dtype
    types = None
    if running is not None:  # what they keep is not rounded to less on the way
        wide = np.result_type(wide, *(compute_dtype(array.dtype) for array in running))
        types = (numba_type(running[0].dtype), numba_type(running[1].dtype), numba_type(wide))
    if inner > 1 or channels == 1:
        threads = threads_for(outer * inner) if threads is None else check_threads(threads)
        kernel, grid = kernels.plane_statistics_kernel(threads, compute, types), channels
        form = Form("planes", threads, None, PLANES, 1)
    else:
        usual, width = tile_for(outer, channels)
        threads = usual if threads is None else check_threads(threads)
        width = min(width, threads)
        kernel, grid = kernels.tile_statistics_kernel(threads, width, compute, types), -(-channels // width)
        form = Form("tiles", threads, None, TILES, 1)
    args = (x, mean, rstd, *(running or ((), ())), wide.type(momentum), mean.dtype.type(eps))
    names = ("x", "mean", "rstd", "running_mean", "running_var", "momentum", "eps")
    return Launch(kernel, grid, threads, args, names, form)


def normalising_launch(
    x: Any, mean: Any, spread: Any, weight: Any, bias: Any, *, y: Any, eps: float, training: bool
) -> Launch:
    """The launch for ``x`` and ``y`` [outer, C, inner]; ``spread`` is rstd in training, otherwise the variance."""
    outer, channels, inner = x.shape
    compute = compute_dtype(x.dtype)
    threads = NORMALISING_THREADS
    options = (numba_type(y.dtype), numba_type(compute), training, weight is not None, bias is not None)
    if inner > 1 or channels == 1:
        kernel = kernels.plane_normalise_kernel(threads, *options)
        grid = channels * -(-outer * inner // (threads * kernels.ROUNDS))
        form = Form("planes", threads, None, PLANES, 1)
    else:
        _, width = tile_for(outer, channels)
        kernel = kernels.tile_normalise_kernel(threads, width, *options)
        grid = -(-channels // width) * -(-outer // (threads // width * kernels.ROUNDS))
        form = Form("tiles", threads, None, TILES, 1)
    parameters = (() if parameter is None else parameter for parameter in (weight, bias))
    args = (x, mean, spread, *parameters, y, compute.type(eps))
    return Launch(kernel, grid, threads, args, ("x", "location", "spread", "weight", "bias", "y", "eps"), form)
