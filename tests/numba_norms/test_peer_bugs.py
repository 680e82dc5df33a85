"""Bugs that bit other implementations of these norms, each with the tests that show that ours does not have it.

Where a test of another file shows it already, that one is named.  ``tests/features.py`` checks that every name stands
for a test that runs.
"""

import inspect
from typing import NamedTuple

import numpy as np
import pytest
from numba import cuda
from numpy.lib.stride_tricks import as_strided

import simulator
from numba_norms import add_layer_norm, add_rms_norm, batch_norm, layer_norm, moments, reference, rms_norm
from numba_norms.launch import Launch
from simulator.frontend import lower_kernel
from tests.tolerances import (
    BFLOAT16,
    DTYPES,
    FLOAT16,
    FLOAT32,
    NAMES,
    RESULT,
    STATISTIC,
    assert_close,
    condition,
    same_bits,
)


class Bug(NamedTuple):
    where: str
    what: str
    tests: str
    """Names as in docs/features.md, :: for a test of this file; or "backward": it concerns gradients alone, which this
    package does not compute."""


BUGS = (
    Bug("pytorch 181555", "block * D in 32 bits unsigned: rows past 2^32 elements are wrong",
        "::test_rows_far_apart ::test_block_numbers_stay_wide gpu/test_large_arrays::test_past_32_bits"),
    Bug("vllm 22419, 42862", "the same in 32 bits signed: past 2^31 elements",
        "::test_rows_far_apart ::test_block_numbers_stay_wide gpu/test_large_arrays::test_past_31_bits"),
    Bug("flashinfer 3391", "illegal address just above 2^31 elements, where exactly 2^31 pass",
        "::test_rows_far_apart gpu/test_large_arrays::test_past_31_bits"),
    Bug("flashinfer 3005", "strides in 32 bits: as_strided with rows 2^31 apart",
        "::test_rows_far_apart ::test_samples_far_apart gpu/test_large_arrays::test_rows_far_apart"),
    Bug("apex 411", "rows on the grid's y, which ends at 65535", "::test_many_rows"),
    Bug("llama.cpp 27901", "the same, as a launch error", "::test_many_rows"),
    Bug("pytorch 16998", "BatchNorm of 131072 samples of one channel: invalid launch",
        "::test_batch_norm_of_many_samples"),
    Bug("flashinfer 634", "the row's buffer in shared memory off its alignment, D = 3584", "::test_sizes"),
    Bug("onnxruntime 15054", "wide accesses through a pointer that is not aligned to them",
        "::test_pointers_off_the_alignment_of_wide_accesses"),
    Bug("triton 9838, Liger 518", "lanes past D add the squared mean to the variance",
        "::test_lanes_past_the_end_add_nothing test_numbers::test_mean_far_above_the_deviation"),
    Bug("xformers 785", "columns past the block's are left out",
        "::test_sizes test_matrix::test_rms_norm test_matrix::test_layer_norm"),
    Bug("pytorch 51102", "mean(x²) - mean² cancels", "::test_a_mean_that_swamps_the_squares"),
    Bug("onnxruntime 28463, 21935", "a negative variance, and NaN",
        "::test_constant_rows test_examples::test_constant_row_gives_the_bias"
        " test_numbers::test_rows_whose_variance_came_out_negative_elsewhere"),
    Bug("mlx 2238", "NaN on the GPU where the CPU is right",
        "test_numbers::test_rows_whose_variance_came_out_negative_elsewhere"),
    Bug("burn 5607", "mean(x²) - mean² again: a wrong scale without NaN, which no clamp mends",
        "::test_a_mean_that_swamps_the_squares"),
    Bug("trt-samples-for-hackathon-cn 88", "a variance below 0: 10240 times 256, the last 255",
        "::test_a_mean_that_swamps_the_squares"),
    Bug("pytorch 133085, LeetCUDA 335, onnxruntime 29043", "squares formed in float16: 300² is inf",
        "::test_squares_past_float16 test_examples::test_float16_row_of_300_is_finite"
        " test_batch_norm::test_float16_of_300_is_finite"),
    Bug("tt-metal 55159", "squares past float32 give 0 without a word", "::test_squares_past_float32"),
    Bug("pytorch 155527, 173039", "a default eps that was said to hang on the dtype", "::test_default_eps_is_a_number"),
    Bug("quack 88", "expanded gradients refused or garbled; here: expanded inputs", "test_layouts::test_views"),
    Bug("LightLLM 1467", "the statistics obey the last stride, the result does not: x.T", "test_layouts::test_views"),
    Bug("vllm 28103", "slices of a fused QKV are copied, or fail",
        "::test_slices_of_qkv_are_not_copied test_layouts::test_views"),
    Bug("FlagGems 5392", "shape[0] taken for the number of rows", "test_layouts::test_any_axes"),
    Bug("quack 53", "gradient of a prenorm", "backward"),
    Bug("Liger 370, 376, 1305", "a result in the memory of an input; tests compared a buffer with itself",
        "::test_inputs_stay_as_they_are"),
    Bug("Liger 74", "Gemma without its 1 + weight",
        "test_add_norm::test_a_weight_of_zero_with_offset_one_is_no_weight"),
    Bug("TransformerEngine 67", "1 + weight forward only", "backward"),
    Bug("Megatron-LM 6859", "the offset computed, and then not used",
        "test_add_norm::test_weight_offset_far_from_the_weight"),
    Bug("vllm 52104", "the sum rounded to bfloat16 before its variance is taken",
        "test_add_norm::test_layer_norm_of_a_sum_that_rounds_to_a_constant"
        " test_add_norm::test_rms_norm_of_a_sum_that_rounds"),
    Bug("vllm 44694", "float32 weight and bfloat16 x: abort",
        "test_matrix::test_weight_and_bias_have_dtypes_of_their_own"
        " test_add_norm::test_residual_and_update_have_dtypes_of_their_own"),
    Bug("vllm 53203", "1 + weight formed in bfloat16", "test_add_norm::test_the_offset_is_added_in_float32"),
    Bug("llm.c 428, 445", "a division not rounded up: D = 1600 unsupported", "::test_sizes"),
    Bug("llm.c 794, 821", "no guard where the size is no multiple of the block's",
        "::test_nothing_outside_the_result_is_written test_matrix::test_rms_norm test_batch_norm::test_features"),
    Bug("pytorch 1381, 7716; Flux 2716", "training on one value per channel: running_var NaN",
        "test_batch_norm::test_refused[one value per channel]"
        " test_batch_norm::test_inference_takes_one_sample_and_changes_nothing"),
    Bug("pytorch 22192, 36530; apex 262", "unequal, single or empty parts merged by the wrong counts",
        "test_moments::test_sync_batch_norm_over_unequal_ranks test_moments::test_order_of_parts_hardly_matters"),
    Bug("pytorch 57077", "channels last: only the first 64 are right",
        "test_batch_norm::test_views[channels last, more than 64]"),
    Bug("Flux 2071", "a channel of NaN comes out as 0",
        "::test_channels_of_nothing_but_nan test_batch_norm::test_nan_and_inf_stay_in_their_channel"),
    Bug("pytorch 28614, torch-xpu-ops 4378", "no rows: an invalid launch",
        "::test_no_rows_no_launch test_layouts::test_zero_rows test_add_norm::test_no_rows"
        " test_batch_norm::test_empty_batch_leaves_the_running_statistics_alone"),
    Bug("apex 403", "neither weight nor bias: launch error (backward; here: forward)",
        "test_matrix::test_weight_and_bias_are_optional test_batch_norm::test_weight_and_bias_are_optional"),
    Bug("candle 2168", "no gradient, without a word", "backward"),
    Bug("pytorch 129621, 143042", "bfloat16 handed over as two nameless bytes, or as float16",
        "::test_two_nameless_bytes_are_no_number"
        " test_hosts::test_bfloat16_by_interface_counts_only_where_it_is_said"),
    # Not reported; found by reading their sources.
    Bug("flash-attention, residual_out=", "the caller's buffer for the sum stays empty",
        "::test_buffers_for_both_results"),
    Bug("Liger, LayerNorm", "mean and rstd kept in the dtype of x", "::test_statistics_of_half_rows_are_float32"),
    Bug("Liger, blocks of 16 rows", "row * stride in 32 bits", "::test_rows_far_apart"),
    Bug("numba-cuda, arrays of others", "x[::8] typed as contiguous, a contiguous array as strided",
        "test_arrays::test_numba_sees_the_layout_that_is_there"),
    Bug("numba-cuda, its simulator", "an empty grid runs, where a card refuses it; no warp operations",
        "::test_no_rows_no_launch simulator/test_warp_operations::test_shuffles"),
    Bug("numba-cuda, arrays of others", "two nameless bytes cannot be typed, not even where bfloat16 is said",
        "test_hosts::test_bfloat16_by_interface_counts_only_where_it_is_said"),
)  # fmt: skip


