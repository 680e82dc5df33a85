"""The paths strided, vector and stream: each in its domain against float64, each chosen where it should be."""

import dataclasses

import numpy as np
import pytest

import numba_norms
from numba_norms import builtin
from numba_norms.arrays.addresses import device_layout
from numba_norms.kernels.tile import Tile
from numba_norms.plan import LANES, MAX_COLUMNS, MAX_REGISTERS, access_width, choose
from simulator import record, simulate
from simulator.frontend import lower_kernel
from tests.numba_norms.paths import NORMS, Case
from tests.numba_norms.schedules import ORDERS, results, without_barrier
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
    condition,
    same_bits,
)

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
every_norm = pytest.mark.parametrize("norm", NORMS)


def check(case):
    """The results of a launch that has run."""
    tolerance = RESULT[case.y.dtype]
    summed = case.summed
    assert_close(case.y, case.expected, tolerance, condition(summed, case.eps))
    if case.norm.startswith("add_"):
        assert same_bits(case.h, summed.astype(case.h.dtype))
    statistic = STATISTIC[COMPUTE[case.x.dtype]]
    if case.norm.endswith("layer_norm"):
        assert_close(case.mean, summed.mean(1), statistic)
        ones = case.rstd * np.sqrt(summed.var(1) + case.eps)
        assert_close(ones, np.ones_like(ones), statistic, condition(summed, case.eps)[:, 0])
    else:
        assert_close(case.rstd, 1 / np.sqrt(np.mean(summed**2, 1) + case.eps), statistic)


# -- numbers ----------------------------------------------------------------------------------------------------------

# Around a lane, a group of lanes, a warp, a block, a round; multiples of 8, of 4 and of 2 elements.
VECTOR = (2, 6, 8, 100, 130, 1032, 2050, 4096, 8200, 32768)
VECTOR_TOO = (64, 72, 768, 1024, 5120)
FEW = (6, 64, 100, 1032, 4096)
STREAM = (8, 1030, 16384, 40000)


@pytest.mark.parametrize("columns", [*VECTOR, *(pytest.param(size, marks=pytest.mark.full) for size in VECTOR_TOO)])
@every_norm
def test_vector_path_in_float16(norm, columns):
    for rows in (1, 19):  # short rows share a block: 19 leave some of it without a row
        case = Case.random(norm, rows, columns, FLOAT16)
        assert case.run("vector").form.path == "vector"
        check(case)


@pytest.mark.parametrize("columns", FEW)
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != FLOAT16], ids=str)
@every_norm
def test_vector_path_in_other_dtypes(norm, columns, dtype):
    case = Case.random(norm, 5, columns, dtype)
    case.run("vector")
    check(case)


@pytest.mark.parametrize("columns", STREAM)
@pytest.mark.parametrize("dtype", [FLOAT16, FLOAT32], ids=str)
@every_norm
def test_stream_path(norm, columns, dtype):
    case = Case.random(norm, 3, columns, dtype)
    assert case.run("stream").form.path == "stream"
    check(case)


@every_dtype
@every_norm
def test_strided_path(norm, dtype):
    case = Case.random(norm, 5, 1000, dtype)
    assert case.run("strided").form.path == "strided"
    check(case)


@pytest.mark.parametrize("weight", DTYPES, ids=NAMES)
@pytest.mark.parametrize("path", ["vector", "stream"])
@pytest.mark.parametrize("norm", ["rms_norm", "layer_norm"])
def test_parameters_of_another_dtype(norm, path, weight):
    case = Case.random(norm, 3, 200, FLOAT16, weight=weight)
    case.run(path)
    check(case)


@pytest.mark.parametrize("lanes", [32, 64, 1024])
@every_norm
def test_threads_by_wish(norm, lanes):
    case = Case.random(norm, 3, 1000, FLOAT16)
    assert case.run("vector", threads=lanes).block == lanes
    check(case)


