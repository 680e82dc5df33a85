"""The machine: divergence, joins and barriers; every kernel in waves and in splits of any order.

What may go wrong is in ``test_verdicts.py``, what no kernel can say yet in ``test_hand_built.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import cuda, int32, int64

from tests.simulator.running import WAYS, every_way, run, zeros

Way = dict[str, Any]


# -- divergence and joins ---------------------------------------------------------------------------------------------


@cuda.jit
def branches(x, out):
    t = cuda.grid(1)
    if t < x.size:
        if x[t] % 3 == 0:
            value = x[t] * 2
        elif x[t] % 3 == 1:
            if t % 2 == 0:
                value = x[t] + 100
            else:
                value = x[t] - 100
        else:
            value = -x[t]
        out[t] = value + 1


@every_way
@pytest.mark.parametrize("count", [1, 31, 32, 33, 100, 160])
def test_branches_join(way: Way, count: int) -> None:
    x, out = np.arange(count) * 7 % 23, zeros(count)
    run(branches, 2, 80, x, out, **way)
    even = np.arange(count) % 2 == 0
    value = np.select([x % 3 == 0, x % 3 == 1], [x * 2, np.where(even, x + 100, x - 100)], -x)
    np.testing.assert_array_equal(out, value + 1)


@cuda.jit
def collatz(x, steps):
    t = cuda.grid(1)
    if t >= x.size:
        return
    n = x[t]
    count = 0
    while n != 1:
        if n <= 0:
            count = -1
            break
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
    steps[t] = count


def steps_of(n: int) -> int:
    count = 0
    while n > 1:
        n, count = n // 2 if n % 2 == 0 else 3 * n + 1, count + 1
    return count if n == 1 else -1


@every_way
def test_loops_of_uneven_length(way: Way) -> None:
    x = np.arange(-3, 60)
    out = zeros(x.size)
    run(collatz, 1, 64, x, out, **way)
    assert out.tolist() == [steps_of(int(n)) for n in x]


@cuda.jit
def skipping(out):
    t = cuda.grid(1)
    total = 0
    for i in range(10):
        if i == t % 5:
            continue
        for j in range(i):
            if j > t % 7:
                break
            total += 1
        if i * 3 > t:
            break
        total += 100
    else:
        total += 10_000
    out[t] = total


@every_way
def test_break_continue_and_else_of_loops(way: Way) -> None:
    expected = []
    for t in range(70):
        total = 0
        for i in range(10):
            if i == t % 5:
                continue
            total += min(i, t % 7 + 1)
            if i * 3 > t:
                break
            total += 100
        else:
            total += 10_000
        expected.append(total)
    out = zeros(70)
    run(skipping, 2, 35, out, **way)
    assert out.tolist() == expected


# -- barriers ---------------------------------------------------------------------------------------------------------


@cuda.jit
def early_exit(x, out):
    tile = cuda.shared.array(64, int64)
    t = cuda.grid(1)
    if t >= x.size:
        return
    tile[cuda.threadIdx.x] = x[t]
    cuda.syncthreads()
    neighbour = cuda.threadIdx.x ^ 1
    out[t] = tile[neighbour] if t // 64 * 64 + neighbour < x.size else -1


@every_way
@pytest.mark.parametrize("count", [2, 30, 64, 66, 100])
def test_threads_that_returned_are_not_waited_for(way: Way, count: int) -> None:
    x, out = np.arange(count) + 5, zeros(count)
    run(early_exit, 2, 64, x, out, **way)
    assert out.tolist() == [int(x[t ^ 1]) for t in range(count)]


@cuda.jit
def reversed_rounds(x):
    tile = cuda.shared.array(96, int64)
    t = cuda.threadIdx.x
    for _ in range(3):
        tile[t] = x[cuda.blockIdx.x, t]
        cuda.syncthreads()
        x[cuda.blockIdx.x, t] = tile[cuda.blockDim.x - 1 - t] + 1
        cuda.syncthreads()


@every_way
@pytest.mark.parametrize("threads", [1, 5, 32, 45, 96])
def test_barriers_in_a_loop(way: Way, threads: int) -> None:
    x = np.arange(3 * threads).reshape(3, threads)
    expected = x[:, ::-1] + 3
    run(reversed_rounds, 3, threads, x, **way)
    np.testing.assert_array_equal(x, expected)


@cuda.jit
def uniform_branch_with_barrier(x, out):
    tile = cuda.shared.array(64, int64)
    t = cuda.threadIdx.x
    if cuda.blockIdx.x % 2 == 0:  # the same way for a whole block: legal
        tile[t] = x[t]
        cuda.syncthreads()
        out[cuda.blockIdx.x, t] = tile[63 - t]
    else:
        out[cuda.blockIdx.x, t] = -1


@every_way
def test_a_barrier_in_a_branch_that_whole_blocks_take(way: Way) -> None:
    out = zeros((4, 64))
    run(uniform_branch_with_barrier, 4, 64, np.arange(64), out, **way)
    np.testing.assert_array_equal(out[::2], np.arange(64)[::-1] + np.zeros((2, 1), int))
    assert (out[1::2] == -1).all()


@cuda.jit
def counting_barriers(x, out):
    t = cuda.threadIdx.x
    block = cuda.blockIdx.x
    holds = int32(x[block, t] > 0)
    out[block, t, 0] = cuda.syncthreads_count(holds)
    out[block, t, 1] = cuda.syncthreads_and(holds)
    out[block, t, 2] = cuda.syncthreads_or(holds)


@every_way
@pytest.mark.parametrize("threads", [7, 64, 70])
def test_barriers_that_count(way: Way, threads: int) -> None:
    x = np.zeros((3, threads), int)
    x[1] = 1
    x[2, ::3] = 1
    out = zeros((3, threads, 3))
    run(counting_barriers, 3, threads, x, out, **way)
    for block in range(3):
        count = int(x[block].sum())
        assert (out[block] == [count, count == threads, count > 0]).all()


@cuda.jit
def ends_with_a_barrier(out):
    out[cuda.grid(1)] = cuda.syncthreads_count(1)
    cuda.syncthreads()


@cuda.jit
def ends_with_a_syncwarp(out):
    t = cuda.grid(1)
    out[t] = 96
    if t % 2 == 0:
        cuda.syncwarp()
    else:
        cuda.syncwarp()


@every_way
@pytest.mark.parametrize("kernel", [ends_with_a_barrier, ends_with_a_syncwarp], ids=lambda kernel: kernel.__name__)
def test_a_kernel_may_end_with_a_meeting(way: Way, kernel: Any) -> None:
    out = zeros(192)
    run(kernel, 2, 96, out, **way)
    assert (out == 96).all()


def test_there_are_as_many_ways_as_the_names_say() -> None:
    assert len({repr(way) for way in WAYS}) == len(WAYS) == 6
