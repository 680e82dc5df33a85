"""The small languages of the command line: what they read, and how they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ml_dtypes import bfloat16

from simulator.cli.words import BadWord, arguments_of, dtype_of, launch_of, number_of, shape_of, value_of


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=4))
def test_a_shape_is_read_as_it_is_written(shape: list[int]) -> None:
    for separator in ("x", ",", " x ", ", "):
        assert shape_of(separator.join(map(str, shape))) == tuple(shape)
    assert shape_of(str(tuple(shape))) == tuple(shape)


@pytest.mark.parametrize("text", ["", "x", "4x", "-1", "4.0", "4,,4", "a", "4x4y"])
def test_what_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(BadWord, match="is not a shape; write 8x4096"):
        shape_of(text)


def test_a_launch_has_grid_block_stream_and_shared_memory() -> None:
    assert launch_of("4,256") == ((4,), (256,), 0)
    assert launch_of("4, 256, 0, 2048") == ((4,), (256,), 2048)
    assert launch_of("2x3x4,16x16,0") == ((2, 3, 4), (16, 16), 0)


@pytest.mark.parametrize("text", ["4", "4,", "4,256,0,1,2", "4,256,a", "1x1x1x1,4", "four,4"])
def test_what_is_no_launch_is_refused(text: str) -> None:
    with pytest.raises(BadWord, match="is not a launch; write GRID,BLOCK"):
        launch_of(text)


def test_a_thread_is_a_number_or_an_index() -> None:
    assert (number_of("255", "thread"), number_of("3,1", "thread")) == (255, (3, 1))
    with pytest.raises(BadWord, match="'first' is not a block"):
        number_of("first", "block")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3), ("-7", -7), ("1e-6", 1e-6), ("true", True), ("False", False), ("none", None),
        ("float32:1e-6", np.float32(1e-6)), ("float64:2", np.float64(2)), ("int8:-3", np.int8(-3)),
        ("bool:true", np.bool_(True)), ("bfloat16:0.1", bfloat16(0.1)),
    ],
)  # fmt: skip
def test_a_scalar_has_the_type_that_was_written(text: str, value: object) -> None:
    found = value_of(text)
    assert type(found) is type(value)
    assert found == value


def test_infinities_and_nan_are_numbers() -> None:
    assert value_of("-inf") == -math.inf
    assert np.isnan(value_of("float16:nan"))


@pytest.mark.parametrize("text", ["int8:300", "uint8:-1", "int32:1.5", "float32:none", "float33:1", "object:1"])
def test_a_scalar_that_its_dtype_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(BadWord, match=r"is (no|not a) "):
        value_of(text)


def test_generators_fill_arrays() -> None:
    assert value_of("arange:int16[2,3]").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert value_of("full(2.5):float16[3]").tolist() == [2.5] * 3
    assert value_of("ones:bfloat16[2]").dtype == bfloat16
    assert not value_of("zeros:float64[0x5]").size
    drawn = value_of("integers(3,6):uint8[1000]")
    assert (drawn.min(), drawn.max()) == (3, 5)
    uniform = value_of("uniform:float32[1000]")
    assert uniform.dtype == np.float32
    assert 0 <= uniform.min() < 0.1 < 0.9 < uniform.max() < 1
    normal = value_of("randn:float64[1000]")
    assert abs(normal.mean()) < 0.2 < normal.std()


def test_random_numbers_depend_on_seed_and_name_alone() -> None:
    names = ["x", "w"]
    x, w = arguments_of(["x=randn:float32[9]", "w=randn:float32[9]"], names, "k", seed=1)
    swapped, _ = arguments_of(["w=randn:float32[9]", "x=randn:float32[9]"], names, "k", seed=1)
    other, _ = arguments_of(["x=randn:float32[9]", "w=randn:float32[9]"], names, "k", seed=2)
    assert x.tolist() == swapped.tolist()
    assert x.tolist() != w.tolist()
    assert x.tolist() != other.tolist()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["x"], "write NAME=VALUE"),
        (["x=1", "z=1"], "no parameter 'z'; it has x, eps"),
        (["x=1", "x=2"], "given twice"),
        (["eps=1"], "kernel k also needs --arg x=…"),
        (["x=randm:float32[3]", "eps=1"], "no generator 'randm'; the generators are randn, uniform"),
        (["x=full:float32[3]", "eps=1"], r"write full\(VALUE\):float32"),
        (["x=integers(5,2):int32[3]", "eps=1"], "low >= high"),
        (["x=__import__('os')", "eps=1"], "not a value"),
        (["x=randn:float32[3,]x", "eps=1"], "not a value"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(words: list[str], said: str) -> None:
    with pytest.raises(BadWord, match=said) as refused:
        arguments_of(words, ["x", "eps"], "k")
    assert "\n" not in str(refused.value)


def test_dtypes_by_name() -> None:
    assert dtype_of("bfloat16") == bfloat16
    for text in ("object", "str", "U3", "float12", "01", "0{", "f4,f4", ""):
        with pytest.raises(BadWord, match="is not a dtype"):
            dtype_of(text)
