"""Python's compiler copies the test of a loop; a barrier or vote in it is still one operation of the source."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import cuda

from simulator import SimulationError, simulate

ORDERS: list[Any] = [None, ("first",), ("last",), (0,), (1,)]


@cuda.jit
def votes_of_a_block(rounds, limit):
    """Thread 0 asks for more rounds and goes back to the test by another way than the others."""
    thread = cuda.threadIdx.x
    done = 0
    more = True
    while cuda.syncthreads_or(int(more)):
        done += 1
        more = False
        if thread == 0:
            more = done < limit
            continue
        rounds[thread] = done


@cuda.jit
def votes_of_a_warp(rounds, limit):
    thread = cuda.threadIdx.x
    done = 0
    more = True
    while cuda.any_sync(0xFFFFFFFF, more):
        done += 1
        more = False
        if thread % 32 == 0:
            more = done < limit
            continue
        rounds[thread] = done


@cuda.jit
def sums_of_a_warp(out):
    """The shuffle in the loop's test moves a value that differs between its copies."""
    lane = cuda.threadIdx.x
    value = lane
    rounds = 0
    while cuda.shfl_xor_sync(0xFFFFFFFF, value, 1) + value < 100:
        rounds += 1
        if lane % 4 < 2:
            value += 10
            continue
        value += 20
    out[lane] = rounds


@cuda.jit
def shuffle_before_a_barrier(x):
    """Lanes 0 to 3 wait for lanes that stand at the barrier already: the shuffle is to blame, not the barrier."""
    lane = cuda.threadIdx.x
    value = x[lane]
    if lane < 4:
        value = cuda.shfl_down_sync(0xFFFFFFFF, value, 1)
    cuda.syncthreads()
    x[lane] = value


@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("threads", [48, 64])
def test_a_barrier_in_the_test_of_a_loop(orders: Any, threads: int) -> None:
    rounds = np.zeros(threads, np.int32)
    trace = simulate(votes_of_a_block, orders=orders)[1, threads](rounds, np.int32(3))
    assert rounds.tolist() == [0] + [3] * (threads - 1)
    assert not trace.findings


@pytest.mark.parametrize("orders", ORDERS)
def test_a_vote_in_the_test_of_a_loop(orders: Any) -> None:
    rounds = np.zeros(64, np.int32)
    simulate(votes_of_a_warp, orders=orders)[1, 64](rounds, np.int32(3))
    assert rounds.tolist() == ([0] + [3] * 31) * 2


@pytest.mark.parametrize("orders", ORDERS)
def test_a_shuffle_in_the_test_of_a_loop(orders: Any) -> None:
    def alone(lane: int) -> int:
        pair, rounds = [lane & ~1, lane | 1], 0
        while sum(pair) < 100:
            rounds += 1
            pair = [value + (10 if lane % 4 < 2 else 20) for value in pair]
        return rounds

    out = np.zeros(32, np.int32)
    simulate(sums_of_a_warp, orders=orders)[1, 32](out)
    assert out.tolist() == [alone(lane) for lane in range(32)]


@pytest.mark.parametrize("orders", ORDERS)
def test_lanes_that_wait_in_a_shuffle_are_the_cause(orders: Any) -> None:
    with pytest.raises(SimulationError, match=r"shfl_down_sync.*lanes 4 to 31") as caught:
        simulate(shuffle_before_a_barrier, orders=orders)[1, 32](np.zeros(32, np.float32))
    assert [found.kind for found in caught.value.findings] == ["warp-sync"]
