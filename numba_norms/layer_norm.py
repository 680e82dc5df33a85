"""layer_norm: checks, allocation, the choice of kernel, and its launch."""

from __future__ import annotations

from typing import Any

from numba_norms.across import launch_layer_norm_across
from numba_norms.arguments import (
    check_array,
    check_axes,
    check_choice,
    check_eps,
    check_flag,
    check_out,
    check_parameter,
)
from numba_norms.arrays.dtypes import compute_dtype, numba_type
from numba_norms.arrays.layouts import layout_of
from numba_norms.binding.bound import bindable
from numba_norms.kernels.layer_norm import layer_norm_kernel, layer_norm_welford_kernel
from numba_norms.launch import Launch, optional
from numba_norms.plan import choose
from numba_norms.vector import layer_launch

READS = {"two-pass": 3, "welford": 2}
"""How often the strided kernels read a row."""

VARIANCES = {"two-pass": layer_norm_kernel, "welford": layer_norm_welford_kernel}


@bindable("out")
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
        Array of float16, bfloat16, float32 or float64, any shape, any strides: of CuPy, a CUDA tensor of torch, or
        anything that lends CUDA memory by ``__cuda_array_interface__`` or DLPack.  It runs on its GPU, on its library's
        current stream.  A NumPy array runs the same kernel on the simulator.
    weight, bias
        Arrays with the shape of the normalised axes, each in any of these dtypes; None for no scaling, no shift.
    eps
        Added to the variance, inside the root.
    axis
        The axis or axes that are normalised together; everything else is a row.
    variance
        ``"two-pass"`` goes over the row again for the squares of centred values, and is the more accurate where the
        mean is large; ``"welford"`` streams once and merges (count, mean, M2) by Chan's formula.  Both do that for a
        row that does not fit into registers (``explain`` tells).
    out
        Array like ``x`` that takes the result; it may be ``x`` itself.
    return_stats
        Return ``(y, mean, rstd)``: ``rstd`` is ``1 / sqrt(variance + eps)``; both float32 (float64 for float64),
        shaped like ``x`` with normalised axes kept as 1.

    Returns
    -------
    y
        Shape, dtype and kind of ``x``; a CuPy array for what is lent.  Everything is computed in float32 (float64 for
        float64) and rounded once.  The result repeats bit for bit; a row's does not depend on how many rows lie beside
        it.  NaN and Inf stay in their row.  The variance divides by D, not by D - 1, and is never negative.

    Raises
    ------
    TypeError
        Something is no array, or not of these dtypes; arrays of two libraries are mixed; a torch-style
        ``normalized_shape`` stands where the weight belongs; ``eps`` is no number; ``out`` has another dtype or a mask;
        a tensor requires gradients.
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
    x = check_array("x", x)
    rows = layout_of(x, check_axes(axis, x))
    weight = check_parameter("weight", weight, x, rows.axes)
    bias = check_parameter("bias", bias, x, rows.axes)
    eps = check_eps(eps, x)
    check_choice("variance", variance, VARIANCES)
    check_flag("return_stats", return_stats)
    y = rows.new(x, x.dtype) if out is None else check_out(out, x, {"weight": weight, "bias": bias})
    mean, rstd = (x.new((rows.count,), compute_dtype(x.dtype)) if return_stats else None for _ in range(2))
    if rows.count:
        matrix, into = rows.matrix(x), rows.target(y)
        vectors = rows.vector(weight), rows.vector(bias)
        m, r = (array and rows.statistic(array.memory) for array in (mean, rstd))
        launch(matrix, *vectors, into.memory, m, r, eps, variance=variance).run(x.place)
        into.finish()
    if mean is None or rstd is None:
        return y.given
    return y.given, mean.given.reshape(rows.statistics), rstd.given.reshape(rows.statistics)


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
    path: str = "auto",
) -> Launch:
    """The launch for ``x``, ``y`` [rows, D], ``weight`` and ``bias`` [D] or None, ``mean`` and ``rstd`` [rows] or None.

    Rows across come as [outer, D, inner] and have statistics [outer, inner]; for them there is one path.
    """
    if x.ndim == 3:
        return launch_layer_norm_across(x, weight, bias, y, mean, rstd, eps, variance=variance)
    form = choose(
        [x, y], [weight, bias], path=path, threads=threads, streaming=variance == "welford", reads=READS[variance]
    )
    if form.tile is not None:
        return layer_launch(form, x, None, weight, bias, None, y, mean, rstd, eps)
    make, compute = VARIANCES[variance], compute_dtype(x.dtype)
    types, given = (numba_type(y.dtype), numba_type(compute)), (array is not None for array in (weight, bias, rstd))
    kernel = make(form.threads, *types, *given)
    args = (x, *optional(weight, bias), y, *optional(mean, rstd), compute.type(eps))
    return Launch(kernel, len(x), form.threads, args, ("x", "weight", "bias", "y", "mean", "rstd", "eps"), form)