@pytest.mark.parametrize("path", ["vector", "stream"])
@pytest.mark.parametrize("columns", [6, 24, 40, 1000, 1022])
def test_equal_values_are_their_own_mean(columns, path):
    """1 / sqrt(eps) is 316: an error of one bit in the mean of 1234 would show as 0.04."""
    case = Case.random("layer_norm", 2, columns, FLOAT32)
    case.x[:] = 1234
    case.run(path)
    assert (case.mean == 1234).all()
    assert same_bits(case.y, np.broadcast_to(case.bias, case.y.shape))


@pytest.mark.parametrize("path", ["vector", "stream"])
def test_a_large_mean_costs_no_precision(path):
    case = Case.random("layer_norm", 2, 4096, FLOAT32)
    case.x += 10_000
    case.run(path)
    check(case)


@pytest.mark.parametrize("path", ["vector", "stream"])
@every_norm
def test_a_row_stays_what_it_is_among_others(norm, path):
    many = Case.random(norm, 9, 72, FLOAT16)
    many.x[4, 3] = np.nan
    many.run(path)
    assert np.isnan(many.y[4]).all()
    assert np.isfinite(np.delete(many.y, 4, 0)).all()
    names = ("x", "update", "h", "y", "mean", "rstd")
    alone = dataclasses.replace(many, **{name: getattr(many, name)[7:8].copy() for name in names})
    alone.y[:] = -7
    alone.run(path)
    assert same_bits(alone.y, many.y[7:8])


@pytest.mark.parametrize("columns", [72, 1024])
@pytest.mark.parametrize("spare", [1, 2, 8])
def test_a_row_of_a_wider_array_stays_what_it_is_alone(columns, spare):
    wide = np.random.default_rng(0).standard_normal((5, columns + spare)).astype(np.float16)
    x = wide[:, :columns]
    assert same_bits(numba_norms.layer_norm(x)[3:4], numba_norms.layer_norm(x[3:4]))


@pytest.mark.parametrize("columns", [6, 300])
def test_a_token_among_others_stays_what_it_is_alone(columns):
    x = np.random.default_rng(0).standard_normal((columns, 40)).astype(np.float16)
    assert same_bits(numba_norms.layer_norm(x, axis=0)[:, 7:8], numba_norms.layer_norm(x[:, 7:8], axis=0))


def test_rows_as_long_as_32_bits_count():
    def path(columns):
        x = device_layout(1 << 40, (1, columns), FLOAT16, None, None)
        return choose([x, x], []).path

    assert path(MAX_COLUMNS) == "stream"
    assert path(MAX_COLUMNS + 8) == path((1 << 31) - 8) == "strided"


def test_a_short_row_takes_few_threads_to_stream():
    x = np.zeros((4, 64), np.float16)
    assert choose([x], [], streaming=True).threads == 32
    assert choose([np.zeros((4, 4096), np.float16)], [], streaming=True).threads == 256


@pytest.mark.parametrize("path", ["vector", "stream"])
@every_norm
def test_results_may_replace_inputs(norm, path):
    apart = Case.random(norm, 5, 1032, FLOAT16)
    apart.run(path)
    inside = Case.random(norm, 5, 1032, FLOAT16)
    inside = dataclasses.replace(inside, h=inside.x, y=inside.update if norm.startswith("add_") else inside.x)
    inside.run(path)
    assert same_bits(inside.y, apart.y)
    if norm.startswith("add_"):
        assert same_bits(inside.h, apart.h)


# -- the choice -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [1, 7, 4097])
def test_an_odd_row_is_strided(columns):
    x = np.zeros((3, columns), np.float16)
    assert choose([x], []).path == "strided"
    with pytest.raises(ValueError, match=f"'vector' is closed: D = {columns} is odd"):
        choose([x], [], path="vector")


