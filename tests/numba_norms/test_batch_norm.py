"""BatchNorm: against float64 in every layout, the running statistics, what is refused, and what each lane reads."""

import dataclasses
import inspect
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import simulator
from numba_norms import batch_norm, builtin, reference
from numba_norms.arrays import Array
from numba_norms.arrays.dtypes import compute_dtype
from numba_norms.arrays.layouts import Channels
from numba_norms.arrays.places import NUMPY, NumPyPlace
from numba_norms.batch_norm import normalising_launch, statistics_launch
from numba_norms.launch import Launch
from simulator.frontend import lower_kernel
from simulator.machine import launch as run_on_machine
from simulator.program import Block
from tests.tolerances import (
    COMPUTE,
    DTYPES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    NAMES,
    RESULT,
    STATISTIC,
    assert_close,
    same_bits,
)

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)

ONE_VALUE = "Expected more than 1 value per channel when training, got input size"


def numbers(dtype, *shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def running(channels, dtype=np.float32):
    return numbers(np.float64, channels).astype(dtype), (1 + numbers(np.float64, channels) ** 2).astype(dtype)


def others(x, channel_axis=1):
    return tuple(axis for axis in range(x.ndim) if axis != channel_axis % x.ndim)


def condition(x, eps=1e-5, channel_axis=1):
    """1 + |mean| / deviation of each channel, as ``tolerances.condition`` for rows."""
    wide, axes = x.astype(np.float64), others(x, channel_axis)
    return 1 + np.abs(wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + eps)


def assert_training(x, channel_axis=1, dtype=np.float32, **options):
    """One training step with weight and bias against float64: y, the statistics, the running statistics."""
    count = x.shape[channel_axis]
    mean, var = running(count, dtype)
    weight, bias = numbers(np.float32, count), numbers(np.float32, count)[::-1]
    expected = reference.batch_norm(x, mean, var, weight, bias, training=True, channel_axis=channel_axis, **options)
    before, ill = x.copy(), condition(x, channel_axis=channel_axis)
    y, batch_mean, rstd = batch_norm(
        x, mean, var, weight, bias, training=True, channel_axis=channel_axis, return_stats=True, **options
    )
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    assert batch_mean.dtype == rstd.dtype == COMPUTE[x.dtype]
    statistic = STATISTIC[COMPUTE[x.dtype]]
    assert_close(y, expected.y, RESULT[x.dtype], ill)
    assert_close(batch_mean, expected.mean, statistic)
    assert_close(rstd.astype(float) * np.sqrt(expected.variance + 1e-5), np.ones_like(expected.mean), statistic, ill)
    assert mean.dtype == var.dtype == dtype
    kept = max(statistic, RESULT[np.dtype(dtype)], key=lambda row: row.rtol)
    assert_close(mean, expected.running_mean, kept)
    assert_close(var, expected.running_var, kept, ill.reshape(count))
    assert same_bits(x, before)


# -- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 2, 3, 31, 32, 33, 100])
@pytest.mark.parametrize("samples", [2, 3, 9, 65, 257, 1000])
def test_features(samples, channels):
    assert_training(numbers(np.float32, samples, channels))


@pytest.mark.parametrize("shape", [(2, 3, 4, 4), (1, 5, 7, 9), (3, 2, 1, 1), (4, 1, 5), (2, 33, 3, 11), (5, 2, 2000)])
def test_images(shape):
    assert_training(numbers(np.float32, *shape))


@every_dtype
@pytest.mark.parametrize("shape", [(129, 70), (3, 5, 8, 9)])
def test_dtypes(dtype, shape):
    assert_training(numbers(dtype, *shape))


@every_dtype
@pytest.mark.parametrize("kept", DTYPES, ids=NAMES)
def test_running_statistics_have_a_dtype_of_their_own(dtype, kept):
    assert_training(numbers(dtype, 40, 5), dtype=kept)


def test_running_statistics_in_float64_keep_their_digits():
    mean, var = np.full(2, 1 + 2.0**-40), np.full(2, 1 + 2.0**-40)
    batch_norm(numbers(np.float32, 8, 2), mean, var, training=True, momentum=0)
    assert (mean == 1 + 2.0**-40).all() and (var == 1 + 2.0**-40).all()


def view_of(shape, order):
    """Random numbers of this shape, whose axes follow in this order in memory."""
    return np.ascontiguousarray(numbers(np.float32, *shape).transpose(order)).transpose(np.argsort(order))


VIEWS = {
    "channels last": lambda: view_of((3, 40, 5, 6), (0, 2, 3, 1)),
    "channels last, more than 64": lambda: view_of((2, 100, 3, 3), (0, 2, 3, 1)),  # no power of two
    "Fortran order": lambda: np.asfortranarray(numbers(np.float32, 50, 20)),
    "channels first of all": lambda: view_of((4, 6, 5, 7), (1, 0, 2, 3)),
    "every second channel": lambda: numbers(np.float32, 30, 40)[:, ::2],
    "every second pixel": lambda: numbers(np.float32, 3, 4, 10, 12)[:, :, ::2, ::3],
    "reversed": lambda: numbers(np.float32, 30, 40)[::-1, ::-1],
    "offset by one element": lambda: numbers(np.float32, 30, 40)[1:, 1:34],
    "broadcast channels": lambda: np.broadcast_to(numbers(np.float32, 30, 1), (30, 6)),
    "broadcast plane": lambda: np.broadcast_to(numbers(np.float32, 8, 4, 1, 1), (8, 4, 3, 3)),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views(view):
    assert_training(view())


@st.composite
def arrays_and_channels(draw):
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=2, max_size=4)))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    return view_of(shape, draw(st.permutations(range(len(shape))))), axis


