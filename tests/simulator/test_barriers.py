"""Barriers that not everybody reaches: who waits, who is missing and where, which branch parted them; and deadlocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda, int32

from simulator import simulate
from simulator.findings import Finding
from simulator.machine import Fault
from tests.simulator.running import FIRST, LAST, VECTORS, WAVES, every_way, fault_of, line_of, lose_patience, zeros

Way = dict[str, Any]


def finding(
    kernel: Any, grid: Any, block: Any, *args: Any, kind: str = "barrier-divergence", **options: Any
) -> Finding:
    """The one finding of a kind; the others must be notes."""
    trace = simulate(kernel, check=True, **options)[grid, block](*args)
    (found,) = [one for one in trace.findings if one.kind == kind]
    assert all(one.severity != "error" for one in trace.findings if one is not found)
    return found


def clean(kernel: Any, grid: Any, block: Any, *args: Any) -> bool:
    return not [one for one in simulate(kernel, check=True)[grid, block](*args).findings if one.severity == "error"]


# -- messages -----------------------------------------------------------------------------------------------------


@cuda.jit
def in_a_branch(out):
    t = cuda.threadIdx.x
    if t < 40:  # two warps, the second in two halves
        cuda.syncthreads()
    out[t] = t


@cuda.jit
def before_the_branch(out):
    t = cuda.threadIdx.x
    cuda.syncthreads()
    if t < 40:
        out[t] = t


def test_threads_that_pass_a_barrier_by() -> None:
    line, branch, past = (line_of(in_a_branch, text) for text in ("syncthreads", "if t", "out[t]"))
    found = finding(in_a_branch, 1, 64, zeros(64))
    assert found.message == (
        f"{__file__}:{line}: threads 0 to 39 (40 of them) of block 0 wait at syncthreads, but threads 40 to 63 (24 of "
        f"them) went past it and returned on line {past}; they parted on line {branch} (`if t < 40:`): threads 0 to 39 "
        f"(40 of them) went on to line {line}, threads 40 to 63 (24 of them) to line {past}"
    )
    assert (found.severity, found.lines, found.threads) == ("error", (line, past), (0, 40))
    assert clean(before_the_branch, 2, 64, zeros(64))


@cuda.jit
def one_on_each_side(out):
    t = cuda.threadIdx.x
    if t < 32:
        cuda.syncthreads()
        out[t] = 1
    else:
        cuda.syncthreads()
        out[t] = 2


@cuda.jit
def one_for_both_sides(out):
    t = cuda.threadIdx.x
    cuda.syncthreads()
    if t < 32:
        out[t] = 1
    else:
        out[t] = 2


@every_way
def test_barriers_on_two_lines_do_not_pair_up(way: Way) -> None:
    """Hardware counts arrivals and lets both warps pass; PTX promises it for one instruction that all execute."""
    fault = fault_of(one_on_each_side, 1, 64, zeros(64), **way)
    first, second = (line_of(one_on_each_side, "syncthreads", k) for k in range(2))
    assert fault.kind == "barrier-divergence"
    assert (fault.places[0].pos.line, fault.facts["waiting"]) == (first, tuple(range(32)))
    ((pos, does, threads),) = fault.facts["elsewhere"]
    assert (pos.line, does, threads) == (second, "syncthreads", tuple(range(32, 64)))
    parted = fault.facts["parted"]
    assert (parted.pos.line, parted.here_to, parted.there_to) == (first - 1, first, second)
    assert clean(one_for_both_sides, 1, 64, zeros(64))


@cuda.jit
def in_a_loop(count, out):
    t = cuda.threadIdx.x
    for k in range(count[t]):
        cuda.syncthreads()
        out[t] = k


@cuda.jit
def in_an_even_loop(count, out):
    t = cuda.threadIdx.x
    for k in range(count[0]):
        cuda.syncthreads()
        if k < count[t]:
            out[t] = k


def test_a_loop_that_some_leave_early() -> None:
    count = np.where(np.arange(64) < 40, 3, 2)
    line, branch = line_of(in_a_loop, "syncthreads"), line_of(in_a_loop, "for k")
    found = finding(in_a_loop, 1, 64, count, zeros(64))
    assert (
        "threads 0 to 39 (40 of them) of block 0 wait at syncthreads, but threads 40 to 63 (24 of them)"
        in found.message
    )
    assert f"they parted on line {branch} (`for k in range(count[t]):`)" in found.message
    assert found.lines[0] == line
    assert clean(in_an_even_loop, 1, 64, count, zeros(64))


@cuda.jit(device=True)
def _meet(t, out):
    cuda.syncthreads()
    out[t] = 1


@cuda.jit
def in_a_helper(out):
    t = cuda.threadIdx.x
    if t % 3:
        if t > 7:
            _meet(t, out)
    cuda.syncthreads()


def test_a_barrier_in_a_device_function() -> None:
    """The outermost branch at which somebody parted is told; its lines are those of the kernel."""
    found = finding(in_a_helper, 1, 32, zeros(32))
    call, outer = line_of(in_a_helper, "_meet"), line_of(in_a_helper, "if t % 3")
    assert found.message.startswith(f"{__file__}:{line_of(_meet, 'sync')} (called from line {call}): threads 8, 10, 11")
    assert f"they parted on line {outer} (`if t % 3:`)" in found.message
    assert f"threads 0, 3, 6, 9, … (11 of them) to line {line_of(in_a_helper, 'cuda.syncthreads()')}" in found.message


@cuda.jit
def masked_by_numbers(first, second, out):
    t = cuda.threadIdx.x
    if first[t]:
        out[t] = 1
        if second[t]:
            cuda.syncthreads()
    out[t] += 1


flags = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=70)


@settings(deadline=None, max_examples=25)
@given(flags)
def test_who_is_missing_is_exact(chosen: list[tuple[bool, bool]]) -> None:
    first, second = (np.array(column) for column in zip(*chosen, strict=True))
    threads = range(len(chosen))
    waiting = tuple(t for t in threads if first[t] and second[t])
    outer, inner = (line_of(masked_by_numbers, text) for text in ("if first", "if second"))
    for way in (WAVES, VECTORS, FIRST, LAST):
        args = (masked_by_numbers, 1, len(chosen), first, second, zeros(len(chosen)))
        if len(waiting) in (0, len(chosen)):
            assert clean(*args)
            continue
        fault: Fault = fault_of(*args, **way)
        assert fault.facts["waiting"] == waiting
        assert fault.facts["missing"] == tuple(t for t in threads if t not in waiting)
        parted = fault.facts["parted"]
        gone = tuple(t for t in threads if not first[t]) or fault.facts["missing"]
        assert (parted.pos.line, parted.here, parted.there) == (inner if first.all() else outer, waiting, gone)


# -- early returns ------------------------------------------------------------------------------------------------


@cuda.jit
def returns_early(x, out):
    t = cuda.threadIdx.x
    if t >= x.size:
        return
    out[t] = x[t]
    cuda.syncthreads()
    out[t] += 1
    cuda.syncthreads()


@pytest.mark.parametrize("threads", [40, 41, 64])
def test_an_early_return_is_a_note(threads: int) -> None:
    x, out = np.arange(40), zeros(40)
    trace = simulate(returns_early, check=True)[3, threads](x, out)
    notes = [one for one in trace.findings if one.kind == "exited-before-barrier"]
    assert [one.lines for one in notes] == (
        [(line_of(returns_early, "syncthreads", k), line_of(returns_early, "return", 1)) for k in range(2)]
        if threads > 40
        else []
    )
    if notes:
        gone = "thread 40 has" if threads == 41 else "threads 40 to 63 (24 of them) have"
        assert notes[0].message == (
            f"{__file__}:{notes[0].lines[0]}: threads 0 to 39 (40 of them) of block 0 pass syncthreads without the "
            f"others: {gone} returned on line {notes[0].lines[1]}"
        )
    assert {one.severity for one in notes} <= {"note"}


# -- waiting for ever ---------------------------------------------------------------------------------------------


@cuda.jit
def flag_behind_a_barrier(flag, out):
    t = cuda.threadIdx.x
    if t == 40:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
    cuda.syncthreads()
    if t == 0:
        cuda.atomic.add(flag, 0, 1)
    out[t] = 1


@cuda.jit
def flag_before_the_barrier(flag, out):
    t = cuda.threadIdx.x
    if t == 0:
        cuda.atomic.add(flag, 0, 1)
    if t == 40:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
    cuda.syncthreads()
    out[t] = 1


def test_a_deadlock_says_who_waits_where(monkeypatch: pytest.MonkeyPatch) -> None:
    lose_patience(monkeypatch)
    found = finding(flag_behind_a_barrier, 1, 64, zeros(1, "i4"), zeros(64), kind="deadlock", max_steps=4_000)
    barrier, spin = line_of(flag_behind_a_barrier, "syncthreads"), line_of(flag_behind_a_barrier, "while")
    assert found.severity == "error"
    assert "thread 40 of block 0 goes round a loop in which nothing changes any more" in found.message
    assert f"threads 0, 1, 2, 3, … (63 of them) wait at syncthreads on line {barrier}" in found.message
    assert found.lines[0] in (spin, spin + 1) and barrier in found.lines
    assert clean(flag_before_the_barrier, 1, 64, zeros(1, "i4"), zeros(64))


@cuda.jit
def two_locks(locks, out):
    t = cuda.threadIdx.x
    mine, other = t // 32, 1 - t // 32
    if t % 32 == 0:
        while cuda.atomic.cas(locks, mine, 0, 1) != 0:
            pass
        cuda.syncwarp(1)
        while cuda.atomic.add(locks, other, 0) == 0:
            pass
        while cuda.atomic.cas(locks, other, 0, 1) != 0:
            pass
        out[mine] = int32(1)


def test_two_warps_that_hold_a_lock_each(monkeypatch: pytest.MonkeyPatch) -> None:
    lose_patience(monkeypatch)
    found = finding(two_locks, 1, 64, zeros(2, "i4"), zeros(2, "i4"), kind="deadlock", max_steps=4_000)
    assert set(found.threads) == {0, 32}
    spins = {line_of(two_locks, "while", 2), line_of(two_locks, "while", 2) + 1}
    assert set(found.lines) <= spins
    assert "are running on line" in found.message or "is running on line" in found.message
