"""Python numbers as constants of a dtype: wrapped, rounded or saturated as the GPU's compiler would."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from simulator.program import FLOATS

_ROUNDED = {"f2": np.float16, "bf": ml_dtypes.bfloat16, "f4": np.float32, "f8": np.float64}


def constant(value: Any, code: str) -> int | float | bool:
    """``value`` as a Python number in the range of the dtype.

    >>> constant(0xFFFFFFFF, "i4"), constant(0.1, "f2"), constant(2, "b1")
    (-1, 0.0999755859375, True)
    >>> constant(float("inf"), "i1"), constant(-2.5, "u4"), constant(float("nan"), "i8")
    (127, 0, 0)
    """
    if code == "b1":
        return bool(value)
    if code in FLOATS:
        with np.errstate(all="ignore"):
            return float(_ROUNDED[code](value))
    bits = 8 * int(code[1])
    if isinstance(value, float | np.floating):
        return _saturated(float(value), bits, code[0] == "i")
    wrapped = int(value) & (1 << bits) - 1
    return wrapped - (1 << bits) if code[0] == "i" and wrapped >> bits - 1 else wrapped


def _saturated(value: float, bits: int, signed: bool) -> int:
    """A float as an integer: truncated, at most the dtype's extremes; NaN is 0 (as ``cvt`` of the machine)."""
    if math.isnan(value):
        return 0
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return low if value <= low else high if value >= high else int(value)


def folds(source: str, to: str) -> bool:
    """Whether a conversion of a constant can be done now (float to integer saturates: left to the machine)."""
    return to == "b1" or to in FLOATS or source not in FLOATS