@settings(max_examples=40)
@given(arrays_and_channels())
def test_any_axis_of_any_layout(case):
    x, axis = case
    mean, var = running(x.shape[axis])
    if x.size == x.shape[axis]:
        with pytest.raises(ValueError, match=ONE_VALUE):
            batch_norm(x, mean, var, training=True, channel_axis=axis)
        training = False
    else:
        assert_training(x, axis)
        training = True
    expected = reference.batch_norm(x, mean, var, training=training, channel_axis=axis)
    ill = condition(x, channel_axis=axis) if training else 1 + np.abs(expected.mean)
    assert_close(batch_norm(x, mean, var, training=training, channel_axis=axis), expected.y, RESULT[FLOAT32], ill)


@pytest.mark.parametrize("shape", [(64, 40), (4, 5, 6, 7)])
def test_channels_of_neighbours_on_a_high_plateau(shape):
    x = 10_000 + numbers(np.float32, *shape)
    assert_training(x)
    x = np.where(np.arange(shape[0]).reshape(-1, *[1] * (len(shape) - 1)) % 2, 10_001, 10_000).astype(np.float32)
    y, mean, rstd = batch_norm(np.broadcast_to(x, shape), None, None, training=True, eps=0, return_stats=True)
    assert (mean == 10_000.5).all()
    assert np.abs(rstd / 2 - 1).max() < 1e-3  # the mean of three values is rounded to 2⁻¹⁰ on the way
    assert np.abs(np.abs(y) - 1).max() < 1e-3


@pytest.mark.parametrize("shape", [(77, 5), (7, 5, 11)])
def test_constant_channels_give_the_bias(shape):
    bias = np.arange(5, dtype=np.float32)
    y = batch_norm(np.full(shape, 1234, np.float32), None, None, None, bias, training=True)
    assert (np.moveaxis(y, 1, -1) == bias).all()


def test_float16_of_300_is_finite():
    x = np.full((8, 4), 300, np.float16)  # 300² is beyond float16's 65504
    x[::2] = -300
    assert (np.abs(batch_norm(x, None, None, training=True)) == 1).all()


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("has_weight", [False, True])
@pytest.mark.parametrize("shape", [(20, 7), (2, 7, 12)])
@pytest.mark.parametrize("training", [False, True])
def test_weight_and_bias_are_optional(training, shape, has_weight, has_bias):
    x, (mean, var) = numbers(np.float16, *shape), running(7)
    weight, bias = numbers(np.float64, 7) if has_weight else None, numbers(np.float16, 7) if has_bias else None
    expected = reference.batch_norm(x, mean, var, weight, bias, training=training).y
    assert_close(batch_norm(x, mean, var, weight, bias, training=training), expected, RESULT[FLOAT16], 4)


