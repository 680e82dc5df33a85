"""torch on the CPU as a second reference: what it says of the same inputs, kept in ``vectors/torch.npz``.

torch is not needed here: ``vectors/make_torch.py`` asked it once, and asks again with ``--check``.
"""

import functools

import numpy as np
import pytest

import numba_norms
from numba_norms import batch_norm, reference
from tests.numba_norms.vectors.torch_cases import CASES, STORE, stored_part, unpacked
from tests.tolerances import COMPUTE, DTYPES, FLOAT16, FLOAT32, RESULT, STATISTIC, assert_close, between, condition

with np.load(STORE) as file:
    STORED = {name: unpacked(file[name]) for name in file.files}


def every(wanted):
    cases = [case for case in CASES.values() if wanted(case)]
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def said(case, output="y"):
    return STORED[f"{case.name}|{output}"]


def axes(case):
    """The normalised axes; for BatchNorm those of the samples."""
    return tuple(range(-case.over, 0)) if case.over else tuple(a for a in range(len(case.shape)) if a != 1)


def in_memory(case, x):
    """``x`` in the order of memory that the case asks for."""
    return x.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2) if dict(case.options).get("channels_last") else x


def how(case):
    """training and momentum, as keywords."""
    return {key: value for key, value in case.options if key != "channels_last"}


def test_the_file_holds_what_the_cases_ask_and_nothing_else():
    training = [case.name for case in CASES.values() if dict(case.options).get("training")]
    expected = {f"{name}|y" for name in CASES} | {f"{n}|running_{s}" for n in training for s in ("mean", "var")}
    assert set(STORED) == expected | {"version"}
    assert str(STORED["version"]).startswith("2.13.0")
    assert STORE.stat().st_size < 200_000
    for function in ("rms_norm", "layer_norm", "batch_norm"):
        assert {case.dtype for case in CASES.values() if case.function == function} == {d.name for d in DTYPES}


def test_inputs_are_those_that_torch_was_given():
    """The bits of a generator that NumPy promises to keep: were they others, every test here would fail."""
    x = CASES["rms_norm float32 3x3 weight"].inputs()["x"]
    assert x.dtype == FLOAT32
    assert x[0].tolist() == [0.9601128101348877, 1.3690850734710693, -0.7248268127441406]


@functools.cache
def of_rows(case, package=numba_norms):
    """What our kernel, or float64 (``package`` is ``reference``), makes of a case: the stored part."""
    return stored_part(getattr(package, case.function)(**case.inputs(), eps=case.eps, axis=axes(case)))


@every(lambda case: case.over)
def test_rms_norm_and_layer_norm(case):
    ill = condition(case.inputs()["x"], case.eps, axes(case)).max() if case.function == "layer_norm" else 1.0
    assert of_rows(case).dtype == said(case).dtype
    assert_close(of_rows(case), said(case), between(RESULT[said(case).dtype]), ill)


@every(lambda case: case.over)
def test_no_worse_than_torch(case):
    """The rule of flash-attention's tests: at most twice the error of another implementation in the same dtype."""
    ours, theirs = (np.abs(y.astype(float) - of_rows(case, reference)).max() for y in (of_rows(case), said(case)))
    assert ours <= 2 * theirs + RESULT[said(case).dtype].atol


@every(lambda case: case.function == "batch_norm")
def test_batch_norm(case):
    inputs = case.inputs()
    x, mean, var = in_memory(case, inputs.pop("x")), inputs.pop("running_mean"), inputs.pop("running_var")
    ill = condition(x, case.eps, axes(case)).max() if how(case)["training"] else 1 + np.abs(mean.astype(float)).max()
    y = batch_norm(x, mean, var, **inputs, eps=case.eps, **how(case))
    assert y.dtype == said(case).dtype
    assert_close(y, said(case), between(RESULT[y.dtype]), ill)
    if how(case)["training"]:  # the unbiased variance, as ours
        kept = between(STATISTIC[COMPUTE[mean.dtype]])
        assert mean.dtype == said(case, "running_mean").dtype
        assert_close(mean, said(case, "running_mean"), kept)
        assert_close(var, said(case, "running_var"), kept, ill)


def test_a_step_of_one_unit_in_float16_would_be_seen():
    """The measure is able to fail: torch's own answer, moved by two units in the last place."""
    case = CASES["layer_norm float16 3x127 weight bias"]
    moved = (said(case).view(np.uint16) + np.uint16(2)).view(np.float16)
    with pytest.raises(AssertionError, match="times what is allowed"):
        assert_close(moved, said(case), between(RESULT[FLOAT16]))
