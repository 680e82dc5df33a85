"""Accesses of several elements through intrinsics: counts worked out by hand, bits, lineage, and wrong addresses.

The intrinsics are made here, with typing functions only: the simulator never asks for their machine code.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numba.cuda.extending
import numba.extending
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda, float32, float64, types

from simulator import OutOfBounds, SimulationError, Unsupported, intrinsic, simulate
from tests.simulator.running import WAYS, every_way, line_of, run

DTYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
MODES = pytest.mark.parametrize("values", ["affine", "vector"])
nothing = types.none


@numba.extending.intrinsic
def vload(typingctx, array, index, registers, j, n):
    return nothing(array, index, registers, j, n), None


@numba.cuda.extending.intrinsic
def vstore(typingctx, array, index, registers, j, n):
    return nothing(array, index, registers, j, n), None


@intrinsic(vload)
def load_meaning(code: Any, array: Any, index: Any, registers: Any, j: Any, n: Any) -> None:
    for k, value in enumerate(code.load(array, index, code.constant(n))):
        code.store(registers, j + k, [code.convert(value, registers.dtype)])


@intrinsic(f"{__name__}.vstore")
def store_meaning(code: Any, array: Any, index: Any, registers: Any, j: Any, n: Any) -> None:
    values = [code.load(registers, j + k)[0] for k in range(code.constant(n))]
    code.store(array, index, [code.convert(value, array.dtype) for value in values])


def copy_kernel(n: int, shift: int = 0, compute: Any = float32) -> Any:
    """Each thread copies ``n`` elements in one access; those left over go one by one."""

    @cuda.jit
    def copy(x, y):
        registers = cuda.local.array(n, compute)
        t = cuda.grid(1)
        whole = (x.size - shift) // n
        if t < whole:
            vload(x, t * n + shift, registers, 0, n)
            vstore(y, t * n + shift, registers, 0, n)
        elif t < whole + x.size - whole * n:
            i = t - whole + (whole * n + shift if t - whole < x.size - whole * n - shift else -x.size)
            y[i] = x[i]

    return copy


def per_access(dtype: Any) -> int:
    return 16 // np.dtype(dtype).itemsize


# -- counts ----------------------------------------------------------------------------------------------------------


@MODES
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_warp_of_16_bytes_a_lane_is_one_request_of_16_sectors(dtype: Any, values: str) -> None:
    n = per_access(dtype)
    x = np.arange(64 * n).astype(dtype)
    y = np.zeros_like(x)
    trace = simulate(copy_kernel(n, 0, float64), values=values)[2, 32](x, y)
    assert y.tobytes() == x.tobytes()
    for array in ("x", "y"):
        row = trace.total(array)
        assert (row.requests, row.sectors, row.ideal, row.unique) == (2, 32, 32, 32)
        assert (row.lanes, row.bytes) == (64, 1024)
    assert trace.thread(3, block=1).reads("x") == [*range(35 * n, 36 * n)]
    assert trace.thread(0).writes("y") == [*range(n)]
    assert trace.thread(0).writes("registers") == trace.thread(0).reads("registers") == [*range(n)]
    (first, *_) = trace.accesses("x", block=1)
    assert (first.nbytes, first.itemsize, first.elements[1]) == (16, 16 // n, 33 * n)
    assert {row.space for row in trace.lines if row.array == "registers"} == {"local"}


@MODES
@pytest.mark.parametrize(("count", "sectors"), [(1, 2), (2, 4), (4, 8), (8, 16)])
def test_narrower_accesses_of_float16(count: int, sectors: int, values: str) -> None:
    x = np.arange(32 * count, dtype=np.float16)
    row = simulate(copy_kernel(count), values=values)[1, 32](x, np.zeros_like(x)).total("x")
    assert (row.requests, row.sectors, row.ideal, row.bytes) == (1, sectors, sectors, 64 * count)


@MODES
def test_every_second_piece_of_16_bytes_wastes_half_of_each_sector(values: str) -> None:
    @cuda.jit
    def spread(x, y):
        registers = cuda.local.array(4, float32)
        vload(x, 8 * cuda.grid(1), registers, 0, 4)
        y[cuda.grid(1)] = registers[3]

    x, y = np.arange(256, dtype=np.float32), np.zeros(32, np.float32)
    row = simulate(spread, values=values)[1, 32](x, y).total("x")
    assert (row.requests, row.sectors, row.ideal) == (1, 32, 16)
    assert y.tolist() == x[3::8].tolist()


@MODES
def test_lanes_at_addresses_of_no_pattern(values: str) -> None:
    @cuda.jit
    def gather(x, rows, y):
        registers = cuda.local.array(4, float32)
        t = cuda.grid(1)
        if t < rows.size:
            vload(x, (rows[t], 4), registers, 0, 4)
            vstore(y, (t, 0), registers, 0, 4)

    x, y = np.arange(160, dtype=np.float32).reshape(20, 8), np.zeros((40, 4), np.float32)
    rows = np.arange(40) * 7 % 20
    row = simulate(gather, values=values)[2, 32](x, rows, y).total("x")
    assert y.tolist() == x[rows, 4:].tolist()
    assert (row.requests, row.lanes, row.unique, row.sectors) == (2, 40, 20, 20 + 8)


@every_way
def test_lanes_that_access_different_arrays(way: dict[str, Any]) -> None:
    @cuda.jit
    def either(x, y, out):
        registers = cuda.local.array(2, float32)
        t = cuda.grid(1)
        source = x if t % 2 else y
        vload(source, 2 * t, registers, 0, 2)
        vstore(out, 2 * t, registers, 0, 2)

    x, y, out = np.arange(80, dtype="f4"), -np.arange(80, dtype="f4"), np.zeros(80, "f4")
    run(either, 1, 40, x, y, out, **way)
    np.testing.assert_array_equal(out, np.where(np.arange(80) // 2 % 2, x, y))


# -- bits ------------------------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 3), st.integers(0, 300), st.sampled_from(WAYS), st.randoms(use_true_random=False))
def test_any_size_copies_as_the_scalar_loop_does(kind: int, size: int, way: dict[str, Any], random: Any) -> None:
    dtype = DTYPES[kind]
    x = np.array([random.choice([random.gauss(0, 1e4), 1e-7, -0.0, np.inf]) for _ in range(size)], "f8")
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    y = np.full_like(x, 7)
    run(COPIES[dtype], 5, 64, x, y, **way)
    assert y.tobytes() == x.tobytes()


COPIES = {dtype: copy_kernel(per_access(dtype), 0, float64) for dtype in DTYPES}


@cuda.jit
def round_wide(x, y):
    registers = cuda.local.array(8, float32)
    t = cuda.grid(1)
    vload(x, 8 * t, registers, 0, 8)
    vstore(y, 8 * t, registers, 0, 8)


@cuda.jit
def round_narrow(x, y):
    t = cuda.grid(1)
    for k in range(8 * t, 8 * t + 8):
        y[k] = float32(x[k])


@every_way
@pytest.mark.parametrize("dtypes", [("bfloat16", "float16"), ("float16", "bfloat16")])
def test_conversions_round_as_a_cast_does(dtypes: tuple[str, str], way: dict[str, Any]) -> None:
    source, to = map(np.dtype, dtypes)
    x = np.random.default_rng(0).integers(0, 1 << 16, 32 * 8, np.uint16).view(source)
    wide, narrow = np.zeros(256, to), np.zeros(256, to)
    run(round_wide, 1, 32, x, wide, **way)
    run(round_narrow, 1, 32, x, narrow, **way)
    assert wide.tobytes() == narrow.tobytes()


@MODES
def test_lineage_sees_each_element_of_an_access(values: str) -> None:
    x, y = np.arange(1, 65, dtype=np.float16), np.zeros(64, np.float16)
    trace = simulate(copy_kernel(8), lineage=True, values=values)[1, 8](x, y)
    assert trace.sources("y", 13) == {("x", 13)}
    assert trace.sources("y", 63) == {("x", 63)}


@MODES
def test_a_register_carries_the_value_itself(values: str) -> None:
    """Squared twice from a local array, an element is still one value: its tree is that of a variable."""

    @cuda.jit
    def squares(x, y):
        registers = cuda.local.array(4, float32)
        t = cuda.grid(1)
        vload(x, 4 * t, registers, 0, 4)
        y[t] = registers[2] * registers[2]

    trace = simulate(squares, lineage=True, values=values)[1, 4](np.ones(16, np.float32), np.zeros(4, np.float32))
    product = trace.lineage.nodes[trace.lineage.output("y", 1)].parents[0]
    one, other = trace.lineage.nodes[product].parents
    assert one == other
    assert (trace.lineage.nodes[one].kind, trace.lineage.nodes[one].element) == ("input", 6)


# -- addresses that are wrong ----------------------------------------------------------------------------------------


@every_way
def test_misaligned(way: dict[str, Any]) -> None:
    x = np.zeros(257, np.float16)
    kernel = copy_kernel(8, shift=1)
    with pytest.raises(Exception, match="misaligned-access") as caught:
        run(kernel, 1, 32, x, np.zeros_like(x), **way)
    fault: Any = caught.value
    assert (fault.facts["array"], fault.facts["nbytes"], fault.facts["count"]) == ("x", 16, 32)
    assert fault.places[0].pos.line == line_of(kernel, "vload(x, t * n")


def test_a_shifted_view_is_misaligned_and_a_scalar_one_is_not() -> None:
    x = np.zeros(257, np.float32)
    with pytest.raises(SimulationError, match=r"16 bytes of x .* not a multiple of 16"):
        simulate(copy_kernel(4))[1, 64](x[1:], np.zeros(256, np.float32))
    simulate(copy_kernel(1))[8, 32](x[1:], np.zeros(256, np.float32))


@cuda.jit
def from_row(x, y, first):
    registers = cuda.local.array(4, float32)
    t = cuda.grid(1)
    vload(x, (t, first), registers, 0, 4)
    vstore(y, (t, first), registers, 0, 4)


@MODES
@pytest.mark.parametrize(("first", "index", "text"), [
    (8, 10, "reads 4 elements of x from index 8 on along axis 1, which has 10 elements"),
    (12, 12, "reads 4 elements of x from index 12 on along axis 1, which has 10 elements"),
    (-4, -4, "reads 4 elements of x from index -4 on along axis 1"),
])  # fmt: skip
def test_past_the_end_of_a_row_though_inside_the_array(first: int, index: int, text: str, values: str) -> None:
    x = np.zeros((8, 10), np.float32)
    trace = simulate(from_row, check=True, values=values)[1, 4](x, np.zeros_like(x), first)
    finding, other = trace.findings
    assert (finding.kind, finding.array, finding.count) == ("out-of-bounds", "x", 4)
    assert text in finding.message
    assert (other.kind, other.array, other.count) == ("out-of-bounds", "y", 4)
    assert text.replace("reads 4 elements of x", "writes 4 elements of y") in other.message
    with pytest.raises(OutOfBounds):
        simulate(from_row, values=values)[1, 4](x, np.zeros_like(x), np.int32(first))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("columns", [0, 3, 4])
def test_indices_of_any_integer_type(dtype: Any, columns: int) -> None:
    x = np.arange(4 * columns, dtype=np.float32).reshape(4, columns)
    y = np.zeros_like(x)
    if columns < 4:
        with pytest.raises(OutOfBounds, match=f"has {columns} elements"):
            simulate(from_row)[1, 4](x, y, dtype(0))
    else:
        simulate(from_row)[1, 4](x, y, dtype(0))
        assert (y == x).all()


def test_the_first_axis_has_its_own_bound() -> None:
    x = np.zeros((3, 4), np.float32)
    with pytest.raises(OutOfBounds, match="reads x at index 3 along axis 0, which has 3 elements"):
        simulate(from_row)[1, 4](x, np.zeros_like(x), 0)
    with pytest.raises(OutOfBounds, match=r"writes x|writes y at index 3 along axis 0"):
        simulate(from_row)[1, 4](np.zeros((4, 4), np.float32), x, 0)


def test_registers_have_bounds_too() -> None:
    @cuda.jit
    def too_many(x):
        registers = cuda.local.array(4, float32)
        vload(x, 0, registers, 1, 4)

    with pytest.raises(OutOfBounds, match="writes registers at index 4 along axis 0, which has 4 elements"):
        simulate(too_many)[1, 1](np.zeros(4, np.float32))


def test_elements_that_do_not_lie_side_by_side() -> None:
    x = np.zeros((4, 16), np.float32)[:, ::2]
    with pytest.raises(Unsupported, match=r"4 elements of x that do not lie side by side .*pass an array whose"):
        simulate(from_row)[1, 4](x, np.zeros((4, 8), np.float32), 0)
    simulate(from_row)[1, 4](np.zeros((8, 16), np.float32)[::2, 4:12], np.zeros((4, 8), np.float32), 0)


def test_an_array_that_may_not_be_written() -> None:
    y = np.zeros((4, 4), np.float32)
    y.flags.writeable = False
    with pytest.raises(SimulationError, match="writes to y, which is read-only"):
        simulate(from_row)[1, 4](np.zeros((4, 4), np.float32), y, 0)
