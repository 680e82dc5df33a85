"""Meanings of intrinsics: what they can say and cannot, how they are registered, and who is told to be at fault.

The intrinsics are made here, with typing functions only: the simulator never asks for their machine code.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import ml_dtypes
import numba.cuda.extending
import numba.extending
import numpy as np
import pytest
from numba import cuda, float64, types

import simulator
from simulator import MeaningError, Unsupported, intrinsic, simulate
from simulator.intrinsics import GROUP, qualified_name
from tests.simulator.running import line_of

nothing = types.none


# -- what a meaning can say ------------------------------------------------------------------------------------------


def told(typing: Any, meaning: Any, make: Any = numba.extending.intrinsic) -> Any:
    """A new intrinsic with a meaning."""
    found = make(typing)
    intrinsic(found)(meaning)
    return found


def result_of(handle: Any, dtype: Any = np.float32, x: Any = None) -> Any:
    """What the intrinsic gives for the element of x that each of 4 threads has."""

    @cuda.jit
    def kernel(x, y):
        t = cuda.grid(1)
        y[t] = handle(x[t])

    x = np.arange(1, 5, dtype=np.float32) if x is None else x
    y = np.zeros(4, dtype)
    simulate(kernel)[1, 4](x, y)
    return y.tolist()


def test_arithmetic_with_numbers_of_the_dtype_and_of_python() -> None:
    def typing(typingctx, x):
        return x(x), None

    assert result_of(told(typing, lambda code, x: 2 * x * x - x + 0.5)) == [1.5, 6.5, 15.5, 28.5]
    assert result_of(told(typing, lambda code, x: np.float32(8) - x)) == [7, 6, 5, 4]
    assert result_of(told(typing, lambda code, x: 7)) == [7] * 4
    wraps = told(typing, lambda code, x: x + 100)
    assert result_of(wraps, np.int8, np.array([1, 27, 28, 100], np.int8)) == [101, 127, -128, -56]


def clamped(x, high):  # type: ignore[no-untyped-def]
    while x > high:
        x -= high
    return cuda.shfl_xor_sync(0xF, x, 1), 1.5


def test_call_inlines_python_with_loops_and_shuffles() -> None:
    def meaning(code: Any, x: Any) -> Any:
        first, second = code.call(clamped, x, code.convert(3, x.dtype))
        return first + code.convert(second, x.dtype)

    assert result_of(told(lambda typingctx, x: (x(x), None), meaning)) == [3.5, 2.5, 2.5, 4.5]


def test_bits_and_conversions() -> None:
    bits = told(lambda typingctx, x: (types.int32(x), None), lambda code, x: code.bitcast(x, "int32"))
    assert result_of(bits, np.int64) == [0x3F800000, 0x40000000, 0x40400000, 0x40800000]
    to_integer = told(lambda typingctx, x: (types.int8(x), None), lambda code, x: code.convert(x * 100, np.int8))
    assert result_of(to_integer, np.int64) == [100, 127, 127, 127]


def test_a_tuple_comes_back_as_one() -> None:
    def typing(typingctx, x):
        return types.Tuple((x, types.int64))(x), None

    pair = told(typing, lambda code, x: (x + 1, 5))

    @cuda.jit
    def kernel(x, y):
        t = cuda.grid(1)
        value, number = pair(x[t])
        y[t] = value * number

    y = np.zeros(4)
    simulate(kernel)[1, 4](np.arange(4.0), y)
    assert y.tolist() == [5, 10, 15, 20]


def test_what_a_meaning_gets_for_each_kind_of_argument() -> None:
    seen: list[Any] = []

    def typing(typingctx, array, index, number, kind, text, none, last=3):
        return nothing(array, index, number, kind, text, none), None

    def meaning(code: Any, array: Any, index: Any, number: Any, kind: Any, text: Any, none: Any, last: Any = 3) -> None:
        seen.extend([repr(array), array.ndim, array.shape, index, number.dtype, kind, text, none, last, code.name])
        seen.append(code.constant(index[1]))
        assert array.dtype == np.dtype(ml_dtypes.bfloat16)

    anything = told(typing, meaning)

    @cuda.jit
    def kernel(x):
        anything(x, (cuda.threadIdx.x, 2), cuda.threadIdx.x, float64, "text", None)
        anything(x, number=1, index=(1, 2), kind=x.dtype, text="t", none=None)

    x = np.zeros((2, 3), ml_dtypes.bfloat16)
    simulate(kernel)[1, 1](x)
    name = f"{__name__}.test_what_a_meaning_gets_for_each_kind_of_argument.<locals>.typing"
    assert seen[0:2] == ["<array: array(bfloat16, 2d)>", 2]
    assert (
        repr(seen[2:4])
        == "[(<array.shape[0]: int64>, <array.shape[1]: int64>), (<index[0]: int32>, <index[1]: int64>)]"
    )
    assert seen[4:11] == [np.dtype("i4"), np.dtype("f8"), "text", None, 3, name, 2]
    assert seen[15:22] == [np.dtype("i8"), x.dtype, "t", None, 3, name, 2]


def test_an_intrinsic_reaches_a_device_function_as_argument_and_attribute() -> None:
    double = told(lambda typingctx, x: (x(x), None), lambda code, x: x + x)

    @cuda.jit(device=True)
    def apply(function, x):
        return function(x)

    @cuda.jit
    def kernel(x, y):
        t = cuda.grid(1)
        y[t] = apply(double, x[t])

    y = np.zeros(4)
    simulate(kernel)[1, 4](np.arange(4.0), y)
    assert y.tolist() == [0, 2, 4, 6]


# -- what a meaning cannot say ---------------------------------------------------------------------------------------


def of_number(typingctx, x):  # type: ignore[no-untyped-def]
    return x(x), None


def of_array(typingctx, x):  # type: ignore[no-untyped-def]
    return x.dtype(x), None


@pytest.mark.parametrize(("meaning", "text"), [
    (lambda code, x: 1 / 0, "failed: ZeroDivisionError: division by zero"),
    (lambda code: 1, r"does not take \(code, <argument 0: float32>\): too many positional arguments"),
    (lambda code, x, y: x, r"does not take \(code, <x: float32>\): missing a required argument: 'y'"),
    (lambda code, x: None, "returned None, but the intrinsic gives float32"),
    (lambda code, x: (x, x), r"returned \(<x: float32>, <x: float32>\), but the intrinsic gives float32"),
    (lambda code, x: code.convert(x, "f8"), "returned <number: float64>, but the intrinsic gives float32"),
    (lambda code, x: x + code.convert(x, "f8"), "failed: TypeError: <number: float64> where float32 is asked for"),
    (lambda code, x: x if x > 3 else 0, "failed: TypeError: <x: float32> is compared before the kernel runs"),
    (lambda code, x: x if x else 0, "failed: TypeError: <x: float32> is neither true nor false"),
    (lambda code, x: code.convert(x, "c8"), "has no numbers of dtype complex64"),
    (lambda code, x: code.bitcast(x, "i8"), "the bits of <x: float32> do not make a int64"),
    (lambda code, x: code.load(x, 0)[0], "an access goes to an array, not to <x: float32>"),
    (lambda code, x: code.call(clamped, code.convert(x, "bfloat16")), r"code.call\(\) takes no bfloat16"),
])  # fmt: skip
def test_a_meaning_at_fault_is_told_apart_from_a_kernel(meaning: Any, text: str) -> None:
    handle = told(of_number, meaning)

    @cuda.jit
    def kernel(x, y):
        y[0] = handle(x[0])

    where = f"{__file__}:{line_of(kernel, 'handle(x')}: the meaning of {__name__}.of_number, .*lambda.*{__file__}"
    with pytest.raises(MeaningError, match=rf"{where}:\d+\), .*{text}"):
        simulate(kernel)[1, 1](np.ones(1, np.float32), np.zeros(1))


@pytest.mark.parametrize(("meaning", "text"), [
    (lambda code, x: code.load(x, 0, 5)[0], "5 elements of 4 bytes: a lane accesses 1, 2, 4, 8 or 16 bytes"),
    (lambda code, x: code.load(x, 0, 8)[0], "8 elements of 4 bytes"),
    (lambda code, x: code.load(x, 0, 0)[0], "0 elements of 4 bytes"),
    (lambda code, x: code.load(x, 0.5)[0], "0.5 is no number|an index is an integer"),
    (lambda code, x: code.load(x, x)[0], "<x: array.float32, 1d.> is no number"),
    (lambda code, x: code.store(x, 0, [0.5, code.convert(1, "f8")]), "<number: float64> where float32 is asked for"),
    (lambda code, x: x, "returned <x: array.float32, 1d.>, but the intrinsic gives float32"),
])  # fmt: skip
def test_accesses_that_no_lane_makes(meaning: Any, text: str) -> None:
    handle = told(of_array, meaning)

    @cuda.jit
    def kernel(x):
        x[0] = handle(x)

    with pytest.raises(MeaningError, match=text):
        simulate(kernel)[1, 1](np.ones(8, np.float32))


@pytest.mark.parametrize(("meaning", "text"), [
    (lambda code, x: code.refuse("of rows"), "of rows"),
    (lambda code, x: code.load(x, (0, 0))[0], "with 2 indices for <x: array.float32, 1d.>"),
    (lambda code, x: x.shape[code.constant(x.shape[0])], r"with x.shape\[0\] that is not a compile-time constant"),
])  # fmt: skip
def test_a_call_that_a_meaning_refuses(meaning: Any, text: str) -> None:
    handle = told(of_array, meaning)

    @cuda.jit
    def kernel(x):
        x[0] = handle(x)

    with pytest.raises(Unsupported, match=rf"{line_of(kernel, 'handle(x')}: the intrinsic .*of_array {text}"):
        simulate(kernel)[1, 1](np.ones(8, np.float32))


# -- registration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [numba.extending.intrinsic, numba.cuda.extending.intrinsic])
def test_an_intrinsic_without_a_meaning(make: Any) -> None:
    @make
    def prefetch(typingctx, x):
        return nothing(x), None

    @cuda.jit
    def kernel(x):
        prefetch(x)

    name = f"{__name__}.test_an_intrinsic_without_a_meaning.<locals>.prefetch"
    assert qualified_name(prefetch) == name
    with pytest.raises(Unsupported) as caught:
        simulate(kernel)[1, 1](np.zeros(1))
    message = str(caught.value)
    assert message.startswith(f"{__file__}:{line_of(kernel, 'prefetch(x)')}: calling the intrinsic {name}")
    assert f'@simulator.intrinsic("{name}")' in message
    assert "entry point of the group simulator.intrinsics" in message
    intrinsic(prefetch)(lambda code, x: None)
    simulate(kernel)[1, 1](np.zeros(1))


def _made() -> Any:
    @numba.extending.intrinsic
    def inner(typingctx, x):
        return x(x), None

    return inner


made_by_a_factory = _made()


def test_an_intrinsic_is_called_what_its_module_calls_it() -> None:
    assert qualified_name(made_by_a_factory) == f"{__name__}.made_by_a_factory"


def another(code: Any, x: Any) -> Any:
    return x


def test_twice() -> None:
    handle = told(of_number, lambda code, x: x + 1)
    with pytest.raises(ValueError, match=rf"of_number has a meaning already: .*lambda> \({__file__}:\d+\)"):
        intrinsic(handle)(another)
    intrinsic("a_library.lanes.move")(another)
    intrinsic("a_library.lanes.move")(another)
    with pytest.raises(ValueError, match=r"a_library.lanes.move has a meaning already: .*another"):
        intrinsic("a_library.lanes.move")(clamped)
    assert result_of(handle) == [2, 3, 4, 5]


def test_a_meaning_defined_anew_takes_the_place_of_the_old_and_its_programs() -> None:
    handle = numba.extending.intrinsic(of_number)

    @cuda.jit
    def kernel(x):
        x[0] = handle(x[0])

    def cell(step: float) -> None:
        @intrinsic(handle)
        def meaning(code: Any, x: Any) -> Any:
            return x + step

        meaning(None, 1)  # the decorator gives the function back

    x = np.zeros(1)
    for step in (1, 10):
        cell(step)
        simulate(kernel)[1, 1](x)
    assert x.tolist() == [11]


@pytest.mark.parametrize(("target", "error", "text"), [
    ("vload", ValueError, "an intrinsic is named package.module.name, not 'vload'"),
    ("my library.vload", ValueError, "named package.module.name"),
    (another, TypeError, r"takes an intrinsic or its qualified name, not <function another .*: write @intrinsic"),
    (None, TypeError, "takes an intrinsic or its qualified name"),
])  # fmt: skip
def test_what_is_no_intrinsic(target: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        intrinsic(target)


def test_what_is_no_meaning() -> None:
    with pytest.raises(TypeError, match="the meaning of an intrinsic is a function, not 3"):
        simulator.intrinsic("a.b")(3)  # type: ignore[type-var]


# -- entry points ----------------------------------------------------------------------------------------------------

LIBRARY = """
from numba.extending import intrinsic

