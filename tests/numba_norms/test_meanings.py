"""The meanings of our own intrinsics: each has one, and they give the bits and the accesses that ``lanes`` promises."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numba import cuda, float32, float64

from numba_norms.arrays.dtypes import numba_type
from numba_norms.kernels import lanes
from numba_norms.kernels.lanes import narrow, vload, vload_readonly, vstore, widen
from simulator import Unsupported, simulate
from simulator.intrinsics import GROUP, is_intrinsic, qualified_name

HALVES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
EVERY_HALF = np.arange(1 << 16, dtype=np.uint16)


def test_every_intrinsic_has_a_meaning() -> None:
    names = {qualified_name(value) for value in vars(lanes).values() if is_intrinsic(value)}
    declared = {entry.name for entry in entry_points(group=GROUP) if entry.name.startswith("numba_norms.")}
    assert names == declared
    assert len(names) >= 5


def copy(load: Any, n: int, compute: Any) -> Any:
    size = n + 1

    @cuda.jit
    def kernel(x, y):
        registers = cuda.local.array(size, compute)
        t = cuda.grid(1)
        load(x, (t, 0), registers, 1, n)
        vstore(y, (t, 0), registers, 1, n)

    return kernel


@pytest.mark.parametrize("load", [vload, vload_readonly])
@pytest.mark.parametrize(("dtype", "n", "accesses"), [
    (np.float16, 8, 1), (np.float16, 2, 1), (np.float16, 32, 4), (ml_dtypes.bfloat16, 16, 2),
    (np.float32, 4, 1), (np.float32, 1, 1), (np.float32, 8, 2), (np.float64, 2, 1), (np.float64, 6, 3),
])  # fmt: skip
def test_accesses_of_16_bytes(load: Any, dtype: Any, n: int, accesses: int) -> None:
    x = np.arange(40 * n).reshape(40, n).astype(dtype)
    y = np.zeros_like(x)
    trace = simulate(copy(load, n, float64))[1, 40](x, y)
    assert y.tobytes() == x.tobytes()
    for array in ("x", "y"):
        assert (trace.total(array).requests, trace.total(array).bytes) == (2 * accesses, x.nbytes)
    assert trace.thread(5).reads("x") == trace.thread(5).writes("y") == [*range(5 * n, 6 * n)]


@pytest.mark.parametrize("n", [3, 5, 12, 0])
def test_a_piece_that_is_no_access(n: int) -> None:
    with pytest.raises(Unsupported, match=rf"vload with n = {n}: elements of float16 go in powers of two"):
        simulate(copy(vload, n, float32))[1, 4](np.zeros((4, 16), np.float16), np.zeros((4, 16), np.float16))


@pytest.mark.parametrize("storage", HALVES)
def test_every_half_widens_as_numpy_widens_it(storage: str) -> None:
    @cuda.jit
    def kernel(x, y):
        t = cuda.grid(1)
        y[t] = widen(x[t], float32)

    x, y = EVERY_HALF.view(HALVES[storage]), np.zeros(1 << 16, np.float32)
    simulate(kernel)[64, 1024](x, y)
    expected = x.astype(np.float32)
    number = ~np.isnan(expected)
    assert (np.isnan(y) == ~number).all()
    assert y[number].tobytes() == expected[number].tobytes()


@pytest.mark.parametrize("storage", HALVES)
@pytest.mark.parametrize("compute", [np.float32, np.float64])
def test_narrowing_rounds_once_to_nearest_even(storage: str, compute: Any) -> None:
    dtype = HALVES[storage]
    kind = numba_type(dtype)

    @cuda.jit
    def kernel(x, y):
        t = cuda.grid(1)
        if t < x.size:
            y[t] = narrow(x[t], kind)

    positive = EVERY_HALF[: int(np.array(np.inf, dtype).view(np.uint16))].view(dtype)
    low, high = positive[:-1].astype(np.float64), positive[1:].astype(np.float64)
    middle = (low + high) / 2
    x = np.concatenate([middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf)]).astype(compute)
    y = np.zeros(x.size, dtype)
    simulate(kernel)[-(-x.size // 256), 256](x, y)
    even = np.where(positive[:-1].view(np.uint16) % 2 == 0, positive[:-1], positive[1:])
    assert (y[: middle.size] == even).all()
    if compute is np.float64:  # nearer to one side than float32 can tell
        assert (y[middle.size : 2 * middle.size] == positive[:-1]).all()
        assert (y[2 * middle.size :] == positive[1:]).all()
