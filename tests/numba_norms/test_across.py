"""Statistics along an axis that is not contiguous: against float64, in any layout, and what each lane reads."""

import dataclasses
import inspect
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simulator
from numba_norms import builtin, reference
from numba_norms.across import launch_layer_norm_across, launch_rms_norm_across
from numba_norms.arrays import Array
from numba_norms.arrays.layouts import Across, lies_across
from numba_norms.arrays.places import NUMPY
from numba_norms.gpu.compiled import kernel as compiled
from numba_norms.gpu.compiled import type_of
from numba_norms.kernels.tokens import TokenTile
from numba_norms.plan import PARTS, tile_across
from numba_norms.rms_norm import launch as launch_rows
from simulator.frontend import lower_kernel
from simulator.machine import launch as run_on_machine
from simulator.program import Block
from tests.machine_code import sass
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

KINDS = ("rms_norm", "layer_norm", "welford")
every_kind = pytest.mark.parametrize("kind", KINDS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
every_sum = pytest.mark.parametrize("added", [False, True], ids=["alone", "sum"])

EPS = 1e-5


def numbers(dtype, *shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


def launched(kind, x, axes, weight=None, bias=None, *, update=None, h=None, y=None, tile=None, eps=EPS, **options):
    """The launch of one norm, in the layout of ``x``, with the arrays that it fills: y, rstd and mean."""
    across = Across.of(x, axes)
    assert across is not None
    y = across.new(Array.of(x), x.dtype).given if y is None else y
    stored = [array.dtype for array in (x, update, h) if array is not None]
    shape = tuple(1 if axis in axes else n for axis, n in enumerate(x.shape))
    rstd, mean = (np.full(shape, -7, np.result_type(np.float32, *map(COMPUTE.get, stored))) for _ in range(2))
    seen = dict(zip(("update", "h"), (None if a is None else across.view(a) for a in (update, h)), strict=True))
    vectors = [None if parameter is None else parameter.reshape(-1) for parameter in (weight, bias)]
    arrays, numbers_of = (across.view(x), *vectors), across.statistic
    if kind == "rms_norm":
        args = (*arrays[:2], across.view(y), numbers_of(rstd), eps)
        return launch_rms_norm_across(*args, **seen, tile=tile, **options), y, rstd, mean
    variance = "welford" if kind == "welford" else "two-pass"
    args = (*arrays, across.view(y), numbers_of(mean), numbers_of(rstd), eps)
    return launch_layer_norm_across(*args, **seen, tile=tile, variance=variance), y, rstd, mean


def norm(*args, **options):
    """y, rstd and mean of a launch that has run."""
    launch, *results = launched(*args, **options)
    launch.run(NUMPY)
    return results


def expected_of(kind, x, axes, weight=None, bias=None):
    """y, rstd and mean in float64."""
    wide = x.astype(np.float64)
    mean = wide.mean(axes, keepdims=True)
    if kind == "rms_norm":
        spread = (wide**2).mean(axes, keepdims=True)
        return reference.rms_norm(wide, weight, eps=EPS, axis=axes), 1 / np.sqrt(spread + EPS), mean
    spread = wide.var(axes, keepdims=True)
    return reference.layer_norm(wide, weight, bias, eps=EPS, axis=axes), 1 / np.sqrt(spread + EPS), mean


def assert_norm(kind, x, axes, *, tile=None, parameters=True):
    """One norm with weight and bias against float64."""
    shape = [x.shape[axis] for axis in axes]
    weight = numbers(np.float32, *shape, seed=1) if parameters else None
    bias = numbers(np.float32, *shape, seed=2) if parameters and kind != "rms_norm" else None
    before, ill = x.copy(), 1.0 if kind == "rms_norm" else condition(x, EPS, axes)
    y, rstd, mean = norm(kind, x, axes, weight, bias, tile=tile)
    expected = expected_of(kind, x, axes, weight, bias)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    assert_close(y, expected[0], RESULT[x.dtype], ill)
    assert rstd.dtype == COMPUTE[x.dtype]
    assert_close(rstd / expected[1], np.ones_like(rstd, np.float64), STATISTIC[rstd.dtype], ill)
    if kind != "rms_norm":
        assert_close(mean, expected[2], STATISTIC[mean.dtype])
    assert same_bits(x, before)


# -- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", [33, pytest.param(2, marks=pytest.mark.full)])
@pytest.mark.parametrize("columns", [2, 3, 17, 63, 65, 129, 256, 257, 300])
@every_kind
def test_ragged_sizes(kind, columns, inner):
    assert_norm(kind, numbers(np.float32, 3, columns, inner), (1,))


@settings(max_examples=12, deadline=None)
@given(st.tuples(st.integers(1, 4), st.integers(2, 70), st.integers(2, 70)), st.sampled_from(KINDS), st.booleans())
def test_any_sizes(shape, kind, small):
    tile = TokenTile(8, 4, 3, False) if small and shape[1] > 12 else None  # several windows, and a rest
    assert_norm(kind, numbers(np.float32, *shape), (1,), tile=tile)


@every_kind
def test_long_tokens(kind):
    assert_norm(kind, numbers(np.float16, 2300, 5), (0,))


@pytest.mark.parametrize("shape", [(70, 41), (300, 9)])
@every_dtype
@every_kind
def test_dtypes(kind, dtype, shape):
    assert_norm(kind, numbers(dtype, *shape), (0,))
    assert_norm(kind, numbers(dtype, *shape), (0,), parameters=False)


@pytest.mark.parametrize("weight_dtype", DTYPES, ids=NAMES)
@every_dtype
def test_weights_have_a_dtype_of_their_own(dtype, weight_dtype):
    x, weight, bias = numbers(dtype, 20, 5), numbers(weight_dtype, 20, seed=2), numbers(weight_dtype, 20, seed=3)
    y, *_ = norm("layer_norm", x, (0,), weight, bias)
    assert_close(y, expected_of("layer_norm", x, (0,), weight, bias)[0], RESULT[dtype], condition(x, EPS, 0))


@pytest.mark.parametrize("tile", [TokenTile(4, 8, 3, False), TokenTile(32, 1, 60, True), TokenTile(1, 64, 1, True)])
@every_kind
def test_every_tile(kind, tile):
    assert_norm(kind, numbers(np.float32, 2, 60, 11), (1,), tile=tile)


def test_offset_and_rounding_of_rms_norm():
    x, weight = numbers(np.float16, 90, 40), numbers(np.float16, 90)
    y, *_ = norm("rms_norm", x, (0,), weight, weight_offset=1.0)
    assert_close(y, reference.rms_norm(x, 1 + weight.astype(float), eps=EPS, axis=0), RESULT[FLOAT16])
    y, *_ = norm("rms_norm", x, (0,), weight, rounding="llama")
    unscaled, *_ = norm("rms_norm", x, (0,))
    assert same_bits(y, unscaled * weight[:, None])  # rounded before the product and after


@pytest.mark.parametrize("columns", [48, 700])
@every_kind
def test_equal_elements(kind, columns):
    x, bias = np.full((columns, 40), 1234, np.float32), numbers(np.float32, columns)
    y, _, mean = norm(kind, x, (0,), None, None if kind == "rms_norm" else bias)
    if kind == "rms_norm":
        assert_close(y, np.ones_like(x), RESULT[FLOAT32])
    else:
        assert (mean == 1234).all()
        assert (y == bias[:, None]).all()


@pytest.mark.parametrize("columns", [48, 700])
@pytest.mark.parametrize("kind", ["layer_norm", "welford"])
def test_tokens_on_a_high_plateau(kind, columns):
    assert_norm(kind, 10_000 + numbers(np.float32, columns, 40), (0,))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("columns", [48, 700])
@every_kind
def test_nan_and_inf_stay_in_their_token(kind, columns, bad):
    x = numbers(np.float16, columns, 40)
    clean, clean_rstd, _ = norm(kind, x, (0,))
    x[columns - 1, 39] = bad
    y, rstd, _ = norm(kind, x, (0,))
    assert same_bits(y[:, :39], clean[:, :39]) and same_bits(rstd[:, :39], clean_rstd[:, :39])
    if kind != "rms_norm" or np.isnan(bad):
        assert np.isnan(y[:, 39]).all()
    else:
        assert np.isnan(y[-1, 39]) and (y[:-1, 39] == 0).all()


# -- sums ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [48, 257, 700])
@every_kind
def test_statistics_are_those_of_the_unrounded_sum(kind, columns):
    residual, update = 1000 * numbers(np.float16, columns, 40), numbers(np.float16, columns, 40, seed=1)
    h = np.empty_like(residual)
    z, rstd, _ = norm(kind, residual, (0,), update=update, h=h)
    whole = residual.astype(float) + update.astype(float)
    expected, expected_rstd, _ = expected_of(kind, whole, (0,))
    assert same_bits(h, whole.astype(np.float32).astype(np.float16))
    assert_close(z, expected, RESULT[FLOAT16], condition(whole, EPS, 0))
    assert_close(rstd / expected_rstd, np.ones_like(rstd, float), STATISTIC[FLOAT32], condition(whole, EPS, 0))


@every_kind
def test_a_wider_residual_stream(kind):
    residual, update = numbers(np.float16, 60, 20), numbers(BFLOAT16, 60, 20, seed=1)
    h = np.empty(residual.shape, np.float32)
    norm(kind, residual, (0,), update=update, h=h)
    assert same_bits(h, residual.astype(np.float32) + update.astype(np.float32))


@pytest.mark.parametrize("columns", [48, 700])
@every_kind
def test_results_may_take_the_place_of_inputs(kind, columns):
    x, update = numbers(np.float16, columns, 40), numbers(np.float16, columns, 40, seed=1)
    expected, *_ = norm(kind, x, (0,))
    y = x.copy()
    norm(kind, y, (0,), y=y)
    assert same_bits(y, expected)
    h = np.empty_like(x)
    z, *_ = norm(kind, x, (0,), update=update, h=h)
    residual, branch = x.copy(), update.copy()
    norm(kind, residual, (0,), update=branch, h=residual, y=branch)
    assert same_bits(residual, h) and same_bits(branch, z)


# -- fixed order -----------------------------------------------------------------------------------------------------


@every_sum
@pytest.mark.parametrize("columns", [3, 48, 300])
@every_kind
def test_the_number_of_tokens_changes_no_bits(kind, columns, added):
    x, update = numbers(np.float32, 2, columns, 70), numbers(np.float32, 2, columns, 70, seed=1)
    extra = {"update": update, "h": np.empty_like(x)} if added else {}
    everything = norm(kind, x, (1,), **extra)
    for outer, inner in ((slice(0, 1), slice(0, 2)), (slice(1, 2), slice(35, 38)), (slice(0, 2), slice(3, 70))):
        part = x[outer, :, inner].copy()
        extra = {"update": update[outer, :, inner].copy(), "h": np.empty_like(part)} if added else {}
        for found, whole in zip(norm(kind, part, (1,), **extra), everything, strict=True):
            assert same_bits(found, whole[outer, :, inner])


@pytest.mark.parametrize("columns", [48, 300])
@every_kind
def test_the_width_of_a_tile_changes_no_bits(kind, columns):
    x = numbers(np.float32, columns, 70)
    usual = tile_across(columns, 70)
    expected = norm(kind, x, (0,))
    for width in (1, 8):
        found = norm(kind, x, (0,), tile=dataclasses.replace(usual, width=width))
        assert all(map(same_bits, found, expected))


def test_tiles_hold_their_tokens():
    for columns, itemsize in itertools.product(range(1, 3000), (4, 8)):
        tile = tile_across(columns, 100, itemsize)
        assert tile.whole == (columns <= tile.span)
        assert not tile.whole or columns > tile.span - tile.parts  # only the last round may lack elements
        assert tile.threads <= 1024
    assert [parts for _, parts, _ in PARTS] == sorted(parts for _, parts, _ in PARTS)


@pytest.mark.parametrize(("columns", "whole"), [(40, True), (49, True), (47, False)])
def test_tiles_that_reach_past_the_end_are_refused(columns, whole):
    with pytest.raises(ValueError, match=f"does not fit D = {columns}"):
        launched("rms_norm", numbers(np.float32, columns, 8), (0,), tile=TokenTile(8, 8, 6, whole))


# -- layouts ---------------------------------------------------------------------------------------------------------

BASE = numbers(np.float32, 24, 15, 16)

VIEWS = {
    "axis 0": (lambda: BASE[0], (0,)),
    "transposed": (lambda: BASE[0].T, (1,)),
    "channels of images": (lambda: BASE.reshape(3, 8, 15, 16), (1,)),
    "channels last, over pixels": (lambda: BASE.reshape(3, 8, 15, 16), (1, 2)),
    "two axes, adjacent": (lambda: BASE, (0, 1)),
    "the middle axis": (lambda: BASE, (1,)),
    "every second token": (lambda: BASE[:, :, ::2], (1,)),
    "tokens reversed": (lambda: BASE[:, :, ::-1], (1,)),
    "columns reversed": (lambda: BASE[:, ::-1], (1,)),
    "tokens from the second on": (lambda: BASE[:, 1:, 1:], (1,)),
    "part of one image": (lambda: BASE.reshape(1, 24, 15, 16)[:, :, 2:9, 3:], (1,)),
    "images of one column": (lambda: BASE.reshape(3, 8, 240, 1), (1,)),
    "inner axes first": (lambda: np.ascontiguousarray(BASE.transpose(1, 2, 0)).transpose(2, 0, 1), (2,)),
    "repeated tokens": (lambda: np.broadcast_to(BASE[:1], (3, 15, 16)), (1,)),
}


@pytest.mark.parametrize(("view", "axes"), VIEWS.values(), ids=VIEWS)
@every_kind
def test_views(kind, view, axes):
    x = view()
    assert lies_across(x, axes)
    assert np.shares_memory(Across.of(x, axes).view(x), x)
    assert_norm(kind, x, axes)


ROWS = {
    "contiguous": (lambda: BASE, (2,)),
    "all but the outermost": (lambda: BASE, (1, 2)),
    "everything": (lambda: BASE, (0, 1, 2)),
    "Fortran order": (lambda: np.asfortranarray(BASE), (0,)),
    "channels last": (lambda: np.ascontiguousarray(BASE.transpose(0, 2, 1)).transpose(0, 2, 1), (1,)),
    "one row, repeated": (lambda: np.broadcast_to(BASE[0, 0], (5, 16)), (1,)),
    "one element a token": (lambda: BASE[:1], (0,)),
    "one token, all there is": (lambda: BASE[:, :, :1].copy(), (0, 1)),
}


def test_one_token_of_many_lies_as_they_do():
    assert lies_across(BASE[:, :, :1], (0, 1))


@pytest.mark.parametrize(("view", "axes"), ROWS.values(), ids=ROWS)
def test_rows_stay_rows(view, axes):
    assert not lies_across(view(), axes)
    assert Across.of(view(), axes) is None


COPIED = {
    "part of several images": (lambda: BASE.reshape(3, 8, 15, 16)[:, :, 2:9, 3:], (1,)),
    "axes that are not adjacent": (lambda: BASE.reshape(3, 8, 15, 16), (0, 2)),
    "misaligned": (lambda: np.zeros((9, 5), np.dtype([("tag", "u1"), ("value", "f4")]))["value"], (0,)),
    "outer axes on both sides of inner ones": (
        lambda: np.ascontiguousarray(BASE.reshape(4, 6, 15, 16).transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
        (2,),
    ),
}


@pytest.mark.parametrize(("view", "axes"), COPIED.values(), ids=COPIED)
def test_no_view_no_layout(view, axes):
    assert lies_across(view(), axes)
    assert Across.of(view(), axes) is None


APART = 2**31


@pytest.mark.parametrize(("shape", "steps"), [((2, 5, 3), (2 * APART, APART // 4)), ((1, 300, 2), (0, APART // 150))])
@every_kind
def test_elements_and_tokens_far_apart(kind, shape, steps, tmp_path):
    """Offsets reach 2^32 elements; pages of a file that nobody touches take no memory."""
    elements = np.memmap(tmp_path / "elements", np.float16, "w+", shape=(3 * APART + 3,))
    x = np.lib.stride_tricks.as_strided(np.asarray(elements), shape, (2 * steps[0], 2 * steps[1], 2))
    x[...] = numbers(np.float16, *shape)
    assert_norm(kind, x, (1,))


@st.composite
def arrays_and_axes(draw):
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    axes = tuple(sorted(draw(st.sets(st.sampled_from(range(len(shape))), min_size=1))))
    order = draw(st.permutations(range(len(shape))))
    x = np.arange(math.prod(shape), dtype=np.float64).reshape([shape[axis] for axis in order])
    x = x.transpose(np.argsort(order))
    flips = tuple(slice(None, None, draw(st.sampled_from([1, -1]))) for _ in shape)
    return x[flips], axes


@settings(max_examples=200, deadline=None)
@given(arrays_and_axes())
def test_layouts_are_views_and_statistics_find_their_token(case):
    x, axes = case
    across = Across.of(x, axes)
    assert across is None or lies_across(x, axes)
    if across is not None:
        blocks = across.view(x)
        assert np.shares_memory(blocks, x)
        assert abs(blocks.strides[2]) < abs(blocks.strides[1])
        means = np.full(tuple(1 if axis in axes else n for axis, n in enumerate(x.shape)), -1.0)
        across.statistic(means)[...] = blocks.mean(1)
        assert (means == x.mean(axes, keepdims=True)).all()
        first = np.moveaxis(x, axes, range(-len(axes), 0)).reshape(-1, math.prod(x.shape[axis] for axis in axes))[0]
        assert sorted(map(tuple, blocks.transpose(0, 2, 1).reshape(-1, len(first)))).count(tuple(first)) == 1
        made = across.new(Array.of(x), FLOAT16).given
        assert made.shape == x.shape and across.view(made).flags.c_contiguous


# -- what lanes read -------------------------------------------------------------------------------------------------


def traced(launch):
    return simulator.simulate(launch.kernel)[launch.grid, launch.block](*launch.args)


ALIGNED = {
    "n_embd 256, n_tokens 64": ((256, 64), (0,)),
    "n_embd 768, n_tokens 32": ((768, 32), (0,)),
    "[N, C, H, W]": ((2, 64, 8, 16), (1,)),
    "four pixels": ((4, 96, 2, 8), (1,)),
    "two axes": ((8, 12, 48), (0, 1)),
}


@every_sum
@pytest.mark.parametrize(("shape", "axes"), ALIGNED.values(), ids=ALIGNED)
@every_kind
def test_every_sector_is_moved_for_all_of_its_bytes(kind, shape, axes, added):
    x = numbers(np.float16, *shape)
    extra = {"update": x.copy(), "h": np.empty_like(x)} if added else {}
    launch, *_ = launched(kind, x, axes, y=np.empty_like(x), **extra)
    trace = traced(launch)
    columns = math.prod(shape[axis] for axis in axes)
    for name in ("x", "y", *extra):
        total = trace.total(array=name)
        assert total.sectors / total.ideal == 1.0, name
        times = 2 if columns > 256 and name in ("x", "update") else 1  # it fits into the registers, or not
        assert total.sectors * 32 == times * x.nbytes, name


@pytest.mark.parametrize(("dtype", "excess"), [(np.float16, 16), (np.float32, 8)])
def test_rows_would_move_many_times_the_sectors(dtype, excess):
    """The same numbers by a block per row: the measure above is able to fail."""
    x, y = numbers(dtype, 256, 64), np.empty((256, 64), dtype)
    launch = launch_rows(x.T, None, y.T, np.empty(64, np.float32), EPS, path="strided")
    total = traced(launch).total(array="x")
    assert total.sectors / total.ideal == excess


def test_who_reads_what():
    x = numbers(np.float32, 40, 100)  # 4 parts of each token
    trace = traced(launched("rms_norm", x, (0,))[0])
    assert trace.thread(1).reads("x") == [1 + 100 * d for d in range(0, 40, 4)]
    assert trace.thread(32 + 1, block=2).reads("x") == [64 + 1 + 100 * d for d in range(1, 40, 4)]
    assert trace.thread(4, block=3).reads("x") == trace.thread(3, block=3).reads("x")  # a shadow of the last token
    assert trace.thread(4, block=3).writes("y") == []


# -- kernels ---------------------------------------------------------------------------------------------------------


def every_kernel(dtype=np.float32, columns=(48, 300), shape=(33,)):
    """Launches of every kernel, in registers and by windows, alone and of a sum."""
    for kind in KINDS:
        for count in columns:
            x = numbers(dtype, count, *shape)
            weight = numbers(dtype, count)
            for extra in ({}, {"update": x.copy(), "h": np.empty_like(x)}):
                yield launched(kind, x, (0,), weight, None if kind == "rms_norm" else weight, **extra)[0]


@every_dtype
def test_no_float64_unless_x_is(dtype):
    for launch in every_kernel(dtype):
        program = lower_kernel(launch.kernel, launch.args)
        used = {slot.dtype for slot in program.slots} | {op.dtype for op in program.ops()}
        assert ("f8" in used) == (dtype == FLOAT64)


def test_kernels_are_short():
    for launch in every_kernel():
        assert len(inspect.getsource(launch.kernel.py_func).splitlines()) <= 40
        assert launch.names == tuple(inspect.signature(launch.kernel.py_func).parameters)


def test_clean_in_every_order():
    for launch in every_kernel():
        run = simulator.simulate(launch.kernel, check=True, orders=("waves", "last", 3))
        assert not run[launch.grid, launch.block](*launch.args).findings


ORDERS = [("first", 0), ("last", 0), *(("random", seed) for seed in range(10))]
OUTPUTS = ("y", "rstd")


def results(program, launch, **schedule):
    """What the outputs hold after a run on fresh copies."""
    args = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in launch.args]
    run_on_machine(program, (launch.grid, 1, 1), (launch.block, 1, 1), args, **schedule)
    return [
        arg for arg, name in zip(args, launch.names, strict=True) if name in OUTPUTS and isinstance(arg, np.ndarray)
    ]


def test_every_order_gives_the_same_bits():
    for launch in every_kernel():
        program = lower_kernel(launch.kernel, launch.args)
        expected = results(program, launch)
        for order, seed in ORDERS[:5]:
            assert all(map(same_bits, expected, results(program, launch, schedule="splits", order=order, seed=seed)))


BARRIERS = [("rms_norm", 48, 2), ("rms_norm", 300, 2), ("layer_norm", 48, 4), ("welford", 48, 2), ("welford", 300, 2)]


@pytest.mark.parametrize(("kind", "columns", "barriers"), BARRIERS)
def test_every_barrier_is_needed(kind, columns, barriers):
    launch, *_ = launched(kind, numbers(np.float32, columns, 32), (0,))
    program = lower_kernel(launch.kernel, launch.args)
    ops = [op for op in program.ops() if op.kind == "bar"]
    assert len(ops) == barriers
    expected = results(program, launch)
    for number, barrier in enumerate(ops):
        blocks = {k: Block([op for op in b.ops if op is not barrier], b.term) for k, b in program.blocks.items()}
        cut = dataclasses.replace(program, blocks=blocks, derived={})
        found = (results(cut, launch, schedule="splits", order=order, seed=seed) for order, seed in ORDERS)
        assert any(not all(map(same_bits, expected, arrays)) for arrays in found), f"barrier {number} is idle"


@every_kind
def test_one_part_needs_no_barrier(kind):
    launch, *_ = launched(kind, numbers(np.float32, 9, 32), (0,), tile=TokenTile(32, 1, 9, True))
    assert not any(op.kind == "bar" for op in lower_kernel(launch.kernel, launch.args).ops())


MACHINES = [
    (FLOAT16, (9, 0)),
    pytest.param(BFLOAT16, (10, 0), marks=pytest.mark.full),
    (FLOAT64, (8, 0)),
    pytest.param(FLOAT64, (9, 0), marks=pytest.mark.full),
]


@pytest.mark.parametrize(("dtype", "capability"), MACHINES, ids=str)
def test_machine_code_fits_its_block(dtype, capability):
    """Registers for all threads of a block, none of them spilled, and no call."""
    for launch in every_kernel(dtype, columns=(256, 300), shape=(2, 40)):
        if not isinstance(launch.argument("h"), np.ndarray):
            continue  # a sum needs more registers
        code = compiled(launch.kernel, tuple(map(type_of, launch.args)), capability)
        assert launch.block * 8 * math.ceil(code.registers / 8) <= 65536, launch.kernel
        assert (code.stack, code.spills) == (0, 0), launch.kernel
        if dtype != FLOAT64:
            (figures,) = sass.read(code.cubin).values()
            assert (figures.calls, figures.float64) == (0, 0), launch.kernel


# -- the command line ------------------------------------------------------------------------------------------------


def test_the_command_line_traces_the_function_that_the_library_launches():
    launch, *_ = launched("rms_norm", numbers(np.float16, 256, 64), (0,), numbers(np.float16, 256), eps=1e-6)
    shown = builtin.rms_norm_across((256, 64), "float16")
    assert shown.kernel is launch.kernel
    assert (shown.grid, shown.block, shown.names) == (launch.grid, launch.block, launch.names)


@pytest.mark.parametrize("threads", [1, 16, 32, 1024])
def test_every_number_of_threads(threads):
    launch = builtin.rms_norm_across((60, 40), "float32", threads)
    assert launch.block == threads
    launch.run(NUMPY)
    x, weight = (launch.argument(name).astype(float) for name in ("x", "weight"))
    assert_close(launch.argument("y")[0], reference.rms_norm(x[0], weight, eps=1e-6, axis=0), RESULT[FLOAT32])


@pytest.mark.parametrize("shape", [(4,), (1, 4), (4, 1), (0, 4), (4, 0)])
def test_builtin_refuses_shapes_without_tokens(shape):
    with pytest.raises(ValueError, match="rms_norm_across needs"):
        builtin.rms_norm_across(shape)