def test_every_bug_is_accounted_for():
    assert len(BUGS) == 47
    assert len({bug.where + bug.what for bug in BUGS}) == 47
    assert [bug.where for bug in BUGS if bug.tests == "backward"] == [
        "quack 53", "TransformerEngine 67", "candle 2168",
    ]  # fmt: skip


# -- the functions ----------------------------------------------------------------------------------------------------


def of_a_sum(norm):
    """An add-norm as the norm of its sum: nothing is added, so x is read where it lies."""

    def function(x, *parameters, out=None, **options):
        return norm(x, np.zeros(x.shape, x.dtype), *parameters, out=(None, out), **options).z

    return function


def welford(x, *parameters, **options):
    return layer_norm(x, *parameters, variance="welford", **options)


CENTRED = {
    "layer_norm": (layer_norm, reference.layer_norm),
    "welford": (welford, reference.layer_norm),
    "add_layer_norm": (of_a_sum(add_layer_norm), reference.layer_norm),
}
NORMS = {
    "rms_norm": (rms_norm, reference.rms_norm),
    "add_rms_norm": (of_a_sum(add_rms_norm), reference.rms_norm),
    **CENTRED,
}
every_norm = pytest.mark.parametrize(("norm", "expected"), NORMS.values(), ids=NORMS)
centred_norms = pytest.mark.parametrize(("norm", "expected"), CENTRED.values(), ids=CENTRED)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)


