"""Moments of parts make those of the whole, in any split, also with empty parts."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numba_norms import Moments, merge_moments, moments, reference

values = st.floats(-1e6, 1e6)


@given(st.lists(st.lists(values, max_size=9), min_size=1, max_size=8))
def test_merge_of_any_split_is_the_whole(parts):
    counts, means, m2s = zip(*map(of_numbers, parts), strict=True)
    count, mean, m2 = merge_moments(counts, means, m2s)
    expected = of_numbers([value for part in parts for value in part])
    scale = max((abs(value) for part in parts for value in part), default=0)
    assert count == expected[0]
    np.testing.assert_allclose(mean, expected[1], rtol=1e-12, atol=1e-12 * scale)
    # below the smallest normal number a square has no digits left to compare
    np.testing.assert_allclose(m2, expected[2], rtol=1e-10, atol=1e-12 * scale**2 + np.finfo(float).tiny)


def of_numbers(part):
    """(count, mean, M2) by their definitions; an empty part has a mean that must not matter."""
    if not part:
        return 0, 0.0, 0.0
    mean = float(np.mean(part))
    return len(part), mean, float(np.sum((np.array(part) - mean) ** 2))


@given(st.permutations(range(5)))
def test_order_of_parts_hardly_matters(order):
    parts = [(3, 1.0, 2.0), (0, np.nan, np.inf), (5, -2.0, 1.0), (1, 7.0, 0.0), (2, 0.5, 0.5)]
    merged = merge_moments(*zip(*(parts[i] for i in order), strict=True))
    expected = merge_moments(*zip(*parts, strict=True))
    np.testing.assert_allclose(merged, expected, rtol=1e-14)


def test_sync_batch_norm_over_unequal_ranks():
    x = np.random.default_rng(0).standard_normal((23, 4, 6)).astype(np.float32) + 100
    ranks = [x[:10], x[10:11], x[11:]]
    merged = merge_moments(*zip(*(moments(rank, (0, 2)) for rank in ranks), strict=True))
    whole = moments(x, (0, 2))
    assert merged.count == whole.count == 23 * 6
    assert merged.mean.shape == whole.mean.shape == (1, 4, 1)
    assert merged.mean.dtype == merged.m2.dtype == np.float32
    _, mean, m2 = reference.moments(x, (0, 2))
    np.testing.assert_allclose(merged.mean, mean, rtol=1e-6)
    np.testing.assert_allclose(merged.m2, m2, rtol=1e-4)


def test_only_empty_parts():
    count, mean, m2 = merge_moments([0, 0], np.full((2, 3), np.nan), np.full((2, 3), np.nan))
    assert count == 0
    assert mean.tolist() == m2.tolist() == [0, 0, 0]


def test_large_mean_does_not_cancel():
    count, mean, m2 = merge_moments([1, 1], [10_000.0, 10_001.0], [0.0, 0.0])
    assert (count, mean, m2) == (2, 10_000.5, 0.5)


@pytest.mark.parametrize("of", [list, np.array, lambda numbers: np.array(numbers, np.uint8), iter])
def test_integers_are_widened(of):
    count, mean, m2 = merge_moments(of([1, 1]), of([1, 2]), of([0, 0]))
    assert (count, mean, m2) == (2, 1.5, 0.5)
    assert type(count) is int and mean.dtype == m2.dtype == np.float64


def test_integer_arrays_as_parts():
    _, mean, m2 = merge_moments(np.array([1, 1]), np.array([[1, 4], [2, 4]]), np.zeros((2, 2), int))
    assert (mean.tolist(), m2.tolist()) == ([1.5, 4], [0.5, 0])


@pytest.mark.parametrize(
    ("first", "second", "dtype"),
    [
        (1, 2.0, np.float64),
        (Fraction(1), 2, np.float64),
        (np.float32(1), np.float32(2), np.float32),
        (np.float16(1), np.float32(2), np.float32),
        (ml_dtypes.bfloat16(1), np.float32(2), np.float32),
        (ml_dtypes.bfloat16(1), np.float16(2), np.float32),  # NumPy knows no common dtype
        (np.float16(1), np.float16(2), np.float16),
        (np.float32(1), np.int32(2), np.float64),
    ],
)
def test_dtype_does_not_hang_on_the_order_of_parts(first, second, dtype):
    for means in ([first, second], [second, first]):
        _, mean, m2 = merge_moments([1, 1], means, [0, 0])
        assert (mean, m2) == (1.5, 0.5)
        assert mean.dtype == m2.dtype == dtype


def test_dtype_does_not_hang_on_an_empty_part():
    assert merge_moments([0, 1], [0.0, np.float32(2)], [0.0, np.float32(0)]).mean.dtype == np.float32


def test_unbiased_variance():
    assert Moments(3, 2.0, 8.0).variance(ddof=1) == 4.0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([], [], []), ValueError, "at least one"),
        (([1, 2], [0.0], [0.0]), ValueError, "shorter|longer"),
        (([-1], [0.0], [0.0]), ValueError, "negative"),
        (([1.5], [0.0], [0.0]), TypeError, "a count is 1.5.*integer"),
        ((np.ones((2, 2), int), [0.0] * 2, [0.0] * 2), TypeError, r"a count is array\(\[1, 1\]\).*integer"),
        ((1, [0.0], [0.0]), TypeError, "counts is 1; .* an entry per part"),
        (([1], 0.0, [0.0]), TypeError, "means is 0.0; .* an entry per part"),
        (([1], [0.0], np.array(0.0)), TypeError, r"m2s is array\(0.\); .* an entry per part"),
        (([1], ["1"], [0.0]), TypeError, "real numbers"),
        (([1], [1j], [0.0]), TypeError, "real numbers"),
        (([1], [np.ma.masked], [0.0]), TypeError, "masked"),
    ],
)
def test_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        merge_moments(*arguments)
