"""Anything at all for ``simulate``, ``record``, traces and pictures: our own answer, and arrays as they were."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numba import cuda

from simulator import Trace, draw, record, simulate
from tests.fuzz.junk import answer, anything, arrays, fuzz, numbers, refused, texts

OPTIONS = ("check", "orders", "seed", "keep", "watch", "lineage", "precision", "operations", "max_events", "values",
           "progress", "max_steps")  # fmt: skip


@cuda.jit
def scale(x, y, by):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * by


@cuda.jit
def total(x, y):
    t = cuda.threadIdx.x
    value = x[t]
    for k in range(5):
        value += cuda.shfl_xor_sync(0xFFFFFFFF, value, 1 << k)
    y[t] = value


@cuda.jit
def unpack(pair, x):
    x[0] = pair[0] + pair[1]


def plain(x):
    x[cuda.grid(1)] = 1


KERNELS = (scale, total, unpack, plain)
likely = st.one_of(anything, numbers, st.lists(st.one_of(numbers, texts), max_size=3))


@cache
def traces() -> list[Trace]:
    """Traces: with and without every domain, of a launch that never began, and of one that found no room in the log."""
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    return [
        simulate(total, lineage=True, watch=("value",), operations=True)[1, 32](x, y),
        simulate(scale)[2, 40](x, y, np.float32(2)),
        simulate(scale, max_events=0)[2, 16](x, y, np.float32(2)),
        simulate(scale, check=True)[2, 4096](x, y, np.float32(2)),
    ]


# -- calls of the simulator --------------------------------------------------------------------------------------------


@fuzz(60, st.dictionaries(st.sampled_from(OPTIONS), likely, max_size=3))
def test_options(options: dict[str, Any]) -> None:
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    found = answer(lambda: simulate(scale, **options)[1, 4](x, y, np.float32(2)))
    assert refused(found) or (isinstance(found, Trace) and y.tolist() == [0, 2, 4, 6])
    assert not refused(found) or not y.any(), "refused, and written to"


@fuzz(40, anything)
def test_things_that_are_no_kernel(kernel: Any) -> None:
    answer(lambda: simulate(kernel)[1, 1]())


@fuzz(
    60,
    st.one_of(anything, st.lists(st.one_of(numbers, st.lists(numbers, max_size=4), anything), max_size=5).map(tuple)),
)
def test_launch_shapes(shape: Any) -> None:
    y = np.zeros(4, np.float32)
    found = answer(lambda: simulate(scale, max_steps=1000)[shape](np.ones(4, np.float32), y, np.float32(2)))
    assert refused(found) or found.ran


@fuzz(120, st.sampled_from(KERNELS), st.lists(st.one_of(anything, arrays(), numbers), max_size=4), st.booleans())
def test_arguments(kernel: Any, args: list[Any], check: bool) -> None:
    answer(lambda: simulate(kernel, check=check, max_steps=1000)[1, 2](*args))


@fuzz(30, st.dictionaries(st.sampled_from(OPTIONS), likely, max_size=2))
def test_record(options: dict[str, Any]) -> None:
    def call() -> None:
        with record(**options):
            pass

    answer(call)


# -- questions to a trace ----------------------------------------------------------------------------------------------

VIEWS = ("reads", "writes", "indices", "coords", "values", "table")
named = st.one_of(texts, anything)


@fuzz(120, st.integers(0, 3), st.sampled_from(VIEWS), likely, likely, named, likely)
def test_threads(which: int, view: str, thread: Any, block: Any, name: Any, line: Any) -> None:
    answer(lambda: traces()[which].thread(thread, block))
    seen = traces()[which].thread(0)
    if view == "table":
        answer(seen.table)
    elif view == "values":
        answer(lambda: seen.values(name))
    else:
        answer(lambda: getattr(seen, view)(name, line))


@fuzz(120, st.integers(0, 3), named, likely, named, likely, likely, named)
def test_counts_and_accesses(
    which: int, array: Any, line: Any, operation: Any, block: Any, warp: Any, space: Any
) -> None:
    trace = traces()[which]
    answer(lambda: trace.total(array=array, line=line, operation=operation))
    answer(lambda: trace.total("x", line, operation))
    answer(lambda: list(trace.accesses(array, line, block, warp, operation, space)))
    answer(lambda: list(trace.accesses("x", line, block, warp, None, space)))
    answer(lambda: trace.sources(array, line))
    answer(lambda: trace.sources("y", block))
    answer(lambda: trace.source(array, line))


# -- pictures ----------------------------------------------------------------------------------------------------------

PICTURES = {
    "coalescing": (draw.Strip, draw.coalescing, ("line", "warp", "block", "request")),
    "indices": (draw.IndexMap, draw.indices, ("line", "block", "rounds", "threads")),
    "tree": (draw.TreePlan, draw.tree, ("index", "source", "reduction", "expected")),
}


@fuzz(
    150, st.integers(0, 3), st.sampled_from(sorted(PICTURES)), st.one_of(st.sampled_from(("x", "y")), named), st.data()
)
def test_pictures(which: int, picture: str, array: Any, data: Any) -> None:
    plan, _, names = PICTURES[picture]
    options = data.draw(st.dictionaries(st.sampled_from(names), likely, max_size=2))
    found = answer(lambda: plan.of(traces()[which], array, **options))
    if not refused(found):
        assert found.describe()


@fuzz(20, st.sampled_from(sorted(PICTURES)), anything, anything)
def test_pictures_of_nothing_on_nothing(picture: str, trace: Any, ax: Any) -> None:
    answer(lambda: PICTURES[picture][1](trace, "x", ax=ax))
