"""Traces of real kernels: who reads and writes what, in which order, and what the log does not hold."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba import cuda, float32, int32

from simulator import NotRecorded, SimulationError, UnknownName, Unsupported, simulate
from simulator.frontend.refusal import DoesNotCompile
from simulator.machine.memory import Allocation, Memory, View, make_access
from simulator.machine.values import Lanes
from simulator.observers.steps import Steps
from simulator.program import Op, Pos, Program
from simulator.views.json import document
from simulator.views.text import head


@cuda.jit
def row_sums(x, y):
    row = cuda.blockIdx.x
    acc = float32(0)
    for j in range(cuda.threadIdx.x, x.shape[1], cuda.blockDim.x):
        acc += x[row, j]
    cuda.atomic.add(y, row, acc)


@cuda.jit
def transpose(x, y):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[j, i] = x[i, j]


@cuda.jit
def reverse_in_shared(x, y):
    tile = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    cuda.syncthreads()
    y[i] = tile[63 - i]


@cuda.jit
def odd_threads(x):
    i = cuda.grid(1)
    if i % 2 == 1 and i < x.size:
        x[i] = x[i] + x[0]


@cuda.jit
def countdown(x):
    n = int32(x[cuda.threadIdx.x])
    while n > 0:
        n -= int32(2)
    x[cuda.threadIdx.x] = n


BOTH = pytest.mark.parametrize("values", ["affine", "vector"])


def lines_of(kernel: Any, text: str) -> int:
    """The line of a kernel that holds this text."""
    code = kernel.py_func.__code__
    with open(code.co_filename) as file:
        return next(k for k, line in enumerate(file, 1) if k >= code.co_firstlineno and text in line)


# -- one thread


@BOTH
def test_a_thread_reads_its_strided_elements(values: str) -> None:
    x = np.arange(2 * 100, dtype=np.float32).reshape(2, 100)
    y = np.zeros(2, np.float32)
    trace = simulate(row_sums, values=values)[2, 32](x, y)
    np.testing.assert_array_equal(y, x.sum(axis=1))
    assert trace.thread(0).reads("x") == [0, 32, 64, 96]
    assert trace.thread(5).indices("x") == [5, 37, 69]
    assert trace.thread(3, block=1).reads("x") == [103, 135, 167, 199]
    assert trace.thread(3, block=1).coords("x") == [(1, 3), (1, 35), (1, 67), (1, 99)]
    assert trace.thread(3, 1).writes("x") == []
    assert trace.thread(3, 1).writes("y") == trace.thread(3, 1).reads("y") == [1]  # an atomic reads and writes


@BOTH
def test_thread_and_block_as_numbers_and_tuples(values: str) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    y = np.zeros((4, 3), np.float32)
    trace = simulate(transpose, values=values)[(1, 2), (4, 2)](x, y)
    np.testing.assert_array_equal(y, x.T)
    # thread (2, 1) of block (0, 1): i = 2, j = 3
    assert trace.thread((2, 1), (0, 1)).coords("x") == [(2, 3)]
    assert trace.thread(6, 1).writes("y") == [3 * 3 + 2]
    assert trace.thread((3, 0)).table() == []  # i = 3 is outside


@pytest.mark.parametrize(
    ("thread", "block"), [(8, 0), (-1, 0), ((4, 0), 0), ((0, 2), 0), ((0, 0, 1), 0), (0, 2), (0, (0, 2)), (0, (1, 0))]
)
def test_a_thread_that_is_not_there(thread: Any, block: Any) -> None:
    trace = simulate(transpose)[(1, 2), (4, 2)](np.ones((3, 4), np.float32), np.ones((4, 3), np.float32))
    with pytest.raises(IndexError, match=r"there is no (thread|block) .* in this launch.*block \(4, 2, 1\)"):
        trace.thread(thread, block)


@pytest.mark.parametrize("number", [1.5, (), True, "a", (0, 0, 0, 0), (0, 1.5), None, [0]])
def test_a_thread_is_an_int_or_a_tuple(number: Any) -> None:
    trace = simulate(odd_threads)[1, 32](np.ones(32, np.float32))
    with pytest.raises(TypeError, match="a thread is an int or a tuple of up to three, not "):
        trace.thread(number)
    with pytest.raises(TypeError, match="a block is an int or a tuple of up to three, not "):
        trace.thread(0, number)
    assert trace.thread(np.int64(1)).reads("x") == trace.thread((1,)).reads("x") == [1, 0]


@BOTH
def test_elements_are_those_of_the_argument_whatever_its_strides(values: str) -> None:
    base = np.arange(2 * 40, dtype=np.float32).reshape(2, 40)
    for x in (base[:, ::4], base[::-1, ::-1], base.T[:2]):
        y = np.zeros(x.shape[0], np.float32)
        trace = simulate(row_sums, values=values)[x.shape[0], 8](x, y)
        np.testing.assert_array_equal(y, x.sum(axis=1))
        columns = x.shape[1]
        assert trace.thread(0, 1).reads("x") == list(range(columns, 2 * columns, 8))  # row 1, in C order of the view
        assert trace.thread(1, 1).coords("x") == [(1, j) for j in range(1, columns, 8)]
        assert trace.arrays["x"].strides == x.strides


@BOTH
def test_shared_memory_and_order_within_a_thread(values: str) -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    trace = simulate(reverse_in_shared, values=values)[1, 64](x, y)
    np.testing.assert_array_equal(y, x[::-1])
    rows = trace.thread(40).table()
    assert [(row.step, row.operation, row.array, row.index) for row in rows] == [
        (0, "load", "x", (40,)),
        (1, "store", "tile", (40,)),
        (2, "load", "tile", (23,)),
        (3, "store", "y", (40,)),
    ]
    assert rows[0].line == lines_of(reverse_in_shared, "tile[i] = x[i]")
    assert trace.arrays["tile"].space == "shared"
    assert trace.arrays["tile"].shape == (64,)
    assert trace.total("tile").requests == 4
    assert trace.total("tile").sectors == 0


@BOTH
def test_inactive_threads_do_nothing(values: str) -> None:
    x = np.ones(50, np.float32)
    trace = simulate(odd_threads, values=values)[1, 64](x)
    assert trace.thread(2).table() == []
    assert trace.thread(51).table() == []
    assert trace.thread(49).reads("x") == [49, 0]
    assert trace.total("x", operation="store").lanes == 25


@BOTH
def test_watched_variables_keep_their_dtype(values: str) -> None:
    x = np.array([5, 0, 2, 1], np.float32)
    trace = simulate(countdown, watch=("n",), values=values)[1, 4](x)
    assert trace.thread(0).values("n") == [5, 3, 1, -1]
    assert trace.thread(1).values("n") == [0]
    assert trace.thread(2).values("n") == [2, 0]
    # Numba types int32 - int32 as int64, and the variable with it
    assert [value.dtype.name for value in trace.thread(0).values("n")] == ["int32", "int64", "int64", "int64"]
    with pytest.raises(NotRecorded, match=r"watch=\('x',\)"):
        trace.thread(0).values("x")


def test_watching_an_unknown_variable() -> None:
    with pytest.raises(UnknownName, match=r"no variable 'm' to watch; it has .*n"):
        simulate(countdown, watch=("m",))[1, 4](np.ones(4, np.float32))


def test_an_unknown_array_lists_those_there_are() -> None:
    trace = simulate(odd_threads)[1, 64](np.ones(50, np.float32))
    for ask in (
        lambda: trace.thread(0).reads("z"),
        lambda: trace.total("z"),
        lambda: next(trace.accesses("z")),
        lambda: trace.sources("z", 0),
    ):
        with pytest.raises(KeyError, match="the launch has no array 'z'; it has x"):
            ask()


# -- requests


@BOTH
@pytest.mark.parametrize("order", ["waves", "last", 3])
def test_accesses_are_warp_requests(values: str, order: Any) -> None:
    x = np.arange(2 * 96, dtype=np.float32).reshape(2, 96)
    trace = simulate(row_sums, values=values, orders=(order,))[2, 48](x, np.zeros(2, np.float32))
    found = list(trace.accesses("x", block=1, warp=1))
    assert [access.round for access in found] == [0, 1]
    assert [int(access.mask.sum()) for access in found] == [16, 16]
    first = found[0]
    assert (first.operation, first.array, first.space, first.itemsize, first.nbytes) == ("load", "x", "global", 4, 4)
    start = trace.arrays["x"].address
    assert start is not None
    np.testing.assert_array_equal(first.elements[:16], np.arange(128, 144))
    np.testing.assert_array_equal(first.addresses[:16], start + 4 * np.arange(128, 144))
    assert (first.elements[16:] == -1).all()
    assert (first.addresses[16:] == -1).all()
    assert len(list(trace.accesses("x"))) == trace.total("x").requests == 8
    assert trace.total("x").lanes == 192
    assert len(list(trace.accesses(operation="atomic"))) == 4
    assert list(trace.accesses("x", line=first.line + 1)) == []


def test_steps_count_operations_and_rounds_iterations() -> None:
    trace = simulate(row_sums)[1, 32](np.ones((1, 96), np.float32), np.zeros(1, np.float32))
    assert [(a.step, a.round, a.operation) for a in trace.accesses()] == [
        (0, 0, "load"), (1, 1, "load"), (2, 2, "load"), (3, 0, "atomic"),
    ]  # fmt: skip


# -- counts


@BOTH
def test_counts_by_hand(values: str) -> None:
    x = np.ones((2, 100), np.float32)  # rows of 400 bytes: block 1 starts 16 bytes into a sector
    trace = simulate(row_sums, values=values)[2, 32](x, np.zeros(2, np.float32))
    load, atomic = trace.lines
    # block 0: 4 + 4 + 4 + 1; block 1: 5 + 5 + 5 + 1 (4 elements, 16 bytes, inside one sector)
    assert (load.array, load.operation, load.requests, load.sectors) == ("x", "load", 8, 13 + 16)
    assert (load.ideal, load.unique, load.lanes, load.bytes) == (2 * 13, 25, 200, 800)
    assert (atomic.array, atomic.operation, atomic.requests, atomic.sectors, atomic.ideal) == ("y", "atomic", 2, 2, 2)
    assert atomic.unique == 1
    assert load.file.endswith("test_trace.py")
    assert load.line < atomic.line
    assert load.wavefronts is None
    assert trace.source(load.file, load.line).strip() == "acc += x[row, j]"


@BOTH
def test_counts_do_not_depend_on_the_order_where_nothing_diverges(values: str) -> None:
    x = np.ones((3, 192), np.float16)
    rows = [
        simulate(row_sums, values=values, orders=(order,))[3, 64](x, np.zeros(3, np.float32)).lines
        for order in ("waves", "first", "last", 5)
    ]
    assert rows[0] == rows[1] == rows[2] == rows[3]
    assert (rows[0][0].requests, rows[0][0].sectors) == (18, 36)


def test_a_total_counts_a_sector_once_over_lines() -> None:
    trace = simulate(odd_threads)[1, 64](np.ones(64, np.float32))
    total = trace.total("x")
    assert total.requests == sum(row.requests for row in trace.lines) == 6
    assert total.unique == 8 == max(row.unique for row in trace.lines)
    assert (total.operation, total.array, total.space) == ("", "x", "global")
    with pytest.raises(ValueError, match="operation is one of load, store, atomic"):
        trace.total("x", operation="read")


# -- what the log does not hold


def test_the_budget_limits_the_log_never_the_counts() -> None:
    x = np.ones((8, 64), np.float32)
    y = np.zeros(8, np.float32)
    trace = simulate(row_sums, max_events=10)[8, 32](x, y)
    np.testing.assert_array_equal(y, np.full(8, 64, np.float32))
    assert trace.total("x").requests == 16
    assert trace.truncated
    assert 0 in trace.recorded
    assert trace.thread(1).reads("x") == [1, 33]
    assert len(list(trace.accesses(block=0))) == 3
    with pytest.raises(NotRecorded, match=r"keep=\[7\] .*max_events"):
        trace.thread(0, block=7).reads("x")
    with pytest.raises(NotRecorded, match="keep="):
        next(trace.accesses(block=7))
    with pytest.raises(NotRecorded, match="all blocks"):
        next(trace.accesses("x"))


def test_keep_limits_the_log_to_blocks() -> None:
    x = np.ones((8, 64), np.float32)
    trace = simulate(row_sums, keep=[3, 6])[8, 32](x, np.zeros(8, np.float32))
    assert trace.recorded == (3, 6)
    assert trace.truncated
    assert trace.thread(1, 6).reads("x") == [6 * 64 + 1, 6 * 64 + 33]
    with pytest.raises(NotRecorded, match=r"keep=\[0\]"):
        trace.thread(0).reads("x")
    with pytest.raises(IndexError, match="keep names block 8"):
        simulate(row_sums, keep=[8])[8, 32](x, np.zeros(8, np.float32))
    with pytest.raises(ValueError, match="keep is"):
        simulate(row_sums, keep="all")[8, 32](x, np.zeros(8, np.float32))


def test_a_launch_within_the_budget_is_complete() -> None:
    trace = simulate(row_sums)[8, 32](np.ones((8, 64), np.float32), np.zeros(8, np.float32))
    assert not trace.truncated
    assert trace.recorded == tuple(range(8))


def test_the_log_never_answers_for_a_block_that_it_lost_halfway() -> None:
    steps = Steps(max_events=4)
    steps.launch(Program("k", "numba", Pos("k.py", 1)), (2, 1, 1), (32, 1, 1), Memory())
    view = View("x", np.dtype("f4"), (256,), (4,), 0)
    allocation = Allocation(0, 1024, "x", "global", np.zeros(0, np.uint8), (view,))
    access = make_access(Op("ld", "f4", (1,), (0,), Pos("k.py", 7), {"name": "x"}), 0)
    lanes = Lanes(2, 32)
    only_zero = np.repeat([[True], [False]], 32, axis=1)
    held = []
    for mask in (None, None, only_zero, None, None, only_zero, only_zero):
        split = SimpleNamespace(lanes=lanes, mask=mask)
        steps.access(split, access, allocation, np.arange(64).reshape(2, 32) * 4)  # type: ignore[arg-type]
        held.append((steps.holds(0), steps.holds(1)))
    # 2 full groups spend the budget of 4; then block 0 goes on alone for 4 more, and nobody after that
    assert held == [(True, True)] * 3 + [(True, False)] * 3 + [(False, False)]
    assert len(steps.records) == 6
    assert steps.records[-1].address.shape == (1, 32)  # block 0 alone holds nothing of the others


# -- domains and views


def test_questions_to_a_domain_that_was_off() -> None:
    trace = simulate(odd_threads)[1, 64](np.ones(64, np.float32))
    with pytest.raises(NotRecorded, match="lineage=True"):
        trace.lineage
    with pytest.raises(ValueError, match="lineage=True"):
        trace.sources("x", 0)


def test_shown_as_text_and_in_a_notebook() -> None:
    trace = simulate(row_sums)[2, 32](np.ones((2, 100), np.float32), np.zeros(2, np.float32))
    text = repr(trace)
    assert text.startswith("Trace of row_sums: grid 2, block 32, waves\n")
    assert "load" in text
    assert "29" in text
    page = trace._repr_html_()
    assert page.count("<tr>") == 3
    assert "acc += x[row, j]" in page


@cuda.jit
def escaped(x):
    if cuda.threadIdx.x < 3:
        x[0] = 1 if x[1] < 2 else 2


def test_every_view_tells_the_orders_of_a_check() -> None:
    trace = simulate(odd_threads, orders=["waves", 7])[1, 64](np.ones(64, np.float32))
    said = "checked in 2 orders: waves; random (seed 7)"
    assert said in repr(trace)
    assert f"waves<br>{said}</caption>" in trace._repr_html_()
    assert said in head(trace).plain
    assert document(trace)["orders"] == ["waves", "random (seed 7)"]
    assert "checked in" not in simulate(odd_threads)[1, 64](np.ones(64, np.float32))._repr_html_()


@pytest.mark.parametrize("options", [{}, {"check": True}, {"lineage": True, "operations": True}, {"max_events": 1}])
def test_a_trace_goes_to_another_process_and_answers_there(options: dict[str, Any]) -> None:
    x, y = np.ones((2, 40), np.float32), np.zeros(2, np.float32)
    trace = simulate(row_sums, watch=("acc",), **options)[2, 32](x, y)
    there = pickle.loads(pickle.dumps(trace))
    assert repr(there) == repr(trace)
    assert there._repr_html_() == trace._repr_html_()
    assert (there.findings, there.orders, there.arrays) == (trace.findings, trace.orders, trace.arrays)
    if not trace.truncated:
        assert document(there, 3, 1, ["acc"]) == document(trace, 3, 1, ["acc"])
    if "lineage" in options:
        assert there.sources("y", 1) == trace.sources("y", 1)
        assert there.operations == trace.operations
    assert there.machine_code is None


def test_errors_go_to_another_process_with_their_findings() -> None:
    with pytest.raises(SimulationError) as caught:
        simulate(transpose)[1, (4, 4)](np.ones((2, 2)), np.ones((1, 2)))
    there = pickle.loads(pickle.dumps(caught.value))
    assert (str(there), there.findings, type(there)) == (str(caught.value), caught.value.findings, type(caught.value))
    assert repr(there.trace) == repr(caught.value.trace)
    for error in (Unsupported(Pos("k.py", 3), "a list", "use a tuple"), DoesNotCompile("no", Pos("k.py", 3))):
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.pos, type(again)) == (str(error), error.pos, type(error))


def test_a_kernels_exception_that_cannot_be_pickled_is_named() -> None:
    class Private(Exception):
        """A class that no other process has."""

    @cuda.jit(debug=True, opt=False)
    def raises(x):
        if x[0] > 0:
            raise Private("no")

    trace = simulate(raises, check=True)[1, 1](np.ones(1))
    with pytest.raises(TypeError, match=r"a Private that the kernel raised.*set trace\.exception = None"):
        pickle.dumps(trace)
    trace.exception = None
    assert pickle.loads(pickle.dumps(trace)).findings == trace.findings


def test_the_notebook_table_escapes_source() -> None:
    page = simulate(escaped)[1, 32](np.ones(4, np.float32))._repr_html_()
    assert "if x[1] &lt; 2 else 2" in page
    assert "x[1] < 2" not in page
