"""add_rms_norm and add_layer_norm: against float64, from the unrounded sum, in place, one launch of least traffic."""

import functools
import importlib
import inspect

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import numba_norms
import simulator
from numba_norms import add_layer_norm, add_rms_norm, builtin, reference
from numba_norms.add_norm import launch_add_layer_norm, launch_add_rms_norm
from numba_norms.arrays.places import NUMPY
from numba_norms.launch import Launch
from simulator.frontend import lower_kernel
from tests.tolerances import (
    BFLOAT16,
    COMPUTE,
    DTYPES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    NAMES,
    RESULT,
    STATISTIC,
    assert_close,
    condition,
    same_bits,
)

SIZES = (1, 2, 33, 127, 769, 4097, *(pytest.param(size, marks=pytest.mark.full) for size in (31, 1024)))
ROWS = (0, 1, 2, 33)

welford = functools.partial(add_layer_norm, variance="welford")
NORMS = {
    "rms_norm": (add_rms_norm, reference.add_rms_norm),
    "layer_norm": (add_layer_norm, reference.add_layer_norm),
    "welford": (welford, reference.add_layer_norm),
}
every_norm = pytest.mark.parametrize(("norm", "expected"), NORMS.values(), ids=NORMS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)


def numbers(dtype, *shape, seed=0):
    return np.random.default_rng(sum(shape) + seed).standard_normal(shape).astype(dtype)


def pair(dtype, *shape, update_dtype=None):
    return numbers(dtype, *shape), numbers(update_dtype or dtype, *shape, seed=1)


def added(residual, update, stored=None):
    """The sum as it is stored: formed in the compute dtype, rounded once."""
    compute = np.float64 if FLOAT64 in (residual.dtype, update.dtype, stored) else np.float32
    return (residual.astype(compute) + update.astype(compute)).astype(stored or residual.dtype)


# -- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", SIZES)
@every_dtype
def test_add_rms_norm(dtype, columns):
    weight = numbers(dtype, columns)
    for rows in ROWS:
        residual, update = pair(dtype, rows, columns)
        found = add_rms_norm(residual, update, weight, return_stats=True)
        expected = reference.add_rms_norm(residual, update, weight)
        assert same_bits(found.h, added(residual, update))
        assert found.z.dtype == dtype
        assert_close(found.z, expected.z, RESULT[dtype])
        rms = reference.steps(expected.h, "rms_norm", eps=1e-6).rms
        assert found.rstd.dtype == COMPUTE[dtype]
        assert_close(found.rstd * rms, np.ones_like(rms), STATISTIC[COMPUTE[dtype]])  # relative: a sum may be near 0


@pytest.mark.parametrize("norm", [add_layer_norm, welford], ids=["two-pass", "welford"])
@pytest.mark.parametrize("columns", SIZES)
@every_dtype
def test_add_layer_norm(dtype, columns, norm):
    weight, bias = numbers(dtype, columns), numbers(dtype, columns, seed=2)
    for rows in ROWS:
        residual, update = pair(dtype, rows, columns)
        found = norm(residual, update, weight, bias, return_stats=True)
        expected = reference.add_layer_norm(residual, update, weight, bias)
        assert same_bits(found.h, added(residual, update))
        assert found.z.dtype == dtype
        assert_close(found.z, expected.z, RESULT[dtype], condition(expected.h, 1e-5))
        steps = reference.steps(expected.h, "layer_norm", eps=1e-5)
        assert found.mean.dtype == found.rstd.dtype == COMPUTE[dtype]
        assert_close(found.mean, steps.mean, STATISTIC[COMPUTE[dtype]])
        relative = found.rstd * np.sqrt(steps.variance + 1e-5)
        assert_close(relative, np.ones_like(steps.mean), STATISTIC[COMPUTE[dtype]], condition(expected.h, 1e-5))


@pytest.mark.parametrize("update_dtype", DTYPES, ids=NAMES)
@every_dtype
@every_norm
def test_residual_and_update_have_dtypes_of_their_own(norm, expected, dtype, update_dtype):
    residual, update = pair(dtype, 3, 45, update_dtype=update_dtype)
    weight = numbers(np.float32, 45)
    h, z = norm(residual, update, weight)
    assert same_bits(h, added(residual, update))
    assert z.dtype == update_dtype
    exact = expected(residual, update, weight)
    assert_close(z, exact.z, RESULT[update_dtype], condition(exact.h, 1e-5))


