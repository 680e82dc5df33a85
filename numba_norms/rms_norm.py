"""rms_norm: checks, allocation, the choice of kernel, and its launch."""

from __future__ import annotations

from typing import Any

from numba_norms.across import launch_rms_norm_across
from numba_norms.arguments import (
    check_array,
    check_axes,
    check_choice,
    check_eps,
    check_flag,
    check_out,
    check_parameter,
    check_weight_offset,
)
from numba_norms.arrays.dtypes import compute_dtype, numba_type
from numba_norms.arrays.layouts import layout_of
from numba_norms.binding.bound import bindable
from numba_norms.kernels.rms_norm import rms_norm_kernel
from numba_norms.launch import Launch, optional
from numba_norms.plan import choose
from numba_norms.vector import rms_launch

ROUNDINGS = ("once", "llama")


@bindable("out")
def rms_norm(
    x: Any,
    weight: Any = None,
    *,
    eps: float = 1e-6,
    axis: int | tuple[int, ...] = -1,
    weight_offset: float = 0.0,
    rounding: str = "once",
    out: Any = None,
    return_stats: bool = False,
) -> Any:
    """Divide each row by its root mean square: ``(weight_offset + weight) * x / sqrt(mean(x²) + eps)``.

    Parameters
    ----------
    x
        Array of float16, bfloat16, float32 or float64, any shape, any strides: of CuPy, a CUDA tensor of torch, or
        anything that lends CUDA memory by ``__cuda_array_interface__`` or DLPack.  It runs on its GPU, on its library's
        current stream.  A NumPy array runs the same kernel on the simulator.
    weight
        Array with the shape of the normalised axes, in any of these dtypes; None for no scaling.
    eps
        Added to the mean square, inside the root (torch's default differs: the eps of float32).
    axis
        The axis or axes that are normalised together; everything else is a row.
    weight_offset
        Added to the weight, in float32 (float64 for float64): 1 for a model that stores ``weight - 1``, as Gemma does.
        A kernel is compiled for each value.
    rounding
        ``"once"``, at the end; or ``"llama"``: ``x / sqrt(...)`` is rounded to the dtype of ``x`` before it is scaled
        by the weight, and once more after, which gives the bits of Llama's own code.
    out
        Array like ``x`` that takes the result; it may be ``x`` itself.
    return_stats
        Return ``(y, rstd)``: ``rstd`` is ``1 / sqrt(mean(x²) + eps)``, float32 (float64 for
        float64), shaped like ``x`` with normalised axes kept as 1.

    Returns
    -------
    y
        Shape, dtype and kind of ``x``; a CuPy array for what is lent.  Squares, sums and the scaling are float32
        (float64 for float64), rounded once.  The result repeats bit for bit and does not depend on how many rows there
        are.  NaN and Inf stay in their row.

    Raises
    ------
    TypeError
        Something is no array, or not of these dtypes; arrays of two libraries are mixed; a torch-style
        ``normalized_shape`` stands where the weight belongs; ``eps`` or ``weight_offset`` is no number; ``out`` has
        another dtype or a mask; a tensor requires gradients.
    ValueError
        Shapes or axes do not fit, a normalised axis is empty, ``eps`` is negative or not finite (in float32,
        but for float64), ``weight_offset`` is not finite or lacks a weight, ``rounding`` is neither of the two,
        ``out`` is read-only or overlaps itself, or an input in part.

    Examples
    --------
    >>> import numpy as np
    >>> rms_norm(np.array([[1, 2, 3, 4]], np.float32))
    array([[0.3651..., 0.7302..., 1.0954..., 1.4605...]], dtype=float32)
    >>> tokens = np.array([[2.0], [4.0], [4.0], [6.0]], np.float32)     # [n_embd, n_tokens]
    >>> y, rstd = rms_norm(tokens, axis=0, eps=0, return_stats=True)
    >>> (1 / rstd**2).round(4)                                          # the mean square
    array([[18.]], dtype=float32)
    >>> rms_norm(np.ones((1, 2), np.float32), np.array([0, 0.5], np.float32), eps=0, weight_offset=1)
    array([[1. , 1.5]], dtype=float32)
    """
    x = check_array("x", x)
    rows = layout_of(x, check_axes(axis, x))
    weight = check_parameter("weight", weight, x, rows.axes)
    eps = check_eps(eps, x)
    weight_offset = check_weight_offset(weight_offset, weight, compute_dtype(x.dtype))
    check_choice("rounding", rounding, ROUNDINGS)
    check_flag("return_stats", return_stats)
    y = rows.new(x, x.dtype) if out is None else check_out(out, x, {"weight": weight})
    rstd = x.new((rows.count,), compute_dtype(x.dtype)) if return_stats else None
    if rows.count:
        matrix, vector, into = rows.matrix(x), rows.vector(weight), rows.target(y)
        results = into.memory, rstd and rows.statistic(rstd.memory)
        launch(matrix, vector, *results, eps, weight_offset=weight_offset, rounding=rounding).run(x.place)
        into.finish()
    return y.given if rstd is None else (y.given, rstd.given.reshape(rows.statistics))


def launch(
    x: Any,
    weight: Any,
    y: Any,
    rstd: Any,
    eps: float,
    threads: int | None = None,
    *,
    weight_offset: float = 0.0,
    rounding: str = "once",
    path: str = "auto",
) -> Launch:
    """The launch for ``x`` and ``y`` [rows, D], ``weight`` [D] or None and ``rstd`` [rows] or None.

    Rows across come as [outer, D, inner] and have ``rstd`` [outer, inner]; for them there is one path.
    """
    if x.ndim == 3:
        return launch_rms_norm_across(x, weight, y, rstd, eps, weight_offset=weight_offset, rounding=rounding)
    form, llama = choose([x, y], [weight], path=path, threads=threads), rounding == "llama"
    if form.tile is not None:
        return rms_launch(form, x, None, weight, None, y, rstd, eps, weight_offset=weight_offset, llama=llama)
    compute = compute_dtype(x.dtype)
    types = numba_type(y.dtype), numba_type(compute)
    kernel = rms_norm_kernel(form.threads, *types, weight is not None, weight_offset, llama, rstd is not None)
    args = (x, *optional(weight), y, *optional(rstd), compute.type(eps))
    return Launch(kernel, len(x), form.threads, args, ("x", "weight", "y", "rstd", "eps"), form)
