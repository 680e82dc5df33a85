"""Device functions, closures, and kernels that come from nowhere."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
from numba import cuda, float32

from simulator.frontend import DoesNotCompile, lower, lower_kernel

SCALE = 3
OFFSET = np.float32(0.5)


@cuda.jit(device=True)
def clamp(v, low=0, high=10):
    if v < low:
        return low
    if v > high:
        return high
    return v


@cuda.jit
def both_kernel_and_helper(v):
    return v * SCALE


@cuda.jit(device=True)
def write(y, i, v):
    if v < 0:
        return
    y[i] = v


@cuda.jit(device=True)
def spread(*values):
    total = 0
    for k in range(len(values)):
        total += values[k] * (k + 1)
    return total


def test_keywords_defaults_and_early_returns(run):
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        y[i, 0] = clamp(x[i])
        y[i, 1] = clamp(x[i], high=5)
        y[i, 2] = clamp(high=3, low=-3, v=x[i])
        y[i, 3] = both_kernel_and_helper(clamp(x[i], -100, 100)) + OFFSET
        write(y[i], 4, x[i])
        y[i, 5] = spread(x[i], 2, 3)

    x = np.arange(-6, 14)
    y = run(kernel, 1, 20, x, np.zeros((20, 6)))
    columns = [x.clip(0, 10), x.clip(0, 5), x.clip(-3, 3), x * 3 + 0.5, x.clip(0, None), x + 4 + 9]
    np.testing.assert_array_equal(y, np.stack(columns, 1))


def test_closures(run):
    def make(number, count, helper, table):
        @cuda.jit
        def kernel(x, y):
            i = cuda.grid(1)
            tile = cuda.shared.array(count, number)
            tile[i] = x[i]
            cuda.syncthreads()
            y[i] = helper(tile[count - 1 - i]) + table[i] + number(0.1)

        return kernel

    @cuda.jit(device=True)
    def square(v):
        return v * v

    x = np.linspace(0, 1, 4)
    for number, dtype in ((float32, "f4"), (np.float64, "f8")):
        y = run(make(number, 4, square, (1, 2, 3, 4)), 1, 4, x, np.zeros(4))
        tile = x.astype(dtype)[::-1]
        np.testing.assert_array_equal(y, tile * tile + np.arange(1, 5) + float(np.dtype(dtype).type(0.1)))


def test_functions_and_dtypes_as_arguments(run):
    @cuda.jit(device=True)
    def square(v):
        return v * v

    @cuda.jit(device=True)
    def apply(f, choose, number, v, count):
        tile = cuda.shared.array(count, number)
        tile[0] = f(v)
        return choose(tile[0], 1)

    @cuda.jit
    def kernel(x, y):
        y[0] = apply(square, max, float32, x[0], 4)
        y[1] = apply(abs, min, np.int32, x[1], 8)

    assert run(kernel, 1, 1, np.array([1.5, -2.5]), np.zeros(2)).tolist() == [2.25, 1]


def test_results_of_a_device_function_in_a_loop(run):
    @cuda.jit(device=True)
    def step(state, k):
        if k % 2:
            return state[0] + k, state[1]
        return state[0], state[1] * 2

    @cuda.jit
    def kernel(y):
        i = cuda.grid(1)
        state = (i, 1)
        before = state
        for k in range(5):
            before = state
            state = step(state, k)
        y[i] = state[0] * 1000 + state[1] * 10 + before[1]

    assert run(kernel, 1, 4, np.zeros(4, np.int64)).tolist() == [(i + 4) * 1000 + 80 + 4 for i in range(4)]


def test_a_plain_function_is_a_kernel(run):
    def kernel(y):
        y[cuda.grid(1)] = cuda.threadIdx.x

    assert run(kernel, 1, 3, np.zeros(3, np.int32)).tolist() == [0, 1, 2]


def notebook_cell(source: str, **names: object) -> dict[str, object]:
    """Compile a cell as a notebook does: no file, nothing for inspect to find."""
    namespace: dict[str, object] = {"cuda": cuda, "np": np, **names}
    exec(compile(source, "<ipython-input-3-0123>", "exec"), namespace)
    return namespace


def test_kernels_of_notebook_cells_may_be_redefined(run):
    source = "@cuda.jit\ndef kernel(x, y):\n    i = cuda.grid(1)\n    y[i] = x[i] * {}\n"
    for factor in (2, 3):
        kernel = notebook_cell(source.format(factor))["kernel"]
        assert run(kernel, 1, 3, np.arange(3), np.zeros(3, np.int64)).tolist() == [0, factor, 2 * factor]
        program = lower_kernel(kernel, (np.arange(3), np.zeros(3, np.int64)))
        places = {(op.pos.file, op.pos.line, op.pos.function) for op in program.ops() if op.kind in ("ld", "st")}
        assert places == {("<ipython-input-3-0123>", 4, "kernel")}


def test_programs_are_cached_by_types_and_die_with_the_kernel():
    kernel = notebook_cell("def kernel(x):\n    x[cuda.grid(1)] = 1\n")["kernel"]
    first = lower_kernel(kernel, (np.zeros(3),))
    assert lower_kernel(kernel, (np.zeros(7),)) is first
    assert lower_kernel(kernel, (np.zeros(3, "f4"),)) is not first
    assert lower_kernel(kernel, (np.zeros(6)[::2],)) is not first
    gone = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert gone() is None


def test_positions_name_the_chain_of_calls():
    @cuda.jit(device=True)
    def inner(v):
        return v * float32(2)

    @cuda.jit(device=True)
    def outer(v):
        return inner(v) + inner(v)

    @cuda.jit
    def kernel(x):
        x[0] = outer(x[0])

    first = kernel.py_func.__code__.co_firstlineno
    program = lower_kernel(kernel, (np.zeros(1, "f4"),))
    products = [op.pos for op in program.ops() if op.kind == "mul"]
    assert [pos.function for pos in products] == ["inner", "inner"]
    assert [pos.via.function for pos in products] == ["outer", "outer"]
    assert products[0].via.via.function == "kernel"
    assert products[0].via.via.line == first + 2
    assert {pos.file for pos in products} == {__file__}


def test_columns_where_they_can_be_had():
    source = "def kernel(x, y):\n    y[0] = x[1] + x[2]\n"
    kernel = notebook_cell(source)["kernel"]
    program = lower_kernel(kernel, (np.zeros(3), np.zeros(3)))
    columns = [op.pos.column for op in program.ops() if op.kind in ("ld", "st")]
    line = source.splitlines()[1]
    assert columns == [line.index("x[1]") + 1, line.index("x[2]") + 1, line.index("y[0]") + 1]


def test_variables_can_be_watched():
    @cuda.jit
    def kernel(x):
        row = cuda.blockIdx.x
        acc = float32(0)
        for j in range(4):
            v = x[j]
            acc += v * v
        last = acc
        x[row] = last

    program = lower_kernel(kernel, (np.zeros(8, "f4"),))
    written = {program.slots[slot].name for op in program.ops() for slot in op.dst}
    assert {"row", "acc", "j", "v"} <= written
    assert len({slot for op in program.ops() for slot in op.dst if program.slots[slot].name == "acc"}) == 1


def test_numba_keeps_working_beside_it():
    """Nothing stays patched, and threads may lower at the same time."""
    from numba.cuda.dispatcher import CUDADispatcher

    before = CUDADispatcher.get_call_template, CUDADispatcher.get_overload
    found: list[int] = []

    def work(k: int) -> None:
        kernel = notebook_cell(
            f"@cuda.jit(device=True)\ndef f(v):\n    return v + 1\ndef kernel(x):\n    x[0] = f(f(x[0])) * {k}\n"
        )["kernel"]
        found.append(len(list(lower_kernel(kernel, (np.zeros(1),)).ops())))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert (CUDADispatcher.get_call_template, CUDADispatcher.get_overload) == before


def test_numbas_own_reason_is_kept():
    @cuda.jit
    def kernel(x):
        i = cuda.grid(1)
        x[i] = x.nothing

    with pytest.raises(DoesNotCompile, match="Unknown attribute 'nothing'") as caught:
        lower_kernel(kernel, (np.zeros(1),))
    assert caught.value.pos.line == kernel.py_func.__code__.co_firstlineno + 3
    assert "Failed in" not in caught.value.reason


def test_the_front_end_is_numba_cudas():
    assert lower.front_end().half.name == "numba-cuda"


def test_wrong_number_of_arguments():
    def kernel(x, y):
        y[0] = x[0]

    with pytest.raises(TypeError, match=r"takes 2 arguments \(x, y\), got 1"):
        lower_kernel(kernel, (np.zeros(1),))


def test_scalar_arguments(run):
    @cuda.jit
    def kernel(a, b, c, d, y):
        y[0] = a
        y[1] = b
        y[2] = c
        y[3] = d

    args = (np.float16(1.5), -3, True, np.uint8(200))
    assert run(kernel, 1, 1, *args, np.zeros(4)).tolist() == [1.5, -3, 1, 200]
    program = lower_kernel(kernel, (*args, np.zeros(4)))
    assert [param.dtype for param in program.params[:4]] == ["f2", "i8", "b1", "u1"]
