"""A trace as text and as JSON."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from numba import cuda, float32
from rich.console import Console

from simulator import Trace, simulate
from simulator.views.json import SCHEMA, VERSION, document
from simulator.views.text import report, series


@cuda.jit
def sums(x, y, wide_name_of_an_argument):
    part = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    acc = float32(0)
    for j in range(t, x.shape[1], 64):  # a comment that makes this line much longer than eighty columns are wide, yes
        acc += x[cuda.blockIdx.x, j] * wide_name_of_an_argument[j] + float32(0) * float32(0) + float32(0) * float32(1)
    part[t] = acc
    cuda.syncthreads()
    if t == 0:
        y[cuda.blockIdx.x] = part[0]


@cuda.jit
def gather(x, index, y):
    y[cuda.threadIdx.x] = x[index[cuda.threadIdx.x]]


@cuda.jit
def beyond(x):
    x[cuda.threadIdx.x + 1] = 1


def run_sums(**options: Any) -> Trace:
    x = np.ones((2, 1024), np.float32)
    return simulate(sums, **options)[2, 64](x, np.zeros(2, np.float32), np.ones(1024, np.float32))


def written(trace: Trace, width: int = 80, **chosen: Any) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(report(trace, **chosen), crop=False)
    return out.getvalue()


def test_report_shows_a_thread_and_the_costs() -> None:
    trace = run_sums()
    text = written(trace, thread=3, block=1)
    assert "thread 3 of block 1" in text
    assert "1027, 1091, 1155, … 1987" in text
    (row,) = (row for row in trace.lines if row.array == "wide_name_of_an_argument")
    (line,) = (line for line in text.splitlines() if "load wide_name" in line and "4.00" in line)
    assert line.split()[-4:] == [str(row.requests), str(row.sectors), str(row.ideal), "4.00"]
    assert "no findings" in text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_tables_fit_and_numbers_stay_whole(width: int) -> None:
    trace = run_sums()
    text = written(trace, width)
    table = text[text.index("sect/req") :]
    assert max(map(len, table.splitlines())) <= max(width, 80)
    for row in trace.lines:
        assert any(str(row.requests) in line.split() for line in table.splitlines())
    assert "\x1b" not in text


def test_source_text_gives_way_first() -> None:
    source = run_sums().source(__file__, sums.py_func.__code__.co_firstlineno + 6).strip()
    assert source.startswith("acc +=")
    assert source not in written(run_sums(), 80)
    assert source in written(run_sums(), 250)


def test_shared_memory_has_no_sectors() -> None:
    text = written(run_sums())
    (line,) = (line for line in text.splitlines() if "store part " in line and "shared" in line)
    assert line.split()[-2:] == ["4", "shared"]


def test_findings_are_sentences_that_stay_on_one_line() -> None:
    trace = simulate(beyond, check=True)[1, 8](np.zeros(8, np.float32))
    text = written(trace)
    (line,) = (line for line in text.splitlines() if line.startswith("error: out-of-bounds: "))
    assert trace.findings[0].message in line


def test_watched_values() -> None:
    assert "acc = 0, 1, 2" in written(run_sums(watch=("acc",)), watch=("acc",))


@cuda.jit
def flags(x):
    odd = cuda.threadIdx.x % 2 == 1
    big = cuda.threadIdx.x + 1234567
    if odd:
        x[cuda.threadIdx.x] = big


def test_watched_values_are_written_as_their_kind() -> None:
    text = written(simulate(flags, watch=("odd", "big"))[1, 2](np.zeros(2)), thread=1, watch=("odd", "big"))
    assert "  odd = True  (1 value)\n" in text
    assert "  big = 1234568  (1 value)\n" in text


def test_a_count_is_told_once() -> None:
    text = written(simulate(beyond, check=True)[1, 32](np.zeros(8, np.float32)))
    assert "(24 more of these lanes do too)" in text
    assert "×" not in text


def test_a_launch_that_never_began() -> None:
    trace = simulate(beyond, check=True)[1, 1025](np.zeros(8, np.float32))
    assert "error: launch-limit: " in written(trace)
    found = json.loads(json.dumps(document(trace), allow_nan=False))
    assert (found["thread"], found["accesses"]) == (None, None)


def test_a_thread_without_accesses() -> None:
    trace = simulate(beyond, check=True)[1, 1](np.zeros(1, np.float32))
    assert "accesses no memory" in written(trace)


def test_series() -> None:
    assert series([]) == ""
    assert series([0, 4, 8, 12, 16]) == "0, 4, 8, 12, 16"
    assert series(range(6)) == "0, 1, 2, … 5"


# -- JSON ------------------------------------------------------------------------------------------------------------


def lengths(table: dict[str, list[Any]]) -> set[int]:
    return {len(column) for column in table.values()}


def test_document_is_columnar_and_complete() -> None:
    trace = run_sums(watch=("acc",))
    found = json.loads(json.dumps(document(trace, 3, 1, ["acc"]), allow_nan=False))
    assert (found["schema"], found["version"]) == (SCHEMA, VERSION) == ("numba-sim/trace", 1)
    assert found["launch"] == {"grid": [2, 1, 1], "block": [64, 1, 1], "dynamic_shared": 0}
    assert found["arrays"]["name"][:2] == ["x", "y"]
    assert found["lines"]["sectors"] == [row.sectors for row in trace.lines]
    steps = found["thread"]["steps"]
    read = [
        e
        for e, a, o in zip(steps["element"], steps["array"], steps["operation"], strict=True)
        if (a, o) == ("x", "load")
    ]
    assert read == trace.thread(3, 1).reads("x")
    assert len(found["thread"]["watched"]["acc"]) == 17
    assert found["accesses"]["block"] == 1
    for table in (found["arrays"], found["lines"], steps, found["accesses"]["requests"]):
        assert len(lengths(table)) == 1


def test_requests_give_back_every_address() -> None:
    index = np.array([7, 3, 3, 0, 30, 31, 2, 9], np.int64)
    x = np.zeros(32, np.float16)
    trace = simulate(gather)[1, 8](x, index, np.zeros(8, np.float16))
    table = document(trace)["accesses"]["requests"]
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    for row, access in zip(rows, trace.accesses(block=0), strict=True):
        lanes = [lane for lane in range(32) if row["mask"] >> lane & 1]
        offsets = row["offsets"] or [row["offset"] + (lane - lanes[0]) * row["stride"] for lane in lanes]
        start = trace.arrays[row["array"]].address
        assert start is not None
        assert [start + offset for offset in offsets] == access.addresses[access.mask].tolist()
    assert [row["stride"] for row in rows] == [8, None, 2]


def test_document_says_when_it_is_cut() -> None:
    cut = document(run_sums(), limit=3)["accesses"]
    assert (cut["complete"], lengths(cut["requests"])) == (False, {3})
    assert document(run_sums())["accesses"]["complete"]


def test_document_has_findings_and_no_nan() -> None:
    trace = simulate(beyond, check=True)[1, 8](np.zeros(8, np.float32))
    (finding,) = document(trace)["findings"]
    assert (finding["kind"], finding["severity"], finding["array"]) == ("out-of-bounds", "error", "x")
    x = np.full((2, 1024), np.nan, np.float32)
    spoiled = simulate(sums, watch=("acc",))[2, 64](x, np.zeros(2, np.float32), np.ones(1024, np.float32))
    text = json.dumps(document(spoiled, watch=["acc"]), allow_nan=False)
    assert json.loads(text)["thread"]["watched"]["acc"][-1] == "nan"
