"""Special registers as values: uniform or affine wherever the launch shape allows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.machine.values import DT, Lanes

Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Geometry:
    """The launch shape: blocks in the grid, threads in a block, bytes of dynamic shared memory."""

    grid: Dim3
    block: Dim3
    dynamic_shared: int = 0

    @property
    def blocks(self) -> int:
        """Blocks in the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """Threads in a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def padded(self) -> int:
        """Threads in a block, rounded up to whole warps."""
        return -(-self.threads // 32) * 32

    def row(self, lanes: int) -> int | None:
        """Lanes per row when a group of ``lanes`` lanes forms whole rows of a two-dimensional block."""
        x, y, z = self.block
        whole = y > 1 and z == 1 and x < lanes and lanes % x == 0 and self.threads == self.padded
        return x if whole else None


def register(name: str, dtype: str, lanes: Lanes, geometry: Geometry) -> Any:
    """The value of a special register for the lanes of a group."""
    base, _, axis = name.partition(".")
    k = "xyz".index(axis) if axis else 0
    match base:
        case "ntid":
            return geometry.block[k]
        case "nctaid":
            return geometry.grid[k]
        case "dynamic_smem_size":
            return geometry.dynamic_shared
        case "tid":
            return _thread(k, dtype, lanes, geometry)
        case "ctaid":
            return _block(k, dtype, lanes, geometry)
        case "laneid":
            return lanes.affine(0, 0, 1, dtype) if lanes.P == 32 and lanes.nx == 32 else _lane(lanes, dtype)
        case "lanemask_lt":
            return (np.left_shift(np.int64(1), lanes.lane % 32) - 1).astype(DT[dtype])
    raise AssertionError(name)


def _lane(lanes: Lanes, dtype: str) -> np.ndarray:
    return np.asarray((lanes.lane % 32).astype(DT[dtype]))


def _thread(k: int, dtype: str, lanes: Lanes, geometry: Geometry) -> Any:
    x, y, z = geometry.block
    first = lanes.first_thread
    if geometry.block[k] == 1:
        return 0
    if y == z == 1:
        return lanes.affine(first, 0, 1, dtype)
    if lanes.nx == x and z == 1:
        return lanes.affine(0, 0, 1, dtype) if k == 0 else lanes.affine(first // x, 0, 0, dtype, row=1)
    if x % lanes.P == 0:
        # a warp inside one row of the block
        return lanes.affine(first % x, 0, 1, dtype) if k == 0 else (first // x % y, first // (x * y))[k - 1]
    linear = lanes.lane + first
    return (linear % x, linear // x % y, linear // (x * y))[k].astype(DT[dtype])


def _block(k: int, dtype: str, lanes: Lanes, geometry: Geometry) -> Any:
    x, y, _ = geometry.grid
    first, last = lanes.first_block, lanes.first_block + lanes.nb - 1
    if geometry.grid[k] == 1:
        return 0
    if first // x == last // x:
        # all blocks of the group in one row of the grid
        return lanes.affine(first % x, 1, 0, dtype) if k == 0 else (first // x % y, first // (x * y))[k - 1]
    linear = lanes.block + first
    return (linear % x, linear // x % y, linear // (x * y))[k].astype(DT[dtype])
