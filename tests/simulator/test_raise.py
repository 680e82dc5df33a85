"""What a kernel raises: seen by the host under ``debug=True`` alone, as the kernel's own exception."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from numba import cuda

import simulator
from simulator import SimulationError, simulate
from simulator.frontend import DoesNotCompile, lower_kernel
from simulator.simulate import Launch, run
from tests.simulator.raising import Refused, picky
from tests.simulator.running import line_of

CASES = [
    (1, Refused, (), "raise Refused"),
    (2, Refused, ("two", 7), 'raise Refused("two'),
    (3, ValueError, ("three",), "raise ValueError"),
    (4, AssertionError, ("not four",), "assert x[i] != 4"),
    (5, AssertionError, (), "assert x[i] != 5"),
    (0, ZeroDivisionError, ("division by zero",), "1 / x[i]"),
]


@pytest.mark.parametrize(("value", "kind", "args", "line"), CASES)
@pytest.mark.parametrize("orders", [["waves"], [3]], ids=str)
def test_the_host_gets_the_kernel_s_exception(value, kind, args, line, orders):
    x = np.full(80, 8.0)
    x[45] = x[70] = value
    y = np.zeros(80)
    with pytest.raises(kind) as caught:
        simulate(picky, orders=orders)[5, 16](x, y)
    who = {"waves": ["13", "2"]}.get(orders[0], ["(13|6)", "(2|4)"])
    where = f"In function 'picky', file {picky.py_func.__code__.co_filename}, line {line_of(picky, line)}, "
    assert re.match(re.escape(where) + rf"tid=\[0, 0, {who[0]}\] ctaid=\[0, 0, {who[1]}\]", caught.value.args[0])
    assert caught.value.args[0].endswith(f": {args[0]}" if args else "]")
    assert caught.value.args[1:] == args[1:]
    finished = np.ones(80, bool)
    finished[[45, 70]] = False
    assert (y == np.where(finished, 0.125, 0)).all()


def test_the_exception_knows_findings_and_trace():
    with pytest.raises(ValueError, match="three") as caught:
        simulate(picky)[2, 32](np.full(64, 3.0), np.zeros(64))
    cause = caught.value.__cause__
    assert isinstance(cause, SimulationError)
    (finding,) = cause.findings
    assert (finding.kind, finding.severity, finding.count) == ("kernel-exception", "error", 64)
    assert cause.trace.total("x").requests


def test_thread_and_block_are_told_slowest_first():
    @cuda.jit(debug=True, opt=False)
    def kernel(x):
        if cuda.threadIdx.x == 1 and cuda.threadIdx.y == 2 and cuda.blockIdx.y == 3:
            raise Refused("here")
        x[0] = 1

    with pytest.raises(Refused, match=re.escape("tid=[0, 2, 1] ctaid=[0, 3, 0]: here")):
        simulate(kernel)[(1, 4), (2, 3)](np.zeros(1))


def test_without_debug_the_thread_just_ends():
    @cuda.jit
    def kernel(x):
        i = cuda.grid(1)
        if i == 2:
            raise Refused("two")
        x[i] = 1

    x = np.zeros(4)
    trace = simulate(kernel)[1, 4](x)
    assert x.tolist() == [1, 1, 0, 1]
    assert [(f.kind, f.severity) for f in trace.findings] == [("kernel-exception", "warning")]
    assert trace.exception is None


def test_with_check_it_is_a_finding_and_an_exception_to_take():
    trace = simulate(picky, check=True)[1, 4](np.full(4, 2.0), np.zeros(4))
    assert [f.severity for f in trace.findings if f.kind == "kernel-exception"] == ["error"]
    assert isinstance(trace.exception, Refused)
    assert trace.exception.args[1] == 7


def test_the_stand_in_device_raises_with_and_without_check():
    for check in (False, True):
        with simulator.device(check=check) as gpu:
            kernel = cuda.jit(debug=True, opt=False)(picky.py_func)
            x = cuda.to_device(np.full(4, 2.0))
            with pytest.raises(Refused, match=": two"):
                kernel[1, 4](x, cuda.to_device(np.zeros(4)))
        assert gpu.launches == 1


def test_a_library_s_launch_raises():
    x, y = np.array([8.0, 2.0]), np.zeros(2)
    with pytest.raises(Refused):
        run(picky, Launch((1, 1, 1), (2, 1, 1)), (x, y))
    assert y[0] == 0.125


def test_raised_in_a_device_function():
    @cuda.jit(device=True, debug=True, opt=False)
    def checked(value):
        if value > 2:
            raise Refused("too much")
        return value

    @cuda.jit(debug=True, opt=False)
    def kernel(x):
        i = cuda.grid(1)
        x[i] = checked(i) + 10

    x = np.zeros(5)
    with pytest.raises(Refused, match=r"In function 'checked'.*: too much"):
        simulate(kernel)[1, 5](x)
    assert x.tolist() == [10, 11, 12, 0, 0]


def test_a_tuple_s_index():
    @cuda.jit(debug=True, opt=False)
    def kernel(x):
        x[0] = x.shape[cuda.threadIdx.x - 3]

    with pytest.raises(IndexError, match=r"tid=.*: tuple index out of range"):
        simulate(kernel)[1, 2](np.zeros(1))


def test_fastmath_divides_by_zero():
    @cuda.jit(debug=True, opt=False, fastmath=True)
    def kernel(r, x):
        r[0] = x[0] / x[1]

    r = np.zeros(1, np.float32)
    simulate(kernel)[1, 1](r, np.array([1, 0], np.float32))
    assert np.isinf(r[0])
    with pytest.raises(ZeroDivisionError):  # in double there is no approximate division
        simulate(kernel)[1, 1](r, np.array([1.0, 0.0]))


def test_arguments_that_are_computed_do_not_compile():
    def kernel(x):
        raise ValueError(x[0])

    with pytest.raises(DoesNotCompile, match="constants"):
        lower_kernel(kernel, (np.zeros(1),))


def test_a_raising_kernel_takes_no_part_in_pickling():
    """The exception is an ordinary one."""
    with pytest.raises(ValueError, match="three") as caught:
        simulate(picky)[1, 1](np.array([3.0]), np.zeros(1))
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args
