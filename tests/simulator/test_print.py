"""What a kernel prints reaches standard output once, as CUDA's printf writes it, lane by lane."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numba import cuda, float32, uint64

from simulator import SimulationError, simulate
from simulator.frontend import DoesNotCompile, lower_kernel
from simulator.simulate import Launch, record, run

ORDERS = [["waves"], ["first"], ["last"], [1]]


def printed(capsys: pytest.CaptureFixture[str], kernel: Any, grid: Any, block: Any, *args: Any, **options: Any) -> str:
    simulate(kernel, **options)[grid, block](*args)
    return capsys.readouterr().out


def test_lanes_print_in_order(capsys):
    @cuda.jit
    def kernel():
        i = cuda.grid(1)
        print(i, 999)
        if i % 2:
            print("odd", -i)

    lines = printed(capsys, kernel, 2, 3).splitlines()
    assert lines == [f"{i} 999" for i in range(6)] + [f"odd {-i}" for i in (1, 3, 5)]


@pytest.mark.parametrize("orders", ORDERS, ids=str)
def test_every_order_prints_the_same_lines(orders, capsys):
    @cuda.jit
    def kernel(x):
        i = cuda.grid(1)
        cuda.syncthreads()
        print("thread", i, x[i])

    out = printed(capsys, kernel, 2, 40, np.arange(80) / 4, orders=orders)
    assert sorted(out.splitlines()) == sorted(f"thread {i} {i / 4:f}" for i in range(80))


def test_several_orders_print_once(capsys):
    @cuda.jit
    def kernel():
        print("here")

    assert printed(capsys, kernel, 1, 1, orders=["waves", "first", 3]) == "here\n"
    assert printed(capsys, kernel, 1, 1, check=True) == "here\n"


@pytest.mark.parametrize("values", ["affine", "vector"])
def test_numbers_and_texts(values, capsys):
    @cuda.jit
    def kernel(x, h, b, big):
        i = cuda.grid(1)
        print(x[i], h[i], b[i], big, float32(0.1), "50% of", 3, True, not b[i])
        print()
        print("")
        print(-7, uint64(18446744073709551615))

    x, h = np.array([1.5, math.nan]), np.array([0.1, -math.inf], np.float16)
    b = np.array([0.9375, -2], ml_dtypes.bfloat16)
    out = printed(capsys, kernel, 1, 2, x, h, b == 0, -(2**40), values=values)
    assert out == (
        "1.500000 0.099976 False -1099511627776 0.100000 50% of 3 True True\n"
        "nan -inf False -1099511627776 0.100000 50% of 3 True True\n"
        "\n\n\n\n-7 18446744073709551615\n-7 18446744073709551615\n"
    )


def test_tuples_and_indices(capsys):
    @cuda.jit
    def kernel(pair):
        t = cuda.threadIdx.x
        print(cuda.threadIdx, cuda.blockDim)
        print(pair, (t,), (1, ((2, 4), 3.0), (4,), 5), ())
        print(*pair)

    out = printed(capsys, kernel, 1, (2, 1), (7, 2.5))
    assert out.splitlines() == [
        "(0, 0, 0) (2, 1, 1)",
        "(1, 0, 0) (2, 1, 1)",
        "(7, 2.500000) (0,) (1, ((2, 4), 3.000000), (4,), 5) ()",
        "(7, 2.500000) (1,) (1, ((2, 4), 3.000000), (4,), 5) ()",
        "7 2.500000",
        "7 2.500000",
    ]


def test_more_items_than_printf_takes_print_the_format(capsys):
    @cuda.jit
    def kernel(r):
        print(
            r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11], r[12], r[13], r[14], r[15], r[16],
            r[17], r[18], r[19], r[20], r[21], r[22], r[23], r[24], r[25], r[26], r[27], r[28], r[29], r[30], 1.0, True,
        )  # fmt: skip

    with pytest.warns(UserWarning, match="cannot print more than 32 items"):
        out = printed(capsys, kernel, 1, 1, np.arange(33))
    assert out == "%lld " * 31 + "%f %s\n"


def test_what_was_printed_before_an_error_is_seen(capsys):
    @cuda.jit
    def kernel(x):
        i = cuda.grid(1)
        print("before", i)
        x[i] = 1

    with pytest.raises(SimulationError):
        simulate(kernel)[1, 2](np.zeros(1))
    assert capsys.readouterr().out == "before 0\nbefore 1\n"


def test_a_library_s_launch_prints(capsys):
    @cuda.jit
    def kernel():
        print("plain")

    run(kernel, Launch((1, 1, 1), (1, 1, 1)), ())
    with record():
        run(kernel, Launch((1, 1, 1), (1, 1, 1)), ())
    assert capsys.readouterr().out == "plain\nplain\n"


def test_printing_by_a_device_function(capsys):
    @cuda.jit(device=True)
    def tell(value):
        print("told", value)
        return value + 1

    @cuda.jit
    def kernel():
        print(tell(tell(cuda.threadIdx.x)))

    assert printed(capsys, kernel, 1, 1) == "told 0\ntold 1\n2\n"


@pytest.mark.parametrize("what", ["array", "complex"])
def test_what_numba_cannot_print(what):
    def array(x):
        print(x)

    def complex_(x):
        print(x[0] * 1j)

    kernel = array if what == "array" else complex_
    with pytest.raises(DoesNotCompile, match="Numba cannot print a value of type") as caught:
        lower_kernel(kernel, (np.zeros(1),))
    assert caught.value.pos.line == kernel.__code__.co_firstlineno + 1
