"""What torch is asked, and the inputs: the script that asks it and the tests that compare share this file.

Inputs are made from the raw bits of PCG64, which NumPy promises to keep, so only torch's outputs are stored.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

STORE = Path(__file__).with_name("torch.npz")
DTYPES = {name: np.dtype(getattr(ml_dtypes, name, name)) for name in ("float16", "bfloat16", "float32", "float64")}
COLUMNS = (1, 2, 3, 31, 33, 127, 769, 1000, 4097)
WHOLE = 128
"""Of longer rows so many elements are stored: the first 40, the last 40, and some between."""


@dataclass(frozen=True)
class Case:
    """One call: ``over`` trailing dimensions are normalised; 0 for BatchNorm, whose channels are axis 1."""

    function: str
    dtype: str
    shape: tuple[int, ...]
    over: int = 1
    parameters: tuple[str, ...] = ()
    """weight, bias: those that are there"""
    parameter_dtype: str = ""
    mean: float = 0.0
    eps: float = 1e-5
    options: tuple[tuple[str, Any], ...] = field(default=())
    """training and momentum of BatchNorm, and channels_last, an order in memory"""

    @property
    def name(self) -> str:
        """Unique, and what a test is called."""
        words = [self.function, self.dtype, "x".join(map(str, self.shape)), f"over{self.over}" * (self.over > 1)]
        words += [*self.parameters, self.parameter_dtype, f"mean{self.mean:g}" * bool(self.mean)]
        words += [f"{key}={value}" for key, value in self.options]
        return " ".join(filter(None, words))

    @property
    def parameter_shape(self) -> tuple[int, ...]:
        """Of weight, bias and running statistics."""
        return self.shape[-self.over :] if self.over else self.shape[1:2]

    def inputs(self) -> dict[str, np.ndarray]:
        """x, and what goes with it, by name."""
        bits = np.random.PCG64(zlib.crc32(self.name.encode()))
        arrays = {"x": (self.mean + about_normal(bits, self.shape)).astype(DTYPES[self.dtype])}
        for name in self.parameters:
            values = (name == "weight") + about_normal(bits, self.parameter_shape)
            arrays[name] = values.astype(DTYPES[self.parameter_dtype or self.dtype])
        if not self.over:
            kind = DTYPES[self.parameter_dtype or self.dtype]
            arrays["running_mean"] = about_normal(bits, self.parameter_shape).astype(kind)
            arrays["running_var"] = (0.5 + about_normal(bits, self.parameter_shape) ** 2).astype(kind)
        return arrays


def about_normal(bits: np.random.PCG64, shape: tuple[int, ...]) -> np.ndarray:
    """Sums of three uniform numbers, mean 0, deviation 1: exact arithmetic, the same everywhere."""
    uniform = (bits.random_raw(3 * math.prod(shape)) >> np.uint64(32)) * 2.0**-32
    return 2 * (uniform.reshape(3, *shape).sum(0) - 1.5)


def stored_part(output: np.ndarray) -> np.ndarray:
    """The elements of an output that are stored: all, or some columns of long rows, as integers for their bits."""
    columns = output.shape[-1]
    if columns > WHOLE:
        between = np.arange(40, columns - 40, -(-(columns - 80) // (WHOLE - 80)))
        output = output[..., np.r_[:40, between, columns - 40 : columns]]
    return output


def packed(output: np.ndarray) -> np.ndarray:
    """bfloat16 as the integers of its bits, which is what an npz file can hold."""
    return output.view(np.uint16) if output.dtype == DTYPES["bfloat16"] else output


def unpacked(stored: np.ndarray) -> np.ndarray:
    """The inverse of ``packed``."""
    return stored.view(DTYPES["bfloat16"]) if stored.dtype == np.uint16 else stored


def _rows() -> list[Case]:
    """RMSNorm and LayerNorm."""
    cases = []
    for function, all_parameters in (("rms_norm", ("weight",)), ("layer_norm", ("weight", "bias"))):
        for dtype in DTYPES:
            cases += [Case(function, dtype, (3 if n < WHOLE else 2, n), 1, all_parameters) for n in COLUMNS]
            cases += [Case(function, dtype, (2, 40), 1, all_parameters[:k]) for k in range(len(all_parameters))]
        for over in (1, 2, 3, 4):
            cases.append(Case(function, "float32", (2, 3, 4, 5), over, all_parameters))
        cases.append(Case(function, "bfloat16", (2, 3, 4, 5), 2, all_parameters))
        cases.append(Case(function, "float32", (3, 50), 1, all_parameters, eps=0.5))
    for dtype, mean in (("float16", 100), ("bfloat16", 30), ("float32", 1000), ("float32", 1e4), ("float64", 1e6)):
        cases += [Case("layer_norm", dtype, (2, n), 1, ("weight", "bias"), mean=mean) for n in (33, 769)]
    for dtype in ("float16", "bfloat16"):
        cases.append(Case("layer_norm", dtype, (3, 127), 1, ("weight", "bias"), "float32"))
    return cases


def _channels() -> list[Case]:
    """BatchNorm."""
    shapes = ((5, 3), (9, 33), (2, 1), (3, 5, 4, 3), (2, 2, 65))
    cases = []
    for dtype in DTYPES:
        kept = "float32" if DTYPES[dtype].itemsize == 2 else ""
        for training in (True, False):
            options = (("training", training), ("momentum", 0.1))
            both = ("weight", "bias")
            cases += [Case("batch_norm", dtype, shape, 0, both, kept, options=options) for shape in shapes]
            cases.append(Case("batch_norm", dtype, (6, 7), 0, (), kept, options=options))
    for momentum in (0.0, 0.3, 1.0):
        options = (("training", True), ("momentum", momentum))
        cases.append(Case("batch_norm", "float32", (9, 4), 0, ("weight", "bias"), options=options))
    for training in (True, False):
        options = (("training", training), ("momentum", 0.1), ("channels_last", True))
        cases.append(Case("batch_norm", "float32", (3, 5, 4, 6), 0, ("weight", "bias"), options=options))
    options = (("training", True), ("momentum", 0.1))
    cases.append(Case("batch_norm", "float32", (40, 5), 0, ("weight", "bias"), mean=1000, options=options))
    return cases


CASES = {case.name: case for case in (*_rows(), *_channels())}
