"""The same kernels on a GPU through CuPy: same results, on the caller's stream."""

import numpy as np
import pytest

from numba_norms import batch_norm, layer_norm, moments, reference, rms_norm
from tests.tolerances import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, RESULT, STATISTIC, assert_close, condition


def device():
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception:  # noqa: BLE001  no CuPy, no driver, no device: one reason, no GPU
        pytest.skip("no GPU")
    return cupy


pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def cp():
    return device()


@pytest.mark.parametrize("columns", [1, 33, 1000, 4097])
@pytest.mark.parametrize("dtype", [FLOAT16, FLOAT32, FLOAT64], ids=str)
def test_against_float64(cp, dtype, columns):
    x = np.random.default_rng(0).standard_normal((33, columns)).astype(dtype)
    w, b = x[0] + 1, x[1]
    on_device = [cp.asarray(array) for array in (x, w, b)]
    y = rms_norm(*on_device[:2])
    assert isinstance(y, cp.ndarray)
    assert_close(cp.asnumpy(y), reference.rms_norm(x, w), RESULT[dtype])
    for variance in ("two-pass", "welford"):
        y = layer_norm(*on_device, variance=variance)
        assert_close(cp.asnumpy(y), reference.layer_norm(x, w, b), RESULT[dtype], condition(x, 1e-5))


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2)], ids=str)
@pytest.mark.parametrize("dtype", [FLOAT16, FLOAT32, FLOAT64], ids=str)
def test_batch_norm_against_float64(cp, dtype, order):
    x = np.random.default_rng(0).standard_normal((33, 70, 29)).astype(dtype)
    mean, var = np.zeros(70, np.float32), np.ones(70, np.float32)
    expected = reference.batch_norm(x, mean, var, training=True)
    on_device = cp.ascontiguousarray(cp.asarray(x).transpose(order)).transpose(*np.argsort(order).tolist())
    new_mean, new_var = cp.asarray(mean), cp.asarray(var)
    y = batch_norm(on_device, new_mean, new_var, training=True)
    assert isinstance(y, cp.ndarray) and y.strides == on_device.strides
    assert_close(cp.asnumpy(y), expected.y, RESULT[dtype])
    assert_close(cp.asnumpy(new_mean), expected.running_mean, STATISTIC[FLOAT32])
    assert_close(cp.asnumpy(new_var), expected.running_var, STATISTIC[FLOAT32])
    y = batch_norm(on_device[:1], new_mean, new_var, training=False)
    again = reference.batch_norm(x[:1], cp.asnumpy(new_mean), cp.asnumpy(new_var), training=False)
    assert_close(cp.asnumpy(y), again.y, RESULT[dtype])
    assert batch_norm(on_device[:0], new_mean, new_var, training=True).shape == (0, 70, 29)


def test_views_and_axes(cp):
    x = np.random.default_rng(0).standard_normal((40, 320)).astype(np.float32)
    for view in (np.s_[:, ::8], np.s_[1:], np.s_[:, 1:34]):
        assert_close(cp.asnumpy(rms_norm(cp.asarray(x)[view])), reference.rms_norm(x[view]), RESULT[FLOAT32])
    y = layer_norm(cp.asarray(x), axis=0)
    assert_close(cp.asnumpy(y), reference.layer_norm(x, axis=0), RESULT[FLOAT32], condition(x, 1e-5, 0))
    found = moments(cp.asarray(x))
    assert_close(cp.asnumpy(found.mean), reference.moments(x)[1], STATISTIC[FLOAT32])


def test_current_stream_orders_the_work(cp):
    x = cp.ones((512, 4096), np.float32)
    with cp.cuda.Stream(non_blocking=True) as stream:
        for k in range(50):
            x.fill(k + 1)
            y = rms_norm(x, eps=0)
            z = y + 1  # on the same stream: must see y
            x.fill(0)
        stream.synchronize()
    assert abs(cp.asnumpy(z) - 2).max() < 1e-5


def test_out_and_zero_rows(cp):
    x = cp.ones((3, 64), np.float16)
    assert rms_norm(x, out=x) is x
    assert rms_norm(cp.empty((0, 8), np.float32)).shape == (0, 8)
    with pytest.raises(ValueError, match="overlaps x in part"):
        rms_norm(x[:2], out=x[1:])
    with pytest.raises(TypeError, match=r"CuPy.*NumPy"):
        rms_norm(x, np.ones(64, np.float16))


class Lender:
    """Offers the interface of a CuPy array, and nothing else of it."""

    def __init__(self, array, stream):
        self.array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "stream": stream}


class Exporter:
    """Exports a CuPy array by DLPack, and offers nothing else of it."""

    def __init__(self, array):
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


@pytest.mark.parametrize("dtype", [FLOAT16, FLOAT32], ids=str)
def test_arrays_of_others(cp, dtype):
    x = np.random.default_rng(0).standard_normal((33, 1000)).astype(dtype)
    on_device = cp.asarray(x)
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    for lent in (Lender(on_device, None), Lender(on_device, stream.ptr), Exporter(on_device)):
        y = rms_norm(lent)
        assert isinstance(y, cp.ndarray)
        stream.synchronize()
        assert_close(cp.asnumpy(y), reference.rms_norm(x), RESULT[dtype])


def test_arrays_of_numba(cp):
    from numba import cuda

    x = np.random.default_rng(0).standard_normal((33, 1000)).astype(np.float32)
    on_device, out = cuda.to_device(x), cuda.device_array_like(x)
    assert rms_norm(on_device, out=out) is out
    assert_close(out.copy_to_host(), reference.rms_norm(x), RESULT[FLOAT32])
    assert_close(cp.asnumpy(rms_norm(on_device[:, ::8])), reference.rms_norm(x[:, ::8]), RESULT[FLOAT32])


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_tensors_of_torch(cp, name):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")  # a torch that knows the CPU only
    x = torch.randn(33, 1000, device="cuda").to(getattr(torch, name))
    y, mean, rstd = layer_norm(x, x[0], x[1], return_stats=True)
    assert y.dtype == x.dtype and y.device == x.device and mean.shape == rstd.shape == (33, 1)
    host = x.double().cpu().numpy()
    dtype = {"float16": FLOAT16, "bfloat16": BFLOAT16, "float32": FLOAT32, "float64": FLOAT64}[name]
    expected = reference.layer_norm(host, host[0], host[1])
    assert_close(y.double().cpu().numpy(), expected, RESULT[dtype], condition(host, 1e-5))
    with torch.cuda.stream(torch.cuda.Stream()) as _:
        part = layer_norm(x[:, :500].clone())  # on torch's current stream, as is what follows
        part = part + 0
    torch.cuda.synchronize()
    assert_close(
        part.double().cpu().numpy(), reference.layer_norm(host[:, :500]), RESULT[dtype], condition(host[:, :500], 1e-5)
    )
    with pytest.raises(TypeError, match="detach"):
        rms_norm(x.requires_grad_())
