"""Arrays of CuPy, of torch, and lent ones: the public functions as a GPU's user calls them, run on the simulator.

CuPy is CuPy itself, without a driver (host_cupy.py); torch is a stand-in (host_torch.py).  What is claimed: the same
bits as for NumPy, results of the caller's kind, on the caller's device and stream.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from numba_norms import add_layer_norm, add_rms_norm, batch_norm, layer_norm, merge_moments, moments, rms_norm
from numba_norms.arrays import Array, place_of
from tests.numba_norms import host_torch
from tests.numba_norms.host_cupy import HostCuPy, Launches, memory_of, simulate_launches
from tests.numba_norms.lenders import ByDLPack, ByInterface
from tests.tolerances import BFLOAT16, DTYPES, FLOAT16, NAMES, same_bits


@dataclass
class Host:
    """A kind of array: how one is made over the elements of a NumPy array, and what results are."""

    array: Any
    """NumPy array, device=0 -> array over the very same elements"""
    result: type
    launches: Launches
    cupy: HostCuPy | None
    torch: host_torch.Torch | None


@pytest.fixture
def launches(monkeypatch):
    return simulate_launches(monkeypatch)


@pytest.fixture
def cupy(monkeypatch):
    host = HostCuPy(monkeypatch)
    with host.allocator():
        yield host


@pytest.fixture
def torch(monkeypatch):
    module = host_torch.Torch()
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@pytest.fixture(params=["CuPy", "torch", "interface", "DLPack"])
def host(request, launches):
    if request.param == "torch":
        return Host(host_torch.array, host_torch.Tensor, launches, None, request.getfixturevalue("torch"))
    cupy = request.getfixturevalue("cupy")
    make = {
        "CuPy": cupy.array,
        "interface": lambda array, device=0: ByInterface(array),
        "DLPack": lambda array, device=0: ByDLPack(array, (2, device)),
    }
    return Host(make[request.param], cupy.cupy.ndarray, launches, cupy, None)


def numbers(dtype, *shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def flat(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple) else [results]


# -- the same results ------------------------------------------------------------------------------------------------

CALLS = {
    "rms_norm": lambda x, u, w, b: rms_norm(x, w, return_stats=True),
    "rms_norm llama": lambda x, u, w, b: rms_norm(x, w, weight_offset=1, rounding="llama"),
    "layer_norm": lambda x, u, w, b: layer_norm(x, w, b, return_stats=True),
    "welford": lambda x, u, w, b: layer_norm(x, w, b, variance="welford"),
    "moments": lambda x, u, w, b: moments(x)[1:],
    "add_rms_norm": lambda x, u, w, b: add_rms_norm(x, u, w, return_stats=True),
    "add_layer_norm": lambda x, u, w, b: add_layer_norm(x, u, w, b, residual_dtype=np.float32, return_stats=True),
    "across": lambda x, u, w, b: layer_norm(x, axis=0, return_stats=True),
    "batch_norm": lambda x, u, w, b: batch_norm(x, b, w, training=True, return_stats=True),
    "inference": lambda x, u, w, b: batch_norm(x, b, w, w, b, training=False),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@every_call
def test_calls_that_are_repeated(host, call):
    """A warm call repeats the launches of the first one; with other arrays it gives other, and right, results."""
    for seed in range(3):
        shape = (4, 3, 8) if call is CALLS["batch_norm"] else (5, 72)
        given = [numbers(BFLOAT16, *shape, seed=seed), numbers(FLOAT16, *shape, seed=seed + 3)]
        given += [abs(numbers(np.float32, shape[1], seed=seed + 6)) for _ in range(2)]
        expected = flat(call(*(array.copy() for array in given)))
        results = flat(call(*map(host.array, given)))
        assert all(same_bits(memory_of(a), b) for a, b in zip(results, expected, strict=True))
    assert len(host.launches) % 3 == 0


@every_call
@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_the_same_bits_as_numpy_and_the_callers_kind(host, call, dtype):
    given = [numbers(dtype, 5, 72), numbers(dtype, 5, 72, seed=1), abs(numbers(dtype, 72, seed=2)), numbers(dtype, 72)]
    lent = [array.copy() for array in given]
    expected = flat(call(*given))
    results = flat(call(*map(host.array, lent)))
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        assert type(result) is host.result
        assert tuple(result.shape) == wanted.shape
        assert same_bits(memory_of(result), wanted)
    assert all(same_bits(a, b) for a, b in zip(given, lent, strict=True))  # running statistics, too
    assert set(host.launches) == {(0, 0)}


VIEWS = {
    "every eighth column": lambda base: base[:, ::8],
    "offset by one element": lambda base: base[:, 1:34],
    "transposed": lambda base: base[:, :40].T,
    "broadcast rows": lambda base: np.broadcast_to(base[0, :70], (5, 70)),
    "broadcast columns": lambda base: np.broadcast_to(np.rint(8 * base[:, :1]), (12, 70)),
    "four dimensions": lambda base: base.reshape(2, 6, 16, 20)[:, ::2, 1:],
    "slice of a fused qkv": lambda base: base.reshape(12, 5, 64)[:, 1],
    "one row": lambda base: base[3:4, :70],
    "one dimension": lambda base: base[3, ::3],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("axis", [-1, 0])
def test_views(host, view, axis):
    x = view(numbers(np.float32, 12, 320))
    x.flags.writeable = True  # broadcast ones are not; here they are only read
    assert same_bits(memory_of(layer_norm(host.array(x), axis=axis)), layer_norm(x, axis=axis))


def test_reversed_views(cupy, launches):
    for make in (cupy.array, ByInterface, ByDLPack):  # torch has none
        for x in (numbers(np.float16, 6, 40)[::-1], numbers(np.float16, 6, 40)[:, ::-2]):
            assert same_bits(memory_of(rms_norm(make(x))), rms_norm(x))


@pytest.mark.parametrize("axes", [(2,), (0, 2), (1, 3), (3, 0, 1)], ids=str)
def test_axes_that_take_a_copy(host, axes):
    x = numbers(np.float32, 4, 6, 5, 7)[:, ::2].transpose(3, 0, 2, 1)
    weight = numbers(np.float32, *(x.shape[axis] for axis in sorted(axes)), seed=1).transpose()
    weight = np.ascontiguousarray(weight).transpose()  # of any order in memory
    y = rms_norm(host.array(x), host.array(weight), axis=axes)
    assert same_bits(memory_of(y), rms_norm(x, weight, axis=axes))


# -- results into arrays of the caller -------------------------------------------------------------------------------


def test_out_takes_the_result_and_comes_back(host):
    x, storage = numbers(np.float16, 5, 72), np.zeros((5, 72), np.float16)
    out = host.array(storage)
    y, rstd = rms_norm(host.array(x), out=out, return_stats=True)
    assert y is out and tuple(rstd.shape) == (5, 1)
    assert same_bits(storage, rms_norm(x))
    both = host.array(x.copy())
    assert layer_norm(both, out=both) is both
    assert same_bits(memory_of(both), layer_norm(x))


@pytest.mark.parametrize("axis", [0, (0, 2), (1, 2)], ids=str)
def test_out_that_is_no_matrix_in_memory(host, axis):
    x = numbers(np.float32, 12, 5, 7)
    storage = np.zeros((14, 10, 11), np.float32)
    out = storage.transpose(2, 0, 1)[:7, 1:13, 2:7].transpose(1, 2, 0)
    layer_norm(host.array(x), axis=axis, out=host.array(out))
    assert same_bits(out, layer_norm(x, axis=axis))
    assert np.count_nonzero(storage) <= out.size  # nothing outside the view was touched


def test_both_results_of_a_sum_in_place(host):
    r, u = numbers(np.float16, 5, 72), numbers(np.float16, 5, 72, seed=1)
    expected = add_rms_norm(r, u)
    residual, update = host.array(r), host.array(u)
    h, z = add_rms_norm(residual, update, out=(residual, update))
    assert h is residual and z is update
    assert same_bits(r, expected.h) and same_bits(u, expected.z)


def test_running_statistics_with_strides(host):
    x = numbers(np.float32, 6, 3, 4)
    expected = np.zeros(3, np.float32), np.ones(3, np.float32)
    y = batch_norm(x, *expected, training=True)
    both = np.tile(np.float32([[0, 1, 7]]), (3, 1))
    running = host.array(both[:, 0]), host.array(both[:, 1])
    assert same_bits(memory_of(batch_norm(host.array(x), *running, training=True)), y)
    assert same_bits(both[:, 0], expected[0]) and same_bits(both[:, 1], expected[1]) and (both[:, 2] == 7).all()


def test_channels_last_stay_channels_last(host):
    x = numbers(np.float32, 6, 4, 5, 8).transpose(0, 3, 1, 2)
    y = batch_norm(host.array(x), None, None, training=True)
    assert memory_of(y).strides == x.strides
    assert same_bits(memory_of(y), batch_norm(x, None, None, training=True))


def test_elements_off_their_alignment(cupy, launches):
    """Hardware stops at such an access, so that arrays of such elements are copied, there and back."""
    records = np.zeros((3, 40), np.dtype([("tag", np.uint8), ("value", np.float32)]))
    x = records["value"]
    x[...] = numbers(np.float32, 3, 40)
    expected = rms_norm(np.ascontiguousarray(x))
    for make in (cupy.array, ByInterface):
        assert same_bits(memory_of(rms_norm(make(x))), expected)
    rms_norm(cupy.array(x), out=cupy.array(x))
    assert same_bits(x, expected) and not records["tag"].any()


@pytest.mark.parametrize("shape", [(0, 8), (2, 0, 8)])
def test_zero_rows(host, shape):
    x, w = np.empty(shape, np.float16), np.ones(8, np.float16)
    y, mean, rstd = layer_norm(host.array(x), host.array(w), return_stats=True)
    assert tuple(y.shape) == shape and type(y) is host.result
    assert tuple(mean.shape) == tuple(rstd.shape) == (*shape[:-1], 1)
    out = host.array(x)
    assert rms_norm(host.array(x), out=out) is out
    assert tuple(add_rms_norm(host.array(x), host.array(x)).z.shape) == shape
    assert not host.launches


def test_an_empty_batch(host):
    running = np.zeros(3, np.float32), np.ones(3, np.float32)
    given = map(host.array, (np.empty((0, 3, 4), np.float32), *running))
    y, mean, rstd = batch_norm(*given, training=True, return_stats=True)
    assert tuple(y.shape) == (0, 3, 4) and np.isnan(memory_of(mean)).all() and np.isnan(memory_of(rstd)).all()
    assert not running[0].any() and (running[1] == 1).all() and not host.launches


# -- devices and streams ---------------------------------------------------------------------------------------------


def test_the_current_stream_of_cupy(cupy, launches):
    x = cupy.array(numbers(np.float32, 3, 8))
    rms_norm(x)
    with cupy.current(0x5000):
        rms_norm(x)
        with cupy.current(2):
            rms_norm(x)
    with cupy.current(0x6000, device=1):
        rms_norm(x)
    assert launches == [(0, 0), (0, 0x5000), (0, 2), (0, 0)]


def test_the_current_stream_of_torch(torch, launches):
    rms_norm(host_torch.array(numbers(np.float32, 3, 8)))
    torch.streams = {0: 0x5000, 1: 0x6000}
    rms_norm(host_torch.array(numbers(np.float32, 3, 8)))
    rms_norm(host_torch.array(numbers(np.float32, 3, 8), device=1))
    assert launches == [(0, 0), (0, 0x5000), (1, 0x6000)]


@pytest.mark.parametrize(
    ("entries", "stream"),
    [
        ({}, 0x5000),
        ({"stream": None}, 0x5000),
        ({"stream": 1}, 1),
        ({"stream": 2}, 2),
        ({"stream": 0x7000}, 0x7000),
        ({"stream": 0x7000, "version": 2}, 0x5000),
    ],
    ids=["none", "None", "legacy", "per thread", "named", "before streams"],
)
def test_the_stream_of_an_interface(cupy, launches, entries, stream):
    """None said, it is the stream that results will be used on: CuPy's current one."""
    x = ByInterface(numbers(np.float32, 3, 4, 5)[:, ::2].transpose(1, 0, 2), **entries)
    with cupy.current(0x5000):
        layer_norm(x, axis=(0, 1))  # takes a copy
    assert launches == [(0, stream)]
    assert set(cupy.allocated) == {(0, stream)}  # memory must not go to other work of another stream