# -- running statistics ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5, 3), (1, 3, 5)])
def test_two_readings_of_the_running_variance(shape):
    """Ours and torch's is unbiased, M2 / (n - 1); ONNX's BatchNormalization in training mode is biased, M2 / n."""
    x = numbers(np.float32, *shape)
    mean, var = np.zeros(3, np.float32), np.zeros(3, np.float32)
    _, _, rstd = batch_norm(x, mean, var, training=True, momentum=1, eps=0, return_stats=True)
    wide = x.astype(float)
    assert_close(var, wide.var(others(x), ddof=1), STATISTIC[FLOAT32])
    biased = reference.batch_norm(x, mean, var, training=True, momentum=1, unbiased=False).running_var
    assert_close(var * 4 / 5, biased, STATISTIC[FLOAT32])  # the way from ours to ONNX's, with n = 5
    assert_close(1 / rstd.astype(float).ravel() ** 2, biased, STATISTIC[FLOAT32])  # y takes the biased one
    assert_close(mean, wide.mean(others(x)), STATISTIC[FLOAT32])


def test_momentum_0_and_1():
    x, (mean, var) = numbers(np.float32, 30, 4), running(4)
    kept = mean.copy(), var.copy()
    batch_norm(x, mean, var, training=True, momentum=0)
    assert same_bits(mean, kept[0]) and same_bits(var, kept[1])
    batch_norm(x, mean, var, training=True, momentum=1)
    assert_close(mean, x.astype(float).mean(0), STATISTIC[FLOAT32])
    assert_close(var, x.astype(float).var(0, ddof=1), STATISTIC[FLOAT32])


def test_many_batches_converge_on_the_distribution():
    mean, var = np.zeros(3, np.float32), np.ones(3, np.float32)
    generator = np.random.default_rng(1)
    for _ in range(60):
        batch_norm((5 + 2 * generator.standard_normal((64, 3))).astype(np.float32), mean, var, training=True)
    np.testing.assert_allclose(mean, 5, atol=0.3)
    np.testing.assert_allclose(var, 4, atol=0.9)


def test_inference_takes_one_sample_and_changes_nothing():
    x, (mean, var) = numbers(np.float32, 6, 40), running(40)
    kept = mean.copy(), var.copy()
    together = batch_norm(x, mean, var, training=False)
    assert_close(together, reference.batch_norm(x, mean, var, training=False).y, RESULT[FLOAT32], 4)
    for sample in range(6):
        assert same_bits(batch_norm(x[sample : sample + 1], mean, var, training=False), together[sample : sample + 1])
    assert batch_norm(x[0], mean, var, training=False, channel_axis=0).shape == (40,)
    assert same_bits(mean, kept[0]) and same_bits(var, kept[1])
    mean.flags.writeable = var.flags.writeable = False
    assert same_bits(batch_norm(x, mean, var, training=False), together)


def test_training_without_running_statistics():
    x, (mean, var) = numbers(np.float32, 20, 5), running(5)
    assert same_bits(batch_norm(x, None, None, training=True), batch_norm(x, mean, var, training=True))


def test_strided_and_misaligned_running_statistics():
    x, (mean, var) = numbers(np.float32, 20, 5), running(5)
    records = np.zeros(5, np.dtype([("tag", np.uint8), ("mean", np.float32)]))
    both = np.zeros((5, 2), np.float32)
    records["mean"], both[:, 1] = mean, var
    batch_norm(x, records["mean"], both[:, 1], training=True)
    batch_norm(x, mean, var, training=True)
    assert same_bits(records["mean"], mean) and same_bits(both[:, 1], var)
    assert not both[:, 0].any() and not records["tag"].any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("view", [lambda: numbers(np.float32, 40, 35), lambda: numbers(np.float32, 3, 35, 6)])
def test_nan_and_inf_stay_in_their_channel(view, bad):
    x, stats, clean = view(), running(35), running(35)
    expected = batch_norm(x, *clean, training=True)
    x[1, 3] = bad
    y = batch_norm(x, *stats, training=True)
    rest = np.arange(35) != 3
    assert np.isnan(y[:, 3]).all()
    assert same_bits(y[:, rest], expected[:, rest])
    for kept, found in zip(clean, stats, strict=True):
        assert not np.isfinite(found[3])
        assert same_bits(found[rest], kept[rest])


@pytest.mark.parametrize("shape", [(0, 4), (0, 4, 5, 5), (3, 4, 0)])
def test_empty_batch_leaves_the_running_statistics_alone(shape):
    x, (mean, var) = np.empty(shape, np.float16), running(4)
    kept = mean.copy(), var.copy()
    y, batch_mean, rstd = batch_norm(x, mean, var, training=True, return_stats=True)
    assert (y.shape, y.dtype) == (shape, np.float16)
    assert batch_mean.shape == rstd.shape == (1, 4, *[1] * (len(shape) - 2))
    assert np.isnan(batch_mean).all() and np.isnan(rstd).all()
    assert batch_norm(x, mean, var, training=False).shape == shape
    assert same_bits(mean, kept[0]) and same_bits(var, kept[1])


