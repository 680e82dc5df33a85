"""Arrays on the card for the tests: there and back by their bits, and a norm on a path of choice.

Rules of this file: only copies between host and device are asked of CuPy, so that numbers of any dtype travel, and no
kernel but ours runs.  Importing this needs no CuPy.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import ml_dtypes
import numpy as np

from numba_norms.arrays import Array
from numba_norms.arrays.places import cupy_place
from numba_norms.launch import Launch
from tests.numba_norms.paths import Case

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def found() -> str:
    """The name of the first CUDA device as CuPy tells it, or "" where there is none."""
    try:
        import cupy
    except ImportError:
        return ""
    try:
        return str(cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())
    except cupy.cuda.runtime.CUDARuntimeError:
        return ""


def put(host: np.ndarray) -> Any:
    """A CuPy array with the elements of ``host``, C-contiguous."""
    import cupy

    if host.dtype == BFLOAT16:
        return cupy.asarray(np.ascontiguousarray(host).view(np.uint16)).view(BFLOAT16)
    return cupy.asarray(np.ascontiguousarray(host))


def get(array: Any) -> np.ndarray:
    """The elements of a CuPy array, which are waited for."""
    import cupy

    if array.dtype == BFLOAT16:
        return cupy.asnumpy(array.view(np.uint16)).view(BFLOAT16)
    return cupy.asnumpy(array)


def run(case: Case, path: str = "auto", **options: Any) -> Launch:
    """Launch a case on the card, on CuPy's current stream, and bring its results back into it; gives the launch."""
    names = [field.name for field in dataclasses.fields(case) if field.name != "norm"]
    native = {name: put(getattr(case, name)) for name in names}
    there = dataclasses.replace(case, **{name: Array.of(array).memory for name, array in native.items()})
    launch = there.launch(path, **options)
    launch.run(cupy_place(0))
    for name in ("h", "y", "mean", "rstd"):
        getattr(case, name)[...] = get(native[name])
    return launch
