"""RMSNorm by a tree in shared memory, without warp operations, so that Numba's old simulator can run it too.

As a script, with NUMBA_ENABLE_CUDASIM=1 set: times that simulator and prints the seconds, best of 2.
"""

from __future__ import annotations

import math
import sys
import time

import numpy as np
from numba import cuda, float32

THREADS, COLUMNS = 256, 4096
EPS = np.float32(1e-6)
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


@cuda.jit
def rms_norm_shared(x, weight, y, eps):
    partial = cuda.shared.array(THREADS, float32)
    row = cuda.blockIdx.x
    thread = cuda.threadIdx.x
    columns = x.shape[1]
    squares = float32(0)
    for j in range(thread, columns, THREADS):
        value = float32(x[row, j])
        squares += value * value
    partial[thread] = squares
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if thread < half:
            partial[thread] += partial[thread + half]
        cuda.syncthreads()
        half //= 2
    scale = float32(1) / math.sqrt(partial[0] / float32(columns) + eps)
    for j in range(thread, columns, THREADS):
        y[row, j] = float32(x[row, j]) * scale * weight[j]


def arrays(rows: int, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, weight and y; the same numbers every time."""
    numbers = np.random.default_rng(rows)
    x = numbers.standard_normal((rows, COLUMNS)).astype(dtype)
    return x, numbers.standard_normal(COLUMNS).astype(np.float32), np.empty_like(x)


def plain_numpy(x: np.ndarray, weight: np.ndarray, y: np.ndarray) -> None:
    """What a NumPy user writes."""
    wide = x.astype(np.float32)
    scale = np.float32(1) / np.sqrt(np.mean(wide * wide, axis=1, keepdims=True) + EPS)
    y[...] = wide * scale * weight


def time_cudasim(rows: int, dtype: str, clock: str) -> float:
    """Seconds that Numba's old simulator takes, after a first launch."""
    x, weight, y = arrays(rows, dtype)
    best, now = math.inf, CLOCKS[clock]
    rms_norm_shared[1, THREADS](x[:1], weight, y[:1], EPS)
    for _ in range(2):
        start = now()
        rms_norm_shared[rows, THREADS](x, weight, y, EPS)
        best = min(best, now() - start)
    expected = np.empty_like(y)
    plain_numpy(x, weight, expected)
    np.testing.assert_allclose(y.astype(float), expected.astype(float), rtol=2e-3, atol=1e-3)
    return best


if __name__ == "__main__":
    print(time_cudasim(int(sys.argv[1]), *sys.argv[2:]))