def test_the_stream_of_dlpack(cupy, launches):
    x = ByDLPack(numbers(np.float32, 3, 8))
    rms_norm(x)
    with cupy.current(0x5000):
        rms_norm(x)
    assert x.streams == [1, 0x5000]  # in DLPack's words 1 is the default stream; the lender orders its work before ours
    assert launches == [(0, 0), (0, 0x5000)]


def test_another_device_than_the_current_one(cupy, torch, launches):
    x = numbers(np.float32, 3, 4, 5)[:, ::2].transpose(1, 0, 2)
    cupy.streams[1] = [0x6000]
    cupy.owner = 1
    for array in (cupy.array(x, device=1), ByInterface(x), ByDLPack(x, (2, 1))):
        y = rms_norm(array, axis=(0, 1))
        assert y.data.device_id == 1
    assert set(cupy.allocated) == {(1, 0x6000)} and cupy.device == 0
    assert rms_norm(host_torch.array(x, device=1)).device.index == 1
    assert launches == [(1, 0x6000)] * 3 + [(1, 0)]


def test_the_device_of_a_lender_that_says_it(cupy, launches):
    """Both protocols: the interface for the address, DLPack for the device."""
    x = ByInterface(numbers(np.float32, 3, 8))
    x.__dict__["__dlpack_device__"] = lambda: (2, 1)
    rms_norm(x)
    assert launches == [(1, 0)]