def numbers(dtype, *shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def all_functions(x):
    """A call of each public function that launches, on ``x`` [rows, D], by name."""
    weight, running = np.ones(x.shape[1], x.dtype), lambda: np.ones(x.shape[1], np.float32)
    yield "moments", lambda: moments(x)
    for name, (norm, _) in NORMS.items():
        yield name, lambda norm=norm: norm(x, weight)
    for training in (False, True):
        mean, var = running(), running()
        yield "batch_norm", lambda mean=mean, var=var, t=training: batch_norm(x, mean, var, weight, training=t)


@pytest.fixture
def launches(monkeypatch):
    """What the public functions launch, in order."""
    seen = []
    run = Launch.run
    monkeypatch.setattr(Launch, "run", lambda launch, *where: (seen.append(launch), run(launch, *where))[1])
    return seen


# -- addresses --------------------------------------------------------------------------------------------------------


@pytest.fixture
def sparse(tmp_path):
    """Arrays of float16 zeros of any length, in files: pages that nobody touches take no memory."""
    paths = (tmp_path / f"{k}" for k in range(9))
    return lambda elements: np.asarray(np.memmap(next(paths), np.float16, "w+", shape=(elements,)))


APART = 2**31
"""Elements from one row to the next: offsets reach 2^32 elements, 2^33 bytes."""


@pytest.mark.parametrize("columns", [64, 77])
@every_norm
def test_rows_far_apart(sparse, norm, expected, columns):
    x, out = (as_strided(sparse(2 * APART + columns), (3, columns), (2 * APART, 2)) for _ in range(2))
    x[...] = numbers(np.float16, 3, columns)
    assert norm(x, out=out) is out
    assert_close(out, expected(x), RESULT[FLOAT16])


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("inner", [1, 5])
def test_samples_far_apart(sparse, inner, training):
    x = as_strided(sparse(2 * APART + 40 * inner), (3, 40, inner), (2 * APART, 2 * inner, 2))
    x[...] = numbers(np.float16, *x.shape)
    mean, var = np.zeros(40, np.float32), np.ones(40, np.float32)
    exact = reference.batch_norm(x, mean, var, training=training)
    y = np.empty(x.shape, np.float16)
    batch_norm(x, mean, var, training=training, out=y)
    assert_close(y, exact.y, RESULT[FLOAT16], condition(x, 1e-5, (0, 2)).max())


def test_elements_of_a_row_far_apart(sparse):
    x = as_strided(sparse(2 * APART + 7), (7, 3), (2, 2 * APART))
    x[...] = numbers(np.float16, 7, 3)
    for norm, expected in NORMS.values():
        assert_close(norm(x), expected(x), RESULT[FLOAT16], condition(x, 1e-5))
        assert_close(norm(x.T, axis=0), expected(x.T, axis=0), RESULT[FLOAT16], condition(x.T, 1e-5, 0))


NARROW = ("i1", "i2", "i4", "u1", "u2", "u4")


def narrow_ones(program):
    """Operations that make an integer of at most 32 bits out of the number of a block, directly or by way of others.

    But for the number of a block itself (below 2^31), and that plus the number of a thread, which are 32 bits unsigned.
    """
    tainted = {k for k, slot in enumerate(program.slots) if getattr(slot.init, "name", "").startswith("ctaid")}
    assert tainted, "the number of the block is not read at all"
    while True:
        more = {dst for op in program.ops() if op.kind not in ("ld", "shfl", "cmp") and tainted & {*op.src}
                for dst in op.dst} - tainted  # fmt: skip
        if not more:
            break
        tainted |= more
    own = {k for k in tainted if getattr(program.slots[k].init, "name", "").startswith("ctaid")}
    fitting = []
    for op in program.ops():  # in the order of the source
        if (
            op.kind in ("mov", "cvt", "add")
            and op.dtype in ("u4", "u8")
            and own & {*op.src}
            and tainted & {*op.src} <= own
        ):
            own |= {*op.dst}
            fitting.append(op)
    return [
        op
        for op in program.ops()
        if op.kind not in ("mov", "cmp") and op.dtype in NARROW and tainted & {*op.dst} and op not in fitting
    ]


@pytest.mark.parametrize("columns", [3, 64, 1000, 4096, 70_001])
def test_block_numbers_stay_wide(launches, columns):
    """Row times D, and a row among several of a block, are 64-bit integers from the first operation on."""
    for _, call in all_functions(numbers(np.float16, 2, columns)):
        call()
    for launch in launches:
        program = lower_kernel(launch.kernel, launch.args)
        assert not narrow_ones(program), (launch.kernel.__name__, narrow_ones(program))


def test_a_narrow_product_would_be_seen():
    @cuda.jit
    def kernel(x, columns):
        row = np.int32(cuda.blockIdx.x * columns)
        x[row] = 1

    assert [op.kind for op in narrow_ones(lower_kernel(kernel, (np.zeros(4, np.float32), 2)))] == ["cvt"]

    @cuda.jit
    def unsigned(x, columns):
        row = np.uint32(np.uint32(cuda.blockIdx.x) + np.uint32(cuda.threadIdx.x))
        x[np.uint32(row * columns)] = 1

    assert narrow_ones(lower_kernel(unsigned, (np.zeros(4, np.float32), np.uint32(2))))


# -- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [1600, 3584, 8192, 65536, 65537])
@pytest.mark.parametrize("dtype", [FLOAT16, pytest.param(BFLOAT16, marks=pytest.mark.full), FLOAT32], ids=str)
def test_sizes(dtype, columns):
    x, weight = numbers(dtype, 2, columns), numbers(dtype, columns)
    for norm, expected in NORMS.values():
        assert_close(norm(x, weight), expected(x, weight), RESULT[dtype])


@pytest.mark.parametrize("rows", [65535, 65536, 70001])
@every_norm
def test_many_rows(norm, expected, rows):
    x = np.resize(numbers(np.float32, 997, 3), (rows, 3))
    assert_close(norm(x), expected(x), RESULT[FLOAT32], condition(x, 1e-5))


@pytest.mark.parametrize("shape", [(131_072, 1), (70_001, 3), (2, 70_001), (3, 1, 50_000)])
def test_batch_norm_of_many_samples(shape):
    x = numbers(np.float32, *shape)
    mean, var = np.zeros(shape[1], np.float32), np.ones(shape[1], np.float32)
    exact = reference.batch_norm(x, mean, var, training=True)
    assert_close(batch_norm(x, mean, var, training=True), exact.y, RESULT[FLOAT32], 1 + 1 / np.sqrt(x.var(0).min()))
    assert_close(mean, exact.running_mean, STATISTIC[FLOAT32])
    assert_close(var, exact.running_var, STATISTIC[FLOAT32])


# -- alignment, guards, memory of others ------------------------------------------------------------------------------


def shifted(array, by):
    """A copy that starts ``by`` elements past an address that 64 divides."""
    memory = np.zeros(array.nbytes + 64 + by * array.itemsize, np.uint8)
    start = -memory.ctypes.data % 64 + by * array.itemsize
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    assert copy.ctypes.data % 64 == by * array.itemsize
    return copy


@pytest.mark.parametrize("off", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (4, 2, 3), (7, 7, 7)], ids=str)
@every_dtype
def test_pointers_off_the_alignment_of_wide_accesses(dtype, off):
    x, weight, out = map(shifted, (numbers(dtype, 3, 256), numbers(dtype, 256), np.zeros((3, 256), dtype)), off)
    for norm, expected in NORMS.values():
        assert_close(norm(x, weight, out=out), expected(x, weight), RESULT[dtype])


