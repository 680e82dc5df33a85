"""The machine: shuffles, votes and matches, in waves and in splits of any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import cuda, uint32

from tests.simulator.running import every_way, run, zeros

Way = dict[str, Any]


@cuda.jit
def shuffles(x, out):
    t = cuda.grid(1)
    out[t, 0] = cuda.shfl_sync(0xFFFFFFFF, x[t], 5)
    out[t, 1] = cuda.shfl_up_sync(0xFFFFFFFF, x[t], 3)
    out[t, 2] = cuda.shfl_down_sync(0xFFFFFFFF, x[t], 9)
    out[t, 3] = cuda.shfl_xor_sync(0xFFFFFFFF, x[t], 17)
    out[t, 4] = cuda.shfl_sync(0xFFFFFFFF, x[t], (t * 7 + 1) % 32)


@every_way
@pytest.mark.parametrize("dtype", ["i4", "i8", "f4", "f8"])
def test_shuffles(way: Way, dtype: str) -> None:
    x = (np.arange(128) * 37 % 101).astype(dtype)
    out = zeros((128, 5), dtype)
    run(shuffles, 2, 64, x, out, **way)
    lane = np.arange(128) % 32
    sources = [5, lane - 3, lane + 9, lane ^ 17, (np.arange(128) * 7 + 1) % 32]
    for column, source in enumerate(sources):
        inside = (0 <= source) & (source < 32)
        np.testing.assert_array_equal(out[:, column], x[np.arange(128) - lane + np.where(inside, source, lane)])


@cuda.jit
def shuffles_of_small_groups(x, out):
    t = cuda.threadIdx.x
    if t < 4:
        value = x[t]
        value += cuda.shfl_xor_sync(0b1111, value, 2)
        value += cuda.shfl_xor_sync(0b1111, value, 1)
        if t == 0:
            out[0] = value


@every_way
@pytest.mark.parametrize("threads", [4, 8, 40])
def test_a_small_block_reduces_with_a_small_mask(way: Way, threads: int) -> None:
    out = zeros(1)
    run(shuffles_of_small_groups, 1, threads, np.array([1, 20, 300, 4000]), out, **way)
    assert out[0] == 4321


@cuda.jit
def votes(x, out):
    t = cuda.threadIdx.x
    if t % 3 != 0:
        lanes = uint32(0xB6DB6DB6) if t // 32 == 0 else uint32(0x6DB6DB6D)
        out[t, 0] = cuda.ballot_sync(lanes, x[t] > 5)
        out[t, 1] = cuda.any_sync(lanes, x[t] > 5)
        out[t, 2] = cuda.all_sync(lanes, x[t] > 5)
        out[t, 3] = cuda.eq_sync(lanes, x[t] > 5)
        out[t, 4] = cuda.match_any_sync(lanes, x[t])
        same, agree = cuda.match_all_sync(lanes, x[t])
        out[t, 5] = same
        out[t, 6] = agree
        cuda.syncwarp(lanes)


@every_way
def test_votes_among_the_lanes_of_a_branch(way: Way) -> None:
    x = np.arange(64, dtype=np.int32) % 8
    x[32:] = 6
    out = zeros((64, 7), "i8")
    run(votes, 1, 64, x, out, **way)
    for t in range(64):
        members = [k for k in range(t // 32 * 32, t // 32 * 32 + 32) if k % 3]
        if t % 3 == 0:
            assert not out[t].any()
            continue
        yes = [x[k] > 5 for k in members]
        ballot = sum(1 << k % 32 for k, on in zip(members, yes, strict=True) if on)
        same = sum(1 << k % 32 for k in members if x[k] == x[t])
        everybody = sum(1 << k % 32 for k in members)
        agree = len({int(x[k]) for k in members}) == 1
        wanted = [ballot, any(yes), all(yes), len(set(yes)) == 1, same, everybody if agree else 0, agree]
        assert (out[t].astype(np.uint32) == np.array(wanted, np.uint32)).all(), t


@cuda.jit
def who_is_here(out):
    t = cuda.threadIdx.x
    if t < 20:
        out[t] = cuda.activemask()


@every_way
def test_activemask_names_lanes_that_are_there(way: Way) -> None:
    out = zeros(64, "u4")
    run(who_is_here, 1, 40, out, **way)
    assert (out[:20] == (1 << 20) - 1).all()
    assert not out[20:].any()