@pytest.mark.parametrize("stored", [FLOAT32, FLOAT64, "float32", "bfloat16", np.float16], ids=str)
@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16], ids=str)
@every_norm
def test_residual_dtype(norm, expected, dtype, stored):
    residual, update = pair(dtype, 2, 100)
    h, z = norm(residual, update, residual_dtype=stored)
    kind = BFLOAT16 if stored == "bfloat16" else np.dtype(stored)
    assert same_bits(h, added(residual, update, kind))
    assert z.dtype == dtype
    exact = expected(residual, update)
    assert_close(z, exact.z, RESULT[dtype], condition(exact.h, 1e-5))
    out = np.empty_like(h)
    assert norm(residual, update, residual_dtype=stored, out=(out, None)).h is out
    assert same_bits(out, h)


@every_norm
def test_a_float64_sum_is_formed_in_float64(norm, expected):
    residual, update = np.ones((1, 2)), np.array([[0, 2.0**-12]], np.float16)
    residual[0, 0] += 2.0**-40
    h, _ = norm(residual, update)
    assert h.tolist() == [[1 + 2.0**-40, 1 + 2.0**-12]]
    widened = norm(np.ones((1, 2), np.float32), np.full((1, 2), 2.0**-40, np.float32), residual_dtype=np.float64)
    assert widened.h.tolist() == [[1 + 2.0**-40] * 2]


# -- the statistics are those of the unrounded sum --------------------------------------------------------------------


@pytest.mark.parametrize("norm", [add_layer_norm, welford], ids=["two-pass", "welford"])
def test_layer_norm_of_a_sum_that_rounds_to_a_constant(norm):
    residual = np.full((1, 64), 256, BFLOAT16)  # its neighbours are 255 and 258
    update = np.where(np.arange(64) % 2, 0.25, -0.25).astype(BFLOAT16)[None]
    h, z = norm(residual, update, eps=0)
    assert (h == 256).all()
    assert z.tolist() == np.sign(update.astype(float)).tolist()
    assert not numba_norms.layer_norm(h).any()  # whoever rounds first loses everything


def test_rms_norm_of_a_sum_that_rounds():
    residual, update = np.full((1, 64), 256, BFLOAT16), np.full((1, 64), 0.875, BFLOAT16)
    update[0, ::2] = -256
    h, z, rstd = add_rms_norm(residual, update, eps=0, return_stats=True)
    assert h[0, 1] == 256
    exact = reference.add_rms_norm(residual, update, eps=0)
    assert_close(rstd, 1 / np.sqrt((exact.h**2).mean(axis=-1, keepdims=True)), STATISTIC[FLOAT32])
    _, rounded_first = numba_norms.rms_norm(h, eps=0, return_stats=True)
    assert abs(rounded_first / rstd - 1) > 100 * STATISTIC[FLOAT32].rtol
    # Not only the statistics: what is normalised is unrounded, too.
    wide = add_rms_norm(residual, update.astype(np.float32), eps=0)
    assert same_bits(wide.h, h)
    assert_close(wide.z, exact.z, RESULT[FLOAT32])


# -- in place ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_place", [(True, False), (False, True), (True, True)], ids=["h", "z", "both"])
@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT32], ids=str)
@every_norm
def test_h_may_be_residual_and_z_may_be_update(norm, expected, dtype, in_place):
    residual, update = pair(dtype, 3, 1000)
    weight = numbers(np.float32, 1000)
    fresh = norm(residual, update, weight, return_stats=True)
    out = (residual if in_place[0] else None, update if in_place[1] else None)
    before = residual.copy(), update.copy()
    found = norm(residual, update, weight, out=out, return_stats=True)
    assert all(map(same_bits, fresh, found))
    assert (found.h is residual, found.z is update) == in_place
    for changed, array, copy in zip(in_place, (residual, update), before, strict=True):
        assert same_bits(array, copy) != changed


