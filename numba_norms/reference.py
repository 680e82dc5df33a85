"""The norms in plain float64 NumPy, written to be read: the oracle of tests and lessons.

Each function widens to float64, then follows its formula line by line.  Nothing here is fast, and nothing rounds to
the dtype of the input: results are float64.

>>> layer_norm([1, 2, 3, 4], eps=0).round(3)
array([-1.342, -0.447,  0.447,  1.342])
>>> rms_norm([1, 2, 3, 4], eps=0).round(3)
array([0.365, 0.73 , 1.095, 1.461])
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float64 = NDArray[np.float64]
Axis = int | tuple[int, ...]


class LayerNormSteps(NamedTuple):
    """What LayerNorm computes, in order.  Statistics keep the normalised axes as 1."""

    mean: Float64
    centred: Float64
    """x - mean"""
    variance: Float64
    """mean of centred²: divided by D, not by D - 1"""
    x_hat: Float64
    """centred / sqrt(variance + eps)"""
    y: Float64
    """weight * x_hat + bias"""


class RMSNormSteps(NamedTuple):
    """What RMSNorm computes, in order.  Statistics keep the normalised axes as 1."""

    mean_square: Float64
    """mean of x²"""
    rms: Float64
    """sqrt(mean_square + eps)"""
    x_hat: Float64
    """x / rms"""
    y: Float64
    """weight * x_hat"""


class BatchNormSteps(NamedTuple):
    """What BatchNorm computes.  ``mean`` and ``variance`` keep every axis but the channels' as 1."""

    mean: Float64
    """of the batch in training, the running mean otherwise"""
    variance: Float64
    """of the batch, divided by its number of samples; the running variance otherwise"""
    y: Float64
    """weight * (x - mean) / sqrt(variance + eps) + bias"""
    running_mean: Float64 | None
    """after this batch; in inference as before"""
    running_var: Float64 | None
    """after this batch; in inference as before"""


@overload
def steps(
    x: ArrayLike, kind: Literal["layer_norm"], weight: ArrayLike | None = ..., bias: ArrayLike | None = ...,
    *, eps: float = ..., axis: Axis = ...,
) -> LayerNormSteps: ...  # fmt: skip
@overload
def steps(
    x: ArrayLike, kind: Literal["rms_norm"], weight: ArrayLike | None = ..., bias: None = ...,
    *, eps: float = ..., axis: Axis = ...,
) -> RMSNormSteps: ...  # fmt: skip
def steps(
    x: ArrayLike,
    kind: str,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    eps: float = 0.0,
    axis: Axis = -1,
) -> LayerNormSteps | RMSNormSteps:
    """Every intermediate result of a norm, for a lesson.  ``eps`` is 0, as in a calculation by hand.

    >>> column = np.array([[2.0], [4.0], [4.0], [6.0]])     # [n_embd, n_tokens]: one token
    >>> found = steps(column, "layer_norm", axis=0)
    >>> found.mean, found.variance
    (array([[4.]]), array([[2.]]))
    >>> found.x_hat.ravel().round(3)
    array([-1.414,  0.   ,  0.   ,  1.414])
    >>> steps(column, "rms_norm", axis=0).mean_square
    array([[18.]])

    Raises ValueError for another ``kind``, and for a bias of RMSNorm, which has none.
    """
    if not (isinstance(kind, str) and kind in ("layer_norm", "rms_norm")):
        raise ValueError(f"kind is 'layer_norm' or 'rms_norm', not {kind!r}")
    wide = widen(x)
    if kind == "layer_norm":
        mean = wide.mean(axis=axis, keepdims=True)
        centred = wide - mean
        variance = (centred**2).mean(axis=axis, keepdims=True)
        x_hat = centred / np.sqrt(variance + eps)
        y = x_hat * along(weight, wide, axis, 1.0) + along(bias, wide, axis, 0.0)
        return LayerNormSteps(mean, centred, variance, x_hat, y)
    if bias is not None:
        raise ValueError("RMSNorm has no bias")
    mean_square = (wide**2).mean(axis=axis, keepdims=True)
    rms = np.sqrt(mean_square + eps)
    x_hat = wide / rms
    return RMSNormSteps(mean_square, rms, x_hat, x_hat * along(weight, wide, axis, 1.0))


def layer_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    eps: float = 1e-5,
    axis: Axis = -1,
) -> Float64:
    """weight * (x - mean) / sqrt(variance + eps) + bias, in float64."""
    return steps(x, "layer_norm", weight, bias, eps=eps, axis=axis).y


