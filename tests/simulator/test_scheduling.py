"""Who goes on, who waits, who is handed over: decisions of the schedulers that a right result can hide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import cuda, int32

from simulator import SimulationError, simulate
from simulator.frontend import lower_kernel
from simulator.machine import launch
from simulator.machine.observer import Observer
from tests.simulator.running import every_way, run, shape, zeros

Way = dict[str, Any]


class WarpOperations(Observer):
    """Counts the warp operations that each lane of one warp takes part in."""

    def __init__(self) -> None:
        self.counts = np.zeros(32, int)

    def warp(self, split: Any, op: Any) -> None:
        self.counts += split.active()[0]


@cuda.jit
def two_meetings(x):
    """The second one stands at the entry of a block, where lanes that come from the first must not be taken to be."""
    t = cuda.threadIdx.x
    if t < 16:
        cuda.syncwarp()
    cuda.syncwarp()
    x[t] = 1


@every_way
def test_no_lane_skips_a_warp_operation(way: Way) -> None:
    seen = WarpOperations()
    x = zeros(32)
    launch(lower_kernel(two_meetings, (x,)), shape(1), shape(32), (x,), observers=(seen,), **way)
    assert seen.counts.tolist() == [2] * 16 + [1] * 16


@cuda.jit
def spins_by_two_ways(lock, count, spins):
    t = cuda.threadIdx.x
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        if t % 2 == 0:
            spins[t] += 1
        else:
            spins[t] += 2
    count[0] += 1
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


@pytest.mark.parametrize("order", ["waves", "first", "last", 1])
def test_a_lock_with_a_branch_in_its_loop(order: Any) -> None:
    count = zeros(1, "i4")
    trace = simulate(spins_by_two_ways, orders=(order,))[1, 8](zeros(1, "i4"), count, zeros(8, "i4"))
    assert count[0] == 8 and not trace.findings


def test_a_trace_says_when_a_wave_was_handed_over() -> None:
    trace = simulate(spins_by_two_ways)[1, 8](zeros(1, "i4"), zeros(1, "i4"), zeros(8, "i4"))
    assert trace.schedule == "waves, 1 block finished as splits"
    assert simulate(ends_with_a_barrier)[1, 32](zeros(32, "i4")).schedule == "waves"


@cuda.jit
def long_honest_loop(n, x):
    """Lanes that are through wait for one that computes on without reading memory: nobody starves."""
    t = cuda.threadIdx.x
    value = 0
    for i in range(n[t]):
        value = (value * 3 + i) % 1000
    x[t] = value


def test_computing_is_not_spinning(monkeypatch: pytest.MonkeyPatch) -> None:
    import simulator.machine.waves

    monkeypatch.setattr(simulator.machine.waves, "PATIENCE", 50)
    n = np.where(np.arange(32) == 5, 200, 3)
    trace = simulate(long_honest_loop)[1, 32](n, zeros(32))
    assert trace.schedule == "waves" and trace.total("x").requests == 1


@cuda.jit
def returns_from_the_loop(x, n):
    t = cuda.threadIdx.x
    for _ in range(n):
        if t >= 64:
            return
        cuda.syncthreads()
        x[t] += 1


@every_way
def test_an_early_return_inside_a_loop_with_a_barrier(way: Way) -> None:
    x = zeros(96)
    run(returns_from_the_loop, 1, 96, x, 3, **way)
    assert x.tolist() == [3] * 64 + [0] * 32


@cuda.jit
def where_am_i(out):
    t = cuda.threadIdx
    linear = (t.z * cuda.blockDim.y + t.y) * cuda.blockDim.x + t.x
    out[linear, 0], out[linear, 1], out[linear, 2] = t.x, t.y, t.z


@every_way
@pytest.mark.parametrize("block", [(32, 4, 2), (16, 4, 4), (64, 2, 2), (8, 2, 3), (32, 1, 5), (1, 33, 2)])
def test_threads_of_three_dimensional_blocks(block: tuple[int, int, int], way: Way) -> None:
    x, y, z = block
    out = zeros((x * y * z, 3))
    run(where_am_i, 1, block, out, **way)
    expected = np.stack(np.unravel_index(np.arange(x * y * z), (z, y, x))[::-1], axis=1)
    np.testing.assert_array_equal(out, expected)


@cuda.jit
def never_ends(x):
    t = cuda.threadIdx.x
    while x[0] == 0:
        if t >= 40:
            break
    cuda.syncthreads()
    x[t] = 1


@pytest.mark.parametrize("order", ["waves", "first", "last", 1])
def test_a_loop_that_never_ends_names_its_line_and_threads(order: Any) -> None:
    with pytest.raises(SimulationError, match="never end") as caught:
        simulate(never_ends, orders=(order,), max_steps=30_000)[2, 64](zeros(64, "i4"))
    (finding,) = caught.value.findings
    site = finding.sites[0]
    line = never_ends.py_func.__code__.co_firstlineno + 3
    assert finding.kind == "deadlock" and site.line in (line, line + 1)
    assert site.block in (0, 1)
    assert finding.threads


@cuda.jit(device=True)
def own(value, lane):
    moved = cuda.shfl_sync(0xFFFFFFFF, value, lane)  # a name to watch
    return moved  # noqa: RET504


@cuda.jit
def shuffles_in_the_test_of_a_loop(x, out):
    t = cuda.threadIdx.x
    value = x[t]
    rounds = 2 if t < 16 else 1
    for _ in range(3):
        i = 0
        while own(value, t) >= 0 and i < rounds:
            value += 1
            i += 1
    out[t] = value


@pytest.mark.parametrize("order", ["waves", "first", "last", 1])
def test_copies_of_an_operation_show_watched_values_and_lineage(order: Any) -> None:
    x = np.arange(32, dtype=np.int64)
    watched = simulate(shuffles_in_the_test_of_a_loop, orders=(order,), watch="moved")[1, 32](x, zeros(32))
    assert watched.thread(16).values("moved") == [16, 17, 17, 18, 18, 19]
    assert watched.thread(0).values("moved") == [0, 1, 2, 2, 3, 4, 4, 5, 6]
    traced = simulate(shuffles_in_the_test_of_a_loop, orders=(order,), lineage=True)[1, 32](x, zeros(32))
    assert all(traced.sources("out", lane) == {("x", lane)} for lane in range(32))


@cuda.jit
def ends_with_a_barrier(x):
    x[cuda.grid(1)] += int32(1)
    cuda.syncthreads()


@cuda.jit
def two_ways_to_end(x):
    t = cuda.threadIdx.x
    if t < 16:
        x[t] = 1
        cuda.syncwarp()
        return
    x[t] = 2
    cuda.syncwarp()


@every_way
def test_a_kernel_may_end_with_a_synchronising_operation(way: Way) -> None:
    x, y = zeros(128, "i4"), zeros(32)
    run(ends_with_a_barrier, 2, 64, x, **way)
    run(two_ways_to_end, 1, 32, y, **way)
    assert x.tolist() == [1] * 128 and y.tolist() == [1] * 16 + [2] * 16
