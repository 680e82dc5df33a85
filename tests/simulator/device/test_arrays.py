"""Device arrays on the stand-in device: transfers, views, slices, and what is handed out of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from numba import cuda
from numba.cuda import device_array, to_device  # the names that a user's module has from before
from numba.cuda.cudadrv.driver import CudaAPIError

from simulator import Unsupported, device
from simulator.device.memory import BASE


def numbered(shape: Any, dtype: Any = np.float32) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


@given(array_shapes(min_dims=1, max_dims=3, max_side=5), st.sampled_from("CF"), st.sampled_from(["f4", "i2", "c16"]))
def test_there_and_back(shape: tuple[int, ...], order: Any, dtype: str) -> None:
    host = np.array(numbered(shape, dtype), order=order)
    with device():
        there = to_device(host)
        assert there.strides == host.strides
        back = there.copy_to_host()
        into = np.zeros_like(host)
        there.copy_to_host(into)
    assert np.array_equal(back, host)
    assert back.strides == host.strides
    assert np.array_equal(into, host)


slices = st.tuples(st.integers(0, 4), st.integers(0, 8), st.integers(1, 3)).map(lambda three: slice(*three))


@given(st.tuples(slices, slices), st.booleans())
def test_slices_are_views(key: tuple[slice, slice], assigned: bool) -> None:
    host = numbered((5, 7))
    with device():
        there = to_device(host)
        if assigned:
            there[key] = -1
            host[key] = -1
        else:
            part = there[key]
            assert part.shape == host[key].shape
            if part.size:
                assert np.array_equal(part.copy_to_host(), host[key])
        assert np.array_equal(there.copy_to_host(), host)


def test_parts_of_arrays() -> None:
    host = numbered((4, 6))
    with device():
        there = to_device(host)
        assert there[2, 3] == host[2, 3]
        assert np.array_equal(there[1].copy_to_host(), host[1])
        there[1:3, 2:4] = np.full((2, 2), 9, np.float32)
        there[0, 0] = 8
        host[1:3, 2:4], host[0, 0] = 9, 8
        assert np.array_equal(there.reshape(24)[3:9].copy_to_host(), host.reshape(24)[3:9])
        assert np.array_equal(there.view(np.int32).copy_to_host(), host.view(np.int32))
        assert np.array_equal(there.T.copy_to_host(), host.T)  # a kernel of Numba's own
        with pytest.raises(ValueError, match="incompatible shape"):
            there.copy_to_device(np.zeros(3, np.float32))


@pytest.mark.filterwarnings("ignore:Host array used in CUDA kernel")  # so Numba says of a scalar, too
def test_records() -> None:
    kind = np.dtype([("a", np.int32), ("b", np.float64)], align=True)
    host = np.array([(1, 2.0), (3, 4.0)], kind)
    with device():
        there = to_device(host)
        assert there[1]["b"] == 4.0
        there[0]["a"] = 7
        assert there.copy_to_host()["a"].tolist() == [7, 3]


def test_the_kinds_of_host_memory() -> None:
    @cuda.jit
    def double(x: Any) -> None:
        x[cuda.threadIdx.x] *= 2

    with device():
        for make in (cuda.managed_array, cuda.mapped_array):
            both = make(4, np.float32)
            both[:] = 3
            double[1, 4](both)
            assert both.tolist() == [6] * 4
        plain = np.ones(4, np.float32)
        with cuda.mapped(plain) as mapped:
            double[1, 4](mapped)
        assert plain.tolist() == [2] * 4
        with cuda.pinned(plain):
            pinned = cuda.pinned_array(4, np.float32)
            pinned[:] = plain
        assert to_device(pinned).copy_to_host().tolist() == [2] * 4
        assert cuda.pinned_array_like(plain).shape == cuda.mapped_array_like(plain).shape == (4,)


def test_memset_and_like() -> None:
    with device():
        like = cuda.device_array_like(numbered((2, 3)))
        assert np.isnan(like.copy_to_host()).all()  # nobody has written
        like.gpu_data.memset(0)
        assert like.copy_to_host().tolist() == [[0, 0, 0], [0, 0, 0]]


def test_no_address_is_a_pointer() -> None:
    """Nobody who takes it for one reads the memory of this process, or of a card."""
    with device():
        there = to_device(numbered(4))
        managed = cuda.managed_array(4)
        for array in (there, there[1:], managed):
            assert array.__cuda_array_interface__["data"][0] >= BASE
            assert array.device_ctypes_pointer.value >= BASE
        again = cuda.as_cuda_array(there[1:])  # numba.cuda itself knows what it leads to
        assert again.copy_to_host().tolist() == [1, 2, 3]
        with pytest.raises(CudaAPIError, match="not memory of the stand-in device"):
            cuda.from_cuda_array_interface({**there.__cuda_array_interface__, "data": (1 << 20, False)}).copy_to_host()


def test_memory_of_the_card() -> None:
    with device(card="t4"):
        free, total = cuda.current_context().get_memory_info()
        assert free == total == 16 << 30
        kept = device_array(1000, np.uint8)
        assert cuda.current_context().get_memory_info().free == total - kept.nbytes
        with pytest.raises(CudaAPIError, match="CUDA_ERROR_OUT_OF_MEMORY"):
            device_array(17 << 30, np.uint8)
        del kept
        with cuda.defer_cleanup():
            pass
        cuda.current_context().memory_manager.deallocations.clear()
        assert cuda.current_context().get_memory_info().free == total


def test_other_processes_get_no_handle() -> None:
    with device():
        there = to_device(numbered(4))
        with pytest.raises(Unsupported, match="cuIpcGetMemHandle"):
            there.get_ipc_handle()


def test_an_array_without_axes_is_an_index() -> None:
    @cuda.jit
    def picked(x: Any, i: Any, y: Any) -> None:
        y[()] = x[i]
        x[i] = y[()] + 1

    with device():
        x, y = to_device(numbered(4)), to_device(np.float32(0).reshape(()))
        picked[1, 1](x, to_device(np.array(2)), y)
        assert (y.copy_to_host().item(), x.copy_to_host().tolist()) == (2, [0, 1, 3, 3])


def test_arrays_outlive_the_device() -> None:
    """As on a GPU, where no device ends: the array is the same memory on the next one, and no other array is."""

    @cuda.jit
    def copied(x: Any, y: Any) -> None:
        y[cuda.threadIdx.x] = x[cuda.threadIdx.x]

    with device():
        there, gone = to_device(numbered(4)), to_device(numbered(4))
    addresses = [array.device_ctypes_pointer.value for array in (there, gone)]
    del gone  # its memory goes back to where it came from
    with device(check=True) as later:
        fresh = to_device(numbered(4))
        assert fresh.device_ctypes_pointer.value not in addresses
        copied[1, 4](there[::-1], fresh)
        there[:2] = 7
        assert fresh.copy_to_host().tolist() == [3, 2, 1, 0]
        assert there.copy_to_host().tolist() == [7, 7, 2, 3]
    assert there.device_ctypes_pointer.value == addresses[0] >= BASE
    assert [finding.kind for finding in later.findings if finding.severity == "error"] == []
