"""The traffic observer: hand-counted requests and sectors, and both ways of counting against plain sets of bytes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.machine.memory import Allocation, View, make_access
from simulator.machine.values import DT, Lanes, expand
from simulator.observers.traffic import Counter, Traffic
from simulator.program import Op, Pos

BASE = 0x7F00_0000_0000
CODES = {1: "i1", 2: "f2", 4: "f4", 8: "f8"}


def observe(
    address: Any,
    lanes: Lanes,
    itemsize: int = 4,
    count: int = 1,
    mask: Any = None,
    space: str = "global",
    size: int = 1 << 20,
) -> Counter:
    """One load of ``count`` elements per lane, as the machine reports it."""
    code = CODES[itemsize]
    op = Op("ld", code, tuple(range(1, count + 1)), (0,), Pos("k.py", 7), {"name": "x"})
    view = View("x", DT[code], (size // itemsize,), (itemsize,), 0)
    allocation = Allocation(BASE, BASE + size, "x", space, np.zeros(0, np.uint8), (view,))
    traffic = Traffic()
    split = SimpleNamespace(lanes=lanes, mask=mask)
    traffic.access(split, make_access(op, 0), allocation, address)  # type: ignore[arg-type]
    traffic.finish()
    return traffic.rows["k.py", 7, "x", "load", space]


def brute(addresses: np.ndarray, mask: np.ndarray, nbytes: int) -> tuple[int, int, int, int, int]:
    """(requests, sectors, ideal, unique, lanes), counted with sets of bytes."""
    requests = sectors = ideal = 0
    everything: set[int] = set()
    for row, on in zip(addresses.reshape(-1, 32), mask.reshape(-1, 32), strict=True):
        touched = {int(a) + k for a in row[on] for k in range(nbytes)}
        requests += bool(touched)
        sectors += len({byte // 32 for byte in touched})
        ideal += -(-len(touched) // 32)
        everything |= {byte // 32 for byte in touched}
    return requests, sectors, ideal, len(everything), int(mask.sum())


def figures(counter: Counter) -> tuple[int, int, int, int, int]:
    return counter.requests, counter.sectors, counter.ideal, counter.unique, counter.lanes


ONE_WARP = Lanes(1, 32)


@pytest.mark.parametrize("form", ["affine", "vector"])
@pytest.mark.parametrize(
    ("itemsize", "stride", "offset", "sectors", "ideal"),
    [
        pytest.param(4, 1, 0, 4, 4, id="f4-stride-1"),
        pytest.param(4, 2, 0, 8, 4, id="f4-stride-2"),
        pytest.param(4, 32, 0, 32, 4, id="f4-stride-32-a-line-per-lane"),
        pytest.param(4, 1, 1, 5, 4, id="f4-offset-by-one-element"),
        pytest.param(4, -1, 31, 4, 4, id="f4-backwards"),
        pytest.param(2, 1, 0, 2, 2, id="f2"),
        pytest.param(8, 1, 0, 8, 8, id="f8"),
        pytest.param(4, 0, 5, 1, 1, id="broadcast"),
        pytest.param(1, 1, 0, 1, 1, id="bytes"),
    ],
)
def test_sectors_of_one_warp(form: str, itemsize: int, stride: int, offset: int, sectors: int, ideal: int) -> None:
    address = ONE_WARP.affine(BASE + offset * itemsize, 0, stride * itemsize, "i8")
    if form == "vector":
        address = np.array(expand(address, ONE_WARP, "i8"))
    counter = observe(address, ONE_WARP, itemsize)
    assert figures(counter) == (1, sectors, ideal, sectors, 32)
    assert counter.bytes == 32 * itemsize


@pytest.mark.parametrize(
    ("active", "stride", "sectors", "ideal"),
    [
        pytest.param([], 4, 0, 0, id="all-lanes-off"),
        pytest.param([17], 4, 1, 1, id="one-lane"),
        pytest.param(range(8), 4, 1, 1, id="8-lanes-in-one-sector"),
        pytest.param([0, 31], 4, 2, 1, id="two-ends"),
        pytest.param(range(32), 128, 32, 4, id="32-lines"),
    ],
)
def test_sectors_of_active_lanes(active: Any, stride: int, sectors: int, ideal: int) -> None:
    mask = np.zeros((1, 32), bool)
    mask[0, list(active)] = True
    counter = observe(ONE_WARP.affine(BASE, 0, stride, "i8"), ONE_WARP, mask=mask)
    assert figures(counter) == (int(mask.any()), sectors, ideal, sectors, len(list(active)))


@pytest.mark.parametrize("count", [2, 4])
def test_a_wide_access_is_one_request(count: int) -> None:
    counter = observe(ONE_WARP.affine(BASE, 0, 4 * count, "i8"), ONE_WARP, 4, count)
    assert figures(counter) == (1, 4 * count, 4 * count, 4 * count, 32)
    assert counter.bytes == 128 * count


def test_unique_counts_a_sector_once() -> None:
    lanes = Lanes(8, 64)
    counter = observe(lanes.affine(BASE, 0, 4, "i8"), lanes)  # all blocks read the same 64 elements
    assert figures(counter) == (16, 64, 64, 8, 512)


@pytest.mark.parametrize("space", ["shared", "local", "const"])
def test_only_global_memory_has_sectors(space: str) -> None:
    mask = np.zeros((1, 64), bool)
    mask[0, 40] = True
    counter = observe(Lanes(1, 64).affine(BASE, 0, 4, "i8"), Lanes(1, 64), mask=mask, space=space)
    assert figures(counter) == (1, 0, 0, 0, 1)


def test_operations_and_lines_are_rows_in_program_order() -> None:
    traffic = Traffic()
    view = View("x", DT["f4"], (64,), (4,), 0)
    allocation = Allocation(BASE, BASE + 256, "x", "global", np.zeros(0, np.uint8), (view,))
    split = SimpleNamespace(lanes=ONE_WARP, mask=None)
    late = Op("st", "f4", (), (0, 1), Pos("k.py", 9), {"name": "x"})
    early = Op("ld", "f4", (1,), (0,), Pos("k.py", 9), {"name": "x"})
    for index, op in ((5, late), (2, early), (5, late)):
        traffic.access(split, make_access(op, index), allocation, BASE)  # type: ignore[arg-type]
    traffic.finish()
    assert [(key[3], counter.requests) for key, counter in traffic.rows.items()] == [("load", 1), ("store", 2)]


@st.composite
def groups(draw: st.DrawFn) -> Lanes:
    warps = draw(st.integers(1, 6))
    row = draw(st.sampled_from([None, 1, 4, 8, 16, 32, 64, 3, 24]))
    if row is not None and 32 * warps % row:
        row = None
    return Lanes(draw(st.integers(1, 9)), 32 * warps, 32 * draw(st.integers(0, 2)), draw(st.integers(0, 3)), row=row)


@settings(max_examples=400, deadline=None)
@given(
    lanes=groups(),
    itemsize=st.sampled_from([1, 2, 4, 8]),
    count=st.sampled_from([1, 2, 3, 4, 8, 16]),
    coefficients=st.tuples(*[st.integers(-70, 70) | st.sampled_from([0, 1, -1, 32, 1024, 4097])] * 3),
    start=st.integers(0, 40),
    masked=st.sampled_from([None, "tail", "random", "row"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_affine_vector_and_sets_of_bytes_agree(
    lanes: Lanes, itemsize: int, count: int, coefficients: tuple[int, int, int], start: int, masked: Any, seed: int
) -> None:
    unit = itemsize * count if count & (count - 1) == 0 and itemsize * count <= 32 else itemsize  # aligned, as checked
    block, column, row = (k * unit for k in coefficients)
    row = row if lanes.ny > 1 else 0
    low = min(0, block) * lanes.nb + min(0, column) * lanes.nx + min(0, row) * lanes.ny
    high = max(0, block) * lanes.nb + max(0, column) * lanes.nx + max(0, row) * lanes.ny
    base = BASE + (start - low // unit) * unit
    address = lanes.affine(base, block, column, "i8", row)
    addresses = np.array(expand(address, lanes, "i8"))
    rng = np.random.default_rng(seed)
    full = np.ones((lanes.nb, lanes.P), bool)
    mask = {
        None: full,
        "tail": full & (lanes.lane < rng.integers(0, lanes.P + 1)),
        "random": rng.random(full.shape) < 0.3,
        "row": full & (lanes.block == 0),
    }[masked]
    given_mask = None if mask.all() else mask
    size = -(-(base - BASE + high + 64 * 8 * 128) // 32) * 32
    expected = brute(addresses, mask, itemsize * count)
    if not mask.any():
        return
    for form in (address, addresses):
        counter = observe(form, lanes, itemsize, count, given_mask, size=size)
        assert figures(counter) == expected
