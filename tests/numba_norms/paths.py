"""Every norm by one calling convention and on a path of choice, beside its reference in float64."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from numba_norms import reference
from numba_norms.arrays.places import NUMPY
from numba_norms.launch import Launch
from tests.tolerances import COMPUTE

NORMS = ("rms_norm", "layer_norm", "add_rms_norm", "add_layer_norm")


@dataclass
class Case:
    """Inputs of a norm and room for its results."""

    norm: str
    x: Any
    update: Any
    weight: Any
    bias: Any
    h: Any
    y: Any
    mean: Any
    rstd: Any

    @classmethod
    def random(cls, norm: str, rows: int, columns: int, dtype: Any, *, weight: Any = None, seed: int = 0) -> "Case":
        """Normal numbers; ``weight`` is the dtype of weight and bias, that of ``x`` unless given."""
        draw = np.random.default_rng(rows + columns + seed).standard_normal
        x, update = (draw((rows, columns)).astype(dtype) for _ in range(2))
        parameters = [draw(columns).astype(weight or dtype) for _ in range(2)]
        mean, rstd = (np.full(rows, -7, COMPUTE[np.dtype(dtype)]) for _ in range(2))
        return cls(norm, x, update, *parameters, np.full_like(x, -7), np.full_like(x, -7), mean, rstd)

    def launch(self, path: str = "auto", **options: Any) -> Launch:
        """The launch on this path."""
        added = self.norm.startswith("add_")
        rows = (self.x, self.update) if added else (self.x,)
        parameters = (self.weight, self.bias) if self.norm.endswith("layer_norm") else (self.weight,)
        results = (self.h, self.y) if added else (self.y,)
        statistics = (self.mean, self.rstd) if self.norm.endswith("layer_norm") else (self.rstd,)
        make = (
            getattr(import_module("numba_norms.add_norm"), f"launch_{self.norm}")
            if added
            else import_module(f"numba_norms.{self.norm}").launch
        )
        return make(*rows, *parameters, *results, *statistics, self.eps, path=path, **options)

    @property
    def eps(self) -> float:
        return 1e-5 if self.norm.endswith("layer_norm") else 1e-6

    def run(self, path: str = "auto", **options: Any) -> Launch:
        """Launch it on the simulator; gives the launch."""
        launch = self.launch(path, **options)
        launch.run(NUMPY)
        return launch

    @property
    def summed(self) -> Any:
        """What is normalised, in float64 (the sum of two float32 numbers is rounded to float32)."""
        if not self.norm.startswith("add_"):
            return self.x.astype(np.float64)
        compute = COMPUTE[self.x.dtype]
        return (self.x.astype(compute) + self.update.astype(compute)).astype(np.float64)

    @property
    def expected(self) -> Any:
        """``y`` in float64."""
        if self.norm.endswith("layer_norm"):
            return reference.layer_norm(self.summed, self.weight, self.bias, eps=self.eps)
        return reference.rms_norm(self.summed, self.weight, eps=self.eps)
