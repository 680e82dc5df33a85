"""add_rms_norm and add_layer_norm: a residual addition and the norm of its sum, in one launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from numba_norms.arguments import (
    check_array,
    check_axes,
    check_choice,
    check_dtype,
    check_eps,
    check_out,
    check_out_pair,
    check_parameter,
    check_same_shape,
    check_weight_offset,
)
from numba_norms.arrays import Rows, compute_dtype, empty, numba_type
from numba_norms.kernels.add_norm import add_layer_norm_kernel, add_layer_norm_welford_kernel, add_rms_norm_kernel
from numba_norms.launch import Launch
from numba_norms.plan import check_threads, threads_for
from numba_norms.rms_norm import ROUNDINGS

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
        NumPy or CuPy arrays of one shape, each of float16, bfloat16, float32 or float64; any strides.
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
    check_parameter("weight", weight, residual, task.rows.axes, of="residual")
    eps = check_eps(eps, residual, task.compute)
    weight_offset = check_weight_offset(weight_offset, weight, task.compute)
    check_choice("rounding", rounding, ROUNDINGS)
    h, z = task.results(out, weight=weight)
    rstd = task.statistic()
    if task.rows.count:
        x, u, h_rows, z_rows = task.matrices(h, z)
        w, offset = task.rows.vector(weight), weight_offset
        launch_add_rms_norm(x, u, w, h_rows, z_rows, rstd, eps, weight_offset=offset, rounding=rounding).run()
        task.write_back(h_rows, z_rows, h, z)
    return AddRMSNormStats(h, z, rstd.reshape(task.rows.statistics)) if return_stats else AddNorm(h, z)


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
    check_parameter("weight", weight, residual, task.rows.axes, of="residual")
    check_parameter("bias", bias, residual, task.rows.axes, of="residual")
    eps = check_eps(eps, residual, task.compute)
    check_choice("variance", variance, VARIANCES)
    h, z = task.results(out, weight=weight, bias=bias)
    mean, rstd = task.statistic(), task.statistic()
    if task.rows.count:
        x, u, h_rows, z_rows = task.matrices(h, z)
        w, b = task.rows.vector(weight), task.rows.vector(bias)
        launch_add_layer_norm(x, u, w, b, h_rows, z_rows, mean, rstd, eps, variance=variance).run()
        task.write_back(h_rows, z_rows, h, z)
    if not return_stats:
        return AddNorm(h, z)
    return AddLayerNormStats(h, z, mean.reshape(task.rows.statistics), rstd.reshape(task.rows.statistics))


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
) -> Launch:
    """The launch for the four matrices [rows, D], ``weight`` [D] or None and ``rstd`` [rows]."""
    rows, columns = residual.shape
    threads = threads_for(columns) if threads is None else check_threads(threads)
    types = (numba_type(array.dtype) for array in (h, z, rstd))
    kernel = add_rms_norm_kernel(threads, *types, weight is not None, weight_offset, rounding == "llama")
    args = (residual, update, () if weight is None else weight, h, z, rstd, rstd.dtype.type(eps))
    return Launch(kernel, rows, threads, args, ("residual", "update", "weight", "h", "z", "rstd", "eps"))


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
) -> Launch:
    """The launch for the four matrices [rows, D], ``weight`` and ``bias`` [D] or None, ``mean``, ``rstd`` [rows]."""
    rows, columns = residual.shape
    threads = threads_for(columns) if threads is None else check_threads(threads)
    types = (numba_type(array.dtype) for array in (h, z, rstd))
    kernel = VARIANCES[variance](threads, *types, weight is not None, bias is not None)
    parameters = (() if parameter is None else parameter for parameter in (weight, bias))
    args = (residual, update, *parameters, h, z, mean, rstd, rstd.dtype.type(eps))
    names = ("residual", "update", "weight", "bias", "h", "z", "mean", "rstd", "eps")
    return Launch(kernel, rows, threads, args, names)


@dataclass(frozen=True)
class _Task:
    """What both norms share: two checked inputs, their rows, and the dtypes of ``h`` and of the statistics."""

    residual: Any
    update: Any
    rows: Rows
    stored: np.dtype[Any]
    compute: np.dtype[Any]

    @classmethod
    def of(cls, residual: Any, update: Any, axis: Any, residual_dtype: Any) -> _Task:
        check_array("residual", residual)
        check_array("update", update)
        check_same_shape("update", update, residual, of="residual")
        rows = Rows(residual.shape, check_axes(axis, residual, of="residual"))
        stored = residual.dtype if residual_dtype is None else check_dtype("residual_dtype", residual_dtype)
        return cls(residual, update, rows, stored, compute_dtype(residual.dtype, update.dtype, stored))

    def results(self, out: Any, **parameters: Any) -> tuple[Any, Any]:
        """``h`` and ``z``: the caller's arrays, checked, or new ones."""
        residual, update = self.residual, self.update
        h, z = check_out_pair(out)
        if h is not None:
            check_out(h, residual, name="out[0]", of="residual", dtype=self.stored, update=update, **parameters)
        if z is not None:
            check_out(z, update, name="out[1]", of="update", residual=residual, **parameters)
        return (
            empty(residual.shape, self.stored, residual) if h is None else h,
            empty(update.shape, update.dtype, update) if z is None else z,
        )

    def statistic(self) -> Any:
        """A new array of one number a row."""
        return empty((self.rows.count,), self.compute, self.residual)

    def matrices(self, h: Any, z: Any) -> list[Any]:
        """``residual``, ``update``, ``h`` and ``z`` as [rows, D]."""
        return [self.rows.matrix(array) for array in (self.residual, self.update, h, z)]

    def write_back(self, h_rows: Any, z_rows: Any, h: Any, z: Any) -> None:
        """Copy the results of a launch to where the caller wants them."""
        self.rows.write_back(h_rows, h)
        self.rows.write_back(z_rows, z)
