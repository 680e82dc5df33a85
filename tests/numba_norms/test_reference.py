"""The oracle itself, by numbers that are on paper."""

import numpy as np
import pytest

from numba_norms import reference


def test_layer_norm_steps():
    found = reference.steps([1, 2, 3, 4], "layer_norm", [1, 1, 2, 2], [0, 0, 0, 10])
    assert found.mean.tolist() == [2.5]
    assert found.centred.tolist() == [-1.5, -0.5, 0.5, 1.5]
    assert found.variance.tolist() == [1.25]
    np.testing.assert_allclose(found.x_hat, [-1.342, -0.447, 0.447, 1.342], atol=5e-4)
    np.testing.assert_allclose(found.y, [-1.342, -0.447, 0.894, 12.683], atol=5e-4)


def test_rms_norm_steps():
    found = reference.steps([[1, 2, 3, 4]], "rms_norm", [1, 1, 1, 10])
    assert found.mean_square.tolist() == [[7.5]]
    np.testing.assert_allclose(found.rms, [[2.739]], atol=5e-4)
    np.testing.assert_allclose(found.x_hat, [[0.365, 0.730, 1.095, 1.461]], atol=5e-4)
    np.testing.assert_allclose(found.y, [[0.365, 0.730, 1.095, 14.606]], atol=5e-4)


def test_several_axes_and_their_weight():
    x = np.arange(24.0).reshape(2, 3, 4)
    weight = np.arange(8.0).reshape(2, 4)
    y = reference.rms_norm(x, weight, eps=0, axis=(2, 0))
    row = x[:, 1, :]
    np.testing.assert_allclose(y[:, 1, :], weight * row / np.sqrt((row**2).mean()))


def test_everything_is_float64():
    x = np.full((1, 4), 300, np.float16)
    assert reference.steps(x, "rms_norm").mean_square.tolist() == [[90000.0]]
    assert reference.layer_norm(x).dtype == np.float64


def test_moments():
    count, mean, m2 = reference.moments([[1000, 1001], [2, 4]])
    assert (count, mean.tolist(), m2.tolist()) == (2, [[1000.5], [3.0]], [[0.5], [2.0]])


def test_batch_norm():
    x = np.array([[1, 10], [2, 20], [3, 60]])
    found = reference.batch_norm(x, [0, 0], [1, 1], [1, 2], [0, 5], training=True, momentum=0.5, eps=0)
    assert found.mean.tolist() == [[2, 30]]
    np.testing.assert_allclose(found.variance, [[2 / 3, 1400 / 3]])
    np.testing.assert_allclose(found.y[:, 0], [-1.2247, 0, 1.2247], atol=5e-5)
    np.testing.assert_allclose(found.y[:, 1], 5 + 2 * np.array([-20, -10, 30]) / np.sqrt(1400 / 3))
    assert (found.running_mean.tolist(), found.running_var.tolist()) == ([1, 15], [1, 350.5])
    biased = reference.batch_norm(x, [0, 0], [1, 1], training=True, momentum=1, unbiased=False)
    np.testing.assert_allclose(biased.running_var, [2 / 3, 1400 / 3])
    one = reference.batch_norm(x[:1].T, [1, 15], [1, 400], training=False, eps=0, channel_axis=0)
    assert one.y.tolist() == [[0], [-0.25]]


def test_refused():
    with pytest.raises(ValueError, match="kind"):
        reference.steps([1.0], "batch_norm")
    with pytest.raises(ValueError, match="no bias"):
        reference.steps([1.0], "rms_norm", bias=[1.0])
    with pytest.raises(ValueError, match="running_mean and running_var"):
        reference.batch_norm([[1.0]], None, None, training=False)