@pytest.mark.parametrize("build", [builtin.add_rms_norm, builtin.add_layer_norm], ids=lambda build: build.__name__)
def test_no_race_in_place(build):
    launch = build((2, 150), "float16", threads=64)
    args = dict(zip(launch.names, launch.args, strict=True))
    args |= {"h": args["residual"], "z": args["update"]}
    trace = simulator.simulate(launch.kernel, check=True)[launch.grid, launch.block](*args.values())
    assert not trace.findings


@every_norm
def test_in_place_where_no_view_is_a_matrix(norm, expected):
    storage = numbers(np.float32, 4, 6, 10)
    residual, update = storage[:, ::2, :7], storage[:, 1::2, :7]  # interleaved, neither touches the other
    others = storage[:, :, 7:].copy()
    fresh = norm(residual.copy(), update.copy(), axis=(0, 2))
    found = norm(residual, update, axis=(0, 2), out=(residual, update))
    assert same_bits(found.h, residual) and same_bits(found.z, update)
    assert all(map(same_bits, fresh, found))
    assert same_bits(storage[:, :, 7:], others)


@every_norm
def test_residual_may_be_update(norm, expected):
    x = numbers(np.float32, 3, 40)
    h, z = norm(x, x)
    assert same_bits(h, x + x)
    assert_close(z, expected(x, x).z, RESULT[FLOAT32], condition(2 * x, 1e-5))


# -- scaling ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [1, 0.25, -3.5])
@every_dtype
def test_weight_offset_far_from_the_weight(dtype, offset):
    x, (residual, update) = numbers(dtype, 3, 77), pair(dtype, 3, 77)
    weight = (100 * numbers(np.float64, 77)).astype(dtype)
    expected = reference.rms_norm(x, weight, weight_offset=offset)
    assert_close(numba_norms.rms_norm(x, weight, weight_offset=offset), expected, RESULT[dtype], 100)
    expected = reference.add_rms_norm(residual, update, weight, weight_offset=offset)
    assert_close(add_rms_norm(residual, update, weight, weight_offset=offset).z, expected.z, RESULT[dtype], 100)


@every_dtype
def test_a_weight_of_zero_with_offset_one_is_no_weight(dtype):
    x, weight = numbers(dtype, 3, 40), np.zeros(40, dtype)
    assert same_bits(numba_norms.rms_norm(x, weight, weight_offset=1), numba_norms.rms_norm(x))
    assert same_bits(add_rms_norm(x, x, weight, weight_offset=1).z, add_rms_norm(x, x).z)


def test_the_offset_is_added_in_float32():
    x, weight = np.ones((1, 8), np.float32), np.full(8, 0.05, BFLOAT16)
    y = numba_norms.rms_norm(x, weight, eps=0, weight_offset=1)
    assert_close(y, np.full((1, 8), 1 + float(weight[0])), RESULT[FLOAT32])
    assert abs(float((1 + weight[:1])[0]) - y[0, 0]) > 1e-3  # 1 + w in bfloat16 is another number


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("weight_dtype", DTYPES, ids=NAMES)
@every_dtype
def test_llama_rounding_bit_for_bit(dtype, weight_dtype, offset):
    x, weight, compute = numbers(dtype, 4, 300), numbers(weight_dtype, 300), COMPUTE[dtype]

    def emulated(wide, rstd):
        x_hat = (wide * rstd).astype(dtype)
        return (x_hat.astype(compute) * (weight.astype(compute) + compute.type(offset))).astype(dtype)

    llama = {"weight_offset": offset, "rounding": "llama"}
    y, rstd = numba_norms.rms_norm(x, weight, return_stats=True, **llama)
    assert same_bits(y, emulated(x.astype(compute), rstd))
    once = numba_norms.rms_norm(x, weight, weight_offset=offset)
    assert same_bits(y, once) == (dtype in (FLOAT32, FLOAT64))
    residual, update = pair(dtype, 4, 300)
    _, z, rstd = add_rms_norm(residual, update, weight, return_stats=True, **llama)
    assert same_bits(z, emulated(residual.astype(compute) + update.astype(compute), rstd))


