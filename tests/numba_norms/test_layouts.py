"""Axes, strides, broadcasting and out=: where elements lie must never change what they become.

On one path that holds to the bit.  Strides and alignment decide on the path, and another path adds in another order.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numba_norms import layer_norm, moments, reference, rms_norm
from numba_norms.arrays.layouts import Rows
from numba_norms.arrays.places import NUMPY
from numba_norms.binding import recording
from numba_norms.layer_norm import launch as launch_layer_norm
from numba_norms.rms_norm import launch as launch_rms_norm
from tests.tolerances import FLOAT32, RESULT, STATISTIC, assert_close, condition, same_bits

NORMS = {
    "rms_norm": (rms_norm, reference.rms_norm),
    "layer_norm": (layer_norm, reference.layer_norm),
    "welford": (lambda x, *args, **kw: layer_norm(x, *args, variance="welford", **kw), reference.layer_norm),
}
every_norm = pytest.mark.parametrize(("norm", "expected"), NORMS.values(), ids=NORMS)

BASE = np.random.default_rng(3).standard_normal((12, 320)).astype(np.float32)

VIEWS = {
    "every eighth column": lambda: BASE[:, ::8],
    "from the second row": lambda: BASE[1:],
    "offset by one element": lambda: BASE[:, 1:34],
    "transposed": lambda: BASE[:, :40].T,
    "reversed rows": lambda: BASE[::-1, :50],
    "reversed columns": lambda: BASE[:, 49::-1],
    "broadcast rows": lambda: np.broadcast_to(BASE[0, :70], (5, 70)),
    "broadcast columns": lambda: np.broadcast_to(np.rint(8 * BASE[:, :1]), (12, 70)),
    "Fortran order": lambda: np.asfortranarray(BASE[:, :60]),
    "four dimensions": lambda: BASE.reshape(2, 6, 16, 20)[:, ::2, 1:],
    "slice of a fused qkv": lambda: BASE.reshape(12, 5, 64)[:, 1],
}


def kernel_of(norm, x):
    with recording.record(rehearsal=True, to_repeat=False) as written:
        norm(x)
    return written.launches[0].kernel


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@every_norm
def test_views(norm, expected, view):
    x = view()
    before = x.copy()
    y, dense = norm(x), np.ascontiguousarray(x)
    assert_close(y, expected(x), RESULT[x.dtype])
    if kernel_of(norm, x) is kernel_of(norm, dense):
        assert same_bits(y, norm(dense))
    assert same_bits(x, before)


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("norm", ["rms_norm", "layer_norm", "welford"])
def test_views_on_the_strided_path_to_the_bit(norm, view):
    x = view()
    x = x.reshape(-1, x.shape[-1])
    statistics = np.empty((2, len(x)), np.float32)

    def strided(x):
        y = np.empty(x.shape, x.dtype)
        if norm == "rms_norm":
            launch = launch_rms_norm(x, None, y, statistics[0], 1e-6, path="strided")
        else:
            variance = "welford" if norm == "welford" else "two-pass"
            options = {"variance": variance, "path": "strided"}
            launch = launch_layer_norm(x, None, None, y, *statistics, 1e-5, **options)
        launch.run(NUMPY)
        return y

    assert same_bits(strided(x), strided(np.ascontiguousarray(x)))


@pytest.mark.parametrize(("shape", "axes"), [((1, 1 << 28), (1,)), ((1 << 28, 2), (0,)), ((1 << 14, 1 << 14), (0, 1))])
def test_broadcast_becomes_a_matrix_without_a_copy(shape, axes):
    one = np.ones(1, np.float32)
    matrix = Rows(shape, axes).matrix(np.broadcast_to(one, shape))
    assert np.shares_memory(matrix, one)
    assert matrix.shape[1] >= 1 << 28


def test_strided_weight():
    x, weight = BASE[:, :40], BASE[0, ::8]
    assert_close(rms_norm(x, weight), reference.rms_norm(x, weight), RESULT[FLOAT32])


def test_misaligned_records_are_copied():
    records = np.zeros((3, 40), np.dtype([("tag", np.uint8), ("value", np.float32)]))
    records["value"] = BASE[:3, :40]
    assert same_bits(rms_norm(records["value"]), rms_norm(BASE[:3, :40]))
    out = records["value"]
    rms_norm(BASE[3:6, :40], out=out)
    assert same_bits(out, rms_norm(BASE[3:6, :40]))


@st.composite
def arrays_and_axes(draw):
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    count = draw(st.integers(1, len(shape)))
    axes = draw(st.permutations(range(len(shape))))[:count]
    axis = tuple(a - len(shape) if draw(st.booleans()) else a for a in axes)
    order = draw(st.permutations(range(len(shape))))
    x = np.random.default_rng(draw(st.integers(0, 99))).standard_normal(shape).astype(np.float32)
    x = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))  # any order in memory
    return x, axis if len(axis) > 1 or draw(st.booleans()) else axis[0]


@settings(max_examples=60, deadline=None)
@given(arrays_and_axes())
def test_any_axes(case):
    x, axis = case
    axes = sorted(a % x.ndim for a in (axis if isinstance(axis, tuple) else (axis,)))
    weight = np.random.default_rng(5).standard_normal([x.shape[a] for a in axes]).astype(np.float32)
    y, mean, rstd = layer_norm(x, weight, weight + 1, axis=axis, return_stats=True)
    expected = reference.layer_norm(x, weight, weight + 1, axis=axis)
    assert_close(y, expected, RESULT[FLOAT32], condition(x, 1e-5, axis))  # two numbers may lie close together
    assert mean.shape == rstd.shape == np.mean(x, axis=axis, keepdims=True).shape
    assert_close(rms_norm(x, weight, axis=axis), reference.rms_norm(x, weight, axis=axis), RESULT[FLOAT32])
    count, mean, m2 = moments(x, axis)
    expected = reference.moments(x, axis)
    assert count == expected[0]
    assert_close(mean, expected[1], STATISTIC[FLOAT32])
    assert_close(m2 / count, expected[2] / count, STATISTIC[FLOAT32])


@pytest.mark.parametrize("shape", [(0, 8), (2, 0, 8), (0, 3, 8)])
def test_zero_rows(shape):
    x = np.empty(shape, np.float16)
    weight = np.ones(8, np.float16)
    y, mean, rstd = layer_norm(x, weight, weight, return_stats=True)
    assert (y.shape, y.dtype) == (shape, np.float16)
    assert mean.shape == rstd.shape == (*shape[:-1], 1)
    assert rms_norm(x, weight).shape == shape
    count, mean, m2 = moments(x)
    assert (count, mean.shape, m2.shape) == (8, (*shape[:-1], 1), (*shape[:-1], 1))


@every_norm
def test_out_takes_the_result(norm, expected):
    x, out = BASE[:, :45].copy(), np.full((12, 45), np.nan, np.float32)
    assert norm(x, out=out) is out
    assert same_bits(out, norm(x))
    result, *_ = norm(x, out=out, return_stats=True)
    assert result is out


@every_norm
def test_out_may_be_x(norm, expected):
    x = BASE[:, :45].copy()
    result = norm(x)
    norm(x, out=x)
    assert same_bits(x, result)
    y = BASE[:, :90].copy()
    view = y[:, ::2]
    result = norm(view)
    norm(view, out=y[:, ::2])
    assert same_bits(view, result)
    assert same_bits(y[:, 1::2], BASE[:, 1:90:2])


def test_out_next_to_x_in_the_same_memory():
    both = BASE[:, :80].copy()
    result = rms_norm(both[:, :40])
    rms_norm(both[:, :40], out=both[:, 40:])
    assert same_bits(both[:, 40:], result)
    interleaved = BASE[:, :80].copy()
    result = rms_norm(interleaved[:, ::2])
    rms_norm(interleaved[:, ::2], out=interleaved[:, 1::2])
    assert same_bits(interleaved[:, 1::2], result)


@pytest.mark.parametrize("axis", [0, (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_out_that_is_no_matrix_in_memory(axis):
    x = BASE.reshape(12, 16, 20)[:, :5, :7]
    storage = np.zeros((14, 10, 11), np.float32)
    out = storage.transpose(2, 0, 1)[::-1][:7, 1:13, 2:7].transpose(1, 2, 0)
    assert out.shape == x.shape
    layer_norm(x, axis=axis, out=out)
    assert_close(out, reference.layer_norm(x, axis=axis), RESULT[FLOAT32])
    assert np.count_nonzero(storage) <= out.size  # nothing outside the view was touched