@intrinsic
def double(typingctx, x):
    return x(x), None
"""
DOUBLES = """
def double(code, x):
    return x + x

number = 3
"""


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, *values: str) -> Any:
    """A library with an intrinsic, installed with entry points of these values: a kernel that calls it."""
    monkeypatch.syspath_prepend(folder)
    for number, value in enumerate(values):
        info = folder / f"{name}{number}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}{number}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name}.double = {value}\n")
    (folder / f"{name}.py").write_text(LIBRARY)
    (folder / f"{name}_meanings.py").write_text(DOUBLES)
    importlib.invalidate_caches()
    return importlib.import_module(name).double


def test_a_library_declares_a_meaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    double = installed(tmp_path, monkeypatch, "declares", "declares_meanings:double")
    assert result_of(double) == [2, 4, 6, 8]
    intrinsic("declares.double")(lambda code, x: x * 3)  # a program's own goes before it
    assert result_of(double) == [3, 6, 9, 12]


@pytest.mark.parametrize(("name", "values", "text"), [
    ("missing_module", ["no_such_module:double"], "cannot be loaded: ModuleNotFoundError: .*no_such_module"),
    ("missing_name", ["missing_name_meanings:triple"], "cannot be loaded: AttributeError: .*triple"),
    ("a_number", ["a_number_meanings:number"], "is not a function but 3"),
    ("several", ["several_meanings:double", "several:double"], "several packages declare a meaning of several.double"),
])  # fmt: skip
def test_an_entry_point_at_fault(
    name: str, values: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    double = installed(tmp_path, monkeypatch, name, *values)
    with pytest.raises(MeaningError, match=rf"{name}.double.*{text}|{text}"):
        result_of(double)
