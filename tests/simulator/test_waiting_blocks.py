"""Blocks that wait for each other: more of them than a scheduler runs at once, or than a sample has."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda

from simulator import SimulationError, device, simulate
from simulator.frontend import lower_kernel
from simulator.observers.races.mends import roles
from simulator.observers.races.mends.roles import waits
from simulator.runs import agreement, together
from tests.simulator.running import zeros
from tests.simulator.waiting import grid_barrier, look_back

pytestmark = pytest.mark.filterwarnings("ignore::numba.cuda.core.errors.NumbaPerformanceWarning")
ORDERS = ("waves", "first", "last", "round-robin", "random")


@pytest.mark.parametrize("order", ORDERS)
def test_a_grid_barrier_of_more_blocks_than_run_at_once(order: str) -> None:
    size = 40 * 64
    x, y = zeros(size, "i4"), zeros(size, "i4")
    trace = simulate(grid_barrier, check=True, orders=(order,))[40, 64](zeros(1, "i4"), x, y)
    assert not trace.findings
    assert (y == np.roll(np.arange(size), -64)).all()


def test_more_than_a_wave_has(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 70 * 256  # a wave has 16,384 lanes
    for run in (simulate(grid_barrier), simulate(grid_barrier, check=True, orders=("waves",))):
        x, y = zeros(size, "i4"), zeros(size, "i4")
        run[70, 256](zeros(1, "i4"), x, y)
        assert (y == np.roll(np.arange(size), -256)).all()
    with device():  # for its results alone
        y = zeros(size, "i4")
        grid_barrier[70, 256](zeros(1, "i4"), zeros(size, "i4"), y)
        assert (y == np.roll(np.arange(size), -256)).all()
    monkeypatch.setattr(together, "THREADS_TOGETHER", 1000)  # a card that does not hold them
    with pytest.raises(SimulationError, match="can only come from a block that does not run together"):
        simulate(grid_barrier)[70, 256](zeros(1, "i4"), zeros(size, "i4"), zeros(size, "i4"))


def test_memory_begins_anew_when_they_run_again() -> None:
    count = zeros(1, "i4")
    simulate(grid_barrier, orders=("first",))[40, 64](count, zeros(40 * 64, "i4"), zeros(40 * 64, "i4"))
    assert count[0] == 40


@cuda.jit
def says_so_and_waits(arrived):
    if cuda.threadIdx.x == 0:
        print("block", cuda.blockIdx.x)
        cuda.atomic.add(arrived, 0, 1)
        while cuda.atomic.add(arrived, 0, 0) < cuda.gridDim.x:
            pass


@pytest.mark.parametrize("plainly", [False, True])
def test_what_they_print_is_printed_once(plainly: bool, capsys: pytest.CaptureFixture[str]) -> None:
    if plainly:
        with device():
            says_so_and_waits[70, 256](cuda.to_device(zeros(1, "i4")))
    else:
        simulate(says_so_and_waits, orders=("first",))[40, 64](zeros(1, "i4"))
    blocks = 70 if plainly else 40
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(f"block {number}" for number in range(blocks))


def test_a_sample_whose_blocks_wait_for_others_is_no_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "REQUESTS", 400)
    total = zeros(100, "i4")
    trace = simulate(look_back, check=True)[100, 32](zeros(100, "i4"), total)
    assert (total == np.cumsum(np.arange(100))).all()
    assert not trace.findings
    assert all(order.endswith("stopped where it waits for blocks that do not run") for order in trace.orders[1:])


@cuda.jit
def no_loop(x):
    x[cuda.grid(1)] += 1


def test_only_programs_that_wait_pay_for_a_copy() -> None:
    assert waits(lower_kernel(grid_barrier, (zeros(1, "i4"), zeros(4, "i4"), zeros(4, "i4"))))
    assert waits(lower_kernel(look_back, (zeros(4, "i4"), zeros(4, "i4"))))
    assert not waits(lower_kernel(no_loop, (zeros(4, "i4"),)))


def test_whether_a_program_waits_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(roles, "spins", lambda program, op: asked.append(op) or False)
    run = simulate(no_loop)[64, 64]
    run(zeros(64 * 64, "i4"))
    run(zeros(64 * 64, "i4"))
    assert len(asked) == len(set(asked)) <= 1  # one load


# -- each launch has its own deadlock --------------------------------------------------------------------------------


@cuda.jit
def waits_at_one_of_two(flag, which):
    if which[0] == 0:
        while flag[0] == 0:
            pass
    else:
        while flag[1] == 0:
            pass


def test_deadlocks_of_two_launches_are_two() -> None:
    with device(check=True) as gpu:
        for which in (0, 1):
            waits_at_one_of_two[1, 32](zeros(2, "i4"), np.array([which], "i4"))
    assert [finding.kind for finding in gpu.findings] == ["deadlock", "deadlock"]
    assert len({finding.lines for finding in gpu.findings}) == 2


# -- a proof ends no other order -------------------------------------------------------------------------------------


@cuda.jit
def wrong_where_it_does_not_hang(flag, x):
    t = cuda.threadIdx.x
    if t == 32:
        if flag[0] == 0:  # this warp came first
            while flag[1] == 0:
                pass
        else:
            x[99] = 1
    if t == 0:
        flag[0] = 1


def test_orders_that_do_not_hang_are_heard() -> None:
    hangs = simulate(wrong_where_it_does_not_hang, check=True, orders=("last",))[1, 64](zeros(2, "i4"), zeros(4, "i4"))
    assert {one.kind for one in hangs.findings} >= {"deadlock"}
    trace = simulate(wrong_where_it_does_not_hang, check=True)[1, 64](zeros(2, "i4"), zeros(4, "i4"))
    assert {"deadlock", "out-of-bounds", "race-global"} <= {one.kind for one in trace.findings}
    assert len(trace.orders) == 5
