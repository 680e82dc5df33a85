"""Shuffles that read lanes which take no part: an error where the value is used, a note where it is dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda, float32, int32

from simulator import simulate
from simulator.catalogue import finding_of
from simulator.findings import Finding, Launch
from simulator.frontend import lower_kernel
from simulator.machine import Fault, launch
from simulator.observers.definedness import Definedness
from tests.simulator.running import WAYS, every_way, fault_of, line_of, lines_of, shape, zeros

Way = dict[str, Any]
FULL = 0xFFFFFFFF


def uses(kernel: Any, grid: Any, block: Any, *args: Any, **way: Any) -> list[Fault]:
    """What is said of undefined values that are used."""
    definedness = Definedness()
    launch(lower_kernel(kernel, args), shape(grid), shape(block), args, shadow=definedness, **way)
    return definedness.faults()


def findings(kernel: Any, grid: Any, block: Any, *args: Any) -> list[Finding]:
    trace = simulate(kernel, check=True, orders=("waves", "first", 1))[grid, block](*args)
    return [found for found in trace.findings if found.kind in ("warp-sync", "partial-warp")]


# -- a partial last warp ------------------------------------------------------------------------------------------


@cuda.jit
def sum_of_all(x, out):
    lane = cuda.threadIdx.x
    value = x[lane]
    offset = 16
    while offset > 0:
        value += cuda.shfl_down_sync(FULL, value, offset)
        offset //= 2
    if lane == 0:
        out[0] = value


@cuda.jit
def sum_of_those_there(x, out):
    lane = cuda.threadIdx.x
    value = x[lane]
    offset = 16
    while offset > 0:
        other = cuda.shfl_down_sync(FULL, value, offset)
        if lane + offset < cuda.blockDim.x:
            value += other
        offset //= 2
    if lane == 0:
        out[0] = value


def test_a_sum_over_lanes_that_do_not_exist() -> None:
    out = zeros(1, "f4")
    (found,) = findings(sum_of_all, 1, 20, np.ones(20, np.float32), out)
    line, store = (line_of(sum_of_all, text) for text in ("shfl_down", "out[0]"))
    assert found.message == (
        f"{__file__}:{line}: thread 4 of block 0: shfl_down_sync in warp 0: lane 4 reads from lane 20, which does not "
        f"exist (the block has 20 threads); the value is undefined, and thread 0 stores it to out[0] on line {store}"
    )
    assert (found.kind, found.severity, found.lines, found.threads) == ("warp-sync", "error", (line, store), (4, 0))


@pytest.mark.parametrize("threads", [1, 20, 31, 32])
def test_a_value_that_is_dropped_is_a_note_at_most(threads: int) -> None:
    out = zeros(1, "f4")
    found = findings(sum_of_those_there, 1, threads, np.ones(threads, np.float32), out)
    assert out[0] == threads
    assert [(one.kind, one.severity) for one in found] == ([("partial-warp", "note")] if threads < 32 else [])


@every_way
def test_a_full_warp_has_no_undefined_values(way: Way) -> None:
    assert not uses(sum_of_all, 2, 64, np.ones(64, np.float32), zeros(1, "f4"), **way)


# -- which lane, which source, which way out ----------------------------------------------------------------------


@cuda.jit
def reads_as_told(x, sources, kept, out):
    """Lane t reads lane sources[t] of those in the first ``out.size``, and stores it if it is kept."""
    t = cuda.threadIdx.x
    if t < out.size:
        mask = (1 << out.size) - 1
        value = cuda.shfl_sync(mask, x[t], sources[t])
        if kept[t]:
            out[t] = value


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 31), st.integers(0, 2**32 - 1))
def test_lanes_are_exact(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sources, kept = rng.integers(0, 32, 32), rng.integers(0, 2, 32).astype(bool)
    bad = [lane for lane in range(count) if sources[lane] >= count and kept[lane]]
    for way in (WAYS[0], WAYS[1], WAYS[3]):
        found = uses(reads_as_told, 1, 32, np.arange(32), sources, kept, zeros(count), **way)
        assert bool(found) == bool(bad)
        for one in found:
            lane = one.facts["lane"]
            assert lane in bad and one.facts["source"] == sources[lane]
            assert one.facts["absence"] in ("elsewhere", "returned") and one.facts["used"] == "store"
            assert one.facts["element"] == f"out[{lane}]" and one.places[1].threads == (lane,)


@cuda.jit
def returned_lanes(x, out):
    t = cuda.threadIdx.x
    if t % 32 >= 24:
        return
    out[t] = cuda.shfl_xor_sync(FULL, x[t], 16)


@every_way
def test_a_lane_that_has_returned(way: Way) -> None:
    (fault,) = uses(returned_lanes, 1, 64, np.arange(64), zeros(64), **way)
    lane = fault.facts["lane"]
    assert (fault.facts["source"], fault.facts["absence"]) == (lane + 16, "returned")
    assert 8 <= lane < 16


@cuda.jit
def as_an_index(x, out):
    t = cuda.threadIdx.x
    k = cuda.shfl_down_sync(FULL, t, 1)
    if t < 19:
        out[t] = x[k]
    out[t] = x[k & 7]


@cuda.jit
def as_a_condition(x, out):
    t = cuda.threadIdx.x
    if cuda.shfl_down_sync(FULL, x[t], 1) > 3:
        out[t] = 1


@cuda.jit
def in_an_atomic(x, out):
    t = cuda.threadIdx.x
    cuda.atomic.add(out, 0, cuda.shfl_down_sync(FULL, x[t], 1))


@cuda.jit
def in_a_vote(x, out):
    t = cuda.threadIdx.x
    out[t] = cuda.any_sync(FULL, cuda.shfl_down_sync(FULL, x[t], 1) > 100)


@cuda.jit
def in_a_count(x, out):
    t = cuda.threadIdx.x
    out[t] = cuda.syncthreads_count(int32(cuda.shfl_down_sync(FULL, x[t], 1)))


@cuda.jit
def as_a_lane(x, out):
    t = cuda.threadIdx.x
    k = cuda.shfl_down_sync(FULL, t, 1)
    out[t] = cuda.shfl_sync(FULL, x[t], k)


@cuda.jit
def through_memory(x, out):
    t = cuda.threadIdx.x
    mine = cuda.local.array(2, int32)
    tile = cuda.shared.array(32, int32)
    mine[0] = cuda.shfl_down_sync(FULL, x[t], 1)
    mine[1] = 0
    tile[t] = mine[t % 2 * 0] + mine[1]
    cuda.syncthreads()
    out[0] = tile[cuda.blockDim.x - 1]


@pytest.mark.parametrize(
    ("kernel", "used", "text", "threads"),
    [
        (as_an_index, "address", "x[k & 7]", "thread 19 indexes x with it"),
        (as_a_condition, "branch", "if cuda", "thread 19 decides by it where to go"),
        (in_an_atomic, "atomic", "atomic.add", "thread 19 passes it to an atomic operation"),
        (in_a_vote, "any_sync", "any_sync", "thread 19 passes it to any_sync"),
        (in_a_count, "syncthreads_count", "syncthreads_count", "thread 19 passes it to syncthreads_count"),
        (as_a_lane, "shfl_sync", "shfl_sync", "thread 19 passes it to shfl_sync"),
        (through_memory, "store", "out[0]", "stores it to out[0]"),
    ],
)
@every_way
def test_ways_to_use_a_value(kernel: Any, used: str, text: str, threads: str, way: Way) -> None:
    (fault,) = uses(kernel, 1, 20, np.arange(32, dtype=np.int32), zeros(32, "i4"), **way)
    assert (fault.facts["lane"], fault.facts["source"], fault.facts["used"]) == (19, 20, used)
    assert fault.places[1].pos.line == line_of(kernel, text)
    message = finding_of(fault, "k", Launch((1, 1, 1), (20, 1, 1))).message
    assert f"the value is undefined, and {threads}" in message or threads in message


# -- values that are overwritten, masked or chosen away --------------------------------------------------------


@cuda.jit
def chosen_away(x, out):
    t = cuda.threadIdx.x
    other = cuda.shfl_down_sync(FULL, x[t], 1)
    mine = cuda.local.array(2, int32)
    tile = cuda.shared.array(32, int32)
    there = t + 1 < cuda.blockDim.x
    mine[0] = other
    mine[0] = other if there else 0
    tile[t] = other
    cuda.syncwarp()
    if not there:
        tile[t] = 0
    if there & (other > 3):
        out[t] = 1
    out[t] = mine[0] + tile[t]


@every_way
def test_values_that_never_come_out(way: Way) -> None:
    out = zeros(32, "i4")
    assert not uses(chosen_away, 1, 20, np.arange(32, dtype=np.int32), out, **way)
    assert out[:20].tolist() == [2 * (t + 1) for t in range(19)] + [0]


# -- lanes that do not come -----------------------------------------------------------------------------------


@cuda.jit
def one_shuffle_on_each_side(x, out):
    t = cuda.threadIdx.x
    if t % 2 == 0:
        out[t] = cuda.shfl_xor_sync(FULL, x[t], 1)
    else:
        out[t] = cuda.shfl_xor_sync(FULL, x[t], 1)


@cuda.jit
def a_shuffle_for_both_sides(x, out):
    t = cuda.threadIdx.x
    value = x[t]
    if t % 2 == 0:
        value = -value
    out[t] = cuda.shfl_xor_sync(FULL, value, 1)


@every_way
def test_shuffles_on_two_lines_do_not_meet(way: Way) -> None:
    """Since Volta lanes at different places of the program exchange nothing; PTX asks for one instruction."""
    fault = fault_of(one_shuffle_on_each_side, 1, 32, np.arange(32), zeros(32), **way)
    lines = [line_of(one_shuffle_on_each_side, "shfl", k) for k in range(2)]
    assert (fault.kind, lines_of(fault)) == ("warp-sync", set(lines))
    branch = line_of(one_shuffle_on_each_side, "if ")
    message = finding_of(fault, "k", Launch((1, 1, 1), (32, 1, 1))).message
    assert message == (
        f"{__file__}:{lines[0]}: thread 0 of block 0: shfl_xor_sync in warp 0: the mask names lanes 1, 3, 5, 7, … "
        f"(16 of them), which do not arrive: threads 1, 3, 5, 7, … (16 of them) wait at shfl_xor_sync on line "
        f"{lines[1]}; they parted on line {branch} (`if t % 2 == 0:`): threads 0, 2, 4, 6, … (16 of them) went on to "
        f"line {branch + 1}, threads 1, 3, 5, 7, … (16 of them) to line {branch + 3}"
    )
    assert not uses(a_shuffle_for_both_sides, 1, 32, np.arange(32), zeros(32), **way)


@cuda.jit
def everybody_by_mistake(x, out):
    t = cuda.threadIdx.x
    if t < 4:
        value = x[t]
        value += cuda.shfl_down_sync(FULL, value, 2)
        value += cuda.shfl_down_sync(FULL, value, 1)
        out[t] = value
    cuda.syncthreads()


@cuda.jit
def the_four_that_are_there(x, out):
    t = cuda.threadIdx.x
    if t < 4:
        value = x[t]
        value += cuda.shfl_down_sync(0xF, value, 2)
        value += cuda.shfl_down_sync(0xF, value, 1)
        if t == 0:
            out[t] = value
    cuda.syncthreads()


def test_lanes_that_wait_at_the_barrier_below() -> None:
    x = np.arange(64, dtype=np.float32)
    (found,) = findings(everybody_by_mistake, 1, 64, x, zeros(64, "f4"))
    assert "the mask names lanes 4 to 31 (28 of them), which do not arrive" in found.message
    assert "wait at syncthreads on line" in found.message and "(`if t < 4:`)" in found.message
    out = zeros(64, "f4")
    assert {one.severity for one in findings(the_four_that_are_there, 1, 64, x, out)} == {"note"}
    assert out[0] == 6


@cuda.jit
def helper_sum(x, out):
    out[cuda.threadIdx.x] = _sum(float32(x[cuda.threadIdx.x]))


@cuda.jit(device=True)
def _sum(value):
    return value + cuda.shfl_down_sync(FULL, value, 16)


def test_a_use_behind_a_device_function_names_both_lines() -> None:
    (found,) = findings(helper_sum, 1, 24, np.arange(24), zeros(32, "f4"))
    assert found.lines == (line_of(_sum, "shfl"), line_of(helper_sum, "_sum(float32"))
    assert f"(called from line {line_of(helper_sum, '_sum(float32')})" in found.message