def test_two_devices(host):
    x, w = numbers(np.float32, 3, 8), np.ones(8, np.float32)
    if host.array(x).__class__ is ByInterface:
        owners = iter((0, 1))
        host.cupy.cupy.cuda.runtime.pointerGetAttributes = lambda pointer: SimpleNamespace(device=next(owners))
    with pytest.raises(ValueError, match=r"x is on CUDA device 0 and weight on CUDA device 1"):
        rms_norm(host.array(x), host.array(w, device=1))
    assert not host.launches


def test_two_streams(cupy, launches):
    x, w = numbers(np.float32, 3, 8), np.ones(8, np.float32)
    with pytest.raises(ValueError, match=r"x belongs to stream 0x7000 and weight to stream 0x0\b.*on one stream"):
        rms_norm(ByInterface(x, stream=0x7000), cupy.array(w))
    with pytest.raises(ValueError, match="x belongs to stream 0x7000 and out to stream 0x8000"):
        rms_norm(ByInterface(x, stream=0x7000), out=ByInterface(x.copy(), stream=0x8000))
    rms_norm(ByInterface(x, stream=1), cupy.array(w))  # two names of the default stream
    with cupy.current(0x7000):
        rms_norm(ByInterface(x, stream=0x7000), cupy.array(w), out=cupy.array(x.copy()))
    assert launches == [(0, 1), (0, 0x7000)]


