"""Texts of the source: what Numba compiles of them is worked out when the program is made."""

from __future__ import annotations

import linecache
import operator  # noqa: F401 - kernels use it
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda

from simulator import Unsupported, simulate
from simulator.frontend import DoesNotCompile, lower_kernel
from tests.simulator.frontend.conftest import run_kernel

Run = Callable[..., Any]
WORD, WORDS, MIXED, DATA = "abc", ("a", "b", "c"), ("a", 3), b"xyz"
WIDE, NARROW, BYTES = np.array(["abc", "de"]), np.array(["abc", "d"], "U5"), np.array([b"ab", b"c"])


def kernel_of(expression: str, before: str = "pass") -> Any:
    """A kernel that stores ``expression`` of its index ``i``."""
    source = f"def kernel(o):\n    i = cuda.grid(1)\n    {before}\n    o[i] = {expression}\n"
    file = f"<{before}; {expression}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    names = {**globals(), "cuda": cuda}
    exec(compile(source, file, "exec"), names)
    return cuda.jit(names["kernel"])


def in_python(kernel: Any, count: int) -> list[int]:
    """What the kernel stores when Python runs it."""
    out = np.full(count, -7)
    for i in range(count):
        at = type("cuda", (), {"grid": staticmethod(lambda _, i=i: i)})
        FunctionType(kernel.py_func.__code__, {**kernel.py_func.__globals__, "cuda": at})(out)
    return out.tolist()


@pytest.mark.parametrize(
    "expression",
    [
        "ord('d')", "ord('€')", "ord('😀') + i", "ord(WORDS[1])", "np.int32(ord('d'))", "len('')", "len(WORD)",
        "len(WORDS)", "len(MIXED)", "len(WORDS[0])", "len('a' + 'bc')", "MIXED[1]", "bool(WORD)", "not WORD", "not ''",
        "1 if '' else 2", "1 if WORDS else 2", "WORD and 1", "WORD == 'abc'", "WORD != WORDS[0]", "WORD == 3",
        "'a' != i",
        "'a' < 'ab'", "'é' < 'z'", "'b' >= 'ab'", "'bc' in WORD", "'' in WORD", "'bd' not in WORD", "'b' in WORDS",
        "WORD in WORDS", "'a' in ('a', 'bc')", "WORDS == ('a', 'b', 'c')", "WORDS < ('a', 'c', 'c')",
        "WORDS >= ('a', 'b', 'd')", "WORDS[1:][0] == 'b'", "operator.eq(WORD, 'abc')", "float('1.5')",
        "len(DATA)", "DATA[0]", "DATA[-1]", "DATA[i] + 1", "len(DATA[1:])", "DATA[1:][i]", "DATA == b'xyz'",
        "DATA != b'xyz'", "DATA < b'xz'", "DATA == 'xyz'", "not DATA",
        "WIDE[0] == 'abc'", "WIDE[i] == 'de'", "WIDE[i] != 'd'", "WIDE[i] < 'd'", "WIDE[i] >= 'abcd'",
        "'de' == WIDE[i]",
        "WIDE[i] == NARROW[i]", "NARROW[i] < WIDE[i]", "len(WIDE[i])", "BYTES[i] == b'ab'", "len(BYTES[i])",
    ],
)  # fmt: skip
def test_it_is_what_python_says(run: Run, expression: str) -> None:
    kernel = kernel_of(expression)
    assert run(kernel, 1, 2, np.full(2, -7)).tolist() == in_python(kernel, 2)


def test_a_loop_over_bytes(run: Run) -> None:
    kernel = kernel_of("s", "s = i\n    for c in DATA: s += c")
    assert run(kernel, 1, 3, np.zeros(3, int)).tolist() == in_python(kernel, 3)


def test_a_text_is_passed_to_device_functions(run: Run) -> None:
    @cuda.jit(device=True)
    def code(text):
        return ord(text) if len(text) == 1 else -1

    @cuda.jit
    def kernel(out):
        out[0] = code("d")
        out[1] = code("de")

    assert run(kernel, 1, 1, np.zeros(2, int)).tolist() == [100, -1]


TEXTS = st.text(st.characters(min_codepoint=1, max_codepoint=400, exclude_categories=["Cs"]), max_size=4)


@settings(max_examples=15, deadline=None)
@given(TEXTS, TEXTS)
def test_fixed_lengths_compare_by_their_characters(left: str, right: str) -> None:
    @cuda.jit
    def kernel(a, b, out):
        out[0] = a[0] == b[0]
        out[1] = a[0] < b[0]
        out[2] = a[0] <= right
        out[3] = left != b[0]
        out[4] = len(a[0])

    a, b = np.array([left], f"U{max(len(left), 1)}"), np.array([right], f"U{len(right) + 2}")
    expected = [left == right, left < right, left <= right, left != right, len(left)]
    assert run_kernel(kernel, 1, 1, a, b, np.zeros(5, int)).tolist() == expected


@pytest.mark.parametrize("text", ["''", "'ab'", "WORD"])
def test_ord_of_another_number_of_characters_raises(text: str) -> None:
    kernel = cuda.jit(kernel_of(f"ord({text})").py_func, debug=True, opt=False)
    with pytest.raises(TypeError, match="expected a character"):
        simulate(kernel)[1, 2](np.zeros(2, int))


@pytest.mark.parametrize(
    ("expression", "before", "construct"),
    [
        ("WORD.find('b')", "pass", "find of a text"),
        ("WORD.isdigit()", "pass", "isdigit of a text"),
        ("ord(WORDS[i])", "pass", "choosing one of several texts when the kernel runs"),
        ("s", "s = 0\n    for c in WORDS: s += ord(c)", "choosing one of several texts when the kernel runs"),
        ("ord(m)", "m = 'a' if i else 'b'", "a variable .value. that is b on some paths only"),
        ("m[0] == 'a'", "m = ('a', i) if i else ('b', 2)", "a value that comes from several paths and holds a text"),
        ("named(i) == 'a'", "pass", "a value that comes from several paths and holds a text"),
    ],
)
def test_texts_that_are_not_known_are_refused(expression: str, before: str, construct: str) -> None:
    with pytest.raises(Unsupported, match=construct):
        lower_kernel(kernel_of(expression, before), (np.zeros(2),))


@cuda.jit(device=True)
def named(x):
    if x > 0:
        return "a"
    return "b"


@pytest.mark.parametrize(
    "expression", ["chr(97) == 'a'", "len(str(3))", "len(repr(3))", "f'{i}' == '1'", "float('x1')", "float(WORD)"]
)
def test_what_makes_a_text_does_not_compile(expression: str) -> None:
    with pytest.raises(DoesNotCompile, match=r"makes a text|could not convert string to float"):
        lower_kernel(kernel_of(expression), (np.zeros(2),))
