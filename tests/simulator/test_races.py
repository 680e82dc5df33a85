"""Races: what orders two accesses and what does not, whoever happens to run first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda, float32, int32

from simulator.catalogue import finding_of
from simulator.findings import Finding, Launch
from simulator.frontend import lower_kernel
from simulator.machine import launch
from simulator.observers.races import Races
from tests.simulator.running import FIRST, LAST, RANDOM, VECTORS, WAVES, every_way, line_of, shape, zeros

Way = dict[str, Any]
ROUND: Way = {"schedule": "splits", "order": "round-robin"}


def races(kernel: Any, grid: Any, block: Any, *args: Any, **way: Any) -> list[Finding]:
    """What the detector finds in one run."""
    detector = Races()
    launch(lower_kernel(kernel, args), shape(grid), shape(block), args, observers=(detector,), **way)
    told = Launch(shape(grid), shape(block))
    return [finding_of(fault, kernel.__name__, told) for fault in detector.faults()]


def pairs(found: list[Finding]) -> set[tuple[str, str, tuple[int, ...]]]:
    return {(finding.kind, finding.array, tuple(site.line for site in finding.sites)) for finding in found}


# -- barriers -----------------------------------------------------------------------------------------------------


@cuda.jit
def reversed_without_barrier(x, out):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    out[cuda.grid(1)] = tile[63 - t]


@every_way
def test_a_missing_barrier_names_both_lines_threads_and_the_mend(way: Way) -> None:
    found = races(reversed_without_barrier, 2, 64, zeros(64, "f4"), zeros(128, "f4"), **way)
    store, load = line_of(reversed_without_barrier, "tile[t] ="), line_of(reversed_without_barrier, "= tile[63")
    assert pairs(found) == {("race-shared", "tile", (store, load))}
    (finding,) = found
    one, two = finding.sites
    assert (one.access, two.access) == ("st", "ld") and one.block == two.block
    assert one.thread is not None and two.thread == 63 - one.thread and finding.element == (one.thread,)
    assert finding.count == 128
    assert finding.mend == f"put cuda.syncthreads() between line {store} and line {load}"
    for words in (f"thread {one.thread} of block {one.block} writes tile[{one.thread}]", f"reads it on line {load}"):
        assert words in finding.message


@cuda.jit
def tile_filled_again(x, out):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for k in range(3):
        tile[t] = x[64 * k + t]
        cuda.syncthreads()
        total += tile[63 - t]
    out[t] = total


@pytest.mark.parametrize("way", [WAVES, FIRST, LAST, ROUND, *RANDOM])
def test_a_barrier_missing_at_the_end_of_a_loop(way: Way) -> None:
    (finding,) = races(tile_filled_again, 1, 64, zeros(192, "f4"), zeros(64, "f4"), **way)
    store, load = line_of(tile_filled_again, "tile[t] ="), line_of(tile_filled_again, "+= tile")
    assert finding.lines == (store, load)
    assert finding.mend == f"put cuda.syncthreads() after line {load}, before line {store} runs again"


@cuda.jit
def tree(x, out):
    tile = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    tile[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    half = 128
    while half > 0:
        if t < half:
            tile[t] += tile[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = tile[0]


@every_way
def test_a_tree_with_its_barriers_is_clean(way: Way) -> None:
    assert not races(tree, 3, 256, zeros(768, "f4"), zeros(3, "f4"), **way)


# -- one instruction, one value -----------------------------------------------------------------------------------


@cuda.jit
def all_store(flag, value, out, shared_value):
    total = cuda.shared.array(1, int32)
    total[0] = shared_value[0]
    flag[0] = value[cuda.grid(1)]
    cuda.syncthreads()
    out[cuda.grid(1)] = total[0]


@every_way
def test_stores_of_one_value_are_told_apart(way: Way) -> None:
    def found(value: np.ndarray) -> set[Any]:
        return pairs(races(all_store, 2, 64, zeros(1, "i4"), value, zeros(128, "i4"), zeros(1, "i4"), **way))

    assert found(np.full(128, 7, "i4")) == set()
    line = line_of(all_store, "flag[0] =")
    assert found(np.arange(128, dtype="i4")) == {("race-global", "flag", (line, line))}
    assert found(np.repeat(np.arange(2, dtype="i4"), 64)) == {("race-global", "flag", (line, line))}


@cuda.jit
def updates(count, atomically):
    t = cuda.threadIdx.x
    if t % 2 == 0 or atomically[0]:
        cuda.atomic.add(count, 0, 1)
    else:
        count[0] += 1


@every_way
def test_atomics_race_with_plain_accesses_only(way: Way) -> None:
    assert not races(updates, 2, 64, zeros(1, "i4"), np.ones(1, "i4"), **way)
    found = races(updates, 1, 64, zeros(1, "i4"), np.zeros(1, "i4"), **way)
    atomic, plain = line_of(updates, "atomic.add"), line_of(updates, "+= 1")
    assert ("race-global", "count", (atomic, plain)) in pairs(found)
    assert "use an atomic on both sides" in next(f.mend for f in found if f.lines == (atomic, plain))


# -- warps --------------------------------------------------------------------------------------------------------


@cuda.jit
def neighbours(x, out, how):
    tile = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    mode = how[0]
    if mode == 1:
        cuda.syncwarp()
    elif mode == 2:
        cuda.shfl_sync(0xFFFFFFFF, t, 0)
    elif mode == 3:
        cuda.any_sync(0xFFFFFFFF, t > 0)
    elif mode == 4:
        cuda.syncwarp(0xFFFF if t % 32 < 16 else 0xFFFF0000)
    out[t] = tile[t ^ how[1]]


@every_way
@pytest.mark.parametrize(
    ("mode", "step", "racing"),
    [
        (0, 1, True),
        (1, 1, False),
        (2, 16, False),
        (3, 31, False),
        (1, 32, True),
        (4, 8, False),
        (4, 16, True),
        (0, 0, False),
    ],
)
def test_warp_operations_order_their_lanes(mode: int, step: int, racing: bool, way: Way) -> None:
    found = races(neighbours, 1, 64, np.arange(64, dtype="i4"), zeros(64, "i4"), np.array([mode, step], "i4"), **way)
    store, load = line_of(neighbours, "tile[t] ="), line_of(neighbours, "= tile[t ^")
    assert pairs(found) == ({("race-shared", "tile", (store, load))} if racing else set())


@cuda.jit
def half_a_warp(x, out):
    tile = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    if t < 16:
        cuda.syncwarp(0xFFFF)
        out[t] = tile[15 - t]
    cuda.syncwarp()
    out[t] += tile[31 - t]


@every_way
def test_part_of_a_warp_meets(way: Way) -> None:
    assert not races(half_a_warp, 1, 32, np.arange(32, dtype="i4"), zeros(32, "i4"), **way)


# -- every pattern of a store and a load, against counting pairs ---------------------------------------------------


@cuda.jit
def by_tables(to, source, out, order):
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    tile = cuda.shared.array(96, int32)
    if to[i] >= 0:
        tile[to[i]] = i
    if order[0] == 1:
        cuda.syncwarp()
    elif order[0] == 2:
        cuda.syncthreads()
    if source[i] >= 0:
        out[i] = tile[source[i]]
    out[i] += t


def expected(to: np.ndarray, source: np.ndarray, order: int, threads: int) -> tuple[bool, bool]:
    """Whether two stores race and whether a store and a load do, pair by pair."""
    both = load = False
    for a in range(len(to)):
        for b in range(len(to)):
            if a == b or a // threads != b // threads or to[a] < 0:
                continue
            both |= bool(to[a] == to[b])
            ordered = order == 2 or (order == 1 and a % threads // 32 == b % threads // 32)
            load |= bool(to[a] == source[b]) and not ordered
    return both, load


@settings(max_examples=25)
@given(data=st.data())
def test_races_are_exactly_the_unordered_pairs(data: st.DataObject) -> None:
    threads = data.draw(st.sampled_from([20, 32, 64, 96]))
    order = data.draw(st.integers(0, 2))
    numbers = np.random.default_rng(data.draw(st.integers(0, 1000)))

    def table() -> np.ndarray:
        kind = data.draw(st.sampled_from(["own", "shift", "few", "any"]))
        t = np.arange(2 * threads) % threads
        places = {"own": t, "shift": (t + 1) % threads, "few": t // 7, "any": numbers.integers(0, 96, 2 * threads)}[
            kind
        ]
        off = numbers.random(2 * threads) < data.draw(st.sampled_from([0, 0, 0.5, 0.97]))
        return np.where(off, -1, places).astype("i4")

    to, source = table(), table()
    way = data.draw(st.sampled_from([WAVES, VECTORS, FIRST, LAST, ROUND, *RANDOM]))
    found = races(by_tables, 2, threads, to, source, zeros(2 * threads, "i4"), np.array([order], "i4"), **way)
    store, load = line_of(by_tables, "] = i"), line_of(by_tables, "= tile")
    told = pairs(found)
    assert (
        ("race-shared", "tile", (store, store)) in told,
        ("race-shared", "tile", (store, load)) in told,
    ) == expected(to, source, order, threads)


# -- bytes --------------------------------------------------------------------------------------------------------


@cuda.jit
def two_views(words, octets, out):
    t = cuda.threadIdx.x
    if t < 8:
        words[t] = t
    elif t < 12:
        out[t] = octets[4 * (t - 8) + 3]
    else:
        octets[32 + t] = t


@pytest.mark.parametrize("way", [WAVES, FIRST, LAST, *RANDOM])
def test_bytes_count_not_elements(way: Way) -> None:
    memory = np.zeros(64, "u1")
    found = races(two_views, 1, 16, memory[:32].view("i4"), memory, zeros(16, "i4"), **way)
    (finding,) = found
    assert finding.lines == (line_of(two_views, "words[t] ="), line_of(two_views, "= octets"))
    writer, reader = finding.threads
    assert reader == writer + 8  # the last byte of each word


# -- blocks -------------------------------------------------------------------------------------------------------


@cuda.jit
def scratch_of_all_blocks(x, scratch, out):
    t, i = cuda.threadIdx.x, cuda.grid(1)
    scratch[t] = x[i]
    out[i] = scratch[t]


@every_way
def test_blocks_share_global_memory(way: Way) -> None:
    found = races(scratch_of_all_blocks, 4, 32, np.arange(128), zeros(32), zeros(128), **way)
    store, load = line_of(scratch_of_all_blocks, "scratch[t] ="), line_of(scratch_of_all_blocks, "= scratch")
    assert pairs(found) <= {("race-global", "scratch", (store, store)), ("race-global", "scratch", (store, load))}
    assert found and all(a.block != b.block for a, b in (finding.sites for finding in found))
    assert not races(scratch_of_all_blocks, 1, 32, np.arange(32), zeros(32), zeros(32), **way)


@cuda.jit
def weights_read_by_all(w, x, out):
    i = cuda.grid(1)
    out[i] = w[cuda.threadIdx.x] + x[0]
    if i == 0:
        x[0] = 5


@every_way
def test_a_store_after_everybody_has_read(way: Way) -> None:
    (finding,) = races(weights_read_by_all, 3, 64, np.arange(64), zeros(1), zeros(192), **way)
    assert finding.array == "x" and finding.lines == (
        line_of(weights_read_by_all, "+ x[0]"), line_of(weights_read_by_all, "x[0] = 5")
    )  # fmt: skip
    assert not races(weights_read_by_all, 1, 1, np.arange(64), zeros(1), zeros(192), **way)


@cuda.jit
def shifted(x, y):
    i = cuda.grid(1)
    if i + 1 < x.size:
        y[i] = x[i + 1]


@every_way
def test_memory_with_two_names_is_told_by_that_of_the_first_site(way: Way) -> None:
    x = zeros(100)
    (finding,) = races(shifted, 2, 64, x, x, **way)
    assert finding.array == "x" and "reads x[" in finding.message and "writes it on the same line" in finding.message
    assert finding.mend == "write to another array"


# -- atomics that order -------------------------------------------------------------------------------------------


@cuda.jit
def last_block_adds_up(x, partial, ticket, out, fenced):
    last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        partial[cuda.blockIdx.x] = x[cuda.grid(1)]
        if fenced[0]:
            cuda.threadfence()
        last[0] = cuda.atomic.add(ticket, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0]:
        if t < cuda.gridDim.x:
            out[t] = partial[t]


@every_way
def test_the_last_block_may_read_what_a_fence_let_go_of(way: Way) -> None:
    def found(fenced: int) -> list[Finding]:
        args = (np.arange(640), zeros(10), zeros(1, "i4"), zeros(10), np.array([fenced], "i4"))
        return races(last_block_adds_up, 10, 64, *args, **way)

    assert not found(1)
    (finding,) = found(0)
    store, load = line_of(last_block_adds_up, "partial[cuda"), line_of(last_block_adds_up, "= partial[t]")
    assert finding.kind == "race-global" and finding.lines == (store, load)
    assert "cuda.threadfence() before the atomic" in finding.mend


@cuda.jit
def all_fence_and_one_counts(x, partial, ticket, out, how):
    last = cuda.shared.array(1, int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    if how[0] == 2:
        cuda.threadfence()
    partial[i] = x[i]
    if how[0] == 1:
        cuda.threadfence()
    if how[1] == 0:
        cuda.syncthreads()
    elif how[1] == 1:
        cuda.syncwarp()
    if t == 0:
        last[0] = cuda.atomic.add(ticket, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0]:
        for block in range(cuda.gridDim.x):
            out[block * 32 + 31 - t] = partial[block * 32 + t]


@every_way
@pytest.mark.parametrize(
    ("fence", "meeting", "racing"),
    [(1, 0, False), (1, 1, False), (1, 2, True), (2, 0, True), (0, 0, True)],
    ids=["barrier", "syncwarp", "no meeting", "fence too early", "no fence"],
)
def test_a_meeting_carries_fences_on(fence: int, meeting: int, racing: bool, way: Way) -> None:
    how = np.array([fence, meeting], "i4")
    args = (np.arange(96.0), zeros(96), zeros(1, "i4"), zeros(96), how)
    found = races(all_fence_and_one_counts, 3, 32, *args, **way)
    kernel = all_fence_and_one_counts
    store, load = line_of(kernel, "partial[i] ="), line_of(kernel, "= partial[block")
    assert pairs(found) == ({("race-global", "partial", (store, load))} if racing else set())


@cuda.jit
def locked(lock, count, fenced):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    count[0] += 1
    if fenced[0]:
        cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


@pytest.mark.parametrize("way", [WAVES, FIRST, LAST, ROUND, *RANDOM])
def test_a_spin_lock_orders_and_one_without_a_fence_does_not(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.machine.order.PATIENCE", 50)
    monkeypatch.setattr("simulator.machine.waves.PATIENCE", 200)
    count = zeros(1)
    assert not races(locked, 2, 40, zeros(1, "i4"), count, np.ones(1, "i4"), **way)
    assert count[0] == 80
    found = races(locked, 2, 40, zeros(1, "i4"), zeros(1), np.zeros(1, "i4"), **way)
    assert {finding.kind for finding in found} == {"race-global"}


@cuda.jit
def handed_on(data, flag, out, atomically):
    if cuda.blockIdx.x == 0:
        data[0] = 42
        cuda.threadfence()
        if atomically[0]:
            cuda.atomic.exch(flag, 0, 1)
        else:
            flag[0] = 1
    else:
        if atomically[0]:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
        else:
            while flag[0] == 0:
                pass
        out[0] = data[0]


@pytest.mark.parametrize("way", [WAVES, FIRST, LAST, ROUND, *RANDOM])
def test_a_flag_is_an_atomic_or_a_race(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.machine.order.PATIENCE", 50)
    monkeypatch.setattr("simulator.machine.waves.PATIENCE", 200)
    assert not races(handed_on, 2, 1, zeros(1), zeros(1, "i4"), zeros(1), np.ones(1, "i4"), **way)
    found = races(handed_on, 2, 1, zeros(1), zeros(1, "i4"), zeros(1), np.zeros(1, "i4"), **way)
    store, load = line_of(handed_on, "flag[0] = 1"), line_of(handed_on, "while flag[0]")
    assert ("race-global", "flag", (store, load)) in pairs(found)


@cuda.jit
def fenced_for_the_block(data, flag, out):
    if cuda.grid(1) == 0:
        data[0] = 42
        cuda.threadfence_block()
        cuda.atomic.exch(flag, 0, 1)
    elif cuda.threadIdx.x == 32 or cuda.blockIdx.x == 1:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        out[cuda.blockIdx.x] = data[0]


@pytest.mark.parametrize(("grid", "block", "racing"), [(1, 64, False), (2, 1, True)])
def test_a_fence_of_the_block_reaches_the_block(grid: int, block: int, racing: bool) -> None:
    for way in (FIRST, LAST, ROUND):
        assert bool(races(fenced_for_the_block, grid, block, zeros(1), zeros(1, "i4"), zeros(2), **way)) == racing


@cuda.jit
def rows_in_turn(x):
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    for row in range(1, x.shape[0]):
        x[row, i] = x[row - 1, x.shape[1] - 1 - i] + 1
        grid.sync()


@every_way
def test_a_barrier_of_the_grid_orders_blocks(way: Way) -> None:
    x = zeros((4, 96), "i4")
    assert not races(rows_in_turn, 3, 32, x, **way)
    assert x[3].tolist() == [3] * 96