# -- what is refused -------------------------------------------------------------------------------------------------

X, W = np.ones((3, 4), np.float32), np.ones(4, np.float32)


@pytest.mark.parametrize("which", ["weight", "out", "update", "running_mean"])
@pytest.mark.parametrize("kinds", [f"{a} {b}" for a, b in itertools.permutations(("NumPy", "CuPy", "torch"), 2)])
def test_two_libraries(cupy, torch, launches, which, kinds):
    make = {"NumPy": np.copy, "CuPy": cupy.array, "torch": host_torch.array}
    first, second = (make[kind] for kind in kinds.split())
    calls = {
        "weight": lambda: rms_norm(first(X), second(W)),
        "out": lambda: rms_norm(first(X), out=second(X)),
        "update": lambda: add_rms_norm(first(X), second(X)),
        "running_mean": lambda: batch_norm(first(X), second(W), second(W), training=True),
    }
    words = f"is a {kinds.split()[0]} array and {which} a {kinds.split()[1]} array; move one"
    with pytest.raises(TypeError, match=words):
        calls[which]()


def test_lent_arrays_go_with_those_of_cupy(cupy, launches):
    y = rms_norm(cupy.array(X), ByInterface(W), out=ByDLPack(np.empty_like(X)))
    assert isinstance(y, ByDLPack)
    with pytest.raises(TypeError, match="x is a ByInterface array and weight a NumPy array"):
        rms_norm(ByInterface(X), W)