@pytest.mark.parametrize("padding", [1, 8])
@pytest.mark.parametrize("columns", [1, 5, 40, 256, 769])
@pytest.mark.parametrize("dtype", [FLOAT16, FLOAT32], ids=str)
def test_nothing_outside_the_result_is_written(dtype, columns, padding):
    x = numbers(dtype, 3, columns)
    for norm, _ in NORMS.values():
        memory = np.full((5, columns + padding), 7, dtype)
        norm(x, out=memory[1:4, :columns])
        assert (memory[[0, 4]] == 7).all() and (memory[:, columns:] == 7).all()
        assert same_bits(memory[1:4, :columns], norm(x, out=np.full((5, columns + padding), 0, dtype)[1:4, :columns]))


def test_inputs_stay_as_they_are():
    x, weight, bias = numbers(np.float16, 3, 100), numbers(np.float16, 100), numbers(np.float16, 100)
    mean, var = np.zeros(100, np.float32), np.ones(100, np.float32)
    inputs = (x, weight, bias, mean, var)
    before = [array.copy() for array in inputs]
    results = [rms_norm(x, weight), *layer_norm(x, weight, bias, return_stats=True), welford(x, weight, bias)]
    results += [*add_rms_norm(x, x, weight), *add_layer_norm(x, x, weight, bias), *moments(x)[1:]]
    results += [batch_norm(x, mean, var, weight, bias, training=False)]
    results += batch_norm(x, None, None, weight, bias, training=True, return_stats=True)
    assert all(map(same_bits, inputs, before))
    for k, result in enumerate(results):
        assert not any(np.may_share_memory(result, other) for other in (*inputs, *results[:k]))


