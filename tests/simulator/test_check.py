"""What ``check=True`` runs: orders, samples of large grids, seeds, and how the findings of several orders are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import cuda, float32, int32

import simulator.runs.orders
import simulator.runs.sampling
from simulator import SimulationError, simulate
from simulator.machine.order import Pick
from simulator.runs import agreement
from simulator.runs.orders import CHECKED
from simulator.runs.sampling import sample
from tests.simulator.running import line_of, zeros


@cuda.jit
def missing_barrier(x, out):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    out[cuda.grid(1)] = tile[63 - t]


def checked(kernel: Any, grid: Any, block: Any, *args: Any, **options: Any) -> Any:
    return simulate(kernel, check=True, **options)[grid, block](*args)


def errors(trace: Any) -> list[Any]:
    return [finding for finding in trace.findings if finding.severity == "error"]


def test_a_check_runs_waves_and_four_orders_of_splits() -> None:
    trace = checked(missing_barrier, 2, 64, np.ones(64, "f4"), zeros(128, "f4"))
    assert trace.orders == ("waves", "first", "last", "round-robin", "random (seed 0)")
    assert len(trace.orders) == len(CHECKED)
    assert "checked in 5 orders: waves; first; last; round-robin; random (seed 0)" in repr(trace)
    assert trace.schedule == "waves" and trace.total("out").requests == 4


def test_without_a_check_one_order_runs_and_no_race_is_looked_for() -> None:
    trace = simulate(missing_barrier)[1, 64](np.arange(64, dtype="f4"), zeros(64, "f4"))
    assert trace.orders == ("waves",) and not trace.findings


@cuda.jit
def summed_in_turn(x, out):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    tile[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    if t == 0:
        for k in range(1, 64):
            tile[0] += tile[k]
        out[cuda.blockIdx.x] = tile[0]


@cuda.jit
def summed_by_atomics(x, out):
    cuda.atomic.add(out, cuda.blockIdx.x, x[cuda.grid(1)])


@pytest.mark.parametrize(
    ("kernel", "ordered"), [(summed_in_turn, True), (missing_barrier, False), (summed_by_atomics, False)]
)
def test_once_all_is_ordered_the_other_orders_look_for_no_races(
    kernel: Any, ordered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[bool] = []
    real = simulator.runs.orders.verdicts

    def note(first: bool, ordered: bool) -> Any:
        looked.append(not ordered)
        return real(first, ordered)

    monkeypatch.setattr(simulator.runs.orders, "verdicts", note)
    out = zeros(128, "f4")
    trace = checked(kernel, 2, 64, np.ones(128, "f4"), out)
    assert looked == [True, *[not ordered] * 4]
    assert bool(errors(trace)) == (kernel is missing_barrier)
    if kernel is not missing_barrier:
        assert out[:2].tolist() == [64, 64]


def test_orders_may_be_chosen() -> None:
    trace = checked(missing_barrier, 1, 64, np.ones(64, "f4"), zeros(64, "f4"), orders=("last", 7))
    assert trace.orders == ("last", "random (seed 7)") and trace.schedule == "last"
    with pytest.raises(ValueError, match="round-robin"):
        simulate(missing_barrier, orders=("backwards",))


def test_a_race_is_told_once_and_explains_what_depends_on_the_order() -> None:
    trace = checked(missing_barrier, 1, 64, np.arange(64, dtype="f4"), zeros(64, "f4"))
    store, load = line_of(missing_barrier, "tile[t] ="), line_of(missing_barrier, "= tile[63")
    (race,) = errors(trace)
    assert (race.kind, race.array, race.lines, race.count) == ("race-shared", "tile", (store, load), 64)
    (dependent,) = [finding for finding in trace.findings if finding.kind == "order-dependent"]
    assert dependent.array == "out" and dependent.mend.startswith(
        f"mend the race on tile between line {store} and line {load}"
    )


@pytest.mark.parametrize("seed", [0, 3])
def test_a_seed_gives_the_same_findings_in_the_same_order(seed: int) -> None:
    def found() -> list[str]:
        args = np.arange(64, dtype="f4"), zeros(128, "f4")
        return [
            f"{one} {one.sites} {one.count} {one.replay}"
            for one in checked(missing_barrier, 2, 64, *args, seed=seed).findings
        ]

    assert found() == found() != []


@cuda.jit
def shows_its_order(log, count):
    if cuda.threadIdx.x % 32 == 0:
        place = cuda.atomic.add(count, 0, 1)
        log[place] = cuda.blockIdx.x * 100 + cuda.threadIdx.x // 32


def order_of_warps(order: str | int, blocks: int = 4) -> list[int]:
    log = zeros(2 * blocks, "i4")
    simulate(shows_its_order, orders=(order,))[blocks, 64](log, zeros(1, "i4"))
    return log.tolist()


def test_an_array_without_axes_is_no_list() -> None:
    for options, said in (({"orders": np.array(0.0)}, "orders is a list"), ({"keep": np.array(1)}, "keep is")):
        with pytest.raises(TypeError, match=said):
            simulate(lambda: None, **options)  # type: ignore[arg-type]


def test_named_orders() -> None:
    everybody = [0, 1, 100, 101, 200, 201, 300, 301]
    assert order_of_warps("first") == everybody
    assert order_of_warps("last") == everybody[::-1]
    assert sorted(order_of_warps("round-robin")) == everybody
    mixed = [order_of_warps(seed) for seed in range(8)]
    assert all(sorted(one) == everybody for one in mixed) and len({tuple(one) for one in mixed}) > 3
    assert mixed == [order_of_warps(seed) for seed in range(8)]
    blocks = [[warp // 100 for warp in one] for one in mixed]
    assert any(one != sorted(one) and one != sorted(one)[::-1] for one in blocks)  # blocks mix


def test_round_robin_lets_everybody_go_in_turn() -> None:
    pick, splits = Pick("round-robin"), [object() for _ in range(5)]
    turns = [pick(splits) for _ in range(10)]  # type: ignore[arg-type]
    assert turns[:5] == turns[5:] and set(turns) == set(splits)


@cuda.jit
def big_blocks_mix(log, count):
    if cuda.threadIdx.x == 0:
        first = cuda.atomic.add(count, 0, 1)
        cuda.atomic.add(count, 1, 1)
        log[cuda.blockIdx.x] = cuda.atomic.add(count, 1, 0) - first


def test_two_blocks_of_a_thousand_threads_run_together() -> None:
    seen = set()
    for seed in range(6):
        log = zeros(2, "i4")
        simulate(big_blocks_mix, orders=(seed,))[2, 1024](log, zeros(2, "i4"))
        seen.add(tuple(log.tolist()))
    assert len(seen) > 1


@cuda.jit
def compacted(x, count, out):
    i = cuda.grid(1)
    if x[i] > 0:
        out[cuda.atomic.add(count, 0, 1)] = x[i]


def test_places_that_an_atomic_gives_are_a_note() -> None:
    x = np.arange(-64, 64, dtype="i4")
    trace = checked(compacted, 2, 64, x, zeros(1, "i4"), zeros(63, "i4"))
    assert [(one.kind, one.severity, one.array) for one in trace.findings] == [("order-dependent", "note", "out")]
    assert "an atomic gives the places" in trace.findings[0].mend


# -- large grids --------------------------------------------------------------------------------------------------


@cuda.jit
def own_row(x, out):
    tile = cuda.shared.array(32, int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    tile[t] = x[i]
    cuda.syncthreads()
    out[i] = tile[31 - t] + 1


def test_a_sample_of_a_large_grid_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.runs.agreement.REQUESTS", 1)
    x, out = np.arange(12800, dtype="i4"), zeros(12800, "i4")
    trace = checked(own_row, 400, 32, x, out)
    assert not errors(trace) and not [one for one in trace.findings if one.kind == "order-dependent"]
    np.testing.assert_array_equal(out, x.reshape(400, 32)[:, ::-1].ravel() + 1)
    assert trace.orders[0] == "waves" and trace.total("out").requests == 400
    assert trace.orders[1] == "first (80 of 400 blocks: 0 to 31, 192 to 223, 384 to 399)"
    assert trace.orders[1] in repr(trace)


def test_orders_that_are_asked_for_run_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.runs.agreement.REQUESTS", 1)
    trace = checked(own_row, 100, 32, np.arange(3200, dtype="i4"), zeros(3200, "i4"), orders=("waves", "first"))
    assert trace.orders == ("waves", "first")


@cuda.jit
def last_block_races(x, out):
    i = cuda.grid(1)
    out[i] = x[i]
    if cuda.blockIdx.x == cuda.gridDim.x - 1 and cuda.threadIdx.x >= 32:
        out[i - 32] = 2 * x[i]


def test_a_sample_holds_the_last_block_and_keeps_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.runs.agreement.REQUESTS", 1)
    x = np.arange(64 * 400, dtype="i4")
    trace = checked(last_block_races, 400, 64, x, np.zeros_like(x))
    assert any("of 400 blocks" in order for order in trace.orders[1:])
    (race,) = errors(trace)
    assert race.sites[0].block == 399
    (dependent,) = [finding for finding in trace.findings if finding.kind == "order-dependent"]
    whole = checked(
        last_block_races, 400, 64, x, np.zeros_like(x), orders=("first", "last"), seed=dependent.replay.seed
    )
    assert [one.kind for one in whole.findings if one.array == "out"] == ["race-global", "order-dependent"]


@pytest.mark.parametrize(("blocks", "together", "part"), [(100, 4, 0.1), (101, 4, 0.5), (7, 2, 0.0), (1000, 32, 0.03)])
def test_a_sample_holds_the_ends_and_is_spread(blocks: int, together: int, part: float) -> None:
    found = sample(blocks, together, part)
    assert found is not None and found[0].start == 0 and found[-1].stop == blocks
    numbers = [block for one in found for block in one]
    assert numbers == sorted(set(numbers)) and all(one.start % together == 0 for one in found)
    assert len(found) >= simulator.runs.sampling.GROUPS
    assert len(numbers) <= max(part * blocks, simulator.runs.sampling.GROUPS * together) + together


# -- runs that do not end -----------------------------------------------------------------------------------------


@cuda.jit
def never_ends(x, out):
    while x[0] == 0:
        out[cuda.threadIdx.x] += 1


def test_a_hang_is_not_repeated_in_every_order() -> None:
    trace = checked(never_ends, 1, 32, zeros(1, "i4"), zeros(32, "i4"), max_steps=3000)
    assert trace.orders == ("waves",)
    assert [finding.kind for finding in errors(trace)] == ["deadlock"]
    with pytest.raises(SimulationError, match="never end"):
        simulate(never_ends, max_steps=3000)[1, 32](zeros(1, "i4"), zeros(32, "i4"))


@cuda.jit
def many_barriers(x, times):
    t = cuda.threadIdx.x
    for _ in range(times):
        x[t] += 1
        cuda.syncthreads()


def test_an_order_that_takes_long_is_cut_short_and_is_no_deadlock() -> None:
    x = zeros(64, "i4")
    trace = checked(many_barriers, 1, 64, x, 400, orders=("waves", "first"), max_steps=1500)
    assert trace.orders == ("waves", "first, stopped after 1,500 steps")
    assert "first, stopped after 1,500 steps" in repr(trace)
    assert not trace.findings and (x == 400).all()
    with pytest.raises(SimulationError, match="budget of 1500 steps"):  # nobody has shown that it ends
        simulate(many_barriers, orders=("first",), max_steps=1500)[1, 64](x, 400)


def test_by_default_the_orders_after_the_first_have_a_budget_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "ORDER_STEPS", 1000)
    trace = checked(many_barriers, 1, 64, zeros(64, "i4"), 400)
    assert trace.orders[0] == "waves" and len(trace.orders) == len(CHECKED)
    assert all(order.endswith(", stopped after 1,000 steps") for order in trace.orders[1:])
    assert not errors(trace)


def test_what_was_seen_before_an_order_was_cut_short_is_told() -> None:
    x, y = zeros(64, "i4"), zeros(64, "i4")
    trace = checked(races_for_long, 1, 64, x, y, 400, orders=("waves", "last"), max_steps=1500)
    assert "stopped" in trace.orders[1]
    assert {finding.kind for finding in errors(trace)} == {"race-global"}


@cuda.jit
def races_for_long(x, y, times):
    t = cuda.threadIdx.x
    for _ in range(times):
        x[t] = t
        y[t] = x[63 - t]
        cuda.syncthreads()


@cuda.jit
def hardly_anything(out):
    if cuda.grid(1) == 0:
        out[0] = 1


def test_threads_that_access_nothing_cost_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "REQUESTS", 400)
    trace = checked(hardly_anything, 400, 64, zeros(1, "i4"))
    assert all("of 400 blocks" in order for order in trace.orders[1:])
    assert not trace.findings
