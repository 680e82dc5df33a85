"""What is not mapped is refused, with file, line and the construct's name; never approximated."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from numba import cuda, float32

from simulator.errors import Unsupported
from simulator.frontend import DoesNotCompile, lower_kernel

OBJECTS = np.dtype([("a", "f4"), ("b", object)])


def _list(x, y):
    values = [1, 2, 3]
    y[0] = values[0]


def _copy(x, y):
    y[0] = x.copy()[0]


def _flatten(x, y):
    y[0] = x.flatten()[0]


def _empty(x, y):
    y[0] = np.empty(3)[0]


def _assigns_an_array(x, y):
    y[:] = x


def _indexes_by_an_array(x, y):
    y[0] = x[x > 0][0]


def _other_group(x, y):
    cuda.cg.this_block().sync()


def _bessel(x, y):
    y[0] = cuda.libdevice.j0f(x[0])


def _two_functions(x, y):
    f = min if x[0] > 0 else max
    y[0] = f(x[0], x[1])


REFUSED = [
    (_list, "f4", "list"),
    (_copy, "f4", "method copy, which allocates memory"),
    (_flatten, "f4", "method flatten, which allocates memory"),
    (_empty, "f4", "empty"),
    (_assigns_an_array, "f4", "assigning an array to a slice"),
    (_indexes_by_an_array, "f4", "the operator gt"),
    (_other_group, "f4", "this_block"),
    (_bessel, "f4", "libdevice.j0f"),
]


@pytest.mark.parametrize(("kernel", "dtype", "words"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_refused_with_line_and_construct(kernel, dtype, words):
    x = np.zeros(4, dtype)
    with pytest.raises((Unsupported, DoesNotCompile), match=words) as caught:
        lower_kernel(kernel, (x, np.zeros(4, "f4")))
    assert caught.value.pos.file == __file__
    first = kernel.__code__.co_firstlineno
    assert first <= caught.value.pos.line <= first + 5


def test_a_function_chosen_at_run_time_does_not_compile():
    with pytest.raises((Unsupported, DoesNotCompile)):
        lower_kernel(_two_functions, (np.zeros(4, "f4"), np.zeros(4, "f4")))


def test_unmapped_argument_forms_are_refused():
    from simulator.frontend.lowering.calls import table

    def kernel(x):
        x[0] = round(x[0], ndigits=2)

    with pytest.raises(DoesNotCompile, match="Keyword arguments are not supported"):  # Numba's own limit
        lower_kernel(kernel, (np.zeros(1),))
    with pytest.raises(Unsupported, match=r"calling slice with 0 positional"):
        table._bind(_Refuser(), _call("builtins.slice", keywords=(("start", "a"),)), ["*"])
    with pytest.raises(Unsupported, match=r"calling cuda.syncwarp with 2 positional"):
        table._bind(_Refuser(), _call("cuda.syncwarp", args=("a", "b")), ["mask?"])


class _Refuser:
    def refuse(self, construct: str) -> Unsupported:
        return Unsupported(None, construct)


def _call(name, args=(), keywords=()):
    from simulator.frontend import kernel_types as kt
    from simulator.frontend import typed_ir as ir

    return ir.Call(ir.Named(name), args, keywords, kt.Signature((), kt.Nothing()))


ARGUMENTS = [
    (np.zeros(3, ">f4"), "array(>f4, 1d)"),
    (np.zeros(3, ml_dtypes.float8_e4m3fn), "array(float8_e4m3fn, 1d)"),
    (np.zeros((3, 2), "V3"), "array(|V3, 2d)"),
    (np.zeros(3, object), "array(object, 1d)"),
    (np.zeros(3, OBJECTS), "array([('a', '<f4'), ('b', 'O')], 1d)"),
    (np.zeros(3, [("a", bool, (2,))]), "array([('a', '?', (2,))], 1d)"),
    (np.ma.zeros(3), "MaskedArray(float64, 1d)"),
    (None, "None"),
    ("text", "str"),
    ([1, 2], "list"),
    ([], "list"),
    ({"a": 1}, "dict"),
    (2**70, "int"),
    (object(), "object"),
    ((1, None), "tuple(int, None)"),
    ((np.zeros(1), "a"), "tuple(array(float64, 1d), str)"),
]
if np.dtype(np.longdouble).itemsize > 8:
    ARGUMENTS.append((np.zeros(3, np.longdouble), f"array({np.dtype(np.longdouble)}, 1d)"))


@pytest.mark.parametrize(("value", "kind"), ARGUMENTS, ids=[kind for _, kind in ARGUMENTS])
def test_arguments_that_no_kernel_takes(value, kind):
    def kernel(x, y):
        y[0] = 1

    with pytest.raises(Unsupported, match=re.escape(f"the argument x of type {kind} is")):
        lower_kernel(kernel, (value, np.zeros(1)))


def test_a_step_of_zero():
    def kernel(y):
        for _ in range(0, 5, 0):
            y[0] = float32(1)

    with pytest.raises(Unsupported, match="a range with step 0"):
        lower_kernel(kernel, (np.zeros(1),))


def test_what_is_no_kernel_at_all():
    with pytest.raises(TypeError, match="a kernel is"):
        lower_kernel(3, ())
