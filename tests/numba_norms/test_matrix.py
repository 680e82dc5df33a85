"""Every kernel x dtype x D x rows against float64: the sizes around warps, blocks and rounds, and none at all."""

import numpy as np
import pytest

from numba_norms import layer_norm, moments, reference, rms_norm
from tests.tolerances import COMPUTE, DTYPES, NAMES, RESULT, STATISTIC, assert_close, condition

SIZES = (1, 2, 3, 31, 32, 33, 127, 128, 129, 769, 1000, 1024, 4095, 4096, 4097)
ROWS = (0, 1, 2, 33)

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
every_size = pytest.mark.parametrize("columns", SIZES)


def numbers(dtype, *shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


@every_size
@every_dtype
def test_rms_norm(dtype, columns):
    weight = numbers(dtype, columns)
    for rows in ROWS:
        x = numbers(dtype, rows, columns)
        y, rstd = rms_norm(x, weight, return_stats=True)
        assert y.dtype == dtype
        assert_close(y, reference.rms_norm(x, weight), RESULT[dtype])
        expected = 1 / reference.steps(x, "rms_norm", eps=1e-6).rms
        assert rstd.dtype == COMPUTE[dtype]
        assert_close(rstd, expected, STATISTIC[COMPUTE[dtype]])


@pytest.mark.parametrize("variance", ["two-pass", "welford"])
@every_size
@every_dtype
def test_layer_norm(dtype, columns, variance):
    weight, bias = numbers(dtype, columns), numbers(dtype, columns)[::-1]
    for rows in ROWS:
        x = numbers(dtype, rows, columns)
        y, mean, rstd = layer_norm(x, weight, bias, variance=variance, return_stats=True)
        assert y.dtype == dtype
        assert_close(y, reference.layer_norm(x, weight, bias), RESULT[dtype], condition(x, 1e-5))
        steps = reference.steps(x, "layer_norm", eps=1e-5)
        assert mean.dtype == rstd.dtype == COMPUTE[dtype]
        assert_close(mean, steps.mean, STATISTIC[COMPUTE[dtype]])
        rstd = rstd * np.sqrt(steps.variance + 1e-5)  # relative: a constant row has a large one
        assert_close(rstd, np.ones_like(steps.mean), STATISTIC[COMPUTE[dtype]], condition(x, 1e-5))


@every_size
@every_dtype
def test_moments(dtype, columns):
    for rows in ROWS:
        x = numbers(dtype, rows, columns)
        count, mean, m2 = moments(x)
        _, expected_mean, expected_m2 = reference.moments(x)
        assert count == columns
        assert mean.dtype == m2.dtype == COMPUTE[dtype]
        assert_close(mean, expected_mean, STATISTIC[COMPUTE[dtype]])
        assert_close(m2 / columns, expected_m2 / columns, STATISTIC[COMPUTE[dtype]])


@pytest.mark.parametrize("parameter", DTYPES, ids=NAMES)
@every_dtype
def test_weight_and_bias_have_dtypes_of_their_own(dtype, parameter):
    x, weight, bias = numbers(dtype, 3, 40), numbers(parameter, 40), numbers(np.float32, 40)
    assert_close(rms_norm(x, weight), reference.rms_norm(x, weight), RESULT[dtype])
    assert_close(layer_norm(x, weight, bias), reference.layer_norm(x, weight, bias), RESULT[dtype])


@pytest.mark.parametrize("variance", ["two-pass", "welford"])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("has_weight", [False, True])
def test_weight_and_bias_are_optional(has_weight, has_bias, variance):
    x = numbers(np.float32, 2, 70)
    weight, bias = numbers(np.float32, 70) if has_weight else None, numbers(np.float32, 70) if has_bias else None
    expected = reference.layer_norm(x, weight, bias)
    assert_close(layer_norm(x, weight, bias, variance=variance), expected, RESULT[x.dtype])
    if not has_bias:
        assert_close(rms_norm(x, weight), reference.rms_norm(x, weight), RESULT[x.dtype])


@pytest.mark.parametrize("eps", [0, 1e-3, 2.5])
def test_eps_is_inside_the_root(eps):
    x = numbers(np.float32, 2, 50)
    assert_close(rms_norm(x, eps=eps), reference.rms_norm(x, eps=eps), RESULT[x.dtype])
    assert_close(layer_norm(x, eps=eps), reference.layer_norm(x, eps=eps), RESULT[x.dtype])
