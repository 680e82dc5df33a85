"""Whose arrays they are, on a card: CuPy's, torch's, lent ones, a second device; errors; and kernels kept on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import numba_norms
from numba_norms import plan, reference, rms_norm
from numba_norms.arrays import Array, place_of
from numba_norms.gpu import device
from tests.gpu.card import BFLOAT16, get, put
from tests.tolerances import DTYPES, FLOAT16, FLOAT32, NAMES, RESULT, assert_close, same_bits

ROOT = Path(__file__).parents[2]
X = np.random.default_rng(0).standard_normal((33, 1000))
WEIGHT = np.random.default_rng(1).standard_normal(1000).astype(np.float32)


def right(y: Any, x: np.ndarray, weight: np.ndarray | None = WEIGHT) -> None:
    assert_close(y, reference.rms_norm(x, weight), RESULT[x.dtype])


# -- CuPy ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_an_array_of_cupy_as_the_norms_see_it(dtype: np.dtype[Any]) -> None:
    import cupy

    native = put(X.astype(dtype))[::2, 1:]
    array = Array.of(native, "x")
    assert (array.place.name, array.place.device) == ("CuPy", 0)
    assert array.memory.__array_interface__["data"][0] == native.data.ptr
    assert (array.shape, array.strides, array.dtype) == (native.shape, native.strides, dtype)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        assert place_of(native).stream() == stream.ptr
    made = array.new((3, 5), np.dtype(np.float32)).native
    assert isinstance(made, cupy.ndarray) and made.shape == (3, 5) and made.device.id == 0


def test_copies_and_fills_of_a_place() -> None:
    host = X.astype(np.float32)
    native = put(host)
    place = place_of(native)
    assert same_bits(get(place.compact(native, (1, 0))), np.ascontiguousarray(host.T))
    place.fill(native, 3)
    assert (get(native) == 3).all()
    place.copy(native, put(host))
    assert same_bits(get(native), host)


def test_a_view_that_no_kernel_reads_is_copied() -> None:
    x = np.random.default_rng(2).standard_normal((6, 8, 10)).astype(np.float32)
    y = numba_norms.layer_norm(put(x)[:, ::2].transpose(2, 0, 1), axis=(1, 2))
    assert_close(get(y), reference.layer_norm(x[:, ::2].transpose(2, 0, 1), axis=(1, 2)), RESULT[FLOAT32])


def test_every_form_of_out() -> None:
    x = put(X.astype(np.float16))
    expected = get(rms_norm(x))
    wide = put(np.zeros((33, 2000), np.float16))
    assert rms_norm(x, out=wide[:, ::2]) is not None
    assert same_bits(get(wide[:, ::2]), expected) and (get(wide[:, 1::2]) == 0).all()
    assert rms_norm(x, out=x) is x and same_bits(get(x), expected)


# -- torch -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def torch() -> Any:
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("torch sees no GPU")
    return found


@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_tensors_of_torch(torch: Any, dtype: np.dtype[Any]) -> None:
    x = torch.from_numpy(X).cuda().to(getattr(torch, dtype.name))
    weight = torch.from_numpy(WEIGHT).cuda()
    y, rstd = rms_norm(x, weight, return_stats=True)
    assert isinstance(y, torch.Tensor) and y.dtype == x.dtype and y.device == x.device
    host = x.cpu().double().numpy()
    assert_close(y.cpu().double().numpy(), reference.rms_norm(host, WEIGHT), RESULT[dtype])
    assert rstd.shape == (33, 1)
    assert torch.equal(plan(rms_norm, x, weight)(x, weight), y)


def test_the_stream_and_memory_of_torch(torch: Any) -> None:
    x, late = torch.zeros(512, 4096, device="cuda"), torch.randn(512, 4096, device="cuda")
    expected = rms_norm(late)
    room = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(50):
            room.copy_(room.flip(0))
        x.copy_(late)
        y = rms_norm(x)
        x.zero_()
        assert torch.equal(y, expected)
        held = torch.cuda.memory_allocated()
        rms_norm(x, out=y)
        assert torch.cuda.memory_allocated() == held, "what a call needs for itself is given back"


def test_errors_for_tensors(torch: Any) -> None:
    x = torch.ones(4, 8, device="cuda")
    with pytest.raises(TypeError, match="detach"):
        rms_norm(x.clone().requires_grad_())
    with pytest.raises(TypeError, match="on cpu"):
        rms_norm(x.cpu())
    with pytest.raises(TypeError):
        rms_norm(x, put(np.ones(8, np.float32)))


# -- lent memory -----------------------------------------------------------------------------------------------------


class ByInterface:
    """Lends the memory of a CuPy array by the interface."""

    def __init__(self, array: Any, **entries: Any) -> None:
        self.array, self.dtype = array, array.dtype
        bits = "<V2" if array.dtype == BFLOAT16 else array.dtype.str
        lent = {"shape": array.shape, "typestr": bits, "data": (array.data.ptr, False), "strides": array.strides}
        self.__cuda_array_interface__ = {**lent, "version": 3, **entries}


class ByDLPack:
    """Lends the memory of a CuPy array by DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **asked: Any) -> Any:
        return self.array.__dlpack__(**asked)


