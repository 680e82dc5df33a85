"""The launches of the kernels whose lanes go across: norms along axes that are not contiguous, the path *across*.

Rules of this file: arrays come as [outer, D, inner] (``layouts.Across``).  An addition is the same kernel with an
update.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from numba_norms.arrays.dtypes import compute_dtype_of, numba_type
from numba_norms.kernels.across import (
    Outputs,
    layer_norm_across_kernel,
    layer_norm_stream_across_kernel,
    rms_norm_across_kernel,
)
from numba_norms.kernels.tokens import Inputs, TokenTile
from numba_norms.launch import Launch, optional
from numba_norms.plan import Form, tile_across

# -- launches --------------------------------------------------------------------------------------------------------


def launch_rms_norm_across(
    x: Any,
    weight: Any,
    y: Any,
    rstd: Any,
    eps: float,
    *,
    update: Any = None,
    h: Any = None,
    weight_offset: float = 0.0,
    rounding: str = "once",
    tile: TokenTile | None = None,
) -> Launch:
    """The launch for ``x``, ``update``, ``h`` and ``y`` [outer, D, inner], ``weight`` [D], ``rstd`` [outer, inner].

    ``update`` and ``h`` are there for the norm of a sum, or both None; ``weight`` and ``rstd`` may be None.
    """
    llama, compute = rounding == "llama", compute_dtype_of(x, update, h)
    outputs = Outputs(*_stored(h, y), weight is not None, False, weight_offset, llama, rstd is not None)
    tile = _tile(x, compute, tile)
    kernel = rms_norm_across_kernel(Inputs(tile, numba_type(compute), update is not None), outputs)
    args = (x, *optional(update, weight, h), y, *optional(rstd), compute.type(1 / x.shape[1]), compute.type(eps))
    names = ("x", "update", "weight", "h", "y", "rstd", "inverse", "eps")
    return Launch(kernel, _blocks(x, tile), tile.threads, args, names, _form(tile))


def launch_layer_norm_across(
    x: Any,
    weight: Any,
    bias: Any,
    y: Any,
    mean: Any,
    rstd: Any,
    eps: float,
    *,
    update: Any = None,
    h: Any = None,
    variance: str = "two-pass",
    tile: TokenTile | None = None,
) -> Launch:
    """As ``launch_rms_norm_across``, with ``bias`` [D] or None and ``mean`` [outer, inner], there if ``rstd`` is.

    ``variance`` is that of a second pass over registers, if the tile holds all of a token, or of a merge.
    """
    compute = compute_dtype_of(x, update, h)
    outputs = Outputs(*_stored(h, y), weight is not None, bias is not None, stats=rstd is not None)
    tile = _tile(x, compute, tile)
    make = layer_norm_across_kernel if variance == "two-pass" and tile.whole else layer_norm_stream_across_kernel
    kernel = make(Inputs(tile, numba_type(compute), update is not None), outputs)
    args = (
        x,
        *optional(update, weight, bias, h),
        y,
        *optional(mean, rstd),
        compute.type(1 / x.shape[1]),
        compute.type(eps),
    )
    names = ("x", "update", "weight", "bias", "h", "y", "mean", "rstd", "inverse", "eps")
    return Launch(kernel, _blocks(x, tile), tile.threads, args, names, _form(tile))


def _stored(h: Any, y: Any) -> tuple[Any, Any]:
    """Numba's types of ``h`` and ``y``."""
    return numba_type(y.dtype if h is None else h.dtype), numba_type(y.dtype)


def _tile(x: Any, compute: np.dtype[Any], tile: TokenTile | None) -> TokenTile:
    """The tile of a launch: the one that is asked for, if kernels can trust it, or the usual one."""
    _, columns, inner = x.shape
    if tile is None:
        return tile_across(columns, inner, compute.itemsize)
    if not (tile.reach < columns <= tile.span if tile.whole else tile.span <= columns):
        raise ValueError(f"{tile} does not fit D = {columns}: its windows would reach past the end")
    return tile


def _form(tile: TokenTile) -> Form:
    """What is to be said of the launch."""
    why = f"{tile.width} neighbouring tokens a block, since they lie nearer to each other than a token's elements"
    return Form("across", tile.threads, None, why, 1 if tile.whole else 2)


def _blocks(x: Any, tile: TokenTile) -> int:
    """A block for every ``tile.width`` neighbouring tokens."""
    outer, _, inner = x.shape
    return int(outer * -(-inner // tile.width))