# -- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [5, 769])
@every_norm
def test_a_row_does_not_depend_on_the_number_of_rows(norm, expected, columns):
    residual, update = pair(np.float32, 20, columns)
    together = norm(residual, update, return_stats=True)
    assert all(map(same_bits, together, norm(residual, update, return_stats=True)))
    for row in (0, 19):
        alone = norm(residual[row], update[row], return_stats=True)
        assert all(same_bits(a, b[row]) for a, b in zip(alone, together, strict=True))


@every_norm
def test_nan_stays_in_its_row(norm, expected):
    residual, update = pair(np.float16, 3, 200)
    clean = norm(residual, update)
    update[1, 77] = np.nan
    h, z = norm(residual, update)
    assert np.isnan(h[1, 77]) and np.isfinite(np.delete(h[1], 77)).all() and np.isnan(z[1]).all()
    assert same_bits(h[[0, 2]], clean.h[[0, 2]]) and same_bits(z[[0, 2]], clean.z[[0, 2]])


def test_a_float16_sum_past_its_range_is_still_normalised():
    x = np.full((1, 8), 40000, np.float16)  # 80000 is beyond 65504
    h, z = add_rms_norm(x, x)
    assert np.isinf(h).all()
    assert (z == 1).all()


@pytest.mark.parametrize("axis", [0, (0, 2), (0, 1, 2)])
@every_norm
def test_axes_and_strides(norm, expected, axis):
    base = numbers(np.float32, 6, 8, 20)
    residual, update = base[:, ::2, 1:8], np.broadcast_to(base[:1, 1::2, 8:15], (6, 4, 7))
    axes = axis if isinstance(axis, tuple) else (axis,)
    weight = numbers(np.float32, *(residual.shape[a] for a in axes))
    found = norm(residual, update, weight, axis=axis, return_stats=True)
    exact = expected(residual, update, weight, axis=axis)
    assert_close(found.h, exact.h, RESULT[FLOAT32])
    assert_close(found.z, exact.z, RESULT[FLOAT32], condition(exact.h, 1e-5, axis))
    assert found.rstd.shape == exact.h.mean(axis=axis, keepdims=True).shape


@every_norm
def test_no_rows(norm, expected):
    x = np.empty((2, 0, 8), np.float16)
    found = norm(x, x.copy(), residual_dtype=np.float32, return_stats=True)
    assert (found.h.shape, found.h.dtype, found.z.shape, found.z.dtype) == (x.shape, FLOAT32, x.shape, FLOAT16)
    assert found.rstd.shape == (2, 0, 1)


# -- launches ---------------------------------------------------------------------------------------------------------


@every_norm
def test_one_launch(norm, expected):
    residual, update = pair(np.float16, 3, 100)
    with simulator.record() as traces:
        norm(residual, update, out=(residual, None))
    assert len(traces) == 1
    assert not traces[0].findings


@pytest.mark.parametrize(("norm", "times"), [("rms_norm", 2), ("layer_norm", 3)])
def test_traffic_of_the_textbook_is_the_least_but_for_reading_again(norm, times):
    launch = getattr(builtin, f"add_{norm}")((3, 4096), "float16")
    trace = simulator.simulate(launch.kernel)[launch.grid, launch.block](*launch.args)
    rows, columns = launch.argument("h").shape
    sectors = rows * columns * 2 // 32
    for name, operation, passes in [("residual", "load", times), ("update", "load", times), ("h", "store", 1),
                                    ("z", "store", 1)]:  # fmt: skip
        total = trace.total(array=name)
        assert total.unique == sectors
        assert total.sectors == total.ideal == passes * sectors
        assert trace.total(array=name, operation=operation).requests == total.requests
    assert trace.total(array="weight").unique == columns * 2 // 32


