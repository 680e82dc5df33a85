"""What is launched: types without a stray float64, one function object for trace and library, threads by D alone."""

import functools
import importlib
import inspect
import types
import warnings

import numpy as np
import pytest

import numba_norms
import simulator
from numba_norms import SimulatedOnCPU, builtin, rms_norm
from numba_norms.arrays.places import NUMPY
from numba_norms.kernels import rms_norm as kernels
from numba_norms.launch import Launch
from numba_norms.plan import THREADS, check_threads, threads_for
from simulator.frontend import lower_kernel
from tests.tolerances import DTYPES, FLOAT64, NAMES, RESULT, assert_close

BUILTIN = (builtin.rms_norm, builtin.layer_norm, builtin.layer_norm_welford)
every_builtin = pytest.mark.parametrize("build", BUILTIN, ids=lambda build: build.__name__)


@pytest.mark.parametrize("threads", [4, 256])
@every_builtin
@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_no_float64_unless_x_is(dtype, build, threads):
    launch = build((2, 40), dtype, threads)
    used = {slot.dtype for slot in lower_kernel(launch.kernel, launch.args).slots}
    used |= {op.dtype for op in lower_kernel(launch.kernel, launch.args).ops()}
    assert ("f8" in used) == (dtype == FLOAT64)
    assert ("f4" in used) == (dtype != FLOAT64)


@every_builtin
def test_kernels_are_short(build):
    lines = inspect.getsource(build((1, 8)).kernel.py_func).splitlines()
    assert len(lines) <= 40


@pytest.fixture
def launches(monkeypatch):
    seen = []
    run = Launch.run
    monkeypatch.setattr(Launch, "run", lambda launch, place: (seen.append(launch), run(launch, place))[1])
    return seen


layer_norm_welford = functools.partial(numba_norms.layer_norm, variance="welford")


@pytest.mark.parametrize("columns", [16, 4096])
@pytest.mark.parametrize(
    ("build", "call"),
    [
        (builtin.rms_norm, lambda x, w, b: numba_norms.rms_norm(x, w, return_stats=True)),
        (builtin.layer_norm, lambda x, w, b: numba_norms.layer_norm(x, w, b, return_stats=True)),
        (builtin.layer_norm_welford, lambda x, w, b: layer_norm_welford(x, w, b, return_stats=True)),
    ],
)
def test_the_command_line_traces_the_function_that_the_library_launches(build, call, columns, launches):
    x, w = np.ones((3, columns), np.float16), np.ones(columns, np.float32)
    call(x, w, w)
    (launched,) = launches
    shown = build((3, columns), "float16", path="auto")
    assert shown.kernel is launched.kernel
    assert (shown.grid, shown.block, shown.names) == (launched.grid, launched.block, launched.names)
    assert shown.names == tuple(inspect.signature(shown.kernel.py_func).parameters)


def test_another_stride_in_the_kernel_is_another_trace(monkeypatch):
    """What the command line shows comes out of the kernel's own loop, not out of what we know of it."""
    loop = "for j in range(thread, columns, threads):"
    source = inspect.getsource(kernels)
    assert source.count(loop) == 2
    changed = types.ModuleType("changed_kernels")
    exec(source.replace(loop, "for j in range(thread, columns, threads + 1):"), changed.__dict__)

    def indices():
        launch = builtin.rms_norm((1, 100), threads=32)
        return simulator.simulate(launch.kernel)[launch.grid, launch.block](*launch.args).thread(1).reads("weight")

    assert indices() == [1, 33, 65, 97]
    monkeypatch.setattr(importlib.import_module("numba_norms.rms_norm"), "rms_norm_kernel", changed.rms_norm_kernel)
    assert indices() == [1, 34, 67]


@every_builtin
def test_builtin_launches_run(build):
    launch = build((2, 3, 100), "bfloat16")
    launch.run(NUMPY)
    assert launch.grid == 6
    assert np.isfinite(launch.argument("y").astype(float)).all()
    again = build((2, 3, 100), "bfloat16")
    assert again.kernel is launch.kernel
    np.testing.assert_array_equal(again.argument("x"), launch.argument("x"))


@pytest.mark.parametrize("threads", [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024])
@every_builtin
def test_every_number_of_threads(build, threads):
    launch = build((2, 77), "float32", threads)
    launch.run(NUMPY)
    assert launch.block == threads
    reference = numba_norms.reference.rms_norm if build is builtin.rms_norm else numba_norms.reference.layer_norm
    parameters = [launch.argument(name) for name in ("weight", "bias") if name in launch.names]
    assert_close(launch.argument("y"), reference(launch.argument("x"), *parameters), RESULT[np.dtype(np.float32)])


@pytest.mark.parametrize("threads", [0, -4, 3, 48, 2048])
def test_threads_that_are_no_power_of_two(threads):
    with pytest.raises(ValueError, match="power of two from 1 to 1024"):
        builtin.rms_norm((1, 8), "float32", threads)


@pytest.mark.parametrize("dtype", ["int32", "float128", "bf16", np.int8])
def test_builtin_refuses_other_dtypes(dtype):
    with pytest.raises(TypeError, match="float16, bfloat16, float32, float64"):
        builtin.rms_norm((1, 8), dtype)


@pytest.mark.parametrize("shape", [(0, 8), (3, 0), (-1, 8)])
def test_builtin_refuses_empty_shapes(shape):
    with pytest.raises(ValueError, match="no elements"):
        builtin.layer_norm(shape, "float32")


def test_the_table_of_threads_rises():
    sizes, threads = zip(*THREADS, strict=True)
    assert list(sizes) == sorted(sizes)
    assert list(threads) == sorted(threads)
    assert all(check_threads(t) == t for t in threads)
    for size, t in THREADS[:-1]:
        assert threads_for(size) == t < threads_for(size + 1)


def test_a_large_simulated_array_is_announced_once(monkeypatch):
    launch = functools.partial(rms_norm, np.ones((2, 40), np.float32))
    module = __import__("sys").modules["numba_norms.launch"]
    monkeypatch.setattr(module, "SIMULATED_ELEMENTS", 79)
    module._announced.clear()
    with pytest.warns(SimulatedOnCPU, match="80 elements") as caught:
        launch()
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        launch()


def test_a_small_simulated_array_is_not_announced():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rms_norm(np.ones((2, 40), np.float32))


@pytest.mark.parametrize("thread", [0, 1, 255])
def test_the_indices_of_a_thread(thread):
    launch = builtin.rms_norm((1, 4096), "float16", 256)
    trace = simulator.simulate(launch.kernel)[launch.grid, launch.block](*launch.args)
    own = list(range(thread, 4096, 256))
    reader = trace.thread(thread)
    assert reader.reads("x") == own + own  # once for the sum, once to normalise
    assert reader.reads("weight") == reader.writes("y") == own
    assert reader.writes("rstd") == ([0] if thread == 0 else [])


def test_requests_and_sectors_of_a_row():
    launch = builtin.rms_norm((1, 4096), "float16", 256)
    trace = simulator.simulate(launch.kernel)[launch.grid, launch.block](*launch.args)
    assert not trace.findings
    loads = trace.total(array="x", operation="load")
    assert (loads.requests, loads.sectors, loads.ideal) == (2 * 4096 // 32, 2 * 4096 * 2 // 32, 2 * 4096 * 2 // 32)
    stores = trace.total(array="y", operation="store")
    assert (stores.requests, stores.sectors) == (128, 256)