@pytest.mark.parametrize("lend", [ByInterface, ByDLPack])
@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_lent_memory(dtype: np.dtype[Any], lend: Any) -> None:
    import cupy

    x = X.astype(dtype)
    y = rms_norm(lend(put(x)), put(WEIGHT))
    assert isinstance(y, cupy.ndarray)
    right(get(y), x)


def test_lent_memory_with_strides_and_a_stream() -> None:
    import cupy

    x = X.astype(np.float32)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        lent = put(x)
        stream.synchronize()
    right(get(rms_norm(ByInterface(lent[:, ::4], stream=stream.ptr))), x[:, ::4], None)
    out = ByInterface(put(np.zeros_like(x)), stream=stream.ptr)
    rms_norm(ByInterface(lent, stream=stream.ptr), put(WEIGHT), out=out)
    stream.synchronize()
    right(get(out.array), x)


def test_device_arrays_of_numba() -> None:
    from numba import cuda

    x = X.astype(np.float32)
    right(get(rms_norm(cuda.to_device(x), put(WEIGHT))), x)


def test_errors_for_lent_memory() -> None:
    x = put(X.astype(np.float32))
    with pytest.raises(ValueError, match="read-only"):
        rms_norm(x, out=ByInterface(x.copy(), data=(x.data.ptr, True)))
    with pytest.raises(TypeError, match="no CUDA device owns"):
        rms_norm(ByInterface(x, data=(np.ones(33_000).ctypes.data, False)))
    with pytest.raises(TypeError):
        rms_norm(x, WEIGHT)  # NumPy's: it would have to be copied to the device in secret
    with pytest.raises(ValueError, match="blocks"):
        device.launch(None, 2**31, 32, (), 0, 0)


# -- devices ---------------------------------------------------------------------------------------------------------


def test_a_second_device() -> None:
    import cupy

    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("one GPU only")
    x = X.astype(np.float16)
    with cupy.cuda.Device(1):
        there, weight = put(x), put(WEIGHT)
    y = rms_norm(there, weight)  # while device 0 is the current one
    assert y.device.id == 1 and cupy.cuda.runtime.getDevice() == 0
    with cupy.cuda.Device(1):
        right(get(y), x)
    with pytest.raises((TypeError, ValueError)):
        rms_norm(there, put(WEIGHT))


def test_whose_context_it_is() -> None:
    """No context is current in a new thread until CuPy makes one so; launches find the device's own."""
    import threading

    x, found = put(X.astype(np.float16)), []
    thread = threading.Thread(target=lambda: found.append(rms_norm(x)))
    thread.start()
    thread.join()
    right(get(found[0]), X.astype(np.float16), None)


# -- kernels on disk -------------------------------------------------------------------------------------------------

COUNTING = """
    import numpy as np
    from numba_norms.gpu import compiled
    from numba_norms import layer_norm, rms_norm
    from tests.gpu.card import get, put

    compile_, done = compiled._compile, []
    compiled._compile = lambda *given: done.append(given) or compile_(*given)
    x = np.random.default_rng(0).standard_normal((4, 1032)).astype(np.float16)
    y = get(layer_norm(rms_norm(put(x))))
    print(len(done), y.tobytes().hex()[:64])
"""


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_NORMS_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", textwrap.dedent(COUNTING)]
    said = []
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.split())
    first, second = said
    assert (first[0], second[0]) == ("2", "0")
    assert first[1] == second[1], "the kept kernel computes something else"


def test_registers_as_the_driver_counts_them() -> None:
    """What ``explain`` and the tables of machine code say is what the card runs."""
    from cuda.bindings import driver

    x = put(X.astype(np.float16))
    rms_norm(x)
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS
    for loaded in list(device._loaded.values()):
        kernel = driver.CUkernel(int(loaded._handle))
        status, registers = driver.cuKernelGetAttribute(attribute, kernel, driver.CUdevice(0))
        assert not status and registers == loaded.code.registers


def test_explain_on_a_card() -> None:
    from numba_norms.explain import explain

    said = str(explain(put(X.astype(np.float16)), put(WEIGHT)))
    assert "registers" in said and "vector" in said


def test_zero_rows() -> None:
    assert numba_norms.layer_norm(put(np.empty((0, 8), np.float16))).shape == (0, 8)
    assert FLOAT16 == rms_norm(put(np.empty((3, 0, 8), np.float16))).dtype
