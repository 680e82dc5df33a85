"""Kernels whose ``cuda`` is that of another package, ``numba_cuda_mlir``: a package of its shape stands in for it."""

import math
import sys
import types

import numpy as np
import pytest
from numba import cuda as numba_cuda

from simulator import simulate
from simulator.errors import Unsupported
from simulator.frontend import front_end
from simulator.frontend.inference.front_end import names_of
from simulator.frontend.inference.successor import Successor

PACKAGE = "numba_cuda_mlir"


class Thing:
    """A function, type or stub of that package: only its name matters."""

    def __init__(self, name):
        self.__name__ = name

    def __call__(self, *args):
        raise NotImplementedError(self.__name__)


Thing.__module__ = f"{PACKAGE}.things"


class Dispatcher:
    """What its ``jit`` makes."""

    def __init__(self, function, device=False):
        self.py_func, self.targetoptions = function, {"device": device, "debug": False}
        self.__name__ = function.__name__

    def __call__(self, *args):
        raise NotImplementedError


Dispatcher.__module__ = f"{PACKAGE}.descriptor"


def jit(function=None, **options):
    return Dispatcher(function, **options) if function else lambda function: Dispatcher(function, **options)


def module(name, parent=None, **members):
    made = types.ModuleType(name)
    vars(made).update(members)
    if parent is not None:
        setattr(parent, name.rpartition(".")[2], made)
    return made


@pytest.fixture
def cuda(monkeypatch):
    """The module ``numba_cuda_mlir.cuda``."""
    root = module(PACKAGE)
    names = ("grid", "syncthreads", "shfl_down_sync", "threadIdx", "blockDim", "laneid", "float32", "only_there")
    made = module(f"{PACKAGE}.cuda", root, jit=jit, **{name: Thing(name) for name in names})
    module(f"{PACKAGE}.cuda.libdevice", made, sqrtf=Thing("sqrtf"))
    module(f"{PACKAGE}.cuda.atomic", made, add=Thing("add"))
    module(f"{PACKAGE}.cuda.shared", made, array=Thing("array"))
    for name in ("local", "const", "cg"):
        module(f"{PACKAGE}.cuda.{name}", made)
    monkeypatch.setitem(sys.modules, PACKAGE, root)
    front = front_end()
    monkeypatch.setattr(front, "successor", Successor(front.half.modules, names_of))
    return made


def test_a_kernel_of_that_package_runs(cuda):
    @cuda.jit(device=True)
    def twice(v):
        return v * cuda.float32(2)

    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        tile = cuda.shared.array(32, cuda.float32)
        tile[cuda.threadIdx.x] = twice(x[i])
        cuda.syncthreads()
        cuda.atomic.add(y, 0, tile[31 - cuda.threadIdx.x])
        y[i + 1] = math.sin(cuda.libdevice.sqrtf(x[i])) + cuda.laneid

    x, y = np.arange(32, dtype="f4"), np.zeros(33, "f4")
    trace = simulate(kernel)[1, 32](x, y)
    assert y[0] == 2 * x.sum()
    np.testing.assert_allclose(y[1:], np.sin(np.sqrt(x)) + np.arange(32), rtol=1e-6)
    assert trace.thread(3).reads("x") == [3, 3]
    assert {row.line for row in trace.lines} <= set(range(kernel.py_func.__code__.co_firstlineno, 200))


def test_names_that_were_imported_one_by_one(cuda):
    grid, float32, libdevice = cuda.grid, cuda.float32, cuda.libdevice

    @cuda.jit
    def kernel(x):
        x[grid(1)] = libdevice.sqrtf(float32(4))

    x = np.ones(3, "f4")
    simulate(kernel)[1, 3](x)
    assert x.tolist() == [2, 2, 2]


def test_a_device_function_that_calls_itself(cuda):
    @cuda.jit(device=True)
    def factorial(n):
        return n * factorial(n - 1) if n > 1 else 1

    function = front_end()._function(factorial)
    inner = function.__closure__[0].cell_contents
    assert inner.py_func is function


def test_what_has_no_namesake_is_refused(cuda):
    other = cuda.only_there

    @cuda.jit
    def kernel(x):
        x[0] = other(x[0])

    with pytest.raises(Unsupported, match=f"only_there of {PACKAGE}"):
        simulate(kernel)[1, 1](np.zeros(1))


def test_kernels_of_the_installed_package_stay_themselves(cuda):
    @numba_cuda.jit
    def kernel(x):
        x[0] = 1

    assert front_end()._function(kernel) is kernel.py_func
