"""Verdicts on what costs more than it has to: each faulty kernel beside a twin that is right, and their words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numba import cuda, float32, float64

from simulator import simulate
from simulator.compiled import NotCompiled
from simulator.findings import Finding
from simulator.frontend import front_end, lower_kernel
from simulator.observers.doubles import chains
from simulator.observers.traffic import apart
from tests.simulator.running import line_of

KINDS = ("float64", "overflow", "uncoalesced", "bank-conflict", "barrier-not-called", "unwritten-output")


def found(kernel: Any, launch: Any, *args: Any, **options: Any) -> list[Finding]:
    """The findings about costs."""
    trace = simulate(kernel, check=True, **options)[launch](*args)
    return [finding for finding in trace.findings if finding.kind in KINDS]


def x(n: int = 250, dtype: Any = np.float32) -> np.ndarray:
    return np.linspace(1, 2, n).astype(dtype)


# -- float64 --------------------------------------------------------------------------------------------------------


@cuda.jit
def literal(a, out):
    i = cuda.grid(1)
    if i < a.size:
        out[i] = a[i] * 0.1 + a[i]


@cuda.jit
def literal_twin(a, out):
    i = cuda.grid(1)
    if i < a.size:
        out[i] = a[i] * float32(0.1) + a[i]


@cuda.jit
def accumulator(a, out):
    total = 0.0
    for i in range(cuda.grid(1), a.size, cuda.gridsize(1)):
        total += a[i] * a[i]
    out[cuda.grid(1)] = total


@cuda.jit
def accumulator_twin(a, out):
    total = float32(0.0)
    for i in range(cuda.grid(1), a.size, cuda.gridsize(1)):
        total += a[i] * a[i]
    out[cuda.grid(1)] = total


@cuda.jit
def divided(a, out):
    i = cuda.grid(1)
    if i < a.size:
        out[i] = a[i] / a.shape[0]


@cuda.jit
def divided_twin(a, out):
    i = cuda.grid(1)
    if i < a.size:
        out[i] = a[i] / float32(a.shape[0])


@cuda.jit
def integers(a, out):
    i = cuda.grid(1)
    if i < a.size:
        part = (i + 1) / a.size
        out[i] = part


@cuda.jit
def rooted(a, out):
    i = cuda.grid(1)
    if i < a.size:
        out[i] = math.sqrt(a.size) * a[i]


@cuda.jit
def rooted_twin(a, out):
    i = cuda.grid(1)
    if i < a.size:
        out[i] = math.sqrt(float32(a.size)) * a[i]


@pytest.mark.parametrize(
    ("kernel", "text", "cause", "mend"),
    [
        (literal, "0.1", "the literal 0.1 is float64, so this line", "float32(0.1)"),
        (accumulator, "total = 0.0", "total starts as 0.0, which is float64, so line", "total = float32(0.0)"),
        (divided, "shape[0]", "a.shape[0] is int64, which beside a float32 becomes float64", "float32(a.shape[0])"),
        (integers, "/ a.size", "/ divides integers", "float32("),
        (rooted, "sqrt", "a function of floats is given an integer", "float32("),
    ],
)
def test_what_brought_float64(kernel: Any, text: str, cause: str, mend: str) -> None:
    (finding,) = found(kernel, (4, 64), x(), np.zeros(256, np.float32))[:1]
    assert (finding.kind, finding.severity, finding.lines) == ("float64", "warning", (line_of(kernel, text),))
    assert cause in finding.message and "not confirmed" not in finding.message
    assert mend in finding.mend


@pytest.mark.parametrize("kernel", [literal_twin, accumulator_twin, divided_twin, rooted_twin])
def test_float32_throughout_is_no_finding(kernel: Any) -> None:
    assert "float64" not in {finding.kind for finding in found(kernel, (4, 64), x(), np.zeros(256, np.float32))}


@pytest.mark.parametrize("kernel", [literal, accumulator, divided, rooted])
def test_who_passes_float64_wants_it(kernel: Any) -> None:
    assert "float64" not in {f.kind for f in found(kernel, (4, 64), x(dtype=np.float64), np.zeros(256))}


def test_a_line_that_the_compiler_folds_back_is_no_finding() -> None:
    @cuda.jit
    def half(a, out):
        i = cuda.grid(1)
        if i < a.size:
            out[i] = a[i] * 0.5

    args = x(), np.zeros(250, np.float32)
    assert [chain.asked for chain in chains(lower_kernel(half, args)) if chain.work] == [False]
    assert found(half, (4, 64), *args) == []


def test_without_a_compiler_the_types_decide_and_the_message_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise NotCompiled("no compiler here")

    monkeypatch.setattr(type(front_end().half), "machine_code", refuse)

    @cuda.jit
    def half(a, out):
        i = cuda.grid(1)
        if i < a.size:
            out[i] = a[i] * 0.5

    (finding,) = found(half, (4, 64), x(), np.zeros(250, np.float32))
    assert finding.kind == "float64" and "not confirmed in compiled code" in finding.message


def test_a_cast_by_name_is_a_wish() -> None:
    @cuda.jit
    def wide(a, out):
        total = float64(0.0)
        for i in range(a.size):
            total += a[i]
        out[0] = total + float64(a[0]) * 0.1

    assert found(wide, (1, 1), x(), np.zeros(1, np.float32)) == []


def test_a_variable_that_two_integer_types_share() -> None:
    @cuda.jit
    def reduced(key, out):
        i = cuda.grid(1)
        z = key[i]
        if z > np.uint64(7):
            z = z - 7
        out[i] = z

    finding, *_ = found(reduced, (1, 64), np.arange(64, dtype=np.uint64), np.zeros(64, np.uint64))
    assert finding.kind == "float64" and "z is uint64 on one path and int64 on another" in finding.message
    assert finding.lines == (line_of(reduced, "z = key[i]"), line_of(reduced, "z = z - 7"))


def test_an_argument_that_is_a_python_float() -> None:
    @cuda.jit
    def scaled(a, by, out):
        i = cuda.grid(1)
        if i < a.size:
            out[i] = a[i] * by

    (finding,) = found(scaled, (4, 64), x(), 0.1, np.zeros(250, np.float32))
    assert finding.kind == "float64" and finding.mend == "pass np.float32(by)"
    assert found(scaled, (4, 64), x(), np.float32(0.1), np.zeros(250, np.float32)) == []


def test_an_integer_beside_an_argument_is_not_to_blame() -> None:
    @cuda.jit
    def ramp(start, step, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = start + i * step

    (finding,) = found(ramp, (1, 32), -2.0, 0.1, np.zeros(32, np.float32))
    assert "the argument" in finding.message and finding.mend.startswith("pass np.float32(")


def test_a_complex_number_is_called_one() -> None:
    @cuda.jit
    def turned(a, out):
        z = 0j
        for k in range(a.size):
            z = z * z + a[k]
        out[0] = z.real

    mends = {finding.mend for finding in found(turned, (1, 1), x(), np.zeros(1, np.float32))}
    assert "write z = complex64(…)" in mends


def test_the_line_that_then_computes_comes_later() -> None:
    @cuda.jit
    def two_causes(a, out):
        i = cuda.grid(1)
        mean = a[0] / a.size
        scale = 0.1
        out[i] = (mean + scale) * a[i]

    kernel = two_causes
    literal = next(f for f in found(kernel, (1, 64), x(), np.zeros(64, np.float32)) if "0.1" in f.message)
    assert f"so line {line_of(kernel, 'out[i] =')} computes in float64" in literal.message


def test_what_the_compiler_moves_out_of_a_loop() -> None:
    @cuda.jit
    def hoisted(a, out):
        total = float32(0)
        for i in range(a.shape[0]):
            total += a[i] * float32(a.shape[0] / 3)
            out[i] = a[i] * 0.5
        out[0] = total

    findings = found(hoisted, (1, 1), x(), np.zeros(250, np.float32))
    assert [finding.lines for finding in findings] == [(line_of(hoisted, "/ 3"),)], "and 0.5 is folded"
    assert "/ divides integers" in findings[0].message


def test_a_constant_with_a_name() -> None:
    @cuda.jit
    def shifted(a, out):
        eps = 1e-6
        i = cuda.grid(1)
        if i < a.size:
            out[i] = a[i] + eps

    (finding,) = found(shifted, (4, 64), x(), np.zeros(250, np.float32))
    assert finding.lines == (line_of(shifted, "eps = 1e-6"),) and finding.mend == "write eps = float32(1e-06)"
    assert f"so line {line_of(shifted, 'a[i] + eps')} computes in float64" in finding.message


def test_each_line_that_brings_float64_is_told_once() -> None:
    @cuda.jit
    def several(a, out):
        i = cuda.grid(1)
        if i < a.size:
            total = a[i] * 0.1 + a[i] * 0.2
            total = total + 0.3
            out[i] = total

    findings = found(several, (4, 64), x(), np.zeros(250, np.float32))
    assert [finding.lines[0] for finding in findings] == [line_of(several, "0.1"), line_of(several, "0.3")]


# -- memory ---------------------------------------------------------------------------------------------------------


@cuda.jit
def by_columns(a, out):
    r, c = cuda.grid(2)
    if r < a.shape[0] and c < a.shape[1]:
        out[r, c] = a[r, c]


@cuda.jit
def by_rows(a, out):
    c, r = cuda.grid(2)
    if r < a.shape[0] and c < a.shape[1]:
        out[r, c] = a[r, c]


@cuda.jit
def row_of_each(a, out):
    r = cuda.grid(1)
    if r < a.shape[0]:
        total = float32(0)
        for c in range(a.shape[1]):
            total += a[r, c]
        out[r] = total


@pytest.mark.parametrize("values", ["affine", "vector"])
@pytest.mark.parametrize("shape", [(64, 64), (70, 61)])
def test_threads_that_walk_down_a_column(shape: tuple[int, int], values: str) -> None:
    a = np.ones(shape, np.float32)
    findings = found(by_columns, ((3, 3), (32, 32)), a, np.zeros(shape, np.float32), values=values)
    line = line_of(by_columns, "out[r, c]")
    assert [(finding.kind, finding.array, finding.lines) for finding in findings] == [
        ("uncoalesced", "a", (line,)), ("uncoalesced", "out", (line,))
    ]  # fmt: skip
    assert f"neighbouring lanes are {4 * shape[1]} bytes apart along axis 0 of a" in findings[0].message
    assert "last index of a" in findings[0].mend
    assert found(by_rows, ((3, 3), (32, 32)), a, np.zeros(shape, np.float32), values=values) == []


def test_a_row_for_each_thread() -> None:
    (finding,) = found(row_of_each, (4, 64), np.ones((256, 96), np.float32), np.zeros(256, np.float32))
    assert "moves 32 sectors where 4 hold the bytes (768 requests)" in finding.message


def test_a_launch_too_small_to_matter_is_not_told_of() -> None:
    assert found(row_of_each, (1, 32), np.ones((32, 8), np.float32), np.zeros(32, np.float32)) == []


def test_scattered_reads_and_reads_of_one_place_cost_what_they_cost() -> None:
    @cuda.jit
    def gather(a, index, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a[index[i]] + a[0]

    index = np.random.default_rng(0).integers(0, 100_000, 8192)
    assert found(gather, (32, 256), np.ones(100_000, np.float32), index, np.zeros(8192, np.float32)) == []


def transpose(pad: int) -> Any:
    shape = 32, 32 + pad

    @cuda.jit
    def kernel(a, out):
        tile = cuda.shared.array(shape, float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        tile[ty, tx] = a[cuda.blockIdx.y * 32 + ty, cuda.blockIdx.x * 32 + tx]
        cuda.syncthreads()
        out[cuda.blockIdx.x * 32 + ty, cuda.blockIdx.y * 32 + tx] = tile[tx, ty]

    return kernel


@pytest.mark.parametrize("values", ["affine", "vector"])
def test_a_column_of_a_tile(values: str) -> None:
    a = np.ones((64, 64), np.float32)
    (finding,) = found(transpose(0), ((2, 2), (32, 32)), a, a.copy(), values=values)
    assert (finding.kind, finding.array) == ("bank-conflict", "tile")
    assert "takes 32 wavefronts where 1 would do (128 requests), a 32-way bank conflict" in finding.message
    assert finding.mend == "pad the rows by one element: shape (32, 33) instead of (32, 32)"
    assert found(transpose(1), ((2, 2), (32, 32)), a, a.copy(), values=values) == []


def test_updates_of_one_place_are_no_bank_conflict() -> None:
    @cuda.jit
    def histogram(a, out):
        bins = cuda.shared.array(32, float32)
        t = cuda.threadIdx.x
        if t < 32:
            bins[t] = 0
        cuda.syncthreads()
        cuda.atomic.add(bins, a[cuda.grid(1)], float32(1))
        cuda.syncthreads()
        if t < 32:
            cuda.atomic.add(out, t, bins[t])

    assert found(histogram, (16, 256), np.zeros(4096, np.int64), np.zeros(32, np.float32)) == []


def test_lanes_in_a_row() -> None:
    assert apart(np.arange(32) * 64) == 64
    assert apart(np.r_[np.arange(16), np.arange(16)] * 64) == 64, "two rows of lanes"
    assert apart(np.random.default_rng(0).integers(0, 9999, 32)) == 0
    assert apart(np.zeros(32, int)) == 0


# -- numbers --------------------------------------------------------------------------------------------------------


@cuda.jit
def squared(a, out):
    i = cuda.grid(1)
    if i < a.size:
        square = a[i] * a[i]
        out[i] = square


@pytest.mark.parametrize("values", ["affine", "vector"])
@pytest.mark.parametrize(("dtype", "large", "most"), [(np.float16, 300, "65504"), (np.float32, 1e25, "3.4e+38")])
def test_a_square_that_overflows(dtype: Any, large: float, most: str, values: str) -> None:
    a = np.ones(100, dtype)
    a[[40, 70]] = large
    (finding,) = found(squared, (4, 32), a, np.zeros(100, dtype), values=values)
    assert (finding.kind, finding.lines, finding.count) == ("overflow", (line_of(squared, "a[i] * a[i]"),), 2)
    assert (finding.sites[0].block, finding.sites[0].thread) == (1, 8)
    assert f"is infinite (square): the largest {np.dtype(dtype)} is {most}" in finding.message


def test_a_conversion_that_overflows() -> None:
    (finding,) = found(squared, (1, 32), np.full(32, 300, np.float32), np.zeros(32, np.float16))
    assert "float32 90000 becomes float16 is infinite" in finding.message


def test_infinities_that_were_there_or_are_meant_are_no_overflow() -> None:
    @cuda.jit
    def sigmoid(a, out):
        i = cuda.grid(1)
        if i < a.size:
            out[i] = float32(1) / (float32(1) + math.exp(-a[i]))

    a = np.array([np.inf, -np.inf, np.nan, 0, 1e38, -1e38], np.float32)
    assert found(squared, (1, 32), a[:4], np.zeros(4, np.float32)) == []
    assert found(sigmoid, (1, 32), a, np.zeros(6, np.float32)) == []


def test_lanes_that_are_off_overflow_in_silence() -> None:
    @cuda.jit
    def guarded(a, out):
        i = cuda.grid(1)
        if i < a.size and a[i] < float32(1e18):
            out[i] = a[i] * a[i]

    a = np.where(np.arange(64) % 2, np.float32(1e30), np.float32(1))
    assert [f.kind for f in found(guarded, (1, 64), a, np.zeros(64, np.float32))] == ["unwritten-output"]


@cuda.jit
def strided_rows(a, stride, out):
    i = cuda.grid(1)
    place = np.int32(i * stride)
    out[i] = a[place % a.size]


@pytest.mark.parametrize("values", ["affine", "vector"])
def test_an_index_that_loses_its_upper_bits(values: str) -> None:
    (finding,) = found(strided_rows, (1, 64), x(), 1 << 27, np.zeros(64, np.float32), values=values)
    assert (finding.kind, finding.lines) == ("overflow", (line_of(strided_rows, "np.int32(i * stride)"),))
    assert (finding.threads, finding.count) == ((16,), 48)
    assert "int64 2147483648, which is to index an array, becomes int32 -2147483648" in finding.message
    assert found(strided_rows, (1, 64), x(), 1 << 20, np.zeros(64, np.float32), values=values) == []


def test_integers_that_index_nothing_may_wrap() -> None:
    @cuda.jit
    def hashed(out):
        i = cuda.grid(1)
        out[i] = np.uint32(i * 2654435761) ^ np.int32(i * 77777777777)

    assert found(hashed, (1, 64), np.zeros(64, np.int64)) == []


# -- what is not done -----------------------------------------------------------------------------------------------


def test_a_barrier_without_parentheses() -> None:
    @cuda.jit
    def reversed_(a, out):
        tile = cuda.shared.array(32, float32)
        t = cuda.threadIdx.x
        tile[t] = a[t]
        cuda.syncthreads
        out[t] = tile[31 - t]

    findings = found(reversed_, (1, 32), x(32), np.zeros(32, np.float32))
    assert [(f.kind, f.severity, f.lines) for f in findings] == [
        ("barrier-not-called", "warning", (line_of(reversed_, "syncthreads"),))
    ]
    assert findings[0].mend == "write cuda.syncthreads()"


def test_barriers_that_are_called_by_another_name() -> None:
    @cuda.jit(device=True)
    def wait():
        cuda.syncthreads()

    barrier = cuda.syncthreads

    @cuda.jit
    def waiting(out):
        meet = cuda.syncthreads
        meet()
        wait()
        barrier()
        out[cuda.threadIdx.x] = cuda.syncthreads_count(True)

    assert found(waiting, (1, 32), np.zeros(32, np.int32)) == []


@cuda.jit
def short(a, out):
    i = cuda.grid(1)
    if i < out.size - 3:
        out[i] = a[i]


@pytest.mark.parametrize("values", ["affine", "vector"])
def test_the_end_of_an_output_that_nobody_writes(values: str) -> None:
    (finding,) = found(short, (4, 64), x(), np.zeros(250, np.float32), values=values)
    assert (finding.kind, finding.severity, finding.element) == ("unwritten-output", "note", (247,))
    assert "3 of 250 elements of out were never written: out[247] to out[249]" in finding.message


def test_an_output_that_a_wrong_guard_leaves_alone() -> None:
    (finding,) = found(short, (1, 32), x(3), np.zeros(3, np.float32))
    assert "no element of out was written" in finding.message


@pytest.mark.parametrize(
    "output",
    [np.zeros(247, np.float32), np.zeros((3, 247), np.float32)[1], np.zeros((247, 2), np.float32)[:, 1]],
    ids=["whole", "a row", "every second"],
)
def test_outputs_of_any_layout_that_are_written_whole(output: np.ndarray) -> None:
    @cuda.jit
    def copy(a, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a[i]

    assert found(copy, (4, 64), x(), output) == []
    assert output.all()


def test_arrays_that_are_read_too_may_keep_their_elements() -> None:
    @cuda.jit
    def inner(a):
        i = cuda.grid(1)
        if 0 < i < a.size - 1:
            a[i] = a[i] * float32(2)

    assert found(inner, (4, 64), x()) == []


def test_no_two_findings_of_one_run_are_told_twice() -> None:
    a = np.ones((64, 64), np.float32)
    first = found(by_columns, ((2, 2), (32, 32)), a, a.copy(), orders=("waves", "first", "random"))
    assert len({(f.kind, f.lines, f.array) for f in first}) == len(first) == 2
