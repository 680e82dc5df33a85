"""``values="vector"`` switches the affine representation off: the same bits, counts, findings and events.

Here kernels run both ways and their traces are compared.  ``pytest --values=vector`` runs the whole suite in vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from simulator import Trace, simulate
from simulator.machine import launch
from simulator.machine.observer import Observer
from simulator.machine.values import Affine
from tests.simulator import test_atomics as atomics
from tests.simulator import test_bounds as bounds
from tests.simulator import test_control_flow as control
from tests.simulator import test_memory_spaces as memory
from tests.simulator import test_shapes as shapes
from tests.simulator import test_verdicts as verdicts
from tests.simulator import test_warp_operations as warps
from tests.simulator.ptx.kernel import tree_sum
from tests.simulator.running import lose_patience, lower_kernel

Arguments = tuple[Any, ...]


def numbers(*shape: int, dtype: str = "i8") -> np.ndarray:
    return (np.arange(np.prod(shape)) * 37 % 101).reshape(shape).astype(dtype)


CASES: dict[str, tuple[Any, Any, Any, Callable[[], Arguments]]] = {
    "branches": (control.branches, 3, 48, lambda: (numbers(130), numbers(130))),
    "collatz": (control.collatz, 2, 40, lambda: (numbers(70), numbers(70))),
    "skipping": (control.skipping, 2, 35, lambda: (numbers(70),)),
    "early exit": (control.early_exit, 2, 64, lambda: (numbers(100), numbers(100))),
    "barriers in a loop": (control.reversed_rounds, 3, 45, lambda: (numbers(3, 45),)),
    "shuffles": (warps.shuffles, 2, 64, lambda: (numbers(128, dtype="f4"), numbers(128, 5, dtype="f4"))),
    "votes": (warps.votes, 1, 64, lambda: (numbers(64, dtype="i4"), numbers(64, 7))),
    "3-D": (shapes.who_am_i, (2, 1, 2), (3, 5, 7), lambda: (numbers(14, 5, 6, 3),)),
    "2-D": (shapes.who_am_i, (2, 2), (32, 4), lambda: (numbers(1, 8, 64, 3),)),
    "transpose": (
        shapes.transpose,
        (3, 4),
        (16, 16),
        lambda: (numbers(50, 33, dtype="f4"), numbers(33, 50, dtype="f4")),
    ),
    "local arrays": (
        memory.sorted_in_registers,
        2,
        35,
        lambda: (numbers(70, 5, dtype="i4"), numbers(70, 5, dtype="i4")),
    ),
    "constants": (memory.weighted, 2, 32, lambda: (numbers(64), numbers(64))),
    "one of two arrays": (memory.one_of_two, 2, 32, lambda: (numbers(64), numbers(100), numbers(64))),
    "strided views": (memory.shifted, 1, 96, lambda: (numbers(400)[::-3][:110], 8)),
    "shared memory": (memory.overlapping, 1, 64, lambda: (lambda x: (x[:64], x[5:69]))(numbers(70))),
    "histogram": (atomics.shared_histogram, 3, 50, lambda: (numbers(777, dtype="i4"), numbers(16, dtype="i4"))),
    "float atomics": (atomics.float_atomics, 2, 32, lambda: (numbers(64, dtype="f4"), numbers(5, dtype="f4"))),
    "spin lock": (verdicts.locked, 1, 40, lambda: (numbers(40), np.zeros(1, "i4"), np.zeros(1, "i8"))),
    "tree": (tree_sum, 4, 256, lambda: (numbers(5000, dtype="f4"), numbers(4, dtype="f4"))),
}
WRONG: dict[str, tuple[Any, Any, Any, Callable[[], Arguments]]] = {
    "barrier in a branch": (verdicts.barrier_in_a_branch, 2, 64, lambda: (numbers(64),)),
    "missing lanes": (verdicts.shuffle_in_a_branch, 1, 64, lambda: (numbers(64), numbers(64))),
    "lane outside": (verdicts.reads_a_lane_outside, 1, 32, lambda: (numbers(32), numbers(32))),
    "one too far": (bounds.one_too_far, 2, 40, lambda: (numbers(80, 3), numbers(80))),
    "by data": (bounds.indexed, 1, 32, lambda: (numbers(8), numbers(32), numbers(32))),
}


def traced(case: tuple[Any, Any, Any, Callable[[], Arguments]], **options: Any) -> tuple[Trace, list[bytes]]:
    kernel, grid, block, make = case
    args = make()
    trace = simulate(kernel, **options)[grid, block](*args)
    return trace, [arg.tobytes() for arg in args if isinstance(arg, np.ndarray)]


def events(trace: Trace) -> list[tuple[Any, ...]]:
    """Every access of every warp, in order, with its mask and the elements that active lanes touch."""
    return [
        (
            a.step,
            a.block,
            a.warp,
            a.operation,
            a.line,
            a.array,
            a.space,
            a.nbytes,
            a.mask.tolist(),
            a.elements[a.mask].tolist(),
        )
        for a in trace.accesses()
    ]


@pytest.mark.parametrize("order", ["waves", "last", 5])
@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_counts_and_events(name: str, order: str | int, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_patience(monkeypatch)
    (one, bits), (other, same) = (traced(CASES[name], values=v, orders=(order,)) for v in ("affine", "vector"))
    assert bits == same
    assert one.lines == other.lines
    assert one.arrays == other.arrays
    assert events(one) == events(other)
    assert len(events(one)) > 0


@pytest.mark.parametrize("order", ["waves", "first", 5])
@pytest.mark.parametrize("name", WRONG)
def test_the_same_findings(name: str, order: str | int) -> None:
    traces = [traced(WRONG[name], values=v, orders=(order,), check=True)[0] for v in ("affine", "vector")]
    assert traces[0].findings == traces[1].findings != ()
    assert traces[0].lines == traces[1].lines


@pytest.mark.parametrize("name", ["branches", "tree", "transpose"])
def test_the_same_watched_values(name: str) -> None:
    kernel = CASES[name][0]
    watch = {"branches": "value", "tree": "total", "transpose": "x"}[name]
    threads = range(0, 40, 7)
    found = [
        [traced(CASES[name], values=v, watch=watch)[0].thread(t).values(watch) for t in threads]
        for v in ("affine", "vector")
    ]
    assert found[0] == found[1], kernel
    assert any(found[0])


class Forms(Observer):
    """Which forms addresses come in."""

    def __init__(self) -> None:
        self.seen: set[type] = set()

    def access(self, split: Any, access: Any, allocation: Any, address: Any) -> None:
        self.seen.add(type(address))


def test_vectors_hold_no_affine_value(request: pytest.FixtureRequest) -> None:
    kernel, grid, block, make = CASES["tree"]
    forms = {}
    for values in ("affine", "vector"):
        observer, args = Forms(), make()
        launch(lower_kernel(kernel, args), (grid, 1, 1), (block, 1, 1), args, values=values, observers=(observer,))
        forms[values] = observer.seen
    assert Affine not in forms["vector"]
    assert (Affine in forms["affine"]) == (request.config.getoption("--values") == "affine")
