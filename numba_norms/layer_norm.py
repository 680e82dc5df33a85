"""layer_norm: checks, allocation, the choice of kernel, and its launch."""

from __future__ import annotations

from typing import Any

from numba_norms.arguments import check_array, check_axes, check_choice, check_eps, check_out, check_parameter
from numba_norms.arrays import Rows, compute_dtype, empty, numba_type
from numba_norms.kernels.layer_norm import layer_norm_kernel, layer_norm_welford_kernel
from numba_norms.launch import Launch
from numba_norms.plan import check_threads, threads_for

VARIANCES = {"two-pass": layer_norm_kernel, "welford": layer_norm_welford_kernel}


def layer_norm(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    *,
    eps: float = 1e-5,
    axis: int | tuple[int, ...] = -1,
    variance: str = "two-pass",
    out: Any = None,
    return_stats: bool = False,
) -> Any:
    """Centre each row and divide it by its deviation: ``weight * (x - mean) / sqrt(variance + eps) + bias``.

    Parameters
    ----------
    x
        NumPy or CuPy array of float16, bfloat16, float32 or float64, any shape, any strides.  A CuPy array runs on
        its GPU, on CuPy's current stream; a NumPy array runs the same kernel on the simulator.
    weight, bias
        Arrays with the shape of the normalised axes, each in any of these dtypes; None for no scaling, no shift.
    eps
        Added to the variance, inside the root.
    axis
        The axis or axes that are normalised together; everything else is a row.
    variance
        ``"two-pass"`` reads the row again for the squares of centred values, and is the more accurate where the mean
        is large; ``"welford"`` streams once and merges (count, mean, M2) by Chan's formula.
    out
        Array like ``x`` that takes the result; it may be ``x`` itself.
    return_stats
        Return ``(y, mean, rstd)``: ``rstd`` is ``1 / sqrt(variance + eps)``; both float32 (float64 for float64),
        shaped like ``x`` with normalised axes kept as 1.

    Returns
    -------
    y
        Shape and dtype of ``x``.  Everything is computed in float32 (float64 for float64) and rounded once.  The
        result repeats bit for bit and does not depend on how many rows there are.  NaN and Inf stay in their row.
        The variance divides by D, not by D - 1, and is never negative.

    Raises
    ------
    TypeError
        Something is no array, or not of these dtypes; NumPy and CuPy are mixed; a torch-style ``normalized_shape``
        stands where the weight belongs; ``eps`` is no number; ``out`` has another dtype or a mask.
    ValueError
        Shapes or axes do not fit, a normalised axis is empty, ``eps`` is negative or not finite (in float32,
        but for float64), ``variance`` is neither of the two, ``out`` is read-only or overlaps itself, or an input in
        part.

    Examples
    --------
    >>> import numpy as np
    >>> layer_norm(np.array([[1, 2, 3, 4]], np.float32)).round(3)
    array([[-1.342, -0.447,  0.447,  1.342]], dtype=float32)
    >>> tokens = np.array([[2.0], [4.0], [4.0], [6.0]], np.float32)     # [n_embd, n_tokens]
    >>> y, mean, rstd = layer_norm(tokens, axis=0, eps=0, return_stats=True)
    >>> mean, (1 / rstd**2).round(4)                                    # the variance
    (array([[4.]], dtype=float32), array([[2.]], dtype=float32))
    """
    check_array("x", x)
    rows = Rows(x.shape, check_axes(axis, x))
    check_parameter("weight", weight, x, rows.axes)
    check_parameter("bias", bias, x, rows.axes)
    eps = check_eps(eps, x)
    check_choice("variance", variance, VARIANCES)
    if out is None:
        out = empty(x.shape, x.dtype, x)
    else:
        check_out(out, x, weight=weight, bias=bias)
    mean, rstd = (empty((rows.count,), compute_dtype(x.dtype), x) for _ in range(2))
    if rows.count:
        y = rows.matrix(out)
        launch(rows.matrix(x), rows.vector(weight), rows.vector(bias), y, mean, rstd, eps, variance=variance).run()
        rows.write_back(y, out)
    return (out, mean.reshape(rows.statistics), rstd.reshape(rows.statistics)) if return_stats else out


def launch(
    x: Any,
    weight: Any,
    bias: Any,
    y: Any,
    mean: Any,
    rstd: Any,
    eps: float,
    *,
    variance: str = "two-pass",
    threads: int | None = None,
) -> Launch:
    """The launch for ``x``, ``y`` [rows, D], ``weight`` and ``bias`` [D] or None, ``mean`` and ``rstd`` [rows]."""
    rows, columns = x.shape
    threads = threads_for(columns) if threads is None else check_threads(threads)
    make = VARIANCES[variance]
    kernel = make(threads, numba_type(y.dtype), numba_type(rstd.dtype), weight is not None, bias is not None)
    parameters = (() if parameter is None else parameter for parameter in (weight, bias))
    args = (x, *parameters, y, mean, rstd, rstd.dtype.type(eps))
    return Launch(kernel, rows, threads, args, ("x", "weight", "bias", "y", "mean", "rstd", "eps"))
