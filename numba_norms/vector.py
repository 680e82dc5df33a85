"""The launches of the kernels that keep rows in registers, whole or tile by tile: the paths *vector* and *stream*.

Rules of this file: ``plan.choose`` has found that the arrays allow it.  An addition is the same kernel with an update.
"""

from __future__ import annotations

import numpy as np

from numba_norms.arrays.dtypes import compute_dtype_of, numba_type
from numba_norms.kernels.stream import layer_norm_stream_kernel, rms_norm_stream_kernel
from numba_norms.kernels.vector import layer_norm_vector_kernel, rms_norm_vector_kernel
from numba_norms.launch import Launch, optional
from numba_norms.plan import Form

Memory = np.ndarray | None
"""An array, or None for none"""


def rms_launch(
    form: Form,
    x: np.ndarray,
    update: Memory,
    weight: Memory,
    h: Memory,
    y: np.ndarray,
    rstd: Memory,
    eps: float,
    *,
    weight_offset: float,
    llama: bool,
) -> Launch:
    """``y`` = rms_norm(``x`` + ``update``), the sum stored in ``h``."""
    make = rms_norm_stream_kernel if form.path == "stream" else rms_norm_vector_kernel
    compute = compute_dtype_of(x, update, h)
    types, given = (numba_type(y.dtype), numba_type(compute)), (update is not None, weight is not None)
    kernel = make(form.tile, *types, *given, weight_offset, llama, rstd is not None)
    args = (x, *optional(update, weight, h), y, *optional(rstd), compute.type(1 / x.shape[1]), compute.type(eps))
    names = ("x", "update", "weight", "h", "y", "rstd", "inverse", "eps")
    return Launch(kernel, form.blocks(len(x)), form.threads, args, names, form)


def layer_launch(
    form: Form,
    x: np.ndarray,
    update: Memory,
    weight: Memory,
    bias: Memory,
    h: Memory,
    y: np.ndarray,
    mean: Memory,
    rstd: Memory,
    eps: float,
) -> Launch:
    """``y`` = layer_norm(``x`` + ``update``), the sum stored in ``h``; ``mean`` and ``rstd`` are there or both not."""
    make = layer_norm_stream_kernel if form.path == "stream" else layer_norm_vector_kernel
    compute = compute_dtype_of(x, update, h)
    given = (update is not None, weight is not None, bias is not None, rstd is not None)
    kernel = make(form.tile, numba_type(compute), *given)
    inputs, statistics = (x, *optional(update, weight, bias, h)), optional(mean, rstd)
    args = (*inputs, y, *statistics, compute.type(1 / x.shape[1]), compute.type(eps))
    names = ("x", "update", "weight", "bias", "h", "y", "mean", "rstd", "inverse", "eps")
    return Launch(kernel, form.blocks(len(x)), form.threads, args, names, form)
