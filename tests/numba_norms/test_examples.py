"""The worked examples of the lessons, on the real kernels: numbers that a student has on paper."""

import numpy as np
import pytest

from numba_norms import layer_norm, moments, rms_norm
from tests.tolerances import COMPUTE, DTYPES, FLOAT16, FLOAT32, NAMES, RESULT, STATISTIC, assert_close

VARIANCES = ("two-pass", "welford")


@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_one_two_three_four_layer_norm(dtype, variance):
    x = np.array([1, 2, 3, 4], dtype)
    y, mean, rstd = layer_norm(x, eps=0, variance=variance, return_stats=True)
    assert y.dtype == dtype
    assert mean == 2.5
    assert_close(1 / rstd.astype(float) ** 2, [1.25], STATISTIC[COMPUTE[dtype]])
    assert_close(y, np.array([-1.5, -0.5, 0.5, 1.5]) / np.sqrt(1.25), RESULT[dtype])
    assert np.abs(y.astype(float) - [-1.342, -0.447, 0.447, 1.342]).max() < 5e-3


@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_one_two_three_four_rms_norm(dtype):
    y, rstd = rms_norm(np.array([1, 2, 3, 4], dtype), eps=0, return_stats=True)
    assert_close(y, np.array([1, 2, 3, 4]) / np.sqrt(7.5), RESULT[dtype])
    assert_close(1 / rstd.astype(float), [np.sqrt(7.5)], STATISTIC[COMPUTE[dtype]])
    assert np.abs(y.astype(float) - [0.365, 0.730, 1.095, 1.461]).max() < 5e-3


@pytest.mark.parametrize("variance", VARIANCES)
def test_column_of_n_embd_by_n_tokens(variance):
    tokens = np.array([[2, 1, 0], [4, 2, 0], [4, 3, 0], [6, 4, 1]], np.float32)  # [n_embd, n_tokens]
    y, mean, rstd = layer_norm(tokens, axis=0, eps=0, variance=variance, return_stats=True)
    assert y.shape == (4, 3)
    assert mean.shape == rstd.shape == (1, 3)
    assert mean.tolist() == [[4, 2.5, 0.25]]
    assert_close(1 / rstd[0].astype(float) ** 2, [2, 1.25, 0.1875], STATISTIC[FLOAT32])
    assert_close(y[:, 0], np.array([-2, 0, 0, 2]) / np.sqrt(2), RESULT[FLOAT32])
    for token in range(3):  # a column is normalised as if it were alone
        np.testing.assert_array_equal(y[:, token], layer_norm(tokens[:, token], eps=0, variance=variance))


def test_column_by_rms_norm():
    tokens = np.array([[2], [4], [4], [6]], np.float32)
    y, rstd = rms_norm(tokens, axis=0, eps=0, return_stats=True)
    assert_close(1 / rstd.astype(float), [[np.sqrt(18)]], STATISTIC[FLOAT32])
    assert_close(y, tokens / np.sqrt(18), RESULT[FLOAT32])


@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize(("dtype", "first"), [(np.float16, 1000), (np.float32, 10_000)])
def test_variance_of_neighbours_on_a_high_plateau(dtype, first, variance):
    x = np.array([first, first + 1], dtype)
    y, mean, rstd = layer_norm(x, eps=0, variance=variance, return_stats=True)
    assert (mean[0], rstd[0]) == (first + 0.5, 2.0)  # variance 0.25, exactly
    assert y.tolist() == [-1, 1]
    count, mean, m2 = moments(x)
    assert (count, mean[0], m2[0]) == (2, first + 0.5, 0.5)


def test_float16_row_of_300_is_finite():
    x = np.full((1, 64), 300, np.float16)  # 300² = 90000 is beyond float16's 65504
    y, rstd = rms_norm(x, return_stats=True)
    assert_close(y, np.ones((1, 64)), RESULT[FLOAT16])
    assert_close(rstd, [[1 / 300]], STATISTIC[FLOAT32])
    assert not layer_norm(x).any()


@pytest.mark.parametrize("variance", VARIANCES)
def test_constant_row_gives_the_bias(variance):
    x, bias = np.full((2, 100), 1234, np.float32), np.arange(100, dtype=np.float32)
    np.testing.assert_array_equal(layer_norm(x, None, bias, variance=variance), [bias, bias])


def test_statistics_of_batch_sequence_features_are_batch_sequence_one():
    x = np.random.default_rng(0).standard_normal((2, 3, 40)).astype(np.float32)
    y, mean, rstd = layer_norm(x, return_stats=True)
    assert (y.shape, mean.shape, rstd.shape) == ((2, 3, 40), (2, 3, 1), (2, 3, 1))
    y, rstd = rms_norm(x, return_stats=True)
    assert (y.shape, rstd.shape) == ((2, 3, 40), (2, 3, 1))