def test_an_input_that_is_no_view_is_copied_once(monkeypatch):
    copied = []
    copy = NumPyPlace.copy
    monkeypatch.setattr(NumPyPlace, "copy", lambda self, *arrays: (copied.append(arrays[1]), copy(self, *arrays))[1])
    x = numbers(np.float32, 3, 4, 10, 12)[:, :, ::2, ::3]
    batch_norm(x, None, None, training=True)
    assert len(copied) == 1 and np.shares_memory(copied[0], x)  # for two launches; the result is made to be a view


def test_no_channels():
    none = np.empty(0, np.float32)
    assert batch_norm(np.empty((8, 0), np.float32), none, none, training=True).shape == (8, 0)


# -- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", [VIEWS[name] for name in VIEWS if "broadcast" not in name])
@pytest.mark.parametrize("training", [False, True])
def test_out_may_be_x(view, training):
    x, (mean, var) = view(), running(view().shape[1])
    result = batch_norm(x, mean.copy(), var.copy(), training=training)
    assert batch_norm(x, mean, var, training=training, out=x) is x
    assert same_bits(x, result)


def test_out_of_another_layout():
    x = numbers(np.float32, 3, 8, 5, 6)
    for out in (np.empty_like(view_of(x.shape, (0, 2, 3, 1))), np.zeros((3, 16, 5, 12), np.float32)[:, ::2, :, ::2]):
        batch_norm(x, None, None, training=True, out=out)
        assert same_bits(out, batch_norm(x, None, None, training=True))


def test_the_result_has_the_order_of_x():
    for order in [(0, 1, 2, 3), (0, 2, 3, 1), (1, 0, 2, 3)]:
        x = view_of((3, 8, 5, 6), order)
        assert batch_norm(x, None, None, training=True).strides == x.strides


def test_two_runs_are_equal():
    x = numbers(np.float32, 500, 70)
    first, second = running(70), running(70)
    assert same_bits(batch_norm(x, *first, training=True), batch_norm(x, *second, training=True))
    assert all(same_bits(a, b) for a, b in zip(first, second, strict=True))


# -- refused ---------------------------------------------------------------------------------------------------------

X, R = np.ones((3, 4), np.float32), np.ones(4, np.float32)


def train(x=X, mean=None, var=None, *args, **options):
    fresh = (np.ones(4, np.float32) if array is None else array for array in (mean, var))
    return batch_norm(x, *fresh, *args, **{"training": True, **options})


BOTH = np.ones((2, 4), np.float32)

REFUSED = {
    "one value per channel": (lambda: train(X[:1]), ValueError, ONE_VALUE + r" \(1, 4\)"),
    "one value per channel of an image": (lambda: train(np.ones((1, 4, 1, 1), np.float32)), ValueError, ONE_VALUE),
    "inference without statistics": (lambda: batch_norm(X, None, None, training=False), ValueError, "are None"),
    "one running array": (lambda: batch_norm(X, R, None, training=True), ValueError, "running_mean comes without"),
    "the other": (lambda: batch_norm(X, None, R, training=False), ValueError, "running_var comes without"),
    "statistics of inference": (lambda: train(training=False, return_stats=True), ValueError, "return_stats"),
    "short running_mean": (lambda: train(mean=R[:3]), ValueError, r"running_mean has shape \(3,\).*axis 1.*\(4,\)"),
    "running_var like x": (lambda: train(var=X), ValueError, r"running_var has shape \(3, 4\)"),
    "weight along the samples": (lambda: train(X, R, R, R[:3]), ValueError, r"weight has shape \(3,\).*needs \(4,\)"),
    "bias to broadcast": (lambda: train(X, R, R, R, R[:1]), ValueError, r"bias has shape \(1,\)"),
    "integers": (lambda: train(X.astype(int)), TypeError, "x has dtype int64"),
    "running integers": (lambda: train(var=R.astype(int)), TypeError, "running_var has dtype int64"),
    "a list": (lambda: train(mean=[1.0] * 4), TypeError, "running_mean is a list"),
    "a list for x": (lambda: train([[1.0]]), TypeError, "x is a list"),
    "axis too large": (lambda: train(channel_axis=2), ValueError, "axis 2 is out of bounds"),
    "axis of a vector": (lambda: train(R), ValueError, "axis 1 is out of bounds"),
    "axes": (lambda: train(channel_axis=(0, 1)), TypeError, r"channel_axis is \(0, 1\); it must be an int"),
    "training unsaid": (lambda: batch_norm(X, R, R), TypeError, "training"),
    "training None": (lambda: train(training=None), TypeError, "training is None"),
    "momentum None": (lambda: train(momentum=None), TypeError, "momentum is None; a cumulative average"),
    "momentum of digits": (lambda: train(momentum="0.1"), TypeError, "momentum is '0.1'"),
    "momentum above 1": (lambda: train(momentum=1.5), ValueError, "momentum is 1.5"),
    "momentum NaN": (lambda: train(momentum=math.nan), ValueError, "momentum is nan"),
    "negative eps": (lambda: train(eps=-1), ValueError, "eps"),
    "out of another shape": (lambda: train(out=np.ones((4, 3), np.float32)), ValueError, "out has shape"),
    "out of another dtype": (lambda: train(out=np.ones((3, 4))), TypeError, "out has dtype"),
    "out over a running array": (
        lambda: train(BOTH, BOTH[0], out=BOTH),
        ValueError,
        "out shares memory with running_m",
    ),
    "one array for both": (lambda: train(X, R, R), ValueError, "running_mean.*shares memory with running_var"),
    "running array in x": (lambda: train(X, None, X[1]), ValueError, "running_var.*shares memory with x"),
    "running array as weight": (lambda: train(X, R, None, R), ValueError, "running_mean.*shares memory with weight"),
    "running array with one address": (
        lambda: train(X, as_strided(R.copy(), (4,), (0,))),
        ValueError,
        "running_mean overlaps itself",
    ),
}


