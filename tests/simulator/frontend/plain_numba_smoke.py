"""Run by hand or by CI in an environment with numba, NumPy and ml_dtypes but without numba-cuda (as on macOS):

    python tests/simulator/frontend/plain_numba_smoke.py

Lowers and runs an RMSNorm with shuffles, shared memory and device functions through numba's own front end.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[3]))

from numba import cuda, float32, types
from numba.cuda import libdevice
from numba.cuda.extending import intrinsic as numba_intrinsic

from simulator import intrinsic
from simulator.frontend import front_end, lower_kernel
from simulator.machine.launch import launch


@cuda.jit(device=True)
def warp_sum(v):
    offset = 16
    while offset > 0:
        v += cuda.shfl_xor_sync(0xFFFFFFFF, v, offset)
        offset //= 2
    return v


@cuda.jit(device=True)
def block_sum(v, partial, width=32):
    t = cuda.threadIdx.x
    v = warp_sum(v)
    if t % width == 0:
        partial[t // width] = v
    cuda.syncthreads()
    if t < width:
        v = partial[t] if t < cuda.blockDim.x // width else float32(0)
        v = warp_sum(v)
        if t == 0:
            partial[0] = v
    cuda.syncthreads()
    return partial[0]


@cuda.jit
def rms_norm(x, weight, y, eps):
    row = cuda.blockIdx.x
    partial = cuda.shared.array(32, float32)
    acc = float32(0)
    for j in range(cuda.threadIdx.x, x.shape[1], cuda.blockDim.x):
        v = float32(x[row, j])
        acc += v * v
    scale = libdevice.rsqrtf(block_sum(acc, partial=partial) / x.shape[1] + eps)
    for j in range(cuda.threadIdx.x, x.shape[1], cuda.blockDim.x):
        y[row, j] = float32(x[row, j]) * scale * weight[j]


@cuda.jit
def votes(x, y):
    i = cuda.grid(1)
    full = 0xFFFFFFFF
    ballot = cuda.ballot_sync(full, x[i] > 3)
    y[i, 0] = cuda.popc(ballot & cuda.lanemask_lt())
    y[i, 1] = cuda.any_sync(full, x[i] == 5) + 2 * cuda.all_sync(full, x[i] < 50)
    y[i, 2] = cuda.shfl_down_sync(full, x[i], 1)
    y[i, 3] = cuda.atomic.add(y, (0, 4), 1) * 0 + cuda.syncthreads_count(int(i < 7))


@numba_intrinsic
def vload(typingctx, array, index, registers, n):
    return types.none(array, index, registers, n), None


@intrinsic(f"{__name__}.vload")
def load_meaning(code, array, index, registers, n):
    for k, value in enumerate(code.load(array, index, code.constant(n))):
        code.store(registers, k, [code.convert(value, registers.dtype)])


@cuda.jit
def sums_of_four(x, y):
    i = cuda.grid(1)
    registers = cuda.local.array(4, float32)
    vload(x, 4 * i, registers, 4)
    y[i] = registers[0] + registers[1] + registers[2] + registers[3]


def main() -> None:
    """Compare with NumPy; an AssertionError says what differs."""
    assert front_end().half.name == "numba", "numba-cuda is installed here"
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((3, 1000)).astype(np.float16), np.linspace(1, 2, 1000, dtype=np.float32)
    expected = x.astype(float) / np.sqrt((x.astype(float) ** 2).mean(1, keepdims=True) + 1e-6) * weight
    for way in ({"schedule": "waves"}, {"schedule": "splits", "order": "random"}):
        y = np.zeros_like(x)
        args = (x, weight, y, np.float32(1e-6))
        launch(lower_kernel(rms_norm, args), (3, 1, 1), (256, 1, 1), args, **way)
        np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-3)
        numbers, counts = rng.integers(0, 9, 32), np.zeros((32, 5), np.int64)
        launch(lower_kernel(votes, (numbers, counts)), (1, 1, 1), (32, 1, 1), (numbers, counts), **way)
        np.testing.assert_array_equal(counts[:, 0], np.cumsum(numbers > 3) - (numbers > 3))
        np.testing.assert_array_equal(counts[:, 1], 2 + (numbers == 5).any())
        np.testing.assert_array_equal(counts[:, 2], np.append(numbers[1:], numbers[-1]))
        assert (counts[:, 3] == 7).all()
        assert counts[0, 4] == 32
        numbers, sums = rng.integers(0, 9, 128).astype(np.float16), np.zeros(32, np.float32)
        launch(lower_kernel(sums_of_four, (numbers, sums)), (1, 1, 1), (32, 1, 1), (numbers, sums), **way)
        np.testing.assert_array_equal(sums, numbers.reshape(32, 4).sum(1))
    print("plain numba: RMSNorm, votes and an intrinsic agree with NumPy")


if __name__ == "__main__":
    main()