@pytest.mark.parametrize("columns", [16, 4096])
@pytest.mark.parametrize(
    ("build", "call"),
    [
        (builtin.add_rms_norm, lambda r, u, w: add_rms_norm(r, u, w, return_stats=True)),
        (builtin.add_layer_norm, lambda r, u, w: add_layer_norm(r, u, w, w, return_stats=True)),
    ],
    ids=["rms_norm", "layer_norm"],
)
def test_the_command_line_traces_the_function_that_the_library_launches(build, call, columns, monkeypatch):
    launches = []
    run = Launch.run
    monkeypatch.setattr(Launch, "run", lambda launch, place: (launches.append(launch), run(launch, place))[1])
    residual, update = pair(np.float16, 3, columns)
    call(residual, update, numbers(np.float32, columns))
    (launched,) = launches
    shown = build((3, columns), "float16", path="auto")
    assert shown.kernel is launched.kernel
    assert (shown.grid, shown.block, shown.names) == (launched.grid, launched.block, launched.names)
    assert shown.names == tuple(inspect.signature(shown.kernel.py_func).parameters)


@pytest.mark.parametrize("threads", [1, 4, 32, 128, 1024])
@pytest.mark.parametrize("name", ["add_rms_norm", "add_layer_norm"])
def test_every_number_of_threads(name, threads):
    launch = getattr(builtin, name)((2, 77), "float32", threads)
    launch.run(NUMPY)
    assert launch.block == threads
    inputs = [launch.argument(n) for n in ("residual", "update", "weight", "bias") if n in launch.names]
    expected = getattr(reference, name)(*inputs)
    assert_close(launch.argument("h"), expected.h, RESULT[FLOAT32])
    assert_close(launch.argument("z"), expected.z, RESULT[FLOAT32])


def all_launches(dtype):
    residual, update = pair(dtype, 2, 40)
    weight, h, z = numbers(dtype, 40), np.empty_like(residual), np.empty_like(update)
    mean, rstd = (np.empty(2, COMPUTE[dtype]) for _ in range(2))
    scaling = {"weight_offset": 0.1, "rounding": "llama"}
    yield launch_add_rms_norm(residual, update, weight, h, z, rstd, 1e-6, **scaling)
    yield launch_add_layer_norm(residual, update, weight, weight, h, z, mean, rstd, 1e-5)
    yield launch_add_layer_norm(residual, update, weight, weight, h, z, mean, rstd, 1e-5, variance="welford")
    yield importlib.import_module("numba_norms.rms_norm").launch(residual, weight, z, rstd, 1e-6, **scaling)


@every_dtype
def test_no_float64_unless_an_input_is(dtype):
    for launch in all_launches(dtype):
        program = lower_kernel(launch.kernel, launch.args)
        used = {slot.dtype for slot in program.slots} | {op.dtype for op in program.ops()}
        assert ("f8" in used) == (dtype == FLOAT64), launch.kernel.__name__
        assert ("f4" in used) == (dtype != FLOAT64), launch.kernel.__name__
        assert len(inspect.getsource(launch.kernel.py_func).splitlines()) <= 40, launch.kernel.__name__


# -- refused ----------------------------------------------------------------------------------------------------------

X, W = np.ones((3, 4), np.float32), np.ones(4, np.float32)
H = np.ones((3, 4), np.float32)