REFUSED = {
    "integers": (lambda a: rms_norm(a(X.astype(np.int64))), TypeError, "x has dtype int64"),
    "weight of integers": (lambda a: rms_norm(a(X), a(W.astype(np.int64))), TypeError, "weight has dtype int64"),
    "weight too long": (lambda a: rms_norm(a(X), a(np.ones(5, np.float32))), ValueError, r"\(5,\).*needs \(4,\)"),
    "empty axis": (lambda a: rms_norm(a(X[:, :0])), ValueError, "empty"),
    "axis too large": (lambda a: layer_norm(a(X), axis=2), ValueError, "out of bounds"),
    "out of another shape": (lambda a: rms_norm(a(X), out=a(X.T.copy())), ValueError, r"\(4, 3\)"),
    "out of another dtype": (lambda a: rms_norm(a(X), out=a(X.astype(np.float16))), TypeError, "out has dtype float16"),
    "out with one address": (
        lambda a: rms_norm(a(X), out=a(np.lib.stride_tricks.as_strided(X.copy(), (3, 4), (0, 4)))),
        ValueError,
        "out overlaps itself",
    ),
    "out over x in part": (lambda a: rms_norm(a(X[1:]), out=a(X[:2])), ValueError, "out overlaps x in part"),
    "out over weight": (lambda a: rms_norm(a(X[:1]), a(W), out=a(W[None])), ValueError, "shares memory with weight"),
    "out twice": (lambda a: add_rms_norm(a(X), a(X.copy()), out=(a(X), a(X))), ValueError, r"out\[0\] and out\[1\]"),
    "out crosswise": (lambda a: crosswise(a(X), a(X.copy())), ValueError, r"out\[0\] shares memory with update"),
    "running twice": (lambda a: batch_norm(a(X), a(W), a(W), training=True), ValueError, "running_mean.*shares memory"),
    "one value a channel": (lambda a: batch_norm(a(X[:1]), None, None, training=True), ValueError, "more than 1 value"),
    "eps on the device": (lambda a: rms_norm(a(X), eps=a(W[0:1].reshape(()))), TypeError, "eps is"),
    "update of another shape": (lambda a: add_rms_norm(a(X), a(X[:1])), ValueError, "update has shape"),
}


def crosswise(residual, update):
    return add_rms_norm(residual, update, out=(update, None))