def rms_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    eps: float = 1e-6,
    axis: Axis = -1,
    weight_offset: float = 0.0,
) -> Float64:
    """(weight_offset + weight) * x / sqrt(mean(x²) + eps), in float64.  Without a weight there is no offset."""
    scale = None if weight is None else weight_offset + widen(weight)
    return steps(x, "rms_norm", scale, eps=eps, axis=axis).y


class Sum(NamedTuple):
    """What a residual addition and the norm after it give."""

    h: Float64
    """residual + update"""
    z: Float64
    """norm(h)"""


def add_rms_norm(
    residual: ArrayLike,
    update: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    eps: float = 1e-6,
    axis: Axis = -1,
    weight_offset: float = 0.0,
) -> Sum:
    """h = residual + update and z = rms_norm(h), in float64.

    >>> add_rms_norm([1, 1, 1, 1], [0, 1, 2, 3], eps=0).z.round(3)
    array([0.365, 0.73 , 1.095, 1.461])
    """
    h = widen(residual) + widen(update)
    return Sum(h, rms_norm(h, weight, eps=eps, axis=axis, weight_offset=weight_offset))


def add_layer_norm(
    residual: ArrayLike,
    update: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    eps: float = 1e-5,
    axis: Axis = -1,
) -> Sum:
    """h = residual + update and z = layer_norm(h), in float64.

    >>> add_layer_norm([1, 1, 1, 1], [0, 1, 2, 3], eps=0).z.round(3)
    array([-1.342, -0.447,  0.447,  1.342])
    """
    h = widen(residual) + widen(update)
    return Sum(h, layer_norm(h, weight, bias, eps=eps, axis=axis))


def batch_norm(
    x: ArrayLike,
    running_mean: ArrayLike | None,
    running_var: ArrayLike | None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    training: bool,
    momentum: float = 0.1,
    eps: float = 1e-5,
    channel_axis: int = 1,
    unbiased: bool = True,
) -> BatchNormSteps:
    """BatchNorm in float64; the running arrays are returned anew, none is changed.

    ``unbiased=False`` averages the biased variance into the running one, as ONNX does.

    >>> x = [[1.0], [2.0], [3.0]]                               # three samples of one feature
    >>> batch_norm(x, [0.0], [1.0], training=True, momentum=1).running_var
    array([1.])
    >>> batch_norm(x, [0.0], [1.0], training=True, momentum=1, unbiased=False).running_var.round(3)
    array([0.667])
    """
    wide, channel = widen(x), channel_axis
    samples = tuple(a for a in range(wide.ndim) if a != channel % wide.ndim)
    old_mean, old_var = (None if old is None else widen(old) for old in (running_mean, running_var))
    new_mean, new_var = old_mean, old_var
    if training:
        mean, variance = wide.mean(axis=samples, keepdims=True), wide.var(axis=samples, keepdims=True)
        if old_mean is not None and old_var is not None:
            spread = wide.var(axis=samples, ddof=1 if unbiased else 0)
            new_mean = (1 - momentum) * old_mean + momentum * mean.reshape(old_mean.shape)
            new_var = (1 - momentum) * old_var + momentum * spread
    elif old_mean is None or old_var is None:
        raise ValueError("inference normalises by running_mean and running_var")
    else:
        mean, variance = along(old_mean, wide, channel, 0.0), along(old_var, wide, channel, 1.0)
    x_hat = (wide - mean) / np.sqrt(variance + eps)
    y = x_hat * along(weight, wide, channel, 1.0) + along(bias, wide, channel, 0.0)
    return BatchNormSteps(mean, variance, y, new_mean, new_var)


def moments(x: ArrayLike, axis: Axis = -1) -> tuple[int, Float64, Float64]:
    """Count, mean and M2 (the sum of squared deviations), normalised axes kept as 1."""
    wide = widen(x)
    mean = wide.mean(axis=axis, keepdims=True)
    count = wide.size // max(1, mean.size)
    return count, mean, ((wide - mean) ** 2).sum(axis=axis, keepdims=True)


def widen(x: ArrayLike) -> Float64:
    """``x`` as float64: exact for every dtype that the norms take."""
    try:
        return np.asarray(x).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{type(x).__name__} is no array of numbers: {error}") from error


def along(parameter: ArrayLike | None, x: Float64, axis: Axis, absent: float) -> Any:
    """A weight or bias, given in the shape of the normalised axes, ready to be combined with ``x``.

    >>> along([1.0, 2.0], np.zeros((2, 3)), 0, 1.0).shape      # one weight per row of x
    (2, 1)
    """
    if parameter is None:
        return absent
    axes = {a % x.ndim for a in ((axis,) if isinstance(axis, int) else axis)}
    return widen(parameter).reshape([n if a in axes else 1 for a, n in enumerate(x.shape)])