@pytest.mark.parametrize(("call", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_read_only_running_statistics():
    frozen = np.ones(4, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="running_var is read-only; training updates it"):
        train(X, None, frozen)


def test_nothing_is_written_when_something_is_refused():
    mean, var, out = np.ones(4, np.float32), np.ones(4, np.float32), np.full((1, 4), 7, np.float32)
    with pytest.raises(ValueError, match=ONE_VALUE):
        batch_norm(X[:1], mean, var, training=True, out=out)
    assert (mean == 1).all() and (var == 1).all() and (out == 7).all()


# -- kernels ---------------------------------------------------------------------------------------------------------

LAYOUTS = {
    "features": lambda: numbers(np.float32, 64, 96),
    "images": lambda: numbers(np.float32, 4, 3, 8, 16),
    "images, channels last": lambda: view_of((4, 64, 4, 4), (0, 2, 3, 1)),
    "features in Fortran order": lambda: np.asfortranarray(numbers(np.float32, 128, 3)),
    "four features": lambda: numbers(np.float32, 64, 4),
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


def launches(x, training=True):
    """The launch of the statistics and that of the normalising, as ``batch_norm`` makes them."""
    channels, compute = Channels.of(x, 1), compute_dtype(x.dtype)
    mean, rstd, old_mean, old_var, weight, bias = (np.ones(channels.count, compute) for _ in range(6))
    y = channels.empty(Array.of(x)).given
    statistics = statistics_launch(channels.blocks(x), mean, rstd, (old_mean, old_var), 0.1, 1e-5)
    given = channels.blocks(x), mean, rstd, weight, bias
    return statistics, normalising_launch(*given, y=channels.blocks(y), eps=1e-5, training=training)


@every_layout
def test_every_sector_is_read_for_all_of_its_bytes(layout):
    x = layout()
    for launch in launches(x):
        trace = simulator.simulate(launch.kernel)[launch.grid, launch.block](*launch.args)
        for array in {"x", "y"} & set(launch.names):
            total = trace.total(array=array)
            assert total.sectors / total.ideal == 1.0, array
            assert total.bytes == x.nbytes, array  # each element once


def test_lanes_along_the_wrong_axis_would_cost_eight_times_the_sectors():
    """The same numbers, but the layout read off another array: the measure above is able to fail."""
    x = numbers(np.float32, 64, 96)
    wrong = Channels.of(np.asfortranarray(x), 1).blocks(x)
    mean, rstd = np.ones(96, np.float32), np.ones(96, np.float32)
    launch = statistics_launch(wrong, mean, rstd, None, 0.1, 1e-5)
    total = simulator.simulate(launch.kernel)[launch.grid, launch.block](*launch.args).total(array="x")
    assert total.sectors / total.ideal == 8.0


def test_who_reads_what():
    x = numbers(np.float32, 64, 96)
    statistics, _ = launches(x)  # 256 threads: 8 rows of 32 lanes
    trace = simulator.simulate(statistics.kernel)[statistics.grid, statistics.block](*statistics.args)
    assert trace.thread(1).reads("x") == [1 + 96 * sample for sample in range(0, 64, 8)]
    assert trace.thread(33, block=2).reads("x") == [64 + 1 + 96 * sample for sample in range(1, 64, 8)]
    x = numbers(np.float32, 2, 3, 40)
    statistics, _ = launches(x)  # 32 threads, 80 samples of channel 1: 40 in the first plane, 40 in the second
    trace = simulator.simulate(statistics.kernel)[statistics.grid, statistics.block](*statistics.args)
    assert trace.thread(10, block=1).reads("x") == [40 + 10, 160 + 2, 160 + 34]


@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
@every_layout
def test_no_float64_unless_x_is(dtype, layout):
    for training in (False, True):
        for launch in launches(layout().astype(dtype), training):
            program = lower_kernel(launch.kernel, launch.args)
            used = {slot.dtype for slot in program.slots} | {op.dtype for op in program.ops()}
            assert ("f8" in used) == (dtype == FLOAT64)


@every_layout
def test_kernels_are_short(layout):
    for launch in launches(layout()):
        assert len(inspect.getsource(launch.kernel.py_func).splitlines()) <= 40
        assert launch.names == tuple(inspect.signature(launch.kernel.py_func).parameters)


@every_layout
def test_clean_in_every_order(layout):
    for launch in launches(layout()):
        run = simulator.simulate(launch.kernel, check=True, orders=("waves", "last", 3))
        trace = run[launch.grid, launch.block](*launch.args)
        assert not trace.findings, trace.findings


@pytest.mark.parametrize("shape", [(64, 96), (4, 3, 8, 16), (9, 3)])
def test_a_barrier_taken_away_is_a_race(shape):
    launch = builtin.batch_norm(shape, threads=64)
    program = lower_kernel(launch.kernel, launch.args)
    barrier = next(op for op in program.ops() if op.kind == "bar")
    blocks = {k: Block([op for op in b.ops if op is not barrier], b.term) for k, b in program.blocks.items()}
    cut = dataclasses.replace(program, blocks=blocks, derived={})

    def mean(program, order, seed):
        args = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in launch.args]
        shape = (launch.grid, 1, 1), (launch.block, 1, 1)
        run_on_machine(program, *shape, args, schedule="splits", order=order, seed=seed)
        return args[launch.names.index("mean")]

    orders = [("first", 0), ("last", 0), *(("random", seed) for seed in range(10))]
    expected = mean(program, "first", 0)
    assert all(same_bits(expected, mean(program, *order)) for order in orders)
    assert not all(same_bits(expected, mean(cut, *order)) for order in orders)


@pytest.mark.parametrize("threads", [1, 4, 32, 64, 1024])
@pytest.mark.parametrize("shape", [(100, 40), (5, 3, 30), (9, 3)])
def test_every_number_of_threads(threads, shape):
    launch = builtin.batch_norm(shape, "float32", threads)
    x = launch.argument("x").astype(float)
    assert launch.block == threads
    launch.run(NUMPY)
    assert_close(launch.argument("mean"), x.mean((0, 2)), STATISTIC[FLOAT32], 4)
    assert_close(launch.argument("running_var"), 0.9 + 0.1 * x.var((0, 2), ddof=1), STATISTIC[FLOAT32], 4)


@pytest.mark.parametrize("shape", [(64, 32), (2, 3, 16, 16)])
def test_the_command_line_traces_the_function_that_the_library_launches(shape, monkeypatch):
    seen = []
    run = Launch.run
    monkeypatch.setattr(Launch, "run", lambda launch, place: (seen.append(launch), run(launch, place))[1])
    batch_norm(numbers(np.float16, *shape), *running(shape[1]), training=True)
    shown = builtin.batch_norm(shape, "float16")
    assert len(seen) == 2
    assert shown.kernel is seen[0].kernel
    assert (shown.grid, shown.block, shown.names) == (seen[0].grid, seen[0].block, seen[0].names)


@pytest.mark.parametrize("shape", [(4,), (0, 4), (1, 4), (1, 4, 1)])
def test_builtin_refuses_shapes_without_a_batch(shape):
    with pytest.raises(ValueError, match=r"batch_norm needs samples|more than 1 value"):
        builtin.batch_norm(shape)