@pytest.mark.parametrize("given", [(True, True), (True, False), (False, True)], ids=["h and z", "h", "z"])
@pytest.mark.parametrize("norm", [add_rms_norm, add_layer_norm])
def test_buffers_for_both_results(norm, given):
    residual, update = numbers(np.float32, 3, 100), numbers(np.float32, 3, 100)[::-1].copy()
    fresh = norm(residual, update)
    out = tuple(np.full((3, 100), np.nan, np.float32) if wanted else None for wanted in given)
    found = norm(residual, update, out=out, return_stats=True)
    assert all(buffer is None or buffer is result for buffer, result in zip(out, found[:2], strict=True))
    assert all(map(same_bits, found[:2], fresh))


def test_slices_of_qkv_are_not_copied(launches):
    qkv = numbers(np.float16, 6, 3 * 64)
    for part in range(3):
        rms_norm(qkv[:, part * 64 : part * 64 + 64])
        assert np.shares_memory(launches[-1].args[0], qkv)
    heads = qkv.reshape(6, 3, 4, 16)[:, 1]  # the norm of each head of the keys
    assert same_bits(rms_norm(heads), rms_norm(heads.copy()))


# -- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [2, 3, 5, 17, 33, 769])
@centred_norms
def test_lanes_past_the_end_add_nothing(norm, expected, columns):
    x = 1000 + numbers(np.float32, 4, columns)
    assert_close(norm(x), expected(x), RESULT[FLOAT32], condition(x, 1e-5))


SWAMPED = {
    "normal around 2000": 2000 + numbers(np.float32, 5, 4),
    "steps of 0.001 above 100": (100 + np.arange(16) * 1e-3).astype(np.float32)[None],
    "256 and at last 255": np.r_[np.full(10239, 256), 255].astype(np.float32)[None],
    "1234 and a little": (1234 + 1e-2 * numbers(np.float64, 3, 256)).astype(np.float32),
}


@pytest.mark.parametrize("x", SWAMPED.values(), ids=SWAMPED)
def test_a_mean_that_swamps_the_squares(x):
    """The error of the variance grows with its condition; that of mean(x²) - mean² with the square of it."""
    variance = reference.steps(x, "layer_norm").variance
    squares = x * x
    cancelled = squares.mean(-1, keepdims=True) - x.mean(-1, keepdims=True) ** 2
    assert np.abs(cancelled / variance - 1).max() > 0.1
    for norm, expected in CENTRED.values():
        assert_close(norm(x, eps=0), expected(x, eps=0), RESULT[FLOAT32], condition(x, 0))
    for name in ("two-pass", "welford"):
        _, _, rstd = layer_norm(x, eps=0, variance=name, return_stats=True)
        assert_close(rstd * np.sqrt(variance), np.ones_like(variance), STATISTIC[FLOAT32], condition(x, 0))


