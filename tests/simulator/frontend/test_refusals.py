"""What is not mapped is refused, with file, line and the construct's name; never approximated."""

from __future__ import annotations

import cmath
import re
from collections import namedtuple

import ml_dtypes
import numpy as np
import pytest
from numba import cuda, float32

from simulator.errors import Unsupported
from simulator.frontend import DoesNotCompile, lower_kernel

Point = namedtuple("Point", "x y")
RECORD = np.dtype([("a", "f4"), ("b", "i4")])


def _prints(x, y):
    print(x[0])


def _record(x, y):
    y[0] = x[0].a


def _complex(x, y):
    y[0] = abs(x[0])


def _polar(x, y):
    y[0] = cmath.phase(x[0])


def _list(x, y):
    values = [1, 2, 3]
    y[0] = values[0]


def _reshape(x, y):
    y[0] = x.reshape(2, 2)[0, 1]


def _row_assignment(x, y):
    y[:] = 0


def _iterates_array(x, y):
    for v in x:
        y[0] += v


def _enumerates(x, y):
    for i, v in enumerate(x):
        y[i] = v


def _named_tuple(x, y):
    p = Point(x[0], x[1])
    y[0] = p.x


def _optional(x, y):
    v = None
    if x[0] > 0:
        v = x[0]
    if v is not None:
        y[0] = v


def _compares_tuples(x, y):
    y[0] = (x[0], x[1]) < (x[1], x[0])


def _unpacks_array(x, y):
    a, b, c, d = x
    y[0] = a


def _sum_builtin(x, y):
    y[0] = np.sum(x)


def _cooperative(x, y):
    cuda.cg.this_grid().sync()
    y[0] = x[0]


def _approximate(x, y):
    y[0] = cuda.libdevice.fast_sinf(x[0])


def _vector_type(x, y):
    v = cuda.float32x2(x[0], x[1])
    y[0] = v.x


def _two_functions(x, y):
    f = min if x[0] > 0 else max
    y[0] = f(x[0], x[1])


def _indexes_tuple_of_arrays(x, y):
    y[0] = (x, y)[cuda.threadIdx.x][0]


REFUSED = [
    (_prints, "f4", "print"),
    (_record, RECORD, "argument x of type"),
    (_complex, "c8", "argument x of type"),
    (_polar, "c8", "argument x of type"),
    (_list, "f4", "list"),
    (_reshape, "f4", "the method reshape"),
    (_row_assignment, "f4", "assigning to a row or slice"),
    (_iterates_array, "f4", "a loop over a value of type"),
    (_enumerates, "f4", "enumerate"),
    (_named_tuple, "f4", "Point"),
    (_optional, "f4", "type float32 or None is"),
    (_compares_tuples, "f4", "the operator lt"),
    (_unpacks_array, "f4", "unpacking"),
    (_sum_builtin, "f4", "sum"),
    (_cooperative, "f4", "this_grid"),
    (_approximate, "f4", "fast_sinf"),
    (_vector_type, "f4", "calling cuda.float"),
    (_indexes_tuple_of_arrays, "f4", "indexing a tuple of other things"),
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
    from simulator.frontend.calls import table

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
    (np.zeros(()), "array(float64, 0d)"),
    (np.zeros(3, ">f4"), "array(>f4, 1d)"),
    (np.zeros(3, ml_dtypes.float8_e4m3fn), "array(float8_e4m3fn, 1d)"),
    (np.zeros((3, 2), "V3"), "array(|V3, 2d)"),
    (np.zeros(3, complex), "array(complex128, 1d)"),
    (np.zeros(3, object), "array(object, 1d)"),
    (np.zeros(3, "M8[s]"), "array(datetime64[s], 1d)"),
    (np.zeros(3, RECORD), "array([('a', '<f4'), ('b', '<i4')], 1d)"),
    (np.ma.zeros(3), "MaskedArray(float64, 1d)"),
    (None, "None"),
    ("text", "str"),
    ([1, 2], "list"),
    ([], "list"),
    ({"a": 1}, "dict"),
    (1j, "complex"),
    (2**70, "int"),
    (np.datetime64("2020-01-01"), "datetime64"),
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
