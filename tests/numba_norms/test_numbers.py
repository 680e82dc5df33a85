"""What the numbers must keep whatever the data: finiteness, isolation of rows, repeatability, identities."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numba_norms import layer_norm, moments, reference, rms_norm
from tests.tolerances import COMPUTE, DTYPES, FLOAT32, NAMES, RESULT, STATISTIC, assert_close, condition, same_bits

NORMS = {
    "rms_norm": rms_norm,
    "layer_norm": layer_norm,
    "welford": lambda x, *args, **kwargs: layer_norm(x, *args, variance="welford", **kwargs),
}
every_norm = pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)


def numbers(dtype, *shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("columns", [17, 769, 4096])
@pytest.mark.parametrize("variance", ["two-pass", "welford"])
@every_dtype
def test_mean_far_above_the_deviation(dtype, variance, columns):
    x = (1e4 + numbers(np.float64, 3, columns)).astype(dtype)
    x[:, 0] = x[:, 1] + x.dtype.type(64)  # coarse dtypes round the rest to one value: keep some deviation
    y, mean, rstd = layer_norm(x, variance=variance, return_stats=True)
    assert_close(y, reference.layer_norm(x), RESULT[dtype], condition(x, 1e-5))
    assert np.isfinite(rstd).all()
    assert (rstd > 0).all()
    assert_close(mean / 1e4, reference.steps(x, "layer_norm").mean / 1e4, STATISTIC[COMPUTE[dtype]])


@pytest.mark.parametrize("row", [[40000, 40001, 40002, 40003], [1448.9, 1450.7] * 8, [256] * 255 + [255]])
@pytest.mark.parametrize("variance", ["two-pass", "welford"])
def test_rows_whose_variance_came_out_negative_elsewhere(row, variance):
    x = np.array([row], np.float32)
    _, _, rstd = layer_norm(x, eps=0, variance=variance, return_stats=True)
    expected = reference.steps(x, "layer_norm").variance
    np.testing.assert_allclose(1 / rstd.astype(float) ** 2, expected, rtol=1e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@every_norm
@every_dtype
def test_a_bad_value_stays_in_its_row(dtype, norm, bad):
    x = numbers(dtype, 5, 200)
    clean = norm(x)
    x[2, 77] = bad
    y = norm(x)
    others = [0, 1, 3, 4]
    assert same_bits(y[others], clean[others])
    values = y[2].astype(float)
    if np.isnan(bad) or norm is not rms_norm:
        assert np.isnan(values).all()  # Inf - Inf
    else:
        assert np.isnan(values[77])  # Inf * 0
        assert not np.delete(values, 77).any()  # finite * 0


@every_norm
@every_dtype
def test_two_runs_are_equal_bit_for_bit(dtype, norm):
    x, weight = numbers(dtype, 4, 1000), numbers(dtype, 1000)
    first, second = norm(x, weight, return_stats=True), norm(x, weight, return_stats=True)
    assert all(map(same_bits, first, second))


@pytest.mark.parametrize("columns", [5, 33, 769, 4097])
@every_norm
def test_a_row_does_not_depend_on_the_number_of_rows(norm, columns):
    x, weight = numbers(np.float32, 40, columns), numbers(np.float32, columns)
    together = norm(x, weight, return_stats=True)
    for row in (0, 17, 39):
        alone = norm(x[row], weight, return_stats=True)
        assert all(same_bits(a, b[row]) for a, b in zip(alone, together, strict=True))


rows_of_floats = st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=80)


@settings(max_examples=60, deadline=None)
@given(rows_of_floats)
def test_mean_square_is_variance_plus_squared_mean(row):
    x = np.array(row, np.float32)
    _, inverse_rms = rms_norm(x, eps=1e-3, return_stats=True)
    _, mean, rstd = layer_norm(x, eps=1e-3, return_stats=True)
    count, centre, m2 = moments(x)
    mean_square = reference.steps(x, "rms_norm", eps=1e-3).mean_square
    tolerance = {"rtol": 64 * 2.0**-24, "atol": 64 * 2.0**-24 * float(mean_square[0]) + 1e-12}
    total = 1 / rstd.astype(float) ** 2 + mean.astype(float) ** 2
    np.testing.assert_allclose(1 / inverse_rms.astype(float) ** 2, total, **tolerance)
    np.testing.assert_allclose(mean_square, m2 / count + centre.astype(float) ** 2, **tolerance)


def test_float64_is_computed_in_float64():
    x = np.array([[1.0, 1.0 + 2.0**-40]])
    _, mean, _ = layer_norm(x, return_stats=True)
    assert mean[0, 0] == 1.0 + 2.0**-41
    assert moments(np.array([3e19, 0.0])).m2.tolist() == [4.5e38]  # past float32


def test_half_precision_statistics_are_float32():
    x = np.full((1, 4096), 1.0, np.float16)
    x[0, ::2] = 1 + 2.0**-10
    assert_close(moments(x).mean, [[1 + 2.0**-11]], STATISTIC[FLOAT32])
