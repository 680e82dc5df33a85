"""Functions whose code is Python that Numba finds by type: overloads, functions of the CPU, operators as functions."""

import operator

import numba
import numpy as np
import pytest
from numba import cuda, float32, int32, types
from numba.cuda.extending import overload, overload_attribute, overload_method

from simulator import simulate
from simulator.errors import Unsupported
from simulator.frontend import lower_kernel

LINES: dict[str, int] = {}


def clip(x, low=0, high=1):
    raise NotImplementedError("only in kernels")


def norm(x):
    raise NotImplementedError("only in kernels")


@overload(clip, target="cuda")
def _clip(x, low=0, high=1):
    if isinstance(x, types.Float):
        return lambda x, low=0, high=1: min(max(x, float32(low)), float32(high))
    return lambda x, low=0, high=1: x * 0 - 1


@overload(norm)
def _norm(x):
    def impl(x):
        total = float32(0)
        for k in range(x.shape[0]):
            total += x[k] * x[k]
        return total ** float32(0.5)

    return impl


@overload_method(types.Array, "last", target="cuda")
def _last(array, back=1):
    return lambda array, back=1: array[array.size - back]


@overload_attribute(types.Array, "middle", target="cuda")
def _middle(array):
    return lambda array: array[array.size // 2]


@numba.njit
def cubed(x):
    return x * x * x


def test_an_overload_is_chosen_by_type_and_takes_arguments_by_name(run):
    @cuda.jit
    def kernel(x, n, y):
        i = cuda.grid(1)
        y[i, 0] = clip(x[i], high=2)
        y[i, 1] = clip(x[i], -1)
        y[i, 2] = clip(n[i])
        y[i, 3] = norm(x[i:])

    x, n = np.array([-3, 0.5, 7], "f4"), np.arange(3)
    found = run(kernel, 1, 3, x, n, np.zeros((3, 4), "f4"))
    rest = [np.sqrt(np.sum(x[k:] ** 2)) for k in range(3)]
    columns = np.array([np.clip(x, 0, 2), np.clip(x, -1, 1), [-1] * 3, rest], "f4")
    np.testing.assert_allclose(found, columns.T, rtol=1e-6)


def test_methods_and_attributes(run):
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        y[i] = x.last() * 100 + x.last(back=i + 1) + x.middle / 10

    x = np.array([1, 2, 3, 4, 5], "f4")
    found = run(kernel, 1, 5, x, np.zeros(5, "f4"))
    np.testing.assert_allclose(found, 500 + x[::-1] + 0.3)


def test_what_an_overload_does_bears_the_users_line():
    @cuda.jit
    def kernel(x, y):
        y[0] = norm(x)

    trace = simulate(kernel)[1, 1](np.ones(4, "f4"), np.zeros(1, "f4"))
    lines = {row.line for row in trace.lines if row.array == "x"}
    first = _norm.__code__.co_firstlineno
    assert lines == {first + 5}  # the line of the helper: x[k] * x[k]


def test_a_function_of_the_cpu_is_inlined(run):
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        y[i] = cubed(x[i])

    x = np.arange(5, dtype="f4")
    np.testing.assert_array_equal(run(kernel, 1, 5, x, np.zeros(5, "f4")), x**3)


@pytest.mark.parametrize("code", ["i4", "f4"])
def test_functions_of_the_operator_module(code, run):
    @cuda.jit
    def kernel(x, w, y):
        i = cuda.grid(1)
        y[i, 0] = operator.add(x[i], w[i])
        y[i, 1] = operator.imul(x[i], w[i])
        y[i, 2] = operator.floordiv(x[i], w[i])
        y[i, 3] = operator.lt(x[i], w[i])
        y[i, 4] = operator.neg(operator.getitem(x, i))
        y[i, 5] = pow(x[i], 2)
        y[i, 6] = operator.ne(x[i], w[i]) + operator.iand(i, 1)

    x, w = np.array([7, -7, 3, 5], code), np.array([2, 2, -2, 5], code)
    columns = [x + w, x * w, x // w, x < w, -x, x**2, (x != w) + (np.arange(4) & 1)]
    found = run(kernel, 1, 4, x, w, np.zeros((4, 7)))
    np.testing.assert_array_equal(found, np.array(columns, float).T)


def test_declared_signatures_cast_the_arguments_and_the_result(run):
    """A device function that is declared for int32 is given no other type."""

    @cuda.jit(device=True)
    def halved(n):
        return n / 2

    halved.overloads[int32,] = _Compiled(int32(int32))
    halved.disable_compile()

    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        y[i] = halved(x[i])

    found = run(kernel, 1, 3, np.array([1.9, 5.5, -3.7], "f4"), np.zeros(3))
    assert found.tolist() == [0, 2, -1]


class _Compiled:
    """What Numba keeps of a compiled device function, as far as typing asks."""

    objectmode = False

    def __init__(self, signature):
        self.signature = signature
        self.entry_point = signature


def test_external_functions_are_refused_by_name():
    external = cuda.declare_device("times2", "int32(int32)")

    @cuda.jit
    def kernel(x):
        x[0] = external(x[0])

    with pytest.raises(Unsupported, match="times2, which is declared with declare_device and linked in"):
        lower_kernel(kernel, (np.zeros(1, "i4"),))


@pytest.mark.parametrize("hint", ["ca", "cg", "cs", "lu", "cv"])
@pytest.mark.parametrize("store", ["cg", "cs", "wb", "wt"])
def test_cache_hints_are_kept_and_change_nothing(hint, store, run):
    load, keep = getattr(cuda, f"ld{hint}"), getattr(cuda, f"st{store}")

    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        keep(y, (i, -1), load(x, i) + load(x, -1))

    x = np.array([3, 5, 300], "i2")
    found = run(kernel, 1, 3, x, np.zeros((3, 2), "u1"))
    assert found[:, 1].tolist() == [(3 + 300) % 256, (5 + 300) % 256, 600 % 256]
    program = lower_kernel(kernel, (x, found))
    hints = [op.attr.get("hint") for op in program.ops() if op.kind in ("ld", "st")]
    assert hints == [hint, hint, store]
