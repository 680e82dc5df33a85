"""Values that nobody should pass, and what counts as our own answer to them.

Rules of this file: an answer is a result, or an exception that one of our lines raises on purpose, in a ``raise``
statement.  What NumPy, Numba or Python raise further inside, or one of our lines by accident, is no answer.
"""

from __future__ import annotations

import linecache
import math
import re
import traceback
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import numba_norms
import simulator

HOMES = tuple(str(Path(str(package.__file__)).parent) for package in (numba_norms, simulator))
KINDS = (ValueError, TypeError, LookupError, NotImplementedError, OverflowError, RuntimeError)
"""What may be raised besides ``SimulationError``; an ``AttributeError`` or ``AssertionError`` is a fault of ours."""

WRONG_CALL = re.compile(r"^\w+\(\) (missing|takes|got)")
"""What Python itself says to a call that does not fit the signature."""
ALIKE = settings(derandomize=True, database=None, deadline=None, phases=(Phase.generate, Phase.shrink))
"""The same values in every run, and none of them kept."""
LONGER = 50
"""How many times as many examples a full run has."""

DTYPES = (
    *"f2 f4 f8 i1 u1 i4 i8 u8 b1 c8 c16 >f4 >i4 U3 S2 O M8[s] m8[ns] V3".split(),
    [("a", "f4"), ("b", "i8")],
    np.longdouble,
)


class Strange:
    """An object that says no more than its repr."""

    def __repr__(self) -> str:
        return "strange"


class Unhelpful:
    """An object that has every attribute, none of which is any good."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return None


numbers = st.one_of(
    st.integers(-3, 40), st.integers(), st.floats(), st.complex_numbers(), st.booleans(), st.none(),
    st.sampled_from((2**31, 2**32, 2**63, 2**64, -(2**63), 10**30, 1e300, math.nan, math.inf, Fraction(1, 3))),
    st.sampled_from((np.float16(3), np.int8(-1), np.uint64(2**63), np.float64("nan"), np.bool_(True), np.str_("x"))),
).filter(lambda number: not (isinstance(number, int) and 300 < abs(number) < 2**31))  # fmt: skip
"""No count between: a launch of a million blocks is carried out, and takes its time."""
texts = st.one_of(
    st.sampled_from(
        ("", "x", "y", "acc", "first", "waves", "load", "float32", "auto", "all", "-1", "0", "random", "\n", "\0")
    ),
    st.text(max_size=12),
    st.binary(max_size=8),
)


@st.composite
def arrays(draw: Any) -> np.ndarray:
    """A small array of any dtype, shape and layout: empty, without axes, backwards, read-only."""
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=3)))
    array = np.zeros(shape, draw(st.sampled_from(DTYPES)))
    if draw(st.booleans()) and array.ndim:
        array = array[:: draw(st.sampled_from((-1, 2)))]
    if draw(st.integers(0, 4)) == 0:
        array = np.broadcast_to(array, (2, *array.shape))
    if draw(st.integers(0, 4)) == 0:
        array.flags.writeable = False
    return array


leaves = st.one_of(
    numbers, texts, arrays(),
    st.builds(Strange), st.builds(Unhelpful),
    st.sampled_from((int, len, range(3), slice(1, 2), Ellipsis, NotImplemented, np.dtype("f4"), np.float32)),
    st.sampled_from((lambda: 1, iter("ab"))),
)  # fmt: skip
anything = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=2),
        st.frozensets(st.integers(0, 3), max_size=2),
    ),
    max_leaves=4,
)
"""Any value at all."""


def fuzz(few: int, *strategies: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A test of random values: ``few`` of them, the same ones in every run, and many more where tests may take long."""

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        def test(count: int) -> None:
            settings(ALIKE, max_examples=count)(given(*strategies)(check))()

        test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
        test.__module__ = check.__module__
        many = pytest.param(LONGER * few, marks=pytest.mark.full)
        return pytest.mark.parametrize("count", [few, many], ids=["few", "many"])(test)

    return decorate


def answer(call: Callable[[], Any]) -> Any:
    """The result of a call, or the exception that is our answer; anything else goes through."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()
    except simulator.SimulationError as error:
        return _said(error)
    except KINDS as error:
        file, line = origin(error)
        if not (file.startswith(HOMES) and line.startswith("raise")) and not WRONG_CALL.search(str(error)):
            raise
        return _said(error)


def origin(error: BaseException) -> tuple[str, str]:
    """The file that an exception comes from, and the source line."""
    *_, (frame, number) = traceback.walk_tb(error.__traceback__)
    return frame.f_code.co_filename, linecache.getline(frame.f_code.co_filename, number).strip()


def _said(error: BaseException) -> BaseException:
    assert str(error).strip(), f"{type(error).__name__} says nothing"
    return error


def refused(found: Any) -> bool:
    """Was the answer an exception?"""
    return isinstance(found, Exception)
