"""The four dtypes that the norms take, their Numba types, and the dtype that statistics have."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numba
import numpy as np
from numba.cuda import types

FLOATS: dict[np.dtype[Any], Any] = {
    np.dtype(np.float16): numba.types.float16,
    np.dtype(ml_dtypes.bfloat16): getattr(types, "bfloat16", None),
    np.dtype(np.float32): numba.float32,
    np.dtype(np.float64): numba.float64,
}
"""The dtypes that the norms take, and Numba's types for them (Numba without numba-cuda has no bfloat16)."""

NAMED: dict[str, np.dtype[Any]] = {dtype.name: dtype for dtype in FLOATS}
"""The same dtypes by name: NumPy alone does not know the name bfloat16."""


def numba_type(dtype: np.dtype[Any]) -> Any:
    """Numba's type of an element of this dtype.  TypeError where Numba has none."""
    if FLOATS[dtype] is None:
        raise TypeError(f"{dtype} needs the package numba-cuda; Numba's own CUDA target does not know it")
    return FLOATS[dtype]


def compute_dtype(*dtypes: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of statistics: float64 where one of ``dtypes`` is float64, float32 for everything narrower."""
    return np.dtype(np.float64 if np.dtype(np.float64) in dtypes else np.float32)


def compute_dtype_of(*arrays: np.ndarray | None) -> np.dtype[Any]:
    """The dtype of statistics of these arrays, of which some may be absent."""
    return compute_dtype(*(array.dtype for array in arrays if array is not None))
