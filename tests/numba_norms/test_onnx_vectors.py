"""ONNX's published test vectors of LayerNormalization, RMSNormalization and BatchNormalization: every one of them.

They come with the package onnx: a model of one node, its inputs, and the outputs that its authors publish.  What is
not run is named here with its reason, and the counts are asserted, so that none is left out in silence.  What they
publish is float32, computed in float32: our tolerances for float64 hold all the same, with room.
"""

import functools
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from numba_norms import batch_norm, layer_norm, rms_norm
from tests.tolerances import FLOAT32, RESULT, STATISTIC, assert_close, condition

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"

COUNTS = {"LayerNormalization": 19, "RMSNormalization": 19, "BatchNormalization": 9}

COPIES = ("_expanded", "_expanded_ver18")
"""The same inputs and outputs again, for the operator written out as a graph of simpler ones."""

NETWORKS = {"light_densenet121", "light_inception_v2", "light_resnet50", "light_shufflenet"}
"""Whole networks of hundreds of nodes with BatchNormalization among them: what they publish is no norm's output."""


@functools.cache
def nodes(path):
    """The nodes of a model, weights on disk left alone."""
    return list(onnx.load(path, load_external_data=False).graph.node)


@functools.cache
def models():
    """Paths of all models that use one of the operators: those of one node, by operator, and the others."""
    alone, others = {operator: [] for operator in COUNTS}, []
    for path in sorted(DATA.rglob("*.onnx"), key=lambda path: (path.parent.name, path.name)):
        used = [node.op_type for node in nodes(path)]
        if len(used) == 1 and used[0] in COUNTS:
            alone[used[0]].append(path)
        elif set(used) & set(COUNTS):
            others.append(path)
    return alone, others


def vectors(operator, wanted=lambda path: True):
    paths = [path for path in models()[0][operator] if wanted(path)]
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.parent.name.removeprefix("test_"))


def tensors(path, kind):
    """The published arrays: ``kind`` is input or output."""
    files = sorted((path.parent / "test_data_set_0").glob(f"{kind}_*.pb"))  # no vector has ten
    return [numpy_helper.to_array(onnx.TensorProto.FromString(file.read_bytes())) for file in files]


def weights(path):
    """What an old model holds itself: arrays by name."""
    return {array.name: numpy_helper.to_array(array) for array in onnx.load(path).graph.initializer}


def attributes(path):
    (node,) = nodes(path)
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def axes_from(axis, x):
    """ONNX normalises over all axes from ``axis`` on."""
    return tuple(range(axis % x.ndim, x.ndim))


def in_training(path):
    return attributes(path).get("training_mode", 0) == 1


# -- all of them ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", COUNTS)
def test_no_vector_is_left_out(operator):
    alone, _ = models()
    assert len(alone[operator]) == COUNTS[operator]
    for path in alone[operator]:
        (node,) = nodes(path)
        assert len(tensors(path, "output")) == len([name for name in node.output if name])
        assert {folder.name for folder in path.parent.iterdir() if folder.is_dir()} == {"test_data_set_0"}
        assert set(attributes(path)) <= {"axis", "epsilon", "momentum", "training_mode", "is_test"}  # all are obeyed


def test_what_is_no_vector_of_an_operator_is_named():
    _, others = models()
    assert {path.stem for path in others} == NETWORKS
    assert all(len(nodes(path)) > 400 for path in others)


@pytest.mark.parametrize(("operator", "copies"), [("LayerNormalization", 2), ("RMSNormalization", 1)])
def test_expanded_vectors_are_copies(operator, copies):
    for path in models()[0][operator]:
        folders = [folder for suffix in COPIES if (folder := Path(f"{path.parent}{suffix}")).is_dir()]
        assert len(folders) == copies
        for folder in folders:
            for file in (path.parent / "test_data_set_0").iterdir():
                assert (folder / "test_data_set_0" / file.name).read_bytes() == file.read_bytes()


# -- LayerNormalization, RMSNormalization -----------------------------------------------------------------------------


@pytest.mark.parametrize("variance", ["two-pass", "welford"])
@vectors("LayerNormalization")
def test_layer_normalization(path, variance):
    x, weight, bias = tensors(path, "input")
    given = attributes(path)
    axis, eps = axes_from(given.get("axis", -1), x), given.get("epsilon", 1e-5)
    found = layer_norm(x, weight, bias, eps=eps, axis=axis, variance=variance, return_stats=True)
    published = tensors(path, "output")  # Y, Mean, InvStdDev
    for ours, theirs, tolerance in zip(found, published, (RESULT, STATISTIC, STATISTIC), strict=True):
        assert ours.dtype == theirs.dtype == FLOAT32
        assert_close(ours, theirs, tolerance[FLOAT32], condition(x, eps, axis))


@vectors("RMSNormalization")
def test_rms_normalization(path):
    x, weight = tensors(path, "input")
    given = attributes(path)
    axis, eps = axes_from(given.get("axis", -1), x), given.get("epsilon", 1e-5)
    (published,) = tensors(path, "output")
    assert_close(rms_norm(x, weight, eps=eps, axis=axis), published, RESULT[FLOAT32])


# -- BatchNormalization -----------------------------------------------------------------------------------------------


@vectors("BatchNormalization", lambda path: not in_training(path))
def test_batch_normalization_of_inference(path):
    named = weights(path) | dict(zip(nodes(path)[0].input, tensors(path, "input"), strict=False))
    x, weight, bias, mean, var = (named[name] for name in nodes(path)[0].input)
    y = batch_norm(x, mean, var, weight, bias, training=False, eps=attributes(path).get("epsilon", 1e-5))
    (published,) = tensors(path, "output")
    assert_close(y, published, RESULT[FLOAT32])


@vectors("BatchNormalization", in_training)
def test_batch_normalization_of_training(path):
    """Two readings of the running variance: ONNX averages M2 / n, we average M2 / (n - 1), as torch does."""
    x, weight, bias, mean, var = tensors(path, "input")
    given = attributes(path)
    kept = given.get("momentum", 0.9)  # ONNX's momentum is the share of the old
    new_mean, new_var = mean.copy(), var.copy()
    options = {"momentum": 1 - kept, "eps": given.get("epsilon", 1e-5)}
    y = batch_norm(x, new_mean, new_var, weight, bias, training=True, **options)
    y_published, mean_published, var_published = tensors(path, "output")
    assert_close(y, y_published, RESULT[FLOAT32], condition(x, options["eps"], (0, *range(2, x.ndim))))
    assert_close(new_mean, mean_published, STATISTIC[FLOAT32])
    samples = x.size // x.shape[1]
    batch = new_var.astype(float) - kept * var.astype(float)
    assert_close(kept * var.astype(float) + batch * (samples - 1) / samples, var_published, STATISTIC[FLOAT32])
    assert np.abs(new_var / var_published - 1).max() > 1e-4  # the readings do differ
