"""A check goes past accesses out of bounds and misaligned: every fault is told once, the other lanes go on.

Lanes whose address is wrong do not act: they write nothing, read 0, and observers hear of no access of theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda, float32, int32

from numba_norms.kernels.lanes import vload, vstore
from simulator import OutOfBounds, device, simulate
from simulator.findings import Finding
from simulator.frontend import lower_kernel
from simulator.machine import Fault, launch
from simulator.observers.bounds import NegativeIndices
from simulator.observers.lost import Lost
from simulator.observers.traffic import Traffic
from tests.simulator.running import FIRST, VECTORS, WAVES, every_way, line_of, run, zeros
from tests.simulator.test_hand_built import Writer, copying

Way = dict[str, Any]
MODES = pytest.mark.parametrize("values", ["affine", "vector"])


def told(kernel: Any, grid: Any, block: Any, *args: Any, **way: Any) -> list[Fault]:
    """The faults that a launch goes past."""
    lost = Lost()
    run(kernel, grid, block, *args, forgiving=True, observers=(lost, *way.pop("observers", ())), **way)
    return lost.faults()


def lanes_of(traffic: Traffic) -> dict[str, int]:
    """How many lanes accessed each array."""
    found: dict[str, int] = {}
    for (_, _, array, _, _), row in traffic.rows.items():
        found[array] = found.get(array, 0) + row.lanes
    return found


def kinds_and_lines(findings: tuple[Finding, ...]) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(found.kind, found.array, found.lines) for found in findings]


# -- what a student sees ------------------------------------------------------------------------------------------


@cuda.jit
def two_faults_and_a_race(x, y, z):
    tile = cuda.shared.array(64, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    tile[t] = x[i]  # 60 of 128
    y[i] = tile[63 - t]  # no barrier
    z[t + 1] = 1.0  # 64


@MODES
def test_every_fault_is_told_once_and_so_is_what_comes_behind(values: str) -> None:
    x, y, z = np.arange(60, dtype=np.float32), zeros(128, "f4"), zeros(64, "f4")
    trace = simulate(two_faults_and_a_race, check=True, values=values)[2, 64](x, y, z)
    line = line_of(two_faults_and_a_race, "tile[t] = x[i]")
    assert kinds_and_lines(trace.findings) == [
        ("out-of-bounds", "x", (line,)),
        ("out-of-bounds", "z", (line + 2,)),
        ("race-shared", "tile", (line, line + 1)),
    ]
    first, second, _ = trace.findings
    assert "thread 60 of block 0 reads x at index 60 along axis 0, which has 60 elements" in first.message
    assert (first.count, first.element, second.count, second.element) == (68, (60,), 2, (64,))
    assert len(trace.orders) == 5
    np.testing.assert_array_equal(z, [0, *[1] * 63])
    assert trace.total("x").lanes == 60
    assert trace.thread(60).reads("x") == []


def test_without_check_the_first_one_is_raised() -> None:
    x, y, z = np.arange(60, dtype=np.float32), zeros(128, "f4"), zeros(64, "f4")
    with pytest.raises(OutOfBounds, match="thread 60 of block 0 reads x at index 60") as caught:
        simulate(two_faults_and_a_race)[2, 64](x, y, z)
    assert len(caught.value.findings) == 1
    assert not z.any()


@cuda.jit
def sorted_by(x, order, out):
    i = cuda.grid(1)
    out[order[i]] = x[i]


@MODES
def test_a_thread_that_read_nothing_is_no_evidence_of_a_race(values: str) -> None:
    """Lanes past the end read 0 for their place, and so meet the lane whose place that is."""
    x, order, out = np.arange(1.0, 41.0), np.arange(40)[::-1].copy(), zeros(40, "f8")
    trace = simulate(sorted_by, check=True, values=values)[2, 32](x, order, out)
    assert {(found.kind, found.array) for found in trace.findings} == {
        ("out-of-bounds", "order"),
        ("out-of-bounds", "x"),
    }
    np.testing.assert_array_equal(out[1:], x[::-1][1:])
    order[3] = order[7]
    trace = simulate(sorted_by, check=True, values=values)[2, 32](x, order, out)
    assert "race-global" in {found.kind for found in trace.findings}  # of two threads that read their places


@cuda.jit
def one_place_late(x, y, out):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    tile[t + 1] = x[t]
    cuda.syncthreads()
    y[t] = tile[t]
    out[t + 1] = y[t]


@MODES
def test_what_was_not_written_for_that_reason_is_not_told_again(values: str) -> None:
    x, y, out = np.arange(64, dtype=np.float32), zeros(64, "f4"), zeros(64, "f4")
    trace = simulate(one_place_late, check=True, values=values)[1, 64](x, y, out)
    assert [(found.kind, found.array) for found in trace.findings] == [
        ("out-of-bounds", "tile"),
        ("out-of-bounds", "out"),
    ]


@cuda.jit
def shifted(x):
    i = cuda.grid(1)
    x[i + 1] = 1.0


@cuda.jit
def copied(x, y):
    i = cuda.grid(1)
    y[i] = x[i]


def test_nor_by_a_later_launch() -> None:
    with device(check=True) as gpu:
        x, y = cuda.device_array(64, np.float32), cuda.device_array(64, np.float32)
        shifted[1, 64](x)
        copied[1, 64](x, y)
        assert [(found.kind, found.array) for found in gpu.findings] == [("out-of-bounds", "x")]


@cuda.jit
def waits_for_a_flag(flags, out):
    i = cuda.grid(1)
    while flags[i] == 0:
        out[0] += 1
    out[i] = 1


def test_who_runs_away_is_stopped() -> None:
    trace = simulate(waits_for_a_flag, check=True, max_steps=2000)[1, 33](np.ones(32, np.int32), zeros(40, "i4"))
    # that it never ends may follow from the access that did not happen
    assert {found.kind for found in trace.findings if found.severity == "error"} == {"out-of-bounds"}


@cuda.jit(device=True)
def depth(n):
    if n == 0:
        return 0
    return 1 + depth(n - 1)


@cuda.jit
def too_deep(y):
    y[0] = depth(y[0])


@cuda.jit
def writes_to_what_is_read_only(x, out):
    i = cuda.grid(1)
    out[i] = 1
    x[i] = 2


def test_what_still_ends_a_run() -> None:
    trace = simulate(too_deep, check=True)[1, 1](np.array([5000]))
    assert [(found.kind, found.array) for found in trace.findings] == [("out-of-bounds", "call stack")]
    x, lost = zeros(40), Lost()
    program = lower_kernel(writes_to_what_is_read_only, (x, x))  # Numba itself refuses the kernel for a read-only type
    x.flags.writeable = False
    with pytest.raises(Fault) as caught:
        launch(program, (1, 1, 1), (40, 1, 1), (x, zeros(30)), observers=(lost,), forgiving=True)
    assert (caught.value.kind, caught.value.facts["array"]) == ("read-only", "x")
    assert [fault.facts["array"] for fault in lost.faults()] == ["out"]


@cuda.jit
def ticket(counter, out):
    slot = cuda.atomic.add(counter, 0, 1)
    out[slot] = cuda.grid(1)


def test_results_that_lack_something_are_not_compared() -> None:
    """Who gets no place hangs on the order; that there are too few places does not."""
    trace = simulate(ticket, check=True)[1, 64](zeros(1, "i4"), zeros(60, "i4"))
    assert [(found.kind, found.count) for found in trace.findings] == [("out-of-bounds", 4)]


# -- the machine: lanes and what they get -------------------------------------------------------------------------


@cuda.jit
def gathered(x, index, out):
    t = cuda.grid(1)
    if t < out.size:
        out[t] = x[index[t]] + 1


@settings(max_examples=25)
@given(
    st.lists(st.one_of(st.integers(-9, 20), st.sampled_from([2**40, -(2**63), 2**63 - 1])), min_size=1, max_size=70),
    st.sampled_from([WAVES, VECTORS, FIRST]),
)
def test_any_index(index: list[int], way: Way) -> None:
    """A lane reads its element (negative indices wrap once), or 0; the requests are those of the lanes that read."""
    x, out, traffic = np.arange(10, 19), zeros(len(index)), Traffic()
    faults = told(gathered, 3, 32, x, np.array(index), out, observers=(traffic,), **way)
    right = [-9 <= k < 9 for k in index]
    assert out.tolist() == [x[k] + 1 if good else 1 for k, good in zip(index, right, strict=True)]
    assert lanes_of(traffic).get("x", 0) == sum(right)
    assert [fault.facts["count"] for fault in faults] == ([len(index) - sum(right)] if not all(right) else [])
    if faults:
        assert faults[0].facts["index"] == next(k for k, good in zip(index, right, strict=True) if not good)


@cuda.jit
def along_two_axes(x, out):
    i, j = cuda.grid(2)
    x[i - 1, j + 1] += 1
    row = x[i]
    out[i, j] = row[j]


@every_way
def test_each_axis_has_its_fault_and_a_lane_tells_one(way: Way) -> None:
    x, out, negative = np.arange(30).reshape(5, 6), zeros((8, 8)), NegativeIndices()
    expected = x.copy()
    faults = told(along_two_axes, (1, 2), (8, 4), x, out, observers=(negative,), **way)
    expected[:, 1:] += 1
    np.testing.assert_array_equal(x, expected)
    line = line_of(along_two_axes, "+= 1")
    found = {(fault.places[0].pos.line, fault.places[0].access, fault.facts["axis"]): fault for fault in faults}
    assert {key: (fault.facts["index"], fault.facts["count"]) for key, fault in found.items()} == {
        (line, "ld", 0): (5, 16), (line, "st", 0): (5, 16), (line, "ld", 1): (6, 18), (line, "st", 1): (6, 18),
        (line + 1, "ld", 0): (5, 24), (line + 2, "ld", 0): (6, 10),
    }  # fmt: skip
    assert [fault.facts["count"] for fault in negative.faults()] == [8, 5]
    np.testing.assert_array_equal(out[5:], 0)
    np.testing.assert_array_equal(out[:, 6:], 0)


@cuda.jit
def counted(keys, counts, old, taken):
    t = cuda.grid(1)
    old[t] = cuda.atomic.add(counts, keys[t], 1)
    taken[t] = cuda.atomic.cas(counts, keys[t] + 4, 0, t + 1)


@every_way
def test_atomics(way: Way) -> None:
    keys, counts, old, taken = np.arange(40) % 7 % 6, zeros(5), zeros(40) - 1, zeros(40) - 1
    faults = told(counted, 1, 40, keys, counts, old, taken, **way)
    good = keys < 5
    assert counts[:4].tolist() == np.bincount(keys[good])[:4].tolist()
    assert (old[~good] == 0).all()
    assert (taken[keys + 4 >= 5] == 0).all()
    assert (taken[keys == 0] > 0).all()
    assert [fault.facts["count"] for fault in faults] == [int((~good).sum()), int((keys > 0).sum())]
    assert {fault.places[0].access for fault in faults} == {"atom"}


TABLE = np.array([3, 1, 4, 1, 5], np.int32)


@cuda.jit
def in_every_space(out):
    table = cuda.const.array_like(TABLE)
    tile = cuda.shared.array(30, int32)
    mine = cuda.local.array(4, int32)
    t = cuda.threadIdx.x
    tile[t] = t + 1
    for k in range(t % 7):
        mine[k] = 10 * k
    cuda.syncthreads()
    last = 0
    if t % 7:
        last = mine[t % 7 - 1]
    out[t] = 1000 * table[t % 9] + last + tile[39 - t] * 100


@every_way
def test_shared_local_and_constant_memory(way: Way) -> None:
    out, t = zeros(40), np.arange(40)
    faults = told(in_every_space, 1, 40, out, **way)
    table = np.concatenate((TABLE, zeros(4)))[t % 9]
    last = np.where((t % 7 > 0) & (t % 7 <= 4), 10 * (t % 7 - 1), 0)
    np.testing.assert_array_equal(out, 1000 * table + last + np.where(t >= 10, 100 * (40 - t), 0))
    found = {(fault.facts["array"].partition("@")[0], fault.places[0].access): fault.facts["count"] for fault in faults}
    loops = int(np.maximum(t % 7 - 4, 0).sum())
    assert found == {
        ("tile", "st"): 10, ("tile", "ld"): 10, ("table", "ld"): int((t % 9 > 4).sum()),
        ("mine", "st"): loops, ("mine", "ld"): int((t % 7 > 4).sum()),
    }  # fmt: skip


@cuda.jit
def wide(x, y, starts):
    four = cuda.local.array(4, float32)
    t = cuda.grid(1)
    vload(x, starts[t], four, 0, 4)
    vstore(y, starts[t], four, 0, 4)


@every_way
def test_wide_accesses_out_of_bounds_and_misaligned(way: Way) -> None:
    """Of 70 elements; 40 lanes start at 0, 4, 8 …, but every fifth at an odd place."""
    starts = 4 * np.arange(40)
    starts[::5] += 1
    x, y, traffic = np.arange(70, dtype="f4") + 1, zeros(70, "f4"), Traffic()
    faults = told(wide, 1, 40, x, y, starts, observers=(traffic,), **way)
    good = (starts % 4 == 0) & (starts + 4 <= 70)
    expected = zeros(70, "f4")
    for start in starts[good]:
        expected[start : start + 4] = x[start : start + 4]
    np.testing.assert_array_equal(y, expected)
    beyond = int((starts + 4 > 70).sum())
    askew = int(((starts % 4 != 0) & (starts + 4 <= 70)).sum())
    assert sorted((fault.kind, fault.facts["array"], fault.facts["count"]) for fault in faults) == [
        ("misaligned-access", "x", askew), ("misaligned-access", "y", askew),
        ("out-of-bounds", "x", beyond), ("out-of-bounds", "y", beyond),
    ]  # fmt: skip
    lanes = lanes_of(traffic)
    assert (lanes["x"], lanes["y"]) == (good.sum(), good.sum())


# -- addresses without axes: what a front end for machine code makes ----------------------------------------------


@every_way
@pytest.mark.parametrize(("stride", "offset"), [(4, 0), (5, 0), (8, -8), (6, 2), (4, 1), (0, 2), (0, 400), (0, 8)])
@pytest.mark.parametrize("count", [1, 2])
def test_raw_addresses(way: Way, stride: int, offset: int, count: int) -> None:
    """A lane reads ``count`` elements if all of them lie inside x and their address is a multiple of them, else 0."""
    writer, lost, traffic = copying(stride, offset, "i4", count), Lost(), Traffic()
    x, out = np.arange(1, 21, dtype="i4"), zeros(25, "i4") - 1
    writer.run(x, out, observers=(lost, traffic), forgiving=True, **way)
    places = stride * np.arange(32) + offset
    reads = (places >= 0) & (places + 4 * count <= x.nbytes) & (places % (4 * count) == 0)
    expected = zeros(32 * count, "i4")
    for t in np.flatnonzero(reads):
        expected[t * count : t * count + count] = x[places[t] // 4 : places[t] // 4 + count]
    expected = expected[: 25 // count * count]
    assert out.tolist() == [*expected, *[-1] * (25 - len(expected))]
    assert lanes_of(traffic) | {"out": 25 // count} == lanes_of(traffic)
    assert lanes_of(traffic).get("x", 0) == reads.sum()
    assert sum(fault.facts["count"] for fault in lost.faults()) == (~reads).sum() + 32 - 25 // count
    assert len({(fault.kind, fault.places[0].access) for fault in lost.faults()}) == len(lost.faults())


@every_way
def test_under_a_guard_and_into_several_arrays(way: Way) -> None:
    """The first 20 lanes act; even ones go to x, odd ones to out, each 11th a byte too far, the last of both beyond."""
    writer, lost, traffic = Writer(), Lost(), Traffic()
    guard, thread = writer.less(20), writer.thread
    odd = writer.op("and", "i8", thread, writer.const(1))
    base = writer.op("select", "i8", writer.op("cvt", "b1", odd, source="i8"), writer.out, writer.x)
    eleventh = writer.op("cmp", "i8", thread, writer.const(11), result="b1", how="eq", unordered=False)
    skew = writer.op("select", "i8", eleventh, writer.const(1), writer.const(0))
    address = writer.op("add", "i8", writer.at(base, 4), skew)
    value = writer.op("ld", "i4", address, guard, name="x", guarded=True)
    more = writer.op("add", "i4", value, writer.const(100, "i4"))
    writer.op("st", "i4", address, more, guard, results=0, name="x", guarded=True)
    x, out = np.arange(18, dtype="i4"), np.arange(50, 69, dtype="i4")
    before = x.copy(), out.copy()
    writer.run(x, out, observers=(lost, traffic), forgiving=True, **way)
    np.testing.assert_array_equal(x - before[0], np.where(np.arange(18) % 2 == 0, 100, 0))
    odd_ones = (np.arange(19) % 2 == 1) & (np.arange(19) != 11)
    np.testing.assert_array_equal(out - before[1], np.where(odd_ones, 100, 0))
    assert [(fault.kind, fault.facts["count"]) for fault in lost.faults()] == 2 * [
        ("out-of-bounds", 2), ("misaligned-access", 1),
    ]  # fmt: skip
    assert sum(lanes_of(traffic).values()) == 2 * 17


@every_way
def test_atomics_at_raw_addresses(way: Way) -> None:
    """Lanes 6 bytes apart: every other one is misaligned, and from lane 14 on they are past the end."""
    writer, lost = Writer(), Lost()
    old = writer.op("atom", "i4", writer.at(writer.x, 6), writer.const(5, "i4"), name="x", op="add")
    writer.op("st", "i4", writer.at(writer.out, 4), old, results=0, name="out")
    x, out = np.arange(1, 21, dtype="i4"), zeros(32, "i4") - 1
    writer.run(x, out, observers=(lost,), forgiving=True, **way)
    assert x.tolist() == [k + 1 + 5 * (k % 3 == 0) for k in range(20)]
    assert out.tolist() == [6 * t // 4 + 1 if t % 2 == 0 and t < 14 else 0 for t in range(32)]
    assert [(fault.kind, fault.facts["count"]) for fault in lost.faults()] == [
        ("out-of-bounds", 19), ("misaligned-access", 6),
    ]  # fmt: skip


# -- value domains, and launches without a fault ------------------------------------------------------------------


@cuda.jit
def summed(x, out):
    t = cuda.threadIdx.x
    value = x[t]
    value += cuda.shfl_down_sync(0xFFFFFFFF, value, 16)
    out[t] = value


@cuda.jit
def floats_out_of_a_packet(packet, out):
    t = cuda.threadIdx.x
    values = packet[1:129].view(np.float32)
    out[t] = values[t]


def test_lineage_and_definedness_leave_out_what_did_not_happen() -> None:
    x, out = np.arange(28, dtype=np.float32), zeros(20, "f4")
    trace = simulate(summed, check=True, lineage=True)[1, 32](x, out)
    assert {(found.kind, found.array) for found in trace.findings} == {("out-of-bounds", "x"), ("out-of-bounds", "out")}
    assert trace.sources("out", 3) == {("x", 3), ("x", 19)}
    assert trace.sources("out", 14) == {("x", 14)}  # its partner read nothing
    trace = simulate(floats_out_of_a_packet, check=True, lineage=True)[1, 32](np.ones(140, np.uint8), out)
    assert {found.kind for found in trace.findings} == {"misaligned-access", "out-of-bounds"}
    with pytest.raises(LookupError, match="nothing that came from an input"):
        trace.sources("out", 3)
    trace = simulate(summed, check=True)[1, 30](x, out)  # lanes 14 and 15 read a lane that is not there
    assert "warp-sync" in {found.kind for found in trace.findings}


@cuda.jit
def guarded(x, index, out):
    t = cuda.grid(1)
    if t < x.size:
        out[index[t]] = x[t] + 1
        cuda.atomic.add(out, 0, 1)


@every_way
def test_a_launch_without_a_fault_is_the_same(way: Way) -> None:
    results = []
    for forgiving in (False, True):
        x, index, out, traffic = np.arange(70), np.arange(70)[::-1].copy(), zeros(70), Traffic()
        run(guarded, 3, 32, x, index, out, observers=(traffic,), forgiving=forgiving, **way)
        results.append((out.tolist(), [(row.requests, row.sectors, row.lanes) for row in traffic.rows.values()]))
    assert results[0] == results[1]


@cuda.jit
def astray_and_negative(idx, x, out):
    t = cuda.threadIdx.x
    at = 1000 if t == 0 else t
    out[t] = x[idx[at] - 7 - t]


def test_a_negative_index_is_that_of_the_thread_that_is_named() -> None:
    trace = simulate(astray_and_negative, check=True)[1, 4](np.full(4, 3), np.zeros(50, "f4"), np.zeros(4, "f4"))
    (found,) = [one for one in trace.findings if one.kind == "negative-index"]
    assert found.threads == (1,) and "at index -5 " in found.message


@cuda.jit(device=True)
def overruns(t):
    tile = cuda.shared.array(32, float32)
    tile[t + 1] = 1.0


@cuda.jit(device=True)
def reads_what_nobody_wrote(t):
    tile = cuda.shared.array(32, float32)
    return tile[t]


@cuda.jit
def two_arrays_of_one_name(out):
    t = cuda.threadIdx.x
    overruns(t)
    out[t] = reads_what_nobody_wrote(t)


def test_an_array_of_the_same_name_is_another() -> None:
    trace = simulate(two_arrays_of_one_name, check=True)[1, 32](np.zeros(32, "f4"))
    assert {"out-of-bounds", "uninitialized-read"} <= {one.kind for one in trace.findings}
