"""What the machine says of kernels that are wrong, and what it lets pass: barriers, warp operations, locks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import cuda, float32

from simulator.findings import Launch
from simulator.frontend import lower_kernel
from simulator.machine import launch
from simulator.machine.observer import Observer
from simulator.observers.steps import Steps
from simulator.observers.traffic import Traffic
from simulator.observers.traps import Traps
from simulator.trace import Trace
from tests.simulator.running import (
    FIRST,
    LAST,
    WAVES,
    every_way,
    fault_of,
    line_of,
    lines_of,
    lose_patience,
    run,
    zeros,
)

Way = dict[str, Any]


# -- barriers -----------------------------------------------------------------------------------------------------


@cuda.jit
def barrier_in_a_branch(out):
    t = cuda.threadIdx.x
    if t < 40:
        cuda.syncthreads()
    out[t] = t


@every_way
def test_a_barrier_that_part_of_the_block_passes_by(way: Way) -> None:
    fault = fault_of(barrier_in_a_branch, 2, 64, zeros(64), **way)
    assert fault.kind == "barrier-divergence"
    assert set(fault.facts["missing"]) == set(range(40, 64))
    assert set(fault.facts["waiting"]) == set(range(40))
    assert fault.places[0].pos.line == line_of(barrier_in_a_branch, "syncthreads")
    assert fault.places[0].block in (0, 1)


@cuda.jit
def two_barriers(out):
    t = cuda.threadIdx.x
    if t % 2 == 0:
        cuda.syncthreads()
        out[t] = 1
    else:
        cuda.syncthreads()
        out[t] = 2


@every_way
def test_threads_at_different_barriers(way: Way) -> None:
    fault = fault_of(two_barriers, 1, 64, zeros(64), **way)
    assert fault.kind == "barrier-divergence"
    lines = {line_of(two_barriers, "syncthreads", k) for k in range(2)}
    assert lines_of(fault) == lines
    assert {*fault.facts["missing"], *fault.facts["waiting"]} == set(range(64))


@cuda.jit
def uneven_loop(out):
    t = cuda.threadIdx.x
    for _ in range(1 + t // 32):
        cuda.syncthreads()
    out[t] = t


@every_way
def test_a_barrier_in_a_loop_that_some_leave_early(way: Way) -> None:
    fault = fault_of(uneven_loop, 1, 64, zeros(64), **way)
    assert fault.kind == "barrier-divergence"
    assert set(fault.facts["missing"]) == set(range(32))


@cuda.jit
def returns_before_the_barrier(x, out):
    t = cuda.threadIdx.x
    if t >= x.size:
        return
    cuda.syncthreads()
    out[t] = x[t]


@every_way
@pytest.mark.parametrize("count", [1, 33, 64])
def test_an_early_return_is_no_divergence(way: Way, count: int) -> None:
    out = zeros(count)
    run(returns_before_the_barrier, 1, 64, np.arange(count) + 1, out, **way)
    assert out.tolist() == list(range(1, count + 1))


# -- warp operations ----------------------------------------------------------------------------------------------


@cuda.jit
def shuffle_in_a_branch(x, out):
    t = cuda.threadIdx.x
    value = x[t]
    if t % 32 < 16:
        value = cuda.shfl_xor_sync(0xFFFFFFFF, value, 1)
    out[t] = value
    cuda.syncwarp()


@every_way
def test_a_mask_that_names_lanes_which_do_not_come(way: Way) -> None:
    fault = fault_of(shuffle_in_a_branch, 1, 64, np.arange(64), zeros(64), **way)
    assert fault.kind == "warp-sync"
    # half a warp waits at the shuffle, half at the syncwarp: which half is called missing depends on the order
    waits = {"shfl_xor_sync": range(16), "syncwarp": range(16, 32)}[fault.facts["operation"]]
    assert set(fault.facts["missing"]) == set(range(32)) - set(waits)
    assert {thread % 32 for thread in fault.places[0].threads} == set(waits)
    assert lines_of(fault) == {line_of(shuffle_in_a_branch, text) for text in ("shfl_xor_sync", "syncwarp")}


@cuda.jit
def reads_a_lane_outside(x, out):
    t = cuda.threadIdx.x
    if t < 8:
        out[t] = cuda.shfl_sync(0xFF, x[t], 9 if t == 5 else 3)


@every_way
def test_reading_a_lane_that_does_not_take_part(way: Way) -> None:
    """Hardware promises nothing about the value (PTX ISA, shfl.sync): poison, and a note of who read whom."""
    out, traps = zeros(32), Traps()
    run(reads_a_lane_outside, 1, 32, np.arange(32), out, observers=(traps,), **way)
    assert out[:8].tolist() == [3, 3, 3, 3, 3, -1, 3, 3]
    (fault,) = traps.faults()
    assert (fault.kind, fault.facts["lane"], fault.facts["source"]) == ("partial-warp", 5, 9)
    assert (fault.places[0].threads, fault.facts["count"]) == ((5,), 1)


@cuda.jit
def sum_in_a_partial_warp(x, out):
    """20 lanes: each reads past the end and throws that value away, as it may."""
    lane = cuda.threadIdx.x
    value = x[lane]
    offset = 16
    while offset > 0:
        other = cuda.shfl_down_sync(0xFFFFF, value, offset)
        if lane + offset < 20:
            value += other
        offset //= 2
    if lane == 0:
        out[0] = value


@every_way
def test_an_undefined_value_that_is_not_used_does_no_harm(way: Way) -> None:
    out = zeros(1, "f4")
    run(sum_in_a_partial_warp, 1, 20, np.arange(20, dtype=np.float32), out, **way)
    assert out[0] == 190


@cuda.jit
def not_in_its_own_mask(x, out):
    t = cuda.threadIdx.x
    out[t] = cuda.any_sync(0x7FFFFFFF, x[t] > 0)


@every_way
def test_a_lane_outside_its_own_mask(way: Way) -> None:
    fault = fault_of(not_in_its_own_mask, 1, 32, np.arange(32), zeros(32), **way)
    assert (fault.kind, fault.facts["lane"], fault.facts["unnamed"]) == ("warp-sync", 31, True)


@cuda.jit
def shuffle_against_barrier(x, out):
    t = cuda.threadIdx.x
    if t < 16:
        out[t] = cuda.shfl_sync(0xFFFFFFFF, x[t], 0)
    else:
        cuda.syncthreads()
    out[t] += 1


@every_way
def test_lanes_that_wait_for_each_other_at_different_operations(way: Way) -> None:
    fault = fault_of(shuffle_against_barrier, 1, 32, np.arange(32), zeros(32), **way)
    assert fault.kind in ("barrier-divergence", "warp-sync", "deadlock")
    assert lines_of(fault) == {line_of(shuffle_against_barrier, text) for text in ("shfl_sync", "syncthreads")}


@cuda.jit
def meets_at_the_shuffle(x, out):
    t = cuda.threadIdx.x
    value = x[t]
    if t % 2 == 0:
        value *= 2
    else:
        value += 1000
    out[t] = cuda.shfl_xor_sync(0xFFFFFFFF, value, 1)


@every_way
def test_lanes_meet_again_at_a_shuffle(way: Way) -> None:
    x, out = np.arange(64), zeros(64)
    run(meets_at_the_shuffle, 1, 64, x, out, **way)
    value = np.where(x % 2 == 0, 2 * x, x + 1000)
    np.testing.assert_array_equal(out, value.reshape(-1, 2)[:, ::-1].ravel())


@cuda.jit
def exited_lanes_are_not_waited_for(x, out):
    t = cuda.threadIdx.x
    if t % 32 >= 24:
        return
    value = x[t]
    cuda.syncwarp()
    out[t] = cuda.shfl_xor_sync(0xFFFFFFFF, value, 4)


@every_way
def test_a_mask_may_name_lanes_that_have_returned(way: Way) -> None:
    out = zeros(64)
    run(exited_lanes_are_not_waited_for, 1, 64, np.arange(64), out, **way)
    t = np.arange(64)
    np.testing.assert_array_equal(out, np.where(t % 32 < 24, t ^ 4, 0))


# -- waiting for others -------------------------------------------------------------------------------------------


@cuda.jit
def locked(x, mutex, counter):
    t = cuda.grid(1)
    value = x[t]
    while cuda.atomic.cas(mutex, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    counter[0] += value
    cuda.threadfence()
    cuda.atomic.exch(mutex, 0, 0)


@every_way
def test_a_spin_lock_counts_exactly(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes of one warp hold the lock in turn: waves cannot run that, and hand it over instead of judging."""
    if way is not WAVES:
        lose_patience(monkeypatch)
    counter = zeros(1)
    run(locked, 2, 48, np.arange(96), zeros(1, "i4"), counter, **way)
    assert counter[0] == sum(range(96))


