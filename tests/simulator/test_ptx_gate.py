"""The gate for a second front end: PTX runs on the same machine, under the same observers, with the same answers.

A tree reduction of 19 opcodes, as NVVM compiled it, is translated by ``tests/simulator/ptx`` and compared with what
Numba's front end makes of the very function it was compiled from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simulator.findings import Launch
from simulator.frontend import lower_kernel
from simulator.machine.launch import launch
from simulator.observers.steps import Steps
from simulator.observers.traffic import Traffic
from simulator.program import Program
from simulator.trace import Trace
from tests.simulator.ptx.kernel import PTX, THREADS, tree_sum
from tests.simulator.ptx.lower import lower
from tests.simulator.ptx.parse import parse

BLOCKS = 4
WAYS: list[dict[str, Any]] = [
    {},
    {"values": "vector"},
    {"schedule": "splits", "order": "first"},
    {"schedule": "splits", "order": "last"},
    *({"schedule": "splits", "order": "random", "seed": seed} for seed in range(3)),
]


def from_ptx() -> Program:
    return lower(PTX.read_text("utf-8"), [("x", 1), ("out", 1)], ["partial"], PTX.parent)


def numbers(count: int) -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(count).standard_normal(count).astype(np.float32), np.zeros(BLOCKS, np.float32)


def from_numba() -> Program:
    return lower_kernel(tree_sum, numbers(1))


def traced(program: Program, count: int, **way: Any) -> Trace:
    steps, traffic = Steps(), Traffic()
    launch(program, (BLOCKS, 1, 1), (THREADS, 1, 1), numbers(count), observers=(steps, traffic), **way)
    return Trace(program.name, Launch((BLOCKS, 1, 1), (THREADS, 1, 1)), "waves", steps, traffic)


@pytest.mark.parametrize("count", [1, 255, 5000, 70001])
def test_both_front_ends_give_the_same_bits_in_every_order(count: int) -> None:
    x, _ = numbers(count)
    results = []
    for program in (from_ptx(), from_numba()):
        for way in WAYS[: None if count < 10000 else 2]:
            out = np.zeros(BLOCKS, np.float32)
            launch(program, (BLOCKS, 1, 1), (THREADS, 1, 1), (x, out), **way)
            results.append(out)
    assert all(np.array_equal(out, results[0]) for out in results)
    assert results[0].sum(dtype=np.float64) == pytest.approx(x.sum(dtype=np.float64), abs=1e-6 * float(np.abs(x).sum()))


# Splits of one warp that leave a loop at different times need not meet again, so there the count has no odd warp.
@pytest.mark.parametrize(("count", "way"), [(5000, WAYS[0]), (5000, WAYS[1]), (4992, WAYS[4])], ids=str)
def test_both_front_ends_count_the_same_traffic_per_line(count: int, way: dict[str, Any]) -> None:
    ptx, numba = (
        {(row.file, row.line, row.array, row.operation, row.space): row for row in traced(program, count, **way).lines}
        for program in (from_ptx(), from_numba())
    )
    in_global = {key: row for key, row in ptx.items() if row.space == "global"}
    assert in_global == {key: row for key, row in numba.items() if row.space == "global"}
    assert {(key[2], key[3]) for key in in_global} == {("x", "load"), ("out", "store")}
    # NVVM keeps nothing of shared memory in registers here: the same requests, too
    assert ptx == numba


def test_both_front_ends_tell_what_a_thread_read() -> None:
    traces = [traced(program, 5000) for program in (from_ptx(), from_numba())]
    lines = [[(row.line, row.index) for row in trace.thread(33).table() if row.array == "x"] for trace in traces]
    assert lines[0] == lines[1]
    assert [trace.thread(33).reads("x") for trace in traces] == [[33, 1057, 2081, 3105, 4129]] * 2
    assert [trace.thread(33).reads("partial") for trace in traces] == [[33, 161, 33, 97]] * 2
    assert traces[0].source(traces[0].lines[0].file, lines[0][0][0]).strip() == "total += x[i]"


def test_without_its_barriers_the_translation_is_wrong_in_some_order() -> None:
    program = lower(
        PTX.read_text("utf-8").replace("bar.sync", "// bar.sync"), [("x", 1), ("out", 1)], ["partial"], PTX.parent
    )
    x, right = numbers(5000)
    launch(from_ptx(), (BLOCKS, 1, 1), (THREADS, 1, 1), (x, right))
    wrong = 0
    for way in WAYS[2:]:
        out = np.zeros(BLOCKS, np.float32)
        launch(program, (BLOCKS, 1, 1), (THREADS, 1, 1), (x, out), **way)
        wrong += not np.array_equal(out, right)
    assert wrong


@pytest.mark.parametrize(
    ("instruction", "instead"),
    [
        ("bar.sync \t0;", "bar.arrive \t0, 64;"),
        ("add.f32 \t%f28, %f28, %f12;", "add.sat.ftz \t%f28, %f28, %f12;"),
        ("max.s64", "popc.b64"),
        ("mul.lo.s64", "mul.hi.s64"),
    ],
)
def test_what_is_not_mapped_is_refused_with_its_line(instruction: str, instead: str) -> None:
    text = PTX.read_text("utf-8")
    assert instruction in text
    with pytest.raises(NotImplementedError, match=r"kernel\.py:\d+: "):
        lower(text.replace(instruction, instead), [("x", 1), ("out", 1)], ["partial"], PTX.parent)
    with pytest.raises(SyntaxError, match="not understood"):
        parse(text.replace("ret;", "ret; exit"))
