"""Norms of arrays on the simulator's stand-in device: they run there, and results are arrays of the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import cuda

import numba_norms
import simulator


@cuda.jit
def copied(x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[i]


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("axis", [-1, 0, (0, 2)])
def test_the_same_bits_as_of_a_numpy_array(axis: Any, dtype: Any) -> None:
    x = numbers(3, 5, 34, dtype=dtype)
    y, mean, rstd = numba_norms.layer_norm(x, axis=axis, return_stats=True)
    with simulator.device():
        found = numba_norms.layer_norm(cuda.to_device(x), axis=axis, return_stats=True)
        for array, expected in zip(found, (y, mean, rstd), strict=True):
            assert isinstance(array, cuda.cudadrv.devicearray.DeviceNDArray)
            assert np.array_equal(array.copy_to_host(), expected)


def test_results_go_on_to_kernels() -> None:
    """A check knows that they are written, and what of ``out`` is not."""
    x, w = numbers(4, 70), numbers(70)
    with simulator.device(check=True) as gpu:
        out = cuda.device_array((6, 70), np.float32)
        row = cuda.device_array(70, np.float32)
        y = numba_norms.rms_norm(cuda.to_device(x)[::2], cuda.to_device(w), out=out[:2])
        copied[3, 32](y[1], row)
        assert np.array_equal(row.copy_to_host(), numba_norms.rms_norm(x, w)[2])
        assert [finding.kind for finding in gpu.findings if finding.severity == "error"] == []
        copied[3, 32](out[2], row)
        assert [finding.kind for finding in gpu.findings if finding.severity == "error"] == ["uninitialized-read"]


def test_nothing_to_norm() -> None:
    with simulator.device():
        y, rstd = numba_norms.rms_norm(cuda.device_array((0, 64), np.float32), return_stats=True)
        assert (y.shape, rstd.shape, y.copy_to_host().dtype) == ((0, 64), (0, 1), np.float32)


def test_its_launches_are_recorded_like_any() -> None:
    with simulator.device(check=True), simulator.record(check=True) as traces:
        numba_norms.rms_norm(cuda.to_device(numbers(4, 64)))
        numba_norms.rms_norm(cuda.device_array((4, 64), np.float32))
    kinds = [[finding.kind for finding in trace.findings if finding.severity == "error"] for trace in traces]
    assert kinds == [[], ["uninitialized-read"]]


def test_running_statistics_are_updated_there() -> None:
    x, mean, var = numbers(3, 5, 7), np.zeros(5, np.float32), np.ones(5, np.float32)
    with simulator.device():
        there = cuda.to_device(mean), cuda.to_device(var)
        y = numba_norms.batch_norm(cuda.to_device(x), *there, training=True)
        expected = numba_norms.batch_norm(x, mean, var, training=True)
        assert np.array_equal(y.copy_to_host(), expected)
        assert np.array_equal(there[0].copy_to_host(), mean)


def test_hosts_do_not_mix_and_a_closed_device_is_named() -> None:
    with simulator.device():
        x = cuda.to_device(numbers(4, 64))
        with pytest.raises(TypeError, match="x is a stand-in device array and weight a NumPy array"):
            numba_norms.rms_norm(x, numbers(64))
    with pytest.raises(TypeError, match=r"outlived it; call inside simulator\.device\(\)"):
        numba_norms.rms_norm(x)
