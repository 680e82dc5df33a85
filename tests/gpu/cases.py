"""The shapes that the paths are tested with on a card: known ahead, so that their kernels are compiled ahead.

Rules of this file: each path in its domain, around a lane, a warp, a block and a round; rows that leave a block in part
without rows; every dtype.  Nothing here needs a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from numba_norms.launch import Launch
from tests.numba_norms.paths import NORMS, Case
from tests.tolerances import BFLOAT16, FLOAT16, FLOAT32, FLOAT64


class Shape(NamedTuple):
    """One test: a norm on a path."""

    norm: str
    path: str
    rows: int
    columns: int
    dtype: np.dtype
    threads: int | None = None

    def __str__(self) -> str:
        threads = f"-{self.threads}" if self.threads else ""
        return f"{self.norm}-{self.path}-{self.rows}x{self.columns}-{self.dtype}{threads}"

    @property
    def case(self) -> Case:
        """Its numbers."""
        return Case.random(self.norm, self.rows, self.columns, self.dtype)


STRIDED = ((1, 1), (33, 31), (5, 129), (70, 4097))
VECTOR = (
    (19, 6), (37, 64), (1000, 72), (19, 130), (9, 1000),  # rows share a block, and the last block is not full
    (5, 1032), (3, 4096), (70, 5120), (2, 32768),  # a block for each row; the last lanes have less to do, or nothing
)  # fmt: skip
STREAM = ((3, 8), (4, 1030), (3, 16384), (2, 65536), (1, 131080))
NARROW = {"strided": STRIDED, "vector": VECTOR, "stream": STREAM}
WIDE = {"strided": ((5, 129),), "vector": ((19, 6), (37, 64), (5, 1032), (3, 4096)), "stream": ((4, 1030), (2, 65536))}
"""For the other dtypes."""


def shapes() -> list[Shape]:
    """All of them."""
    found = []
    for norm in NORMS:
        for dtype in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64):
            table = NARROW if dtype == FLOAT16 else WIDE
            found += [Shape(norm, path, *size, dtype) for path, sizes in table.items() for size in sizes]
        found += [Shape(norm, "vector", 3, 1000, FLOAT16, threads) for threads in (32, 1024)]
    return found


PUBLIC = ("rms_norm", "layer_norm")
PUBLIC_COLUMNS = (1, 31, 33, 129, 1000, 4096, 4097)


def every_launch() -> Iterator[Launch]:
    """The launches of these shapes, and of the public functions with float32 weights; nothing is run."""
    for shape in shapes():
        yield shape.case.launch(shape.path, threads=shape.threads)
    for norm in PUBLIC:
        for dtype in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64):
            for columns in PUBLIC_COLUMNS:
                case = replace(Case.random(norm, 1, columns, dtype, weight=FLOAT32), mean=None, rstd=None)
                yield case.launch()
                if norm == "layer_norm":
                    yield case.launch(variance="welford")