@pytest.mark.parametrize(
    ("x", "width", "why"),
    [
        (np.zeros((4, 4096), np.float16), 8, "16 bytes a lane"),
        (np.zeros((4, 4096), np.float32), 4, "16 bytes a lane"),
        (np.zeros((4, 4096), np.float64), 2, "16 bytes a lane"),
        (np.zeros((4, 4100), np.float16), 4, "D = 4100 is a multiple of 4 elements, not of 8"),
        (np.zeros((4, 4098), np.float16)[:, :4096], 2, "rows apart by a multiple of 4 bytes"),
        (np.zeros((1, 4098), np.float16)[:, :4096], 2, "rows apart by a multiple of 4 bytes"),
        (np.zeros((4, 4104), np.float16)[:, 4:4100], 4, "starts at a multiple of 8 bytes"),
        (np.zeros((4, 4104), np.float16)[:, 1:4097], 1, "starts at a multiple of 2 bytes"),
        (np.zeros((4, 8192), np.float16)[:, ::2], 1, "not neighbours"),
        (np.zeros((4, 64), np.float16)[:, ::-1], 1, "not neighbours"),
        (np.zeros((3, 4, 512), np.float16)[1], 8, "16 bytes a lane"),
    ],
)
def test_the_width_of_an_access(x, width, why):
    found, reason = access_width([x], [])
    assert found == width
    assert why in reason


def test_the_width_heeds_every_array():
    x, weight = np.zeros((4, 4096), np.float16), np.zeros(4098, np.float32)
    assert access_width([x, x], [weight[:4096]])[0] == 8
    assert access_width([x, x], [weight[2:]])[0] == 2
    assert access_width([x, x.astype(np.float32)], [])[0] == 8  # the wider one takes two accesses
    wide = np.zeros((4, 4097), np.float32)[:, 1:]
    assert access_width([x, wide], [])[0] == 1


def test_a_slice_of_a_fused_projection_is_read_where_it_lies():
    qkv = np.random.default_rng(0).standard_normal((6, 3 * 128)).astype(np.float16)
    q, k = qkv[:, :128], qkv[:, 128:256]
    with record() as traces:
        found = numba_norms.rms_norm(k)
    (trace,) = traces
    assert trace.kernel == "rms_norm_vector"
    assert trace.arrays["x"].strides == qkv.strides
    assert_close(found, numba_norms.reference.rms_norm(k), RESULT[FLOAT16])
    expected, others = numba_norms.rms_norm(q.copy()), qkv[:, 128:].copy()
    numba_norms.rms_norm(q, out=q)
    assert same_bits(q, expected) and same_bits(qkv[:, 128:], others)


def test_norms_of_heads_share_a_block():
    heads = np.random.default_rng(0).standard_normal((2, 5, 3, 64)).astype(np.float16)
    with record() as traces:
        found = numba_norms.rms_norm(heads, np.ones(64, np.float16))
    assert (traces[0].grid, traces[0].block) == ((2, 1, 1), (128, 1, 1))  # 30 heads, 16 a block
    assert_close(found, numba_norms.reference.rms_norm(heads), RESULT[FLOAT16])


def test_the_tables_of_lanes_rise_and_fit():
    assert [*LANES] == sorted(LANES)
    for columns, lanes in LANES:
        assert columns <= lanes * MAX_REGISTERS
        x = np.zeros((1, columns), np.float32)
        assert choose([x], []).path == "vector"
    assert choose([np.zeros((1, LANES[-1][0] + 8), np.float16)], []).path == "stream"


def test_the_form_does_not_depend_on_the_number_of_rows():
    for columns in (64, 4096, 40000):
        forms = {choose([np.zeros((rows, columns), np.float16)], []).tile for rows in (1, 2, 1000)}
        assert len(forms) == 1


def test_welford_is_the_streaming_form():
    case = Case.random("layer_norm", 2, 4096, FLOAT16)
    assert case.run(variance="welford").form.path == "stream"
    check(case)


@pytest.mark.parametrize("path", ["across", "bogus", "", None])
def test_a_path_that_there_is_not(path):
    with pytest.raises(ValueError, match="it must be one of 'auto', 'strided', 'vector', 'stream'"):
        choose([np.zeros((2, 8), np.float32)], [], path=path)


def test_welford_in_registers_is_refused():
    with pytest.raises(ValueError, match="'vector' is closed: it takes the variance from two passes"):
        choose([np.zeros((2, 8), np.float32)], [], path="vector", streaming=True)


@pytest.mark.parametrize(("threads", "columns"), [(16, 64), (32, 4096)])
def test_a_wish_that_cannot_be_met(threads, columns):
    with pytest.raises(ValueError, match="'vector' is closed"):
        choose([np.zeros((2, columns), np.float32)], [], path="vector", threads=threads)


