"""What Numba refuses to compile: the line at fault, and a reason short enough to read."""

from __future__ import annotations

import inspect
import math
import re

import numpy as np
import pytest
from numba import cuda

from simulator.errors import Unsupported
from simulator.frontend import DoesNotCompile, lower_kernel


@cuda.jit(device=True)
def _lacks_attribute(v):
    w = v + 1
    return w.nothing  # fault


@cuda.jit(device=True)
def _stores_text(x):
    x[1] = 0

    x[0] = "a"  # fault


def _calls_one(x, y):

    y[0] = _lacks_attribute(x[0])


def _calls_other(x, y):

    _stores_text(x)


def _makes_array(x, y):
    i = cuda.grid(1)
    z = np.zeros(3)  # fault
    x[i] = z[0]


def _stores_string(x, y):
    i = cuda.grid(1)
    x[i] = "a"  # fault


def _undefined(x, y):
    i = cuda.grid(1)
    x[i] = undefined + 1  # noqa: F821  # fault


def _with(x, y):
    i = cuda.grid(1)
    with x:  # fault
        x[i] = 1


def _unifies(x, y):
    a = 1
    for _ in range(3):  # fault
        a = (a, 1)
    x[0] = 1


def _dynamic_extent(x, y):
    x[0] = 1
    s = cuda.shared.array(x.size, np.float32)  # fault
    x[0] = s[0]


def _imports(x, y):
    x[0] = 1
    import math  # fault

    x[0] = math.sin(x[0])


def _deletes(x, y):
    x[0] = 1
    del x[0]  # fault


def _returns(x, y):
    if x[0] > 0:
        return None
    return x[0]  # fault


def _returns_twice(x, y):
    if x[0] > 0:
        return 2  # fault
    return 3


def _yields(x, y):
    x[0] = 1
    yield x[0]  # fault


async def _waits(x, y):  # fault
    x[0] = 1


def _adds_rows(x, y):
    i = cuda.grid(1)
    y[i] = x[i] + y[i]  # fault


def _scales_rows(x, y):
    i = cuda.grid(1)
    y[i] *= 2  # fault


NOT_COMPILED = [
    (_calls_one, _lacks_attribute, 1, "Unknown attribute 'nothing' of type float64"),
    (_calls_other, _stores_text, 1, "No implementation of function setitem"),
    (_makes_array, None, 1, "No implementation of function zeros found for signature: zeros("),
    (
        _stores_string,
        None,
        1,
        "No implementation of function setitem found for signature: setitem(array(float64, 1d, C)",
    ),
    (_undefined, None, 1, "NameError: name 'undefined' is not defined"),
    (_with, None, 1, "no with statement"),
    (_unifies, None, 1, "Cannot unify"),
    (_dynamic_extent, None, 1, "No implementation of function shared.array"),
    (_imports, None, 1, "IMPORT_NAME"),
    (_deletes, None, 1, "No implementation of function delitem"),
    (_returns, None, 1, "a kernel must return None"),
    (_returns_twice, None, 1, "a kernel must return None"),
    (_yields, None, 1, "yield"),
    (_waits, None, 1, "async"),
    (_adds_rows, None, 2, "no operator + on array(float64, 1d) and array(float64, 1d)"),
    (_scales_rows, None, 2, "no operator * on array(float64, 1d) and int64"),
]


@pytest.mark.parametrize(("kernel", "culprit", "ndim", "words"), NOT_COMPILED, ids=lambda v: getattr(v, "__name__", ""))
def test_does_not_compile_names_the_line_and_a_short_reason(kernel, culprit, ndim, words):
    lines, first = inspect.getsourcelines(getattr(culprit, "py_func", culprit) or kernel)
    with pytest.raises(DoesNotCompile, match=re.escape(words)) as caught:
        lower_kernel(kernel, (np.zeros((4,) * ndim), np.zeros((4,) * ndim)))
    fault = next(index for index, line in enumerate(lines) if "# fault" in line)
    assert (caught.value.pos.file, caught.value.pos.line) == (__file__, first + fault)
    assert "\n" not in caught.value.reason
    assert not re.search(r"candidate|0x[0-9a-f]{6}|During|Function\(", caught.value.reason)


def test_a_kernel_that_returns_none_is_one():
    def kernel(x):
        if x[0] > 0:
            return None  # noqa: RET501
        x[0] = 1
        return None  # noqa: RET501

    assert lower_kernel(kernel, (np.zeros(1),)).arguments == ("x",)


def test_a_device_function_is_no_kernel():
    with pytest.raises(TypeError, match="_stores_text is a device function"):
        lower_kernel(_stores_text, (np.zeros(1),))


@cuda.jit(device=True)
def _generates(n):
    yield n


def test_messages_use_the_users_words():
    def generator(y):
        for v in _generates(3):
            y[0] = v

    def text(y):
        for _ in "a" + "b":
            y[0] += 1

    for kernel, words in (
        (generator, r"a generator \(yield\)"),
        (text, "a loop over a value of type str"),
    ):
        with pytest.raises(Unsupported, match=words):
            lower_kernel(kernel, (np.zeros(1),))


def test_constants_beyond_the_integers_saturate(run):
    infinite = math.inf

    def kernel(y):
        y[0] = int(infinite)
        y[1] = int(1e400) * cuda.blockDim.x
        y[2] = int(-1e400)
        y[3] = int(math.nan)

    highest = 2**63 - 1
    assert run(kernel, 1, 1, np.ones(4, np.int64)).tolist() == [highest, highest, -highest - 1, 0]
