"""add_rms_norm and add_layer_norm: a residual addition and the norm of its sum, in one launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from numba_norms.across import launch_layer_norm_across, launch_rms_norm_across
from numba_norms.arguments import (
    check_array,
    check_axes,
    check_choice,
    check_dtype,
    check_eps,
    check_flag,
    check_out,
    check_out_pair,
    check_parameter,
    check_same_shape,
    check_weight_offset,
)
from numba_norms.arrays import Array, Target
from numba_norms.arrays.dtypes import compute_dtype, numba_type
from numba_norms.arrays.layouts import Rows, layout_of
from numba_norms.binding.bound import bindable
from numba_norms.kernels.add_norm import add_layer_norm_kernel, add_layer_norm_welford_kernel, add_rms_norm_kernel
from numba_norms.launch import Launch, optional
from numba_norms.layer_norm import READS
from numba_norms.plan import choose
from numba_norms.rms_norm import ROUNDINGS
from numba_norms.vector import layer_launch, rms_launch

VARIANCES = {"two-pass": add_layer_norm_kernel, "welford": add_layer_norm_welford_kernel}


class AddNorm(NamedTuple):
    """The new residual stream and its norm.  Peers return them the other way round: use the names."""

    h: Any
    """residual + update"""
    z: Any
    """norm(h)"""


class AddRMSNormStats(NamedTuple):
    """What ``add_rms_norm`` gives with ``return_stats``."""

    h: Any
    z: Any
    rstd: Any
    """1 / sqrt(mean(h²) + eps), normalised axes kept as 1"""


class AddLayerNormStats(NamedTuple):
    """What ``add_layer_norm`` gives with ``return_stats``."""

    h: Any
    z: Any
    mean: Any
    """mean(h), normalised axes kept as 1"""
    rstd: Any
    """1 / sqrt(variance(h) + eps), shaped like ``mean``"""


@bindable("out")
def add_rms_norm(
    residual: Any,
    update: Any,
    weight: Any = None,
    *,
    eps: float = 1e-6,
    axis: int | tuple[int, ...] = -1,
    weight_offset: float = 0.0,
    rounding: str = "once",
    out: tuple[Any, Any] = (None, None),
    residual_dtype: Any = None,
    return_stats: bool = False,
) -> Any:
    """Add a block's output to the residual stream and normalise the sum, in one launch.

    ``h = residual + update`` and ``z = (weight_offset + weight) * h / sqrt(mean(h²) + eps)``, where ``z`` is computed
    from the unrounded sum: ``h`` is rounded only to be stored.  (vLLM's CUDA kernel and Liger norm the rounded sum.)

    Parameters
    ----------
    residual, update
        Arrays of one shape, each of float16, bfloat16, float32 or float64, any strides, of any kind that ``rms_norm``
        takes.
    weight, weight_offset, rounding, eps, axis
        As for ``rms_norm``; ``rounding="llama"`` rounds to the dtype of ``update``.
    out
        ``(h_out, z_out)``, arrays that take the results, each None for a new one.  ``h_out`` may be ``residual``
        itself and ``z_out`` may be ``update`` itself, which normalises in place; no other memory may be shared.
    residual_dtype
        The dtype of ``h``; None for that of ``residual``.  float32 keeps the residual stream exact between layers.
    return_stats
        Return ``AddRMSNormStats(h, z, rstd)``: ``rstd`` is float32 (float64 where an input or ``h`` is), shaped like
        ``residual`` with normalised axes kept as 1.

    Returns
    -------
    AddNorm
        ``h`` with the dtype of ``residual`` unless ``residual_dtype``, ``z`` with that of ``update``.  The sum, the
        statistics and the scaling are float32 (float64 where an input or ``h`` is float64).

    Raises
    ------
    TypeError
        As ``rms_norm``; ``out`` is no pair; ``residual_dtype`` is none of the four.
    ValueError
        As ``rms_norm``; ``residual`` and ``update`` differ in shape; the two of ``out`` share memory.

    Examples
    --------
    >>> import numpy as np
    >>> residual, update = np.ones((1, 4), np.float32), np.array([[0, 1, 2, 3]], np.float32)
    >>> h, z = add_rms_norm(residual, update)
    >>> h
    array([[1., 2., 3., 4.]], dtype=float32)
    >>> z
    array([[0.3651..., 0.7302..., 1.0954..., 1.4605...]], dtype=float32)
    >>> half = add_rms_norm(residual.astype(np.float16), update.astype(np.float16), residual_dtype=np.float32)
    >>> half.h.dtype, half.z.dtype
    (dtype('float32'), dtype('float16'))
    >>> in_place = add_rms_norm(residual, update, out=(residual, update))
    >>> in_place.h is residual, residual
    (True, array([[1., 2., 3., 4.]], dtype=float32))
    """
    task = _Task.of(residual, update, axis, residual_dtype)
    weight = check_parameter("weight", weight, task.residual, task.rows.axes, of="residual")
    eps = check_eps(eps, task.residual, task.compute)
    weight_offset = check_weight_offset(weight_offset, weight, task.compute)
    check_choice("rounding", rounding, ROUNDINGS)
    check_flag("return_stats", return_stats)
    h, z = task.results(out, weight=weight)
    rstd = task.statistic() if return_stats else None
    if task.rows.count:
        inputs, (h_rows, z_rows) = (*task.matrices, task.rows.vector(weight)), task.targets(h, z)
        results = h_rows.memory, z_rows.memory, rstd and task.rows.statistic(rstd.memory)
        launch = launch_add_rms_norm(*inputs, *results, eps, weight_offset=weight_offset, rounding=rounding)
        launch.run(task.residual.place)
        h_rows.finish()
        z_rows.finish()
    if rstd is None:
        return AddNorm(h.given, z.given)
    return AddRMSNormStats(h.given, z.given, rstd.given.reshape(task.rows.statistics))


@bindable("out")
def add_layer_norm(
    residual: Any,
    update: Any,
    weight: Any = None,
    bias: Any = None,
    *,
    eps: float = 1e-5,
    axis: int | tuple[int, ...] = -1,
    variance: str = "two-pass",
    out: tuple[Any, Any] = (None, None),
    residual_dtype: Any = None,
    return_stats: bool = False,
) -> Any:
    """Add a block's output to the residual stream and normalise the sum by LayerNorm, in one launch.

    ``h = residual + update`` and ``z = weight * (h - mean) / sqrt(variance + eps) + bias``, where ``z`` is computed
    from the unrounded sum: ``h`` is rounded only to be stored.

    Parameters
    ----------
    residual, update, out, residual_dtype
        As for ``add_rms_norm``.
    weight, bias, eps, axis, variance
        As for ``layer_norm``.
    return_stats
        Return ``AddLayerNormStats(h, z, mean, rstd)``: both statistics float32 (float64 where an input or ``h`` is),
        shaped like ``residual`` with normalised axes kept as 1.

    Returns
    -------
    AddNorm
        As by ``add_rms_norm``.

    Raises
    ------
    TypeError
        As ``layer_norm``; ``out`` is no pair; ``residual_dtype`` is none of the four.
    ValueError
        As ``layer_norm``; ``residual`` and ``update`` differ in shape; the two of ``out`` share memory.

    Examples
    --------
    >>> import numpy as np
    >>> residual, update = np.ones((1, 4), np.float32), np.array([[0, 1, 2, 3]], np.float32)
    >>> add_layer_norm(residual, update).z.round(3)
    array([[-1.342, -0.447,  0.447,  1.342]], dtype=float32)
    >>> add_layer_norm(residual, update, return_stats=True).mean
    array([[2.5]], dtype=float32)
    """
    task = _Task.of(residual, update, axis, residual_dtype)
    weight = check_parameter("weight", weight, task.residual, task.rows.axes, of="residual")
    bias = check_parameter("bias", bias, task.residual, task.rows.axes, of="residual")
    eps = check_eps(eps, task.residual, task.compute)
    check_choice("variance", variance, VARIANCES)
    check_flag("return_stats", return_stats)
    h, z = task.results(out, weight=weight, bias=bias)
    mean, rstd = (task.statistic() if return_stats else None for _ in range(2))
    if task.rows.count:
        inputs = (*task.matrices, task.rows.vector(weight), task.rows.vector(bias))
        h_rows, z_rows = task.targets(h, z)
        m, r = (array and task.rows.statistic(array.memory) for array in (mean, rstd))
        results = h_rows.memory, z_rows.memory, m, r
        launch_add_layer_norm(*inputs, *results, eps, variance=variance).run(task.residual.place)
        h_rows.finish()
        z_rows.finish()
    if mean is None or rstd is None:
        return AddNorm(h.given, z.given)
    shape = task.rows.statistics
    return AddLayerNormStats(h.given, z.given, mean.given.reshape(shape), rstd.given.reshape(shape))


def launch_add_rms_norm(
    residual: Any,
    update: Any,
    weight: Any,
    h: Any,
    z: Any,
    rstd: Any,
    eps: float,
    *,
    weight_offset: float = 0.0,
    rounding: str = "once",
    threads: int | None = None,
    path: str = "auto",
) -> Launch:
    """The launch for the four matrices [rows, D], ``weight`` [D] or None and ``rstd`` [rows].

    Rows across come as [outer, D, inner] and have ``rstd`` [outer, inner]; for them there is one path.
    """
    if residual.ndim == 3:
        scaling: Any = {"weight_offset": weight_offset, "rounding": rounding}
        return launch_rms_norm_across(residual, weight, z, rstd, eps, update=update, h=h, **scaling)
    form, llama = choose([residual, update, h, z], [weight], path=path, threads=threads), rounding == "llama"
    if form.tile is not None:
        scaling = {"weight_offset": weight_offset, "llama": llama}
        return rms_launch(form, residual, update, weight, h, z, rstd, eps, **scaling)
    compute = compute_dtype(residual.dtype, update.dtype, h.dtype)
    types = map(numba_type, (h.dtype, z.dtype, compute))
    kernel = add_rms_norm_kernel(form.threads, *types, weight is not None, weight_offset, llama, rstd is not None)
    args = (residual, update, *optional(weight), h, z, *optional(rstd), compute.type(eps))
    names = ("residual", "update", "weight", "h", "z", "rstd", "eps")
    return Launch(kernel, len(residual), form.threads, args, names, form)


def launch_add_layer_norm(
    residual: Any,
    update: Any,
    weight: Any,
    bias: Any,
    h: Any,
    z: Any,
    mean: Any,
    rstd: Any,
    eps: float,
    *,
    variance: str = "two-pass",
    threads: int | None = None,
    path: str = "auto",
) -> Launch:
    """The launch for the four matrices [rows, D], ``weight`` and ``bias`` [D] or None, ``mean``, ``rstd`` [rows].

    Rows across come as [outer, D, inner] and have statistics [outer, inner]; for them there is one path.
    """
    if residual.ndim == 3:
        added = {"update": update, "h": h, "variance": variance}
        return launch_layer_norm_across(residual, weight, bias, z, mean, rstd, eps, **added)
    rows, parameters = [residual, update, h, z], [weight, bias]
    form = choose(rows, parameters, path=path, threads=threads, streaming=variance == "welford", reads=READS[variance])
    if form.tile is not None:
        return layer_launch(form, residual, update, weight, bias, h, z, mean, rstd, eps)
    compute = compute_dtype(residual.dtype, update.dtype, h.dtype)
    types, given = map(numba_type, (h.dtype, z.dtype, compute)), (array is not None for array in (weight, bias, rstd))
    kernel = VARIANCES[variance](form.threads, *types, *given)
    args = (residual, update, *optional(weight, bias), h, z, *optional(mean, rstd), compute.type(eps))
    names = ("residual", "update", "weight", "bias", "h", "z", "mean", "rstd", "eps")
    return Launch(kernel, len(residual), form.threads, args, names, form)


@dataclass(frozen=True)
class _Task:
    """What both norms share: two checked inputs, their rows, and the dtypes of ``h`` and of the statistics."""

    residual: Array
    update: Array
    rows: Rows
    stored: np.dtype[Any]
    compute: np.dtype[Any]

    @classmethod
    def of(cls, residual: Any, update: Any, axis: Any, residual_dtype: Any) -> _Task:
        residual, update = check_array("residual", residual), check_array("update", update)
        check_same_shape("update", update, residual, of="residual")
        rows = layout_of(residual, check_axes(axis, residual, of="residual"))
        stored = residual.dtype if residual_dtype is None else check_dtype("residual_dtype", residual_dtype)
        return cls(residual, update, rows, stored, compute_dtype(residual.dtype, update.dtype, stored))

    def results(self, out: Any, **parameters: Array | None) -> tuple[Array, Array]:
        """``h`` and ``z``: the caller's arrays, checked, or new ones."""
        residual, update = self.residual, self.update
        h, z = check_out_pair(out)
        if h is not None:
            h = check_out(h, residual, {"update": update, **parameters}, "out[0]", "residual", self.stored)
        if z is not None:
            z = check_out(z, update, {"residual": residual, **parameters}, "out[1]", "update")
        return (
            self.rows.new(residual, self.stored) if h is None else h,
            self.rows.new(update, update.dtype) if z is None else z,
        )

    def statistic(self) -> Array:
        """A new array of one number a row."""
        return self.residual.new((self.rows.count,), self.compute)

    @property
    def matrices(self) -> tuple[Any, Any]:
        """``residual`` and ``update`` as [rows, D]."""
        return self.rows.matrix(self.residual), self.rows.matrix(self.update)

    def targets(self, h: Array, z: Array) -> tuple[Target, Target]:
        """``h`` and ``z`` as [rows, D], to be written."""
        return self.rows.target(h), self.rows.target(z)