# -- what the simulator sees ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [768, 4096, 8192, 16384])
@every_norm
def test_no_byte_is_moved_that_need_not_be(norm, columns):
    """Requested, distinct and least possible sectors are the same number."""
    case = Case.random(norm, 2, columns, FLOAT16)
    launch = case.launch("vector")
    trace = simulate(launch.kernel)[launch.grid, launch.block](*launch.args)
    assert not trace.findings
    arrays = ("x", "update", "h", "y") if norm.startswith("add_") else ("x", "y")
    least = case.x.nbytes // 32
    for name in arrays:
        total = trace.total(array=name)
        assert total.sectors == total.ideal == total.unique == least
        assert total.requests == case.x.size // 8 // 32
    parameters = ("weight", "bias") if norm.endswith("layer_norm") else ("weight",)
    for name in parameters:
        assert trace.total(array=name).unique == columns * 2 // 32


@every_norm
def test_a_longer_row_is_read_twice(norm):
    case = Case.random(norm, 1, 40000, FLOAT16)
    launch = case.launch()
    trace = simulate(launch.kernel)[launch.grid, launch.block](*launch.args)
    least = case.x.nbytes // 32
    assert trace.total(array="x").sectors == 2 * least
    assert trace.total(array="y").sectors == least


@every_dtype
@pytest.mark.parametrize("path", ["vector", "stream"])
@every_norm
def test_no_float64_unless_x_is(norm, path, dtype):
    launch = Case.random(norm, 2, 72, dtype).launch(path)
    program = lower_kernel(launch.kernel, launch.args)
    used = {slot.dtype for slot in program.slots} | {op.dtype for op in program.ops()}
    assert ("f8" in used) == (dtype == FLOAT64)


@pytest.mark.parametrize("columns", [72, 2048])
@pytest.mark.parametrize("path", ["vector", "stream"])
@every_norm
def test_every_order_gives_the_same_bits(norm, path, columns):
    launch = Case.random(norm, 3, columns, FLOAT16).launch(path)
    program = lower_kernel(launch.kernel, launch.args)
    expected = results(program, launch)
    assert all(map(same_bits, expected, results(program, launch, values="vector")))
    for order, seed in ORDERS[:6]:
        found = results(program, launch, schedule="splits", order=order, seed=seed)
        assert all(map(same_bits, expected, found)), (order, seed)


@pytest.mark.parametrize("path", ["vector", "stream"])
@every_norm
def test_every_barrier_is_needed(norm, path):
    launch = Case.random(norm, 1, 2048, FLOAT32).launch(path)
    program = lower_kernel(launch.kernel, launch.args)
    barriers = 2 if norm.endswith("layer_norm") and path == "vector" else 1
    assert sum(op.kind == "bar" for op in program.ops()) == barriers
    expected = results(program, launch)
    for number in range(barriers):
        cut = without_barrier(program, number)
        found = (results(cut, launch, schedule="splits", order=order, seed=seed) for order, seed in ORDERS)
        assert any(not all(map(same_bits, expected, arrays)) for arrays in found), f"barrier {number} is idle"


@pytest.mark.parametrize("columns", [64, 128, 1024])
@every_norm
def test_a_row_within_a_warp_needs_no_barrier(norm, columns):
    launch = Case.random(norm, 4, columns, FLOAT16).launch("vector")
    assert not any(op.kind == "bar" for op in lower_kernel(launch.kernel, launch.args).ops())


def test_a_thread_reads_sixteen_bytes_at_once():
    launch = builtin.rms_norm((1, 4096), "float16", path="auto")
    trace = simulate(launch.kernel)[launch.grid, launch.block](*launch.args)
    assert trace.thread(1).reads("x") == [*range(8, 16), *range(2056, 2064)]
    (first, *_) = trace.accesses(array="x")
    assert first.nbytes == 16


def test_a_tile_counts():
    tile = Tile.of_row(64, lanes=8, rows=16, width=8)
    assert (tile.threads, tile.columns, tile.warps) == (128, 64, 1)