@pytest.mark.parametrize("value", [1234, -0.1, 65504])
@pytest.mark.parametrize("columns", [1, 256, 769, pytest.param(4096, marks=pytest.mark.full)])
@every_dtype
def test_constant_rows(dtype, columns, value):
    """The mean of equal numbers is that number where the sum is exact; elsewhere nearly, and nothing is NaN."""
    x, bias = np.full((2, columns), value, dtype), numbers(dtype, columns)
    for norm, expected in CENTRED.values():
        y = norm(x, None, bias)
        assert_close(y, expected(x, None, bias), RESULT[dtype], condition(x, 1e-5))
        if value == 1234:
            assert (y == bias).all()


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16], ids=str)
def test_squares_past_float16(dtype):
    x = np.full((2, 128), 300, dtype)
    x[:, ::2] *= -1
    for norm, _ in NORMS.values():
        assert (np.abs(norm(x)) == 1).all()


def test_squares_past_float32():
    """Float32 ends at 3.4e38: the sum of such squares is inf, and what it divides is 0.  Float64 goes on."""
    x = np.full((1, 512), 1e19, np.float32)
    x[0, ::2] *= -1
    for norm in (rms_norm, layer_norm, welford):
        assert (norm(x) == 0).all()
        np.testing.assert_allclose(np.abs(norm(x.astype(np.float64))), 1, rtol=1e-12)


def test_default_eps_is_a_number():
    assert inspect.signature(rms_norm).parameters["eps"].default == 1e-6
    assert inspect.signature(layer_norm).parameters["eps"].default == 1e-5
    for dtype in (FLOAT16, BFLOAT16, FLOAT32):
        y, rstd = rms_norm(np.zeros((1, 8), dtype), return_stats=True)
        assert (y == 0).all()
        assert_close(rstd, [[1e3]], STATISTIC[FLOAT32])


def test_statistics_of_half_rows_are_float32():
    x = (1000 + numbers(np.float64, 3, 999)).astype(np.float16)
    exact = reference.steps(x, "layer_norm", eps=1e-5)
    for name in ("two-pass", "welford"):
        _, mean, rstd = layer_norm(x, variance=name, return_stats=True)
        assert mean.dtype == rstd.dtype == FLOAT32
        assert_close(mean, exact.mean, STATISTIC[FLOAT32])
        assert np.abs(mean - mean.astype(np.float16).astype(np.float32)).max() > 0.01  # what float16 would lose
        assert_close(rstd * np.sqrt(exact.variance + 1e-5), np.ones((3, 1)), STATISTIC[FLOAT32], condition(x, 1e-5))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("shape", [(8, 3), (2, 3, 5)])
def test_channels_of_nothing_but_nan(shape, training):
    x = numbers(np.float32, *shape)
    clean = batch_norm(x, np.zeros(3, np.float32), np.ones(3, np.float32), training=training)
    x[:, 1] = np.nan
    y = batch_norm(x, np.zeros(3, np.float32), np.ones(3, np.float32), training=training)
    assert np.isnan(y[:, 1]).all()
    assert same_bits(y[:, [0, 2]], clean[:, [0, 2]])


# -- nothing at all, and what is no number ----------------------------------------------------------------------------


def test_no_rows_no_launch():
    with simulator.record() as traces:
        for _, call in all_functions(np.empty((0, 8), np.float16)):
            call()
    assert not traces


def test_two_nameless_bytes_are_no_number():
    """What torch once called bfloat16, and now calls nothing: neither is taken for float16."""
    nameless, x = np.zeros((3, 4), "V2"), np.ones((3, 4), np.float16)
    for call in (
        lambda: rms_norm(nameless),
        lambda: layer_norm(x, nameless[0]),
        lambda: add_rms_norm(x, nameless),
        lambda: batch_norm(nameless, None, None, training=True),
        lambda: rms_norm(x, out=nameless),
    ):
        with pytest.raises(TypeError, match=r"\|V2|void16"):
            call()
    assert same_bits(rms_norm(x.view("V2").view(np.float16)), rms_norm(x))
