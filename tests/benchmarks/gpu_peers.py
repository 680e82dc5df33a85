"""The same operations by others: torch as it is and compiled, CuPy's kernels as a user would write them, and a copy.

Rules of this file: a library that is not installed, or that cannot do an operation, is left out with its reason.
Everything works on the memory of the arrays that our kernels get.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from numba_norms.arrays.dtypes import NAMED
from tests.benchmarks.gpu_points import Given, Point

Call = Callable[[], Any]


class LeftOut(Exception):
    """Why a peer is not measured."""


def copy_of(point: Point, given: Given) -> Call:
    """A copy on the device that moves as many bytes as the point must: half of them are read, half written."""
    pairs = [(given["y"], given["x"])] + ([(given["h"], given["update"])] if "h" in given else [])
    share, count = point.least_bytes // 2, len(pairs)
    sizes = [min(source.nbytes, share // count) for _, source in pairs]

    def copy() -> None:
        for (target, source), size in zip(pairs, sizes, strict=True):
            target.data.copy_from_device_async(source.data, size)

    return copy


def copied_bytes(point: Point, given: Given) -> int:
    """What ``copy_of`` moves: batch_norm's three passes are compared with two."""
    whole = (given["x"].nbytes + (given["update"].nbytes if "h" in given else 0)) * 2
    return min(whole, point.least_bytes)


# -- torch -----------------------------------------------------------------------------------------------------------


@cache
def torch_on_device() -> Any:
    """torch, if it is there and sees the card."""
    try:
        import torch
    except ImportError as error:
        raise LeftOut(f"torch is not installed ({error})") from None
    if not torch.cuda.is_available():
        raise LeftOut("torch sees no card")
    return torch


def as_torch(array: Any) -> Any:
    """A tensor over the memory of a CuPy array; bfloat16 goes by its bits."""
    torch = torch_on_device()
    if array.dtype == NAMED["bfloat16"]:
        return torch.from_dlpack(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_dlpack(array)


def torch_function(norm: str) -> Callable[..., Any]:
    """The operation in torch's words, of tensors x, weight, bias, update."""
    functional = torch_on_device().nn.functional

    def rms_norm(x: Any, weight: Any, bias: Any, update: Any) -> Any:
        return functional.rms_norm(x, (x.shape[-1],), weight, 1e-6)

    def layer_norm(x: Any, weight: Any, bias: Any, update: Any) -> Any:
        return functional.layer_norm(x, (x.shape[-1],), weight, bias, 1e-5)

    def add_rms_norm(x: Any, weight: Any, bias: Any, update: Any) -> Any:
        h = x + update
        return h, functional.rms_norm(h, (x.shape[-1],), weight, 1e-6)

    def add_layer_norm(x: Any, weight: Any, bias: Any, update: Any) -> Any:
        h = x + update
        return h, functional.layer_norm(h, (x.shape[-1],), weight, bias, 1e-5)

    def batch_norm(x: Any, weight: Any, bias: Any, update: Any) -> Any:
        return functional.batch_norm(x, None, None, weight, bias, training=True, eps=1e-5)

    def rms_norm_across(x: Any, weight: Any, bias: Any, update: Any) -> Any:
        return rms_norm(x.transpose(1, 2), weight, bias, update).transpose(1, 2)

    known = (rms_norm, layer_norm, add_rms_norm, add_layer_norm, batch_norm, rms_norm_across)
    return {function.__name__: function for function in known}[norm]


def torch_calls(point: Point, sets: list[Given], *, compiled: bool) -> list[Call]:
    """A call for each set of arrays.  LeftOut where torch is not to be had."""
    torch = torch_on_device()
    function = torch_function(point.norm)
    if compiled:
        torch._dynamo.reset()  # each shape on its own, never as a symbol
        function = torch.compile(function, dynamic=False)
    names = ("x", "weight", "bias", "update")
    tensors = [[as_torch(given[name]) if name in given else None for name in names] for given in sets]

    def bound(arguments: list[Any]) -> Call:
        return lambda: function(*arguments)

    return [bound(arguments) for arguments in tensors]


# -- CuPy ------------------------------------------------------------------------------------------------------------


@cache
def cupy_kernels() -> dict[str, Any]:
    """Two reductions and two elementwise kernels, in float32 whatever x is."""
    import cupy

    return {
        "squares": cupy.ReductionKernel("T x", "float32 s", "(float)x * (float)x", "a + b", "s = a", "0", "squares"),
        "sum": cupy.ReductionKernel("T x", "float32 s", "(float)x", "a + b", "s = a", "0", "row_sum"),
        "deviations": cupy.ReductionKernel(
            "T x, float32 mean", "float32 s",
            "((float)x - mean) * ((float)x - mean)", "a + b", "s = a", "0", "deviations",
        ),
        "rms": cupy.ElementwiseKernel(
            "T x, float32 s, T weight, float32 inverse, float32 eps", "T y",
            "y = (T)((float)x * rsqrtf(s * inverse + eps) * (float)weight)", "rms_scale",
        ),
        "layer": cupy.ElementwiseKernel(
            "T x, float32 mean, float32 s, T weight, T bias, float32 inverse, float32 eps", "T y",
            "y = (T)(((float)x - mean) * rsqrtf(s * inverse + eps) * (float)weight + (float)bias)", "layer_scale",
        ),
    }  # fmt: skip


def cupy_calls(point: Point, sets: list[Given]) -> list[Call]:
    """The norms of rows by these kernels, results into new arrays.  LeftOut for everything else."""
    if point.norm not in ("rms_norm", "layer_norm", "add_rms_norm") or point.dtype == "bfloat16":
        raise LeftOut(f"no CuPy expression is written for {point.norm} of {point.dtype}")
    kernels, inverse = cupy_kernels(), np.float32(1 / point.shape[1])

    def rms(x: Any, weight: Any, y: Any) -> Any:
        total = kernels["squares"](x, axis=1, keepdims=True)
        return kernels["rms"](x, total, weight, inverse, np.float32(1e-6), y)

    def layer(given: Given) -> Any:
        x = given["x"]
        mean = kernels["sum"](x, axis=1, keepdims=True) * inverse
        total = kernels["deviations"](x, mean, axis=1, keepdims=True)
        return kernels["layer"](x, mean, total, given["weight"], given["bias"], inverse, np.float32(1e-5), given["y"])

    def added(given: Given) -> Any:
        import cupy

        cupy.add(given["x"], given["update"], given["h"])
        return rms(given["h"], given["weight"], given["y"])

    def bound(given: Given) -> Call:
        if point.norm == "layer_norm":
            return lambda: layer(given)
        if point.norm == "add_rms_norm":
            return lambda: added(given)
        return lambda: rms(given["x"], given["weight"], given["y"])

    return [bound(given) for given in sets]
