"""Pointers as arguments: addresses of the stand-in device's memory, and arrays made over them in a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import cuda, float32, int64, types, uint32
from numba.cuda.np.numpy_support import carray, farray, from_dtype

from simulator import OutOfBounds, Unsupported, device, simulate

POINTER = types.CPointer(float32)


def scaled(to: Any, source: Any, n: int) -> None:
    i = cuda.grid(1)
    if i < n:
        to[i] = 2 * source[i]


def address(array: Any) -> int:
    found: int = array.__cuda_array_interface__["data"][0]
    return found


@given(st.integers(1, 70), st.integers(0, 9), st.sampled_from(["affine", "vector"]))
def test_a_pointer_may_lead_anywhere_into_an_array(size: int, skip: int, values: str) -> None:
    with device(values=values) as gpu:
        kernel = cuda.jit(types.void(POINTER, POINTER, uint32))(scaled)
        x = cuda.to_device(np.arange(size + skip, dtype=np.float32))
        y = cuda.to_device(np.zeros(size + skip, np.float32))
        kernel[3, 32](address(y), address(x[skip:]), size)
        assert y.copy_to_host().tolist() == [*(2.0 * np.arange(skip, size + skip)), *[0] * skip]
        assert gpu.traces[0].total("source.memory", operation="load").bytes == 4 * size


def test_an_index_may_be_negative() -> None:
    """Unlike an array's, it does not count from the end."""
    with device(check=True) as gpu:

        @cuda.jit(types.void(POINTER, int64))
        def before(p: Any, k: int) -> None:
            p[-1] = p[k] + p[1]

        x = cuda.to_device(np.arange(6, dtype=np.float32))
        before[1, 1](address(x[3:]), -2)
        assert x.copy_to_host().tolist() == [0, 1, 5, 3, 4, 5]
        assert [finding.kind for finding in gpu.findings if finding.severity == "error"] == []


def test_memory_that_it_does_not_lead_to() -> None:
    with device():
        kernel = cuda.jit(types.void(POINTER, POINTER, uint32))(scaled)
        x, y = cuda.to_device(np.zeros(8, np.float32)), cuda.to_device(np.zeros(16, np.float32))
        with pytest.raises(OutOfBounds, match=r"source\.memory"):
            kernel[1, 32](address(y), address(x), 9)


def test_what_nobody_has_written_is_known_behind_a_pointer_too() -> None:
    with device(check=True) as gpu:
        kernel = cuda.jit(types.void(POINTER, POINTER, uint32))(scaled)
        x, y = cuda.device_array(8, np.float32), cuda.device_array(8, np.float32)
        x[:4] = 1
        kernel[1, 32](address(y), address(x), 4)
        kernel[1, 32](address(x), address(y), 4)
        assert [finding.kind for finding in gpu.findings if finding.severity == "error"] == []
        kernel[1, 32](address(x), address(y), 5)
        assert [finding.kind for finding in gpu.findings if finding.severity == "error"] == ["uninitialized-read"]


@pytest.mark.parametrize("wrong", [0, 1 << 47, 3.5, None, np.zeros(4, np.float32)])
def test_what_is_no_address(wrong: Any) -> None:
    with device():
        kernel = cuda.jit(types.void(POINTER, POINTER, uint32))(scaled)
        x = cuda.to_device(np.zeros(8, np.float32))
        with pytest.raises(ValueError, match=r"takes a pointer \(float32\*\), but .* is no address"):
            kernel[1, 32](address(x), wrong, 4)


@pytest.mark.parametrize("values", ["affine", "vector"])
def test_arrays_over_a_pointer(values: str) -> None:
    with device(values=values):

        @cuda.jit(types.void(POINTER, POINTER, int64, int64))
        def transposed(p: Any, q: Any, rows: int, columns: int) -> None:
            x, y = carray(p, (rows, columns)), farray(q, (rows, columns), dtype=float32)
            i, j = cuda.grid(2)
            if i < x.shape[0] and j < x.shape[1]:
                cuda.atomic.add(y, (i, j), x[i, j])  # "y[i, j] = …" Numba takes for dead code, on a GPU too

        x = cuda.to_device(np.arange(35, dtype=np.float32))
        y = cuda.to_device(np.zeros(35, np.float32))
        transposed[1, (8, 8)](address(x), address(y), 5, 7)
        assert np.array_equal(y.copy_to_host().reshape(7, 5).T, np.arange(35).reshape(5, 7))


def test_pointers_are_passed_on_and_chosen() -> None:
    @cuda.jit(device=True)
    def first(p: Any) -> Any:
        return p[0]

    with device():

        @cuda.jit(types.void(POINTER, POINTER))
        def smaller(p: Any, q: Any) -> None:
            least = q if first(q) < first(p) else p
            least[1] = first(least)

        x, y = cuda.to_device(np.float32([3, 0, 0])), cuda.to_device(np.float32([2, 0]))
        smaller[1, 1](address(x), address(y))
        assert (x.copy_to_host().tolist(), y.copy_to_host().tolist()) == ([3, 0, 0], [2, 2])


def test_of_records() -> None:
    dtype = np.dtype([("a", np.int32), ("b", np.float64)], align=True)
    kind = types.CPointer(from_dtype(dtype))
    with device():

        @cuda.jit(types.void(kind))
        def add(p: Any) -> None:
            p[cuda.threadIdx.x].b += p[cuda.threadIdx.x].a

        x = cuda.to_device(np.array([(1, 0.5), (2, 0.25)], dtype))
        add[1, 2](address(x))
        assert x.copy_to_host()["b"].tolist() == [1.5, 2.25]


def test_simulate_takes_the_array_itself() -> None:
    with device():
        kernel = cuda.jit(types.void(POINTER, POINTER, uint32))(scaled)
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    trace = simulate(kernel)[1, 32](y, x, 7)
    assert y.tolist() == [0, 2, 4, 6, 8, 10, 12, 0]
    assert trace.thread(3).reads("source.memory") == [3]
    with pytest.raises(Unsupported, match="an address as the argument source"):
        simulate(kernel)[1, 32](y, 1 << 62, 7)
