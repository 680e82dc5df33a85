"""The machine: blocks and grids of one, two and three dimensions, of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import cuda, float32

from tests.simulator.running import every_way, run, zeros

Way = dict[str, Any]


@cuda.jit
def who_am_i(out):
    x, y, z = cuda.grid(3)
    linear = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)
    block = cuda.blockIdx.x + cuda.gridDim.x * (cuda.blockIdx.y + cuda.gridDim.y * cuda.blockIdx.z)
    out[z, y, x, 0] = linear
    out[z, y, x, 1] = block
    out[z, y, x, 2] = cuda.laneid


SHAPES = [
    ((2, 3, 1), (16, 16, 1)), ((3, 1, 1), (7, 5, 1)), ((1, 2, 2), (3, 5, 7)), ((2, 2, 1), (33, 2, 1)),
    ((5, 1, 1), (1, 1, 1)), ((1, 1, 3), (64, 2, 1)), ((2, 1, 2), (8, 4, 2)), ((3, 2, 1), (32, 4, 1)),
    ((1, 3, 1), (4, 8, 3)),
]  # fmt: skip


@every_way
@pytest.mark.parametrize(("grid", "block"), SHAPES, ids=str)
def test_shapes(way: Way, grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
    extent = tuple(g * b for g, b in zip(grid, block, strict=True))
    out = np.full((*extent[::-1], 3), -1)
    run(who_am_i, grid, block, out, **way)
    z, y, x = np.indices(extent[::-1])
    thread = x % block[0] + block[0] * (y % block[1] + block[1] * (z % block[2]))
    number = x // block[0] + grid[0] * (y // block[1] + grid[1] * (z // block[2]))
    np.testing.assert_array_equal(out[..., 0], thread)
    np.testing.assert_array_equal(out[..., 1], number)
    np.testing.assert_array_equal(out[..., 2], thread % 32)


@cuda.jit
def transpose(a, b):
    tile = cuda.shared.array((16, 17), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.blockIdx.x * 16 + tx, cuda.blockIdx.y * 16 + ty
    if y < a.shape[0] and x < a.shape[1]:
        tile[ty, tx] = a[y, x]
    cuda.syncthreads()
    x, y = cuda.blockIdx.y * 16 + tx, cuda.blockIdx.x * 16 + ty
    if y < b.shape[0] and x < b.shape[1]:
        b[y, x] = tile[tx, ty]


@every_way
@pytest.mark.parametrize(("rows", "columns"), [(32, 32), (50, 33), (1, 17)])
def test_two_dimensional_tiles(way: Way, rows: int, columns: int) -> None:
    a = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
    b = zeros((columns, rows), "f4")
    run(transpose, (-(-columns // 16), -(-rows // 16)), (16, 16), a, b, **way)
    np.testing.assert_array_equal(b, a.T)


@cuda.jit
def numbered(out):
    t = cuda.grid(1)
    if t < out.size:
        out[t] = t * 1000 + cuda.blockIdx.x


@pytest.mark.parametrize("lanes", [32, 64, 96, 1024, 16384])
def test_the_size_of_a_wave_does_not_matter(lanes: int) -> None:
    out = zeros(500)
    run(numbered, 11, 48, out, lanes=lanes)
    t = np.arange(500)
    np.testing.assert_array_equal(out, t * 1000 + t // 48)
