"""Addresses, in every order: out of bounds, counted from the end, overlapping, misaligned, read-only.

Array, index, line and thread are told; idle lanes point anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda, float32, int32

from simulator import simulate
from simulator.frontend import lower_kernel
from simulator.machine import Fault, launch
from simulator.observers.bounds import NegativeIndices
from simulator.observers.overlap import Overlap
from tests.simulator.running import FIRST, VECTORS, WAVES, every_way, fault_of, line_of, run, zeros

Way = dict[str, Any]


@cuda.jit
def one_too_far(x, out):
    t = cuda.grid(1)
    out[t] = x[t + 1, 2]


@every_way
def test_out_of_bounds(way: Way) -> None:
    fault = fault_of(one_too_far, 2, 40, np.zeros((80, 3)), np.zeros(80), **way)
    assert fault.kind == "out-of-bounds"
    facts = {key: fault.facts[key] for key in ("array", "axis", "index", "extent", "count")}
    assert facts == {"array": "x", "axis": 0, "index": 80, "extent": 80, "count": 1}
    place = fault.places[0]
    assert (place.pos.line, place.block, place.threads, place.access) == (
        line_of(one_too_far, "x[t + 1"),
        1,
        (39,),
        "ld",
    )


@cuda.jit
def guarded_by_hand(x, out):
    t = cuda.grid(1)
    out[t] = x[t + 1] if t + 1 < x.size else 0.0


@every_way
def test_lanes_that_are_off_may_point_anywhere(way: Way) -> None:
    x, out = np.arange(70.0), np.ones(70)
    run(guarded_by_hand, 2, 35, x, out, **way)
    np.testing.assert_array_equal(out, [*range(1, 70), 0])


@cuda.jit
def indexed(x, index, out):
    t = cuda.threadIdx.x
    out[t] = x[index[t]]


@every_way
@pytest.mark.parametrize(("bad", "thread"), [(8, 3), (-9, 31), (2**40, 0), (-(2**63), 17)])
def test_out_of_bounds_by_data(way: Way, bad: int, thread: int) -> None:
    index = np.arange(32) % 16 - 8  # negative ones wrap once
    out = zeros(32)
    run(indexed, 1, 32, np.arange(8), index, out, **way)
    np.testing.assert_array_equal(out, index % 8)
    index[thread] = bad
    fault = fault_of(indexed, 1, 32, np.arange(8), index, out, **way)
    assert (fault.facts["index"], fault.places[0].threads) == (bad, (thread,))


@cuda.jit
def unsigned_index(x, index, out):
    t = cuda.threadIdx.x
    out[t] = x[index[t]]


@every_way
def test_an_unsigned_index_never_wraps(way: Way) -> None:
    index = np.arange(32, dtype=np.uint64) % 8
    index[5] = 2**64 - 1
    fault = fault_of(unsigned_index, 1, 32, np.arange(8), index, zeros(32), **way)
    assert (fault.facts["index"], fault.places[0].threads) == (2**64 - 1, (5,))


@cuda.jit
def shared_too_far(out):
    tile = cuda.shared.array(32, float32)
    mine = cuda.local.array(4, int32)
    t = cuda.threadIdx.x
    mine[t % 4] = t
    tile[t] = mine[t % 4]
    out[t] = tile[t]


@every_way
def test_out_of_bounds_of_declared_arrays(way: Way) -> None:
    out = zeros(40, "f4")
    run(shared_too_far, 1, 32, out, **way)
    assert out[:32].tolist() == list(range(32))
    fault = fault_of(shared_too_far, 1, 40, out, **way)
    assert (fault.facts["array"], fault.facts["index"], fault.facts["extent"]) == ("tile", 32, 32)
    assert fault.places[0].threads == (32,)


@cuda.jit
def writes(x):
    x[cuda.threadIdx.x] = 1


@every_way
def test_read_only_arrays_are_not_written(way: Way) -> None:
    program = lower_kernel(writes, (zeros(32),))  # Numba itself refuses the kernel for a read-only type
    x = zeros(32)
    x.flags.writeable = False
    with pytest.raises(Fault) as caught:
        launch(program, (1, 1, 1), (32, 1, 1), (x,), **way)
    assert (caught.value.kind, caught.value.facts["array"]) == ("read-only", "x")
    assert not x.any()


# -- counted from the end ---------------------------------------------------------------------------------------------


@cuda.jit
def left_neighbour(x, out):
    t = cuda.grid(1)
    if t < x.shape[0]:
        out[t] = x[t - 1, -1]


@cuda.jit
def left_neighbour_round_the_corner(x, out):
    t = cuda.grid(1)
    if t < x.shape[0]:
        out[t] = x[(t - 1) % x.shape[0], -1]


def wrapped(kernel: Any, grid: int, block: int, *args: Any, **way: Any) -> list[Fault]:
    observer = NegativeIndices()
    run(kernel, grid, block, *args, observers=(observer,), **way)
    return observer.faults()


@every_way
def test_a_negative_index_that_came_out_of_a_subtraction(way: Way) -> None:
    x, out = np.arange(140.0).reshape(70, 2), np.zeros(70)
    (fault,) = wrapped(left_neighbour, 3, 32, x, out, **way)
    facts = {key: fault.facts[key] for key in ("array", "axis", "index", "extent", "count")}
    assert facts == {"array": "x", "axis": 0, "index": -1, "extent": 70, "count": 1}
    assert (fault.places[0].block, fault.places[0].threads, fault.places[0].access) == (0, (0,), "ld")
    assert not wrapped(left_neighbour_round_the_corner, 3, 32, x, out, **way)


def test_a_negative_index_is_a_warning_and_names_the_element() -> None:
    trace = simulate(left_neighbour, check=True)[3, 32](np.zeros((70, 2)), np.zeros(70))
    (found,) = trace.findings
    line = line_of(left_neighbour, "x[t - 1")
    assert found.message == (
        f"{__file__}:{line}: thread 0 of block 0 reads x at index -1 along axis 0, which counts from the end: "
        "index 69 of 70"
    )
    assert (found.kind, found.severity) == ("negative-index", "warning")


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(-8, 7), min_size=1, max_size=40))
def test_negative_lanes_are_exact(given_indices: list[int]) -> None:
    index = np.array(given_indices)
    negative = index < 0
    for way in (WAVES, VECTORS, FIRST):
        found = wrapped(indexed, 1, len(index), np.arange(8), index, zeros(len(index)), **way)
        assert [one.facts["count"] for one in found] == ([negative.sum()] if negative.any() else [])
        for one in found:
            (thread,) = one.places[0].threads
            assert one.facts["index"] == index[thread] < 0


# -- dynamic shared arrays that overlap -------------------------------------------------------------------------------


@cuda.jit
def two_that_are_one(x, out):
    floats = cuda.shared.array(0, float32)
    counts = cuda.shared.array(0, int32)
    t = cuda.threadIdx.x
    floats[t] = x[t]
    cuda.syncthreads()
    counts[t] = t
    cuda.syncthreads()
    out[t] = floats[cuda.blockDim.x - 1 - t]


@cuda.jit
def two_parts(x, out):
    floats = cuda.shared.array(0, float32)[: cuda.blockDim.x]
    counts = cuda.shared.array(0, int32)[cuda.blockDim.x :]
    t = cuda.threadIdx.x
    floats[t] = x[t]
    counts[t] = t
    cuda.syncthreads()
    out[t] = floats[cuda.blockDim.x - 1 - t] + counts[t]


@cuda.jit
def one_after_the_other(x, out):
    floats = cuda.shared.array(0, float32)
    counts = cuda.shared.array(0, int32)
    t = cuda.threadIdx.x
    floats[t] = x[t]
    cuda.syncthreads()
    value = floats[cuda.blockDim.x - 1 - t]
    cuda.syncthreads()
    counts[t] = t
    cuda.syncthreads()
    out[t] = value + counts[t]


def overlaps(kernel: Any, threads: int, nbytes: int, **way: Any) -> list[Fault]:
    observer = Overlap()
    x, out = np.arange(threads, dtype=np.float32), np.zeros(threads, np.float32)
    run(kernel, 2, threads, x, out, observers=(observer,), dynamic_shared=nbytes, **way)
    return observer.faults()


@every_way
@pytest.mark.parametrize("threads", [1, 33, 64])
def test_dynamic_shared_arrays_start_at_one_place(way: Way, threads: int) -> None:
    (fault,) = overlaps(two_that_are_one, threads, 8 * threads, **way)
    (thread,) = fault.places[0].threads
    assert (fault.kind, fault.facts["array"], fault.facts["other"]) == ("shared-overlap", "floats", "counts")
    assert fault.facts["at"] == (threads - 1 - thread,)
    assert fault.facts["count"] == 2 * threads
    assert fault.facts["declared"] == line_of(two_that_are_one, "counts =")
    assert fault.places[0].pos.line == line_of(two_that_are_one, "out[t]")
    for kernel in (two_parts, one_after_the_other):
        assert not overlaps(kernel, threads, 8 * threads, **way)


# -- too few bytes of it, and names ------------------------------------------------------------------------------------

NUMBERS = np.arange(10, dtype=np.int32)


@cuda.jit
def backwards(out, skipped):
    whole = cuda.shared.array(0, float32)
    tile = whole[skipped:]
    t = cuda.threadIdx.x
    tile[t] = t
    cuda.syncthreads()
    out[t] = tile[cuda.blockDim.x - 1 - t]


@cuda.jit
def part_of_it(out, length):
    tile = cuda.shared.array(0, float32)[:length]
    t = cuda.threadIdx.x
    tile[t] = t
    out[t] = tile[t]


def mends_of(kernel: Any, threads: int, nbytes: int, *args: Any) -> set[str]:
    trace = simulate(kernel, check=True)[1, threads, 0, nbytes](*args)
    return {one.mend for one in trace.findings if one.kind == "out-of-bounds"}


@pytest.mark.parametrize(("threads", "skipped", "asked"), [(64, 0, 128), (40, 3, 100), (7, 0, 0)])
def test_dynamic_shared_memory_that_is_too_small_names_the_bytes(threads: int, skipped: int, asked: int) -> None:
    needed = 4 * (threads + skipped)
    (mend,) = mends_of(backwards, threads, asked, zeros(threads), skipped)
    assert f"at least {needed} bytes of dynamic shared memory, the launch's fourth number (it is {asked})" in mend
    assert not mends_of(backwards, threads, needed, zeros(threads), skipped)


def test_a_part_of_dynamic_shared_memory_that_ends_before_it_wants_no_more_bytes() -> None:
    (mend,) = mends_of(part_of_it, 64, 1024, zeros(64), 32)
    assert mend.startswith("guard the access")


@cuda.jit
def constants(out):
    table = cuda.const.array_like(NUMBERS)
    i = cuda.grid(1)
    out[i] = table[i] + NUMBERS[i]


def test_a_constant_array_has_the_name_of_its_variable() -> None:
    found = {one.array for one in simulate(constants, check=True)[1, 12](zeros(12)).findings}
    assert "constant" not in found and found & {"table", "NUMBERS"}


# -- alignment --------------------------------------------------------------------------------------------------------


@cuda.jit
def plain_copy(x, out):
    t = cuda.threadIdx.x
    out[t] = x[t]


@every_way
def test_an_element_at_an_odd_address(way: Way) -> None:
    memory = np.zeros(256, np.uint8)
    start = -memory.__array_interface__["data"][0] % 16
    x = memory[start + 2 : start + 2 + 128].view("f4")
    fault = fault_of(plain_copy, 1, 32, x, zeros(32, "f4"), **way)
    assert (fault.kind, fault.facts["array"], fault.facts["nbytes"]) == ("misaligned-access", "x", 4)
    assert fault.facts["address"] % 4 == 2
    aligned = memory[start + 4 : start + 4 + 128].view("f4")
    run(plain_copy, 1, 32, aligned, zeros(32, "f4"), **way)