REFUSED = {
    "a tuple for weight": (lambda: add_rms_norm(X, H, (4,)), TypeError, r"weight is \(4,\).*`axis`"),
    "an int for weight": (lambda: add_layer_norm(X, H, 4), TypeError, "weight is 4.*`axis`"),
    "a tuple for bias": (lambda: add_layer_norm(X, H, W, (4,)), TypeError, "bias is .*`axis`"),
    "a weight for the update": (lambda: add_rms_norm(X, W), ValueError, r"update has shape \(4,\) and residual \(3, 4"),
    "no array": (lambda: add_rms_norm(X, 1.0), TypeError, "update is a float"),
    "integers": (lambda: add_layer_norm(np.ones(4, int), W), TypeError, "residual has dtype int64"),
    "integers to add": (lambda: add_layer_norm(W, np.ones(4, int)), TypeError, "update has dtype int64"),
    "weight too long": (lambda: add_rms_norm(X, H, np.ones(5, "f4")), ValueError, r"residual of shape \(3, 4\).*needs"),
    "axis too large": (lambda: add_rms_norm(X, H, axis=2), ValueError, "axis of residual"),
    "empty axis": (lambda: add_rms_norm(X[:, :0], H[:, :0]), ValueError, r"residual has shape \(3, 0\)"),
    "eps beyond float32": (lambda: add_rms_norm(X, H, eps=1e300), ValueError, "finite in float32"),
    "negative eps": (lambda: add_layer_norm(X, H, eps=-1), ValueError, "not negative"),
    "unknown variance": (lambda: add_layer_norm(X, H, variance="one-pass"), ValueError, "'two-pass', 'welford'"),
    "unknown rounding": (lambda: add_rms_norm(X, H, rounding="twice"), ValueError, "'once', 'llama'"),
    "unknown rounding of rms_norm": (lambda: numba_norms.rms_norm(X, rounding=1), ValueError, "rounding is 1;.*'once'"),
    "offset without a weight": (lambda: add_rms_norm(X, H, weight_offset=1), ValueError, "no weight to add it to"),
    "offset of rms_norm alone": (lambda: numba_norms.rms_norm(X, weight_offset=1), ValueError, "no weight to add"),
    "offset of digits": (lambda: add_rms_norm(X, H, W, weight_offset="1"), TypeError, "weight_offset is '1'"),
    "infinite offset": (lambda: add_rms_norm(X, H, W, weight_offset=1e39), ValueError, "finite in float32"),
    "NaN offset": (lambda: add_rms_norm(X, H, W, weight_offset=np.nan), ValueError, "weight_offset is nan"),
    "residual_dtype of integers": (
        lambda: add_rms_norm(X, H, residual_dtype=int),
        TypeError,
        "residual_dtype is .*int",
    ),
    "residual_dtype unknown": (lambda: add_rms_norm(X, H, residual_dtype="bf16"), TypeError, "bfloat16, float32"),
    "one array for out": (lambda: add_rms_norm(X, H, out=X), TypeError, r"out is a ndarray; .*\(h_out, z_out\)"),
    "None for out": (lambda: add_rms_norm(X, H, out=None), TypeError, "pair"),
    "out of one": (lambda: add_layer_norm(X, H, out=(X,)), TypeError, "out is a tuple of 1"),
    "out of another dtype": (lambda: add_rms_norm(X, H, out=(X.astype("f2"), None)), TypeError, r"out\[0\].*float32"),
    "h_out not residual_dtype": (lambda: add_rms_norm(X, H, out=(X, None), residual_dtype="float16"), TypeError, "16"),
    "out of another shape": (lambda: add_rms_norm(X, H, out=(None, X.T)), ValueError, r"out\[1\] has shape \(4, 3\)"),
    "one array for both": (lambda: add_rms_norm(X, H, out=(X, X)), ValueError, r"out\[0\] and out\[1\] share memory"),
    "crosswise": (lambda: add_rms_norm(X, H, out=(H, None)), ValueError, r"out\[0\] shares memory with update"),
    "crosswise, z": (lambda: add_rms_norm(X, H, out=(None, X)), ValueError, r"out\[1\] shares memory with residual"),
    "in place, one input twice": (lambda: add_rms_norm(X, X, out=(X, None)), ValueError, "memory with update"),
    "out in the weight": (lambda: add_rms_norm(X, H, X[1], out=(X, None)), ValueError, r"out\[0\].*memory with weight"),
    "out in the bias": (lambda: add_layer_norm(X, H, W, H[1], out=(None, H)), ValueError, "memory with bias"),
    "out reversed": (
        lambda: add_rms_norm(X, H, out=(X[::-1], None)),
        ValueError,
        r"out\[0\] overlaps residual in part",
    ),
    "masked": (lambda: add_rms_norm(X, np.ma.masked_array(H)), TypeError, "update is a masked array"),
}


@pytest.mark.parametrize(("call", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
    assert (X == 1).all() and (H == 1).all()


def test_out_of_one_address_or_read_only():
    out = as_strided(np.zeros(4, np.float32), (3, 4), (0, 4))
    with pytest.raises(ValueError, match=r"out\[0\] overlaps itself"):
        add_rms_norm(X, H, out=(out, None))
    out = X.copy()
    out.flags.writeable = False
    with pytest.raises(ValueError, match=r"out\[1\] is read-only"):
        add_rms_norm(X, H, out=(None, out))
