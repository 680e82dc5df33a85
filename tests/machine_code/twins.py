"""CUDA C++ of our own algorithms, compiled by nvcc: what a kernel is compared with.

The templates stand in cuda/*.cuh, one for each kernel that keeps rows in registers; a twin is one of them for the
formats and the tile of one launch.  All twins of one architecture are one run of nvcc.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from numba_norms.kernels.tile import Tile
from tests.machine_code.sass import Figures, read
from tests.machine_code.toolchain import compile_cuda

SOURCES = Path(__file__).parent / "cuda"

_TYPES = {"float16": "__half", "bfloat16": "__nv_bfloat16", "float32": "float"}


@dataclass(frozen=True)
class Twin:
    """A template of cuda/*.cuh and what it is compiled for."""

    template: str
    """``rms_norm``, ``layer_norm``, ``rms_norm_stream`` or ``layer_norm_stream``"""
    tile: Tile
    storage: str
    """The dtype of x, update, h and y"""
    parameter: str
    """The dtype of weight and bias"""
    has_update: bool
    columns: int

    def source(self, name: str) -> str:
        """CUDA C++ that makes nvcc compile it; ``name`` becomes part of the kernel's mangled name."""
        tile = f"Tile<{self.tile.lanes}, {self.tile.rows}, {self.tile.width}, {self.tile.rounds}, {self.tile.full}>"
        formats = f"{_TYPES[self.storage]}, {_TYPES[self.parameter]}"
        return (
            f"struct {name} : Norm<{formats}, {tile}, {str(self.has_update).lower()}, true> {{}};\n"
            f"template __global__ decltype({self.template}<{name}>) {self.template}<{name}>;\n"
        )


def measure_twins(twins: Iterable[Twin], capability: tuple[int, int]) -> dict[Twin, Figures]:
    """The figures of twins on one architecture."""
    names = {f"twin_{position}_": twin for position, twin in enumerate(twins)}
    source = '#include "stream.cuh"\n' + "".join(twin.source(name) for name, twin in names.items())
    found = read(compile_cuda(source, capability, SOURCES))
    return {
        twin: figures
        for kernel, figures in found.items()
        for name, twin in names.items()
        if name in kernel
    }  # fmt: skip