@pytest.mark.parametrize(("call", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_refused(host, call, error, words):
    with pytest.raises(error, match=words):
        call(host.array)
    assert not host.launches


def test_read_only_results(cupy, launches):
    fixed = X.copy()
    fixed.flags.writeable = False
    for make in (ByInterface, ByDLPack):
        assert same_bits(memory_of(rms_norm(make(fixed))), rms_norm(X))  # to be read it may be
        with pytest.raises(ValueError, match="out is read-only"):
            rms_norm(make(X), out=make(fixed))
        with pytest.raises(ValueError, match="running_mean is read-only"):
            batch_norm(make(X), make(fixed[0]), make(W.copy()), training=True)


TENSORS = {
    "on the CPU": ({"is_cuda": False}, r"x is a torch tensor on .*to CUDA, or pass x\.numpy"),
    "with gradients": ({"requires_grad": True}, r"x requires gradients.*x\.detach\(\)"),
    "sparse": ({"layout": "torch.sparse_coo"}, "layout torch.sparse_coo"),
    "negated": ({"negated": True}, r"resolve_neg\(\)"),
}


@pytest.mark.parametrize(("attributes", "words"), TENSORS.values(), ids=TENSORS)
def test_tensors_that_are_no_plain_memory(torch, attributes, words):
    with pytest.raises(TypeError, match=words):
        rms_norm(host_torch.array(X, **attributes))
    with pytest.raises(TypeError, match="weight"):
        rms_norm(host_torch.array(X), host_torch.array(W, **attributes))


def test_parameters_where_torch_wants_no_gradients(torch, launches, monkeypatch):
    weight = host_torch.array(W, requires_grad=True)
    monkeypatch.setattr(torch, "grad", False)
    found = rms_norm(host_torch.array(X), weight)
    assert same_bits(found.host, rms_norm(X, W))
    monkeypatch.setattr(torch, "grad", True)
    with pytest.raises(TypeError, match=r"weight requires gradients.*torch\.no_grad"):  # the same look, but for that
        rms_norm(host_torch.array(X), weight)


def test_tensors_without_memory_or_a_dtype(torch):
    with pytest.raises(ValueError, match="has no memory"):  # torch.compile and FakeTensor
        rms_norm(host_torch.array(X, data_ptr=lambda: 0))
    with pytest.raises(TypeError, match="x has dtype float8_e5m2"):
        rms_norm(host_torch.array(X.astype(host_torch.NUMPY["float8_e5m2"])))
    with pytest.raises(TypeError, match=r"torch\.qint8 is no dtype that a norm takes"):
        rms_norm(host_torch.array(X, dtype=host_torch.DType("qint8")))
    with pytest.raises(TypeError, match=r"x has dtype int64; .* for example x\.float\(\)"):
        rms_norm(host_torch.array(X.astype(np.int64)))


def test_residual_dtype_in_the_words_of_torch(torch, launches):
    h, z = add_rms_norm(host_torch.array(X.astype(np.float16)), host_torch.array(X), residual_dtype=torch.bfloat16)
    assert (h.dtype, z.dtype) == (torch.bfloat16, torch.float32)


def test_a_parameter_of_torch_is_a_tensor(torch, launches):
    class Parameter(host_torch.Tensor):
        pass

    assert type(rms_norm(Parameter(X))) is host_torch.Tensor


INTERFACES = {
    "masked": ({"mask": object()}, TypeError, "x has a mask"),
    "stream 0": ({"stream": 0}, ValueError, "names stream 0"),
    "at address 0": ({"data": (0, False)}, ValueError, "has no memory"),
    "structured": ({"typestr": "|V4"}, TypeError, r"'\|V4', which does not say"),
    "other byte order": ({"typestr": ">f4"}, TypeError, "dtype >f4"),
}


@pytest.mark.parametrize(("entries", "error", "words"), INTERFACES.values(), ids=INTERFACES)
def test_interfaces_that_are_refused(cupy, launches, entries, error, words):
    with pytest.raises(error, match=words):
        rms_norm(ByInterface(X, **entries))


def test_bfloat16_by_interface_counts_only_where_it_is_said(cupy, launches):
    """torch has exported it as two-byte floats and as two nameless bytes: never is it read as float16."""
    x = numbers(host_torch.NUMPY["bfloat16"], 3, 40)
    for typestr in ("<V2", "|V2", "<f2"):
        assert same_bits(memory_of(rms_norm(ByInterface(x, typestr=typestr))), rms_norm(x))
    silent = ByInterface(x)
    del silent.dtype
    with pytest.raises(TypeError, match="'<V2', which does not say what it holds"):
        rms_norm(silent)
    named = ByInterface(x)
    named.dtype = host_torch.DType("bfloat16")
    assert memory_of(rms_norm(named)).dtype == x.dtype


def test_memory_that_is_no_devices(cupy, launches):
    cupy.owner = -2
    with pytest.raises(TypeError, match="x's __cuda_array_interface__ points at memory that no CUDA device owns"):
        rms_norm(ByInterface(X))
    with pytest.raises(TypeError, match=r"x is a ByDLPack on the CPU; pass np\.from_dlpack\(x\)"):
        rms_norm(ByDLPack(X, (1, 0)))
    with pytest.raises(TypeError, match="weight is on a device of DLPack's kind 10"):
        rms_norm(ByDLPack(X), ByDLPack(W, (10, 0)))


def test_dlpack_from_before_it_had_versions(cupy, launches):
    x = ByDLPack(numbers(np.float16, 3, 40), versioned=False)
    assert type(rms_norm(x)) is cupy.cupy.ndarray
    with pytest.raises(BufferError, match="no"):  # what the lender raises is the caller's to see
        rms_norm(SimpleNamespace(__dlpack_device__=lambda: (2, 0), __dlpack__=refuse_export))


def refuse_export(**_: Any) -> None:
    raise BufferError("no")


@pytest.mark.parametrize("lend", [ByInterface, ByDLPack])
def test_without_cupy_there_is_no_place_for_results(monkeypatch, lend):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(TypeError, match=r"x is a By\w+: the results would be CuPy arrays.*numba-norms\[cuda13\]"):
        rms_norm(lend(X))


@pytest.mark.parametrize("thing", [[1.0], 1.0, np.float32(1), "x", None, memoryview(X), SimpleNamespace(shape=(3,))])
def test_no_arrays(thing):
    with pytest.raises(TypeError, match=r"x is a \w+; the norms take NumPy and CuPy arrays, torch CUDA tensors"):
        rms_norm(thing)
    with pytest.raises(TypeError, match="the array is a"):
        place_of(thing)


# -- around it -------------------------------------------------------------------------------------------------------


def test_moments_of_parts_in_torch(torch, launches):
    x = numbers(np.float32, 2, 3, 40)
    parts = [moments(host_torch.array(part)) for part in x]
    merged = merge_moments(*zip(*parts, strict=True))
    expected = merge_moments(*zip(*map(moments, x), strict=True))
    assert merged.count == 80
    assert same_bits(merged.mean.host, expected.mean) and same_bits(merged.m2.host, expected.m2)
    empty = merge_moments([0], [host_torch.array(W)], [host_torch.array(W)])
    assert not empty.mean.host.any() and type(empty.m2) is host_torch.Tensor
    with pytest.raises(TypeError, match="a mean or M2 is a torch array and another a NumPy array"):
        merge_moments([1, 1], [host_torch.array(W), W], [host_torch.array(W), W])


def test_places_have_names(cupy, torch):
    found = [place_of(array) for array in (cupy.array(X, 1), host_torch.array(X), ByInterface(X), ByDLPack(X))]
    words = "CuPy on CUDA device 1, torch on CUDA device 0, ByInterface on CUDA device 0, ByDLPack on CUDA device 0"
    assert ", ".join(map(repr, found)) == words
    assert place_of(cupy.array(W, 1)) is found[0] and place_of(host_torch.array(W)) is found[1]


def test_a_copy_lives_until_the_launch(cupy, launches):
    """The pool would hand the memory of a copy that nobody holds to the next array."""
    x = cupy.array(numbers(np.float32, 4, 6, 5)[:, ::2].transpose(1, 0, 2))
    dense = Array.of(x).arranged((1, 2, 0), (20, 3))
    rooms = [cupy.cupy.empty((60,), np.float32) for _ in range(20)]
    assert not any(np.shares_memory(memory_of(room), dense.view(np.ndarray)) for room in rooms)
    owner = dense
    while not hasattr(owner, "owner"):
        owner = owner.base
    assert type(owner.owner) is cupy.cupy.ndarray


@pytest.mark.parametrize("module", ["cupy", "torch"])
def test_nobody_imports_a_library_that_the_caller_has_not(module):
    code = (
        f"import sys; sys.modules['{module}'] = None; import numpy as np; from numba_norms import layer_norm;"
        "layer_norm(np.ones((2, 8), np.float32)); print(sorted(m for m in ('cupy', 'torch') if sys.modules.get(m)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_torch_answers_as_its_stand_in_does():
    real = pytest.importorskip("torch")
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    for step in (lambda t: t, lambda t: t.permute(1, 0), lambda t: t.permute(1, 0).reshape((2, 6))):
        a, b = step(real.from_numpy(host)), step(host_torch.array(host))
        assert (tuple(a.shape), a.stride(), str(a.dtype)) == (tuple(b.shape), b.stride(), str(b.dtype))
        assert a.requires_grad is b.requires_grad and a.is_neg() is b.is_neg() and isinstance(a.is_cuda, bool)
    assert real.from_numpy(host).data_ptr() == host_torch.array(host).data_ptr()
    assert real.ones(3).layout is real.strided and real.empty((0, 3)).data_ptr() == 0
    assert real.ones(2, 1).expand(2, 3).stride() == (1, 0)
    for name in host_torch.NUMPY:
        assert str(getattr(real, name)) == f"torch.{name}"
    for name in ("copy_", "fill_", "to", "element_size"):
        assert callable(getattr(real.Tensor, name))
    assert real.device("cuda:1").index == 1 and hasattr(real.cuda, "current_stream")
    assert real.empty((2, 3), dtype=real.bfloat16, device="cpu").shape == (2, 3)
    with pytest.raises(TypeError, match=r"torch tensor on cpu.*x\.numpy\(\)"):
        rms_norm(real.ones(3))
