"""Barriers of the whole grid: all blocks alive at once, and what is said when one never comes."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda, int32

from simulator import simulate
from simulator.errors import SimulationError
from simulator.frontend import lower_kernel
from simulator.machine import launch
from simulator.machine.observer import Observer
from tests.simulator.running import WAYS, every_way, fault_of, line_of, run, shape, zeros


@cuda.jit
def rows_in_sequence(m):
    """Each row is computed from the row before, mirrored: by another block, unless the block is in the middle."""
    c = cuda.grid(1)
    g = cuda.cg.this_grid()
    for r in range(1, m.shape[0]):
        m[r, c] = m[r - 1, m.shape[1] - 1 - c] + c
        g.sync()


def sequence(rows: int, columns: int) -> np.ndarray:
    m = zeros((rows, columns))
    for r in range(1, rows):
        m[r] = m[r - 1, ::-1] + np.arange(columns)
    return m


@every_way
@pytest.mark.parametrize(("grid", "block"), [(4, 32), (3, 33), (1, 64), (7, 5)])
def test_blocks_see_what_others_wrote(grid, block, way):
    m = zeros((6, grid * block))
    run(rows_in_sequence, grid, block, m, **way)
    assert (m == sequence(6, grid * block)).all()


@cuda.jit
def total_of_all(x, total, y):
    tile = cuda.shared.array(64, int32)
    mine = cuda.local.array(2, int32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    if i < x.size:
        cuda.atomic.add(total, 0, x[i])
    tile[t] = i
    mine[t % 2] = i
    cuda.cg.this_grid().sync()
    if i < x.size:
        y[i] = total[0] - x[i] + tile[t] - mine[t % 2]


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 6), st.integers(1, 64), st.sampled_from(range(len(WAYS))))
def test_any_grid(grid, block, way):
    """Shared and local memory of each block are its own, though all live at once."""
    x = np.arange(grid * block - block // 2)
    y = zeros(x.size)
    run(total_of_all, grid, block, x, zeros(1), y, **WAYS[way])
    assert (y == x.sum() - x).all()


@cuda.jit
def returns_early(x, y):
    i = cuda.grid(1)
    if i >= x.size:
        return
    x[i] = i
    cuda.cg.this_grid().sync()
    y[i] = x[x.size - 1 - i]


@every_way
def test_threads_that_return_early_hold_nobody_up(way):
    x, y = zeros(51), zeros(51)
    run(returns_early, 2, 32, x, y, **way)
    assert y.tolist() == list(range(50, -1, -1))


@every_way
def test_a_block_that_has_returned_is_waited_for(way):
    fault = fault_of(returns_early, 4, 32, zeros(40), zeros(40), **way)
    assert fault.kind == "deadlock"
    assert fault.places[0].pos.line == line_of(returns_early, "sync()")
    assert (fault.facts["waiting"], fault.facts["gone"], fault.facts["whole"]) == ((0, 1), (2, 3), True)


@cuda.jit
def without_thread_zero(x):
    if cuda.blockIdx.x == 1 and cuda.threadIdx.x == 0:
        return
    cuda.cg.this_grid().sync()
    x[cuda.grid(1)] = 1


@every_way
def test_thread_zero_reports_its_block(way):
    fault = fault_of(without_thread_zero, 3, 32, zeros(96), **way)
    assert (fault.kind, fault.facts["gone"], fault.facts["whole"]) == ("deadlock", (1,), False)


@cuda.jit
def two_barriers(x):
    g = cuda.cg.this_grid()
    if cuda.blockIdx.x == 2:
        g.sync()
    else:
        x[cuda.grid(1)] = 1
        g.sync()  # another one


@every_way
def test_blocks_at_different_barriers(way):
    fault = fault_of(two_barriers, 4, 32, zeros(128), **way)
    assert fault.kind == "barrier-divergence"
    lines = {line_of(two_barriers, "g.sync()"), line_of(two_barriers, "another one")}
    assert {fault.places[0].pos.line, *(pos.line for pos, *_ in fault.facts["elsewhere"])} == lines
    elsewhere = {block for *_, block, _ in fault.facts["elsewhere"]}
    assert {*fault.facts["waiting"]} | elsewhere == {0, 1, 2, 3}


@cuda.jit
def block_barrier_instead(x):
    if cuda.blockIdx.x == 0 and cuda.threadIdx.x < 16:
        cuda.syncthreads()
    else:
        cuda.cg.this_grid().sync()
    x[0] = 1


@every_way
def test_a_barrier_of_the_block_is_not_one_of_the_grid(way):
    fault = fault_of(block_barrier_instead, 2, 32, zeros(1), **way)
    assert fault.kind == "barrier-divergence"


@cuda.jit
def both_kinds(x, y):
    tile = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    for k in range(3):
        tile[t] = i + k
        cuda.syncthreads()
        x[i] = tile[31 - t]
        cuda.cg.this_grid().sync()
        y[i] += x[(i + 32) % x.size]
        cuda.cg.this_grid().sync()


@every_way
def test_barriers_of_blocks_and_of_the_grid(way):
    x, y = zeros(96), zeros(96)
    run(both_kinds, 3, 32, x, y, **way)
    i = (np.arange(96) + 32) % 96
    assert (y == 3 * (i // 32 * 32 + 31 - i % 32) + 3).all()


@cuda.jit
def spins_across_blocks(flag, y):
    """Block 0 waits for the last block without a barrier: all blocks of a grid with a barrier are alive."""
    g = cuda.cg.this_grid()
    if cuda.blockIdx.x == cuda.gridDim.x - 1:
        cuda.atomic.exch(flag, 0, 1)
    if cuda.blockIdx.x == 0:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
    g.sync()
    y[cuda.grid(1)] = flag[0]


@every_way
def test_all_blocks_are_alive(way):
    y = zeros(50 * 32)
    run(spins_across_blocks, 50, 32, zeros(1), y, **way)
    assert (y == 1).all()


def test_every_block_passes_each_barrier_once():
    class Passed(Observer):
        def __init__(self):
            self.lanes = np.zeros(96, int)

        def barrier(self, split, op):
            lanes = split.lanes
            blocks = np.arange(lanes.first_block, lanes.first_block + lanes.nb)[:, None]
            threads = np.arange(lanes.first_thread, lanes.first_thread + lanes.P)
            self.lanes[(32 * blocks + threads)[split.active()]] += op.attr["scope"] == "grid"

    for way in WAYS:
        seen = Passed()
        m = zeros((5, 96))
        launch(lower_kernel(rows_in_sequence, (m,)), shape(3), shape(32), (m,), observers=(seen,), **way)
        assert (seen.lanes == 4).all()


@pytest.mark.parametrize(("grid", "block"), [(5000, 32), (400, 1024)])
def test_more_blocks_than_a_card_holds(grid, block):
    @cuda.jit
    def kernel(x):
        cuda.cg.this_grid().sync()
        x[0] = 1

    with pytest.raises(SimulationError, match="no card runs more") as caught:
        simulate(kernel)[grid, block](zeros(1))
    assert caught.value.findings[0].kind == "launch-limit"


def test_more_memory_than_the_simulator_holds(monkeypatch):
    monkeypatch.setattr(importlib.import_module("simulator.machine.launch"), "WINDOWS", 1000)
    with pytest.raises(SimulationError, match="the simulator holds at most 1000 at once"):
        simulate(total_of_all)[3, 64](np.arange(192), zeros(1), zeros(192))


def test_only_kernels_that_ask_for_the_grid_are_cooperative():
    def asks(x):
        cuda.cg.this_grid()
        x[0] = 1

    def does_not(x):
        x[0] = 1

    assert lower_kernel(asks, (zeros(1),)).cooperative
    assert not lower_kernel(does_not, (zeros(1),)).cooperative


MESSAGES = [
    (returns_early, (4, 32), (zeros(40), zeros(40)), "0, 1 wait at grid.sync for ever: blocks 2, 3 have returned"),
    (without_thread_zero, (3, 32), (zeros(96),), "thread 0 of block 1 has returned, and it is thread 0 that tells"),
    (two_barriers, (4, 32), (zeros(128),), "wait at grid.sync on line"),
]


@pytest.mark.parametrize(("kernel", "launched", "args", "words"), MESSAGES, ids=["gone", "thread 0", "different"])
def test_messages_name_the_blocks(kernel, launched, args, words):
    with pytest.raises(SimulationError) as caught:
        simulate(kernel)[launched](*args)
    (finding,) = caught.value.findings
    assert words in finding.message
    assert finding.mend