@pytest.mark.parametrize("way", [WAVES, FIRST], ids=["waves", "first"])
def test_handing_over_keeps_the_counts_right(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_patience(monkeypatch)
    steps, traffic = Steps(), Traffic()
    args = (np.arange(96), zeros(1, "i4"), zeros(1))
    launch(lower_kernel(locked, args), (2, 1, 1), (48, 1, 1), args, observers=(steps, traffic), **way)
    trace = Trace("locked", Launch((2, 1, 1), (48, 1, 1)), "waves", steps, traffic)
    loads = trace.total("x", operation="load")
    assert (loads.requests, loads.lanes, loads.sectors) == (4, 96, 24)
    assert trace.total("counter", operation="store").lanes == 96
    assert trace.total("mutex", line=line_of(locked, "exch")).lanes == 96
    assert trace.total("mutex", line=line_of(locked, "cas")).lanes >= 96
    assert trace.thread(47, block=1).reads("x") == [95]
    assert sum(len(trace.thread(t, block=b).writes("counter")) for b in range(2) for t in range(48)) == 96


@cuda.jit
def waits_for_the_next_block(flags, out):
    block = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        if block + 1 < cuda.gridDim.x:
            while cuda.atomic.add(flags, block + 1, 0) == 0:
                pass
            out[block] = out[block + 1] + 1
        else:
            out[block] = 100
        cuda.threadfence()
        cuda.atomic.exch(flags, block, 1)


@every_way
def test_blocks_that_run_together_may_wait_for_each_other(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_patience(monkeypatch)
    out = zeros(4)
    run(waits_for_the_next_block, 4, 32, zeros(4, "i4"), out, **way)
    assert out.tolist() == [103, 102, 101, 100]


def test_a_block_cannot_wait_for_one_that_has_no_room_yet() -> None:
    """As on a card, where blocks start when others end: under splits a thousand lanes are alive at once."""
    way = {"step_budget": 20_000, **FIRST}
    fault = fault_of(waits_for_the_next_block, 40, 32, zeros(40, "i4"), zeros(40), **way)
    assert (fault.kind, fault.facts["budget"]) == ("step-limit", 20_000)


@cuda.jit
def never_ends(x):
    while x[0] == 0:
        x[1] += 1


@every_way
def test_a_budget_of_steps_instead_of_a_hang(way: Way) -> None:
    fault = fault_of(never_ends, 1, 32, zeros(2), step_budget=3000, **way)
    assert (fault.kind, fault.facts["budget"]) == ("step-limit", 3000)


class Finished(Observer):
    def __init__(self) -> None:
        self.finished = 0

    def finish(self) -> None:
        self.finished += 1


def test_observers_are_told_of_the_end_after_a_fault_too() -> None:
    observer = Finished()
    fault_of(never_ends, 1, 32, zeros(2), step_budget=100, observers=(observer,))
    assert observer.finished == 1


# -- who judges ---------------------------------------------------------------------------------------------------


@cuda.jit
def missing_barrier(x, out):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    out[t] = tile[63 - t]


def test_lock_step_hides_a_missing_barrier_and_splits_show_it() -> None:
    x = np.arange(64, dtype=np.float32)
    wrong = []
    mixed: list[Way] = [{"schedule": "splits", "order": "random", "seed": seed} for seed in range(8)]
    for way in (WAVES, FIRST, LAST, *mixed):
        out = zeros(64, "f4")
        run(missing_barrier, 1, 64, x, out, **way)
        wrong.append(not np.array_equal(out, x[::-1]))
    assert wrong[:3] == [False, True, True]
    assert any(wrong[3:])
