"""Lanes that spin: they sleep, nobody starves behind them, and what cannot end is told at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda

from simulator import SimulationError, simulate
from simulator.frontend import lower_kernel
from simulator.machine import launch, sleepers
from simulator.machine.flow import flow_of
from simulator.machine.observer import Observer
from simulator.machine.order import PATIENCE
from tests.simulator.running import line_of, shape, zeros
from tests.simulator.waiting import cas_lock, grid_barrier, look_back, ticket_lock

ORDERS = ("waves", "first", "last", "round-robin", "random", 7)
SPLITS = tuple(order for order in ORDERS if order != "waves")


@cuda.jit
def exchange_lock(lock, count):
    """Every failed attempt writes the 1 that is there."""
    while cuda.atomic.exch(lock, 0, 1) != 0:
        pass
    count[0] += 1
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


@cuda.jit
def try_lock(lock, count):
    """The attempt and the critical section are branches of one loop, with a flag for who is through."""
    done = False
    while not done:
        if cuda.atomic.cas(lock, 0, 0, 1) == 0:
            count[0] += 1
            cuda.threadfence()
            cuda.atomic.exch(lock, 0, 0)
            done = True


@cuda.jit
def patient_lock(lock, count):
    """Nobody can know that the number of attempts does not matter."""
    attempts = 0
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        attempts += 1
    count[0] += 1
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


class Atomics(Observer):
    """Counts the requests of atomics, which are what spinning costs."""

    def __init__(self) -> None:
        self.requests = 0

    def atomic(self, split: Any, access: Any, allocation: Any, address: Any, wrote: Any) -> None:
        self.requests += 1


def way_of(order: str | int) -> dict[str, Any]:
    if order == "waves":
        return {"schedule": "waves"}
    name, seed = (order, 0) if isinstance(order, str) else ("random", order)
    return {"schedule": "splits", "order": name, "seed": seed}


def atomics(kernel: Any, blocks: int, threads: int, *args: Any, order: str | int, **values: Any) -> int:
    """Run a kernel; how many requests its atomics made."""
    seen = Atomics()
    launch(
        lower_kernel(kernel, args), shape(blocks), shape(threads), args, observers=(seen,), **way_of(order), **values
    )
    return seen.requests


# -- nobody starves, and spinning costs little ---------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kernel", [cas_lock, exchange_lock, try_lock, ticket_lock])
@pytest.mark.parametrize(("blocks", "threads"), [(1, 80), (5, 33)])
def test_everybody_gets_the_lock(kernel: Any, blocks: int, threads: int, order: Any) -> None:
    count = zeros(1, "i4")
    requests = atomics(kernel, blocks, threads, zeros(2, "i4"), count, order=order)
    everybody = blocks * threads
    assert count[0] == everybody
    warps = blocks * -(-threads // 32)
    assert requests <= everybody * (2 * warps + 6)  # a few, and two for each warp that spins meanwhile


@pytest.mark.parametrize("order", SPLITS)
def test_a_lock_whose_loop_counts_is_left_to_patience(order: Any) -> None:
    count = zeros(1, "i4")
    requests = atomics(patient_lock, 1, 40, zeros(1, "i4"), count, order=order)
    assert count[0] == 40
    assert requests < 4 * PATIENCE  # not so many for each of the lanes


@pytest.mark.parametrize("blocks", [5, 64, 300])
@pytest.mark.parametrize("order", ORDERS)
def test_a_chain_of_blocks(order: Any, blocks: int) -> None:
    flags, total = zeros(blocks, "i4"), zeros(blocks)
    requests = atomics(look_back, blocks, 32, flags, total, order=order)
    assert total.tolist() == np.cumsum(np.arange(blocks)).tolist()
    assert requests <= 12 * blocks + 64  # whom nobody writes to sleeps; and a wave takes a while to give up


@cuda.jit
def passed_on(boxes, after, out):
    """Each thread waits for a word in its own box, whatever its neighbours do, and passes it on."""
    t = cuda.grid(1)
    while cuda.atomic.add(boxes, t, 0) == 0:
        pass
    out[t] = cuda.atomic.add(boxes, t, 0)
    if after[t] >= 0:
        cuda.atomic.exch(boxes, after[t], out[t] + 1)


@cuda.jit
def read_on_one_side(x, chosen, boxes, out):
    """Lanes part within the loop, and each side reads its own array."""
    t = cuda.grid(1)
    going = True
    while going:
        if chosen[t] % 2 == 0:
            going = cuda.atomic.add(boxes, 40 * chosen[t], 0) == 0
        else:
            going = cuda.atomic.add(x, 40 * chosen[t], 0) == 0
    out[t] = 1
    if chosen[t] < 9:
        cuda.atomic.exch(x, 40 * chosen[t] + 40, 1)
        cuda.atomic.exch(boxes, 40 * chosen[t] + 40, 1)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("values", ["affine", "vector"])
def test_each_lane_watches_its_own(order: Any, values: str) -> None:
    numbers = np.random.default_rng(3)
    for blocks, threads in ((1, 20), (3, 40), (2, 96)):
        count = blocks * threads
        way = numbers.permutation(count)
        after = np.full(count, -1)
        after[way[:-1]] = way[1:]
        boxes, out = zeros(count, "i4"), zeros(count, "i4")
        boxes[way[0]] = 1
        requests = atomics(passed_on, blocks, threads, boxes, after, out, order=order, values=values)
        assert out[way].tolist() == list(range(1, count + 1))
        assert requests < 32 * 12 * count


@pytest.mark.parametrize("order", ORDERS)
def test_lanes_that_part_in_the_loop_watch_what_each_side_reads(order: Any) -> None:
    chosen = np.random.default_rng(5).integers(0, 10, 96)
    chosen[:10] = range(10)
    x, boxes, out = zeros(400, "i4"), zeros(400, "i4"), zeros(96, "i4")
    boxes[0] = 1
    simulate(read_on_one_side, orders=(order,), max_steps=60_000)[2, 48](x, chosen, boxes, out)
    assert out.all()
    boxes[:] = x[:] = 0
    boxes[0] = 1
    with pytest.raises(SimulationError, match="round a loop in which nothing changes any more"):
        simulate(read_on_one_side, orders=(order,), max_steps=10**12)[2, 48](x, np.maximum(chosen, 1), boxes, out)


@pytest.mark.parametrize("order", ORDERS)
def test_a_barrier_of_the_grid_by_hand(order: Any) -> None:
    y = zeros(13 * 40)
    requests = atomics(grid_barrier, 13, 40, zeros(1, "i4"), zeros(13 * 40), y, order=order)
    assert y.tolist() == np.roll(np.arange(13 * 40), -40).tolist()
    assert requests <= 13 * (2 * 13 + 4)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.integers(1, 70), st.sampled_from([cas_lock, try_lock, ticket_lock]), st.integers(0, 99))
def test_every_launch_shape_and_seed(blocks: int, threads: int, kernel: Any, seed: int) -> None:
    count, again = zeros(1, "i4"), zeros(1, "i4")
    requests = atomics(kernel, blocks, threads, zeros(2, "i4"), count, order=seed)
    assert requests == atomics(kernel, blocks, threads, zeros(2, "i4"), again, order=seed, values="vector")
    assert count[0] == again[0] == blocks * threads


# -- what never ends -----------------------------------------------------------------------------------------------


@cuda.jit
def waits_for_nobody(flag, out):
    t = cuda.threadIdx.x
    if t == 40:
        while flag[0] == 0:
            pass
    cuda.syncthreads()
    out[t] = 1


@cuda.jit
def taken_twice(lock, out):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    out[cuda.threadIdx.x] = 1


@cuda.jit
def computes_for_ever(out):
    i = 1
    while i > 0:
        i = (i + 1) % 4 + 1 - (i + 1) % 4
    out[0] = i


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kernel", [waits_for_nobody, taken_twice])
def test_a_deadlock_is_told_long_before_the_budget_is_spent(kernel: Any, order: Any) -> None:
    with pytest.raises(SimulationError, match="round a loop in which nothing changes any more") as caught:
        simulate(kernel, orders=(order,), max_steps=10**12)[1, 64](zeros(1, "i4"), zeros(64))
    (finding,) = caught.value.findings
    assert finding.kind == "deadlock"
    spin = line_of(kernel, "while")
    assert finding.lines[0] in (spin, spin + 1)
    if kernel is waits_for_nobody:
        assert finding.threads[0] == 40
        assert "(63 of them) wait at syncthreads" in finding.message


@pytest.mark.parametrize("order", ORDERS)
def test_a_loop_that_only_computes_is_seen_to_be_endless(order: Any) -> None:
    with pytest.raises(SimulationError, match="never ends"):
        simulate(computes_for_ever, orders=(order,), max_steps=10**12)[1, 32](zeros(1))


# -- what is no spinning -------------------------------------------------------------------------------------------


@cuda.jit
def exchanges_with_its_warp(x, out):
    """The variables of the loop come round, but by the hands of other lanes."""
    t = cuda.threadIdx.x
    turns = 0
    value = t
    while turns == 0 or value != t:
        value = cuda.shfl_sync(0xFFFFFFFF, value, (t + 1) % 32)
        turns = 1
    out[t] = value


@cuda.jit
def floats_that_are_no_numbers(flag, x):
    """A NaN is no reason to think that something has changed."""
    value = x[1]
    while cuda.atomic.add(flag, 0, 0) == 0:
        value = value * x[1]
    x[0] = value


@cuda.jit
def several_locks(locks, count):
    """Which lock a loop reads depends on the lane: a change of one concerns some of the sleepers."""
    mine = cuda.threadIdx.x % 3
    while cuda.atomic.cas(locks, mine, 0, 1) != 0:
        pass
    count[mine] += 1
    cuda.threadfence()
    cuda.atomic.exch(locks, mine, 0)


@pytest.mark.parametrize("order", ORDERS)
def test_lanes_that_work_together_do_not_spin(order: Any) -> None:
    out = zeros(32)
    simulate(exchanges_with_its_warp, orders=(order,))[1, 32](zeros(32), out)
    assert out.tolist() == list(range(32))


@pytest.mark.parametrize("order", ORDERS)
def test_locks_by_lane(order: Any) -> None:
    count = zeros(3, "i4")
    simulate(several_locks, orders=(order,))[2, 70](zeros(3, "i4"), count)
    assert count.tolist() == [2 * 24, 2 * 23, 2 * 23]


@pytest.mark.parametrize("order", ORDERS)
def test_a_loop_with_a_nan_is_seen_to_be_endless(order: Any) -> None:
    x = np.array([0, np.nan], np.float32)
    with pytest.raises(SimulationError, match="never ends"):
        simulate(floats_that_are_no_numbers, orders=(order,), max_steps=10**12)[1, 32](zeros(1, "i4"), x)


@pytest.mark.parametrize("order", ORDERS)
def test_a_lock_without_a_fence_is_a_race_though_its_waiters_sleep(order: Any) -> None:
    trace = simulate(bare_lock, check=True, orders=(order,))[2, 40](zeros(1, "i4"), zeros(1, "i4"))
    assert "race-global" in {finding.kind for finding in trace.findings}
    trace = simulate(cas_lock, check=True, orders=(order,))[2, 40](zeros(1, "i4"), zeros(1, "i4"))
    assert not trace.findings


@cuda.jit
def bare_lock(lock, count):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    count[0] += 1
    cuda.atomic.exch(lock, 0, 0)


# -- loops ---------------------------------------------------------------------------------------------------------


@cuda.jit
def nested(x):
    for i in range(x.size):
        for j in range(i):
            x[i] += j


@cuda.jit
def asks_who_is_here(x):
    for i in range(x.size):
        x[i] = cuda.activemask()


def test_loops_have_heads_and_bodies() -> None:
    program = lower_kernel(nested, (zeros(4),))
    inner, outer = sorted(flow_of(program).loops.values(), key=len)
    assert inner < outer
    assert flow_of(program).alone == set(flow_of(program).loops)
    asking = flow_of(lower_kernel(asks_who_is_here, (zeros(4),)))
    assert asking.loops and not asking.alone


# -- a sleeper beside somebody who cannot be seen to spin -------------------------------------------------------------


@cuda.jit
def two_arrays_by_one_load(x, y, z, done, out, u):
    """A load reads x for one warp and y for the other, two more follow; the third warp counts its attempts."""
    t = cuda.grid(1)
    warp, lane = t // 32, t % 32
    if lane == 0 and warp < 2:
        mine = x if warp == 0 else y
        more = 0
        while True:
            told = mine[0]
            more = z[0]
            last = u[0]
            if told + more + last != 0:
                break
        done[warp] = 1 + more
    elif lane == 0 and warp == 2:
        some = 0
        for i in range(300):
            some += out[3] * i
        x[0] = 1
        attempts = 0
        while done[0] == 0:
            attempts += 1
        out[0] = attempts + some
        y[0] = 1
        z[0] = 1
        u[0] = 1


@cuda.jit
def read_by_the_outer_loop(flag, done, x, out):
    """Who comes round the inner loop has read ``flag`` in the outer one; another thread never enters the inner one."""
    t = cuda.grid(1)
    if t == 0 or t == 64:
        rounds = 1 if t == 64 else 0
        seen = 0
        first = 1  # the round in which it changes comes before the one that is seen again
        while True:
            if first == 1:
                first = 0
            if flag[0] != 0:
                break
            for j in range(rounds):
                seen = x[j]
        done[t // 64] = 1 + seen + first
    elif t == 32:
        some = 0
        for i in range(300):
            some += out[0] * i
        flag[0] = 1
        attempts = 0
        while done[0] == 0:
            attempts += 1
        out[0] = attempts + some


@pytest.mark.parametrize("small", [sleepers.SMALL, 0])
@pytest.mark.parametrize("order", ["waves", "first", "last", "round-robin", *range(12)])
def test_who_sleeps_wakes_though_another_never_sleeps(
    order: str | int, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sleepers, "SMALL", small)
    for kernel, sizes in ((two_arrays_by_one_load, (1, 1, 1, 2, 4, 1)), (read_by_the_outer_loop, (1, 2, 4, 1))):
        checked = simulate(kernel, check=True, orders=(order,), max_steps=20_000)
        trace = checked[1, 96](*(np.zeros(size, np.int32) for size in sizes))
        assert "deadlock" not in {found.kind for found in trace.findings}
