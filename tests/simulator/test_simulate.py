"""``simulate`` and ``record``: launch shapes, arguments, orders, and what an error becomes."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from numba import cuda, float32

import simulator
from simulator import Launch, OutOfBounds, SimulationError, UnknownName, Unsupported, record, run, simulate
from simulator.machine.faults import Fault, Place
from simulator.program import Pos
from simulator.runs.launch import error_of


@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= float32(2)


@cuda.jit
def unguarded(x, y):
    i = cuda.grid(1)
    y[i] = x[i]


@cuda.jit
def add_one(x, y):
    i = cuda.grid(1)
    y[i] = x[i] + float32(1)


@cuda.jit
def missing_barrier(x, y):
    tile = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    y[i] = tile[63 - i]


@cuda.jit
def barrier_in_a_branch(x):
    i = cuda.threadIdx.x
    if i < 40:
        cuda.syncthreads()
    x[i] = i


@cuda.jit
def raises(x):
    i = cuda.grid(1)
    if x[i] < float32(0):
        raise ValueError("negative")
    x[i] = float32(7)


@cuda.jit
def never_ends(x):
    while x[0] == float32(0):
        x[1] += float32(1)


@cuda.jit
def dynamic(x):
    tile = cuda.shared.array(0, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    cuda.syncthreads()
    x[i] = tile[cuda.blockDim.x - 1 - i]


def plain(x):
    x[cuda.threadIdx.x] = cuda.blockDim.x


class FakeDeviceArray:
    """A CuPy-like array: memory that only ``get`` and ``set`` reach."""

    def __init__(self, memory: np.ndarray) -> None:
        self._memory = memory

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return dict(self._memory.__array_interface__)

    def get(self) -> np.ndarray:
        return self._memory.copy()

    def set(self, values: np.ndarray) -> None:
        self._memory[...] = values


class NumbaLike:
    """A device array with Numba's names for copying."""

    def __init__(self, memory: np.ndarray) -> None:
        self._memory = memory
        self.__cuda_array_interface__ = memory.__array_interface__

    def copy_to_host(self) -> np.ndarray:
        return self._memory.copy()

    def copy_to_device(self, values: np.ndarray) -> None:
        self._memory[...] = values


class Opaque:
    __cuda_array_interface__ = np.zeros(4, np.float32).__array_interface__


# -- the call


def test_arrays_are_updated_in_place() -> None:
    x = np.arange(100, dtype=np.float32)
    trace = simulate(double)[4, 32](x)
    np.testing.assert_array_equal(x, 2 * np.arange(100))
    assert (trace.kernel, trace.grid, trace.block, trace.schedule) == ("double", (4, 1, 1), (32, 1, 1), "waves")
    assert trace.findings == ()


def test_a_plain_function_and_numpy_integers() -> None:
    x = np.zeros(4, np.int64)
    simulate(plain)[np.int64(1), (np.int32(4),)](x)
    np.testing.assert_array_equal(x, [4] * 4)


def test_stream_and_dynamic_shared_memory() -> None:
    x = np.arange(48, dtype=np.float32)
    trace = simulate(dynamic)[1, 48, 0, 48 * 4](x)
    np.testing.assert_array_equal(x, np.arange(48)[::-1])
    assert trace.launch == Launch((1, 1, 1), (48, 1, 1), 192)


@pytest.mark.filterwarnings("ignore:Grid size")
def test_the_slips_are_explained() -> None:
    x = np.zeros(4, np.float32)
    with pytest.raises(TypeError, match=r"needs a launch shape: write simulate\(kernel\)\[grid, block\]"):
        simulate(double)(x)
    with pytest.raises(TypeError, match=r"takes the kernel itself: write simulate\(kernel\)\[grid, block\]"):
        simulate(double[1, 32])(x)
    with pytest.raises(TypeError, match="not int"):
        simulate(3)
    with pytest.raises(ValueError, match=r"a launch is \[grid, block\]"):
        simulate(double)[4]
    with pytest.raises(TypeError, match=r"the block is an int or a tuple of up to three, not 32\.0"):
        simulate(double)[4, 32.0]
    with pytest.raises(ValueError, match="the grid is an int or a tuple of up to three"):
        simulate(double)[(1, 1, 1, 1), 32]
    with pytest.raises(TypeError, match="takes 1 argument"):
        simulate(double)[1, 32](x, x)
    with pytest.raises(ValueError, match="an order is one of waves, first, last, round-robin, random or a seed"):
        simulate(double, orders=("forwards",))
    with pytest.raises(ValueError, match="precision"):
        simulate(double, precision=True)
    with pytest.raises(TypeError, match="a kernel takes its arguments by position: x=… cannot be passed by name"):
        simulate(double)[1, 32](x=x)
    with pytest.raises(TypeError, match="needs a launch shape"):
        simulate(double)(x=x)


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"orders": (1.5,)}, TypeError, "an order that is not a name is a seed: it is an int, not 1.5"),
        ({"orders": 1.5}, TypeError, "orders is a list of names and seeds, not 1.5"),
        ({"orders": (True,)}, TypeError, "not True"),
        ({"orders": (-1,)}, ValueError, "an int from 0 up, not -1"),
        ({"seed": 1.5}, TypeError, "seed is an int, not 1.5"),
        ({"seed": -1}, ValueError, "seed is an int from 0 up, not -1"),
        ({"max_events": -1}, ValueError, "max_events is an int from 0 up, not -1"),
        ({"max_events": 1e6}, TypeError, "max_events is an int, not 1000000.0"),
        ({"max_steps": 0}, ValueError, "max_steps is an int from 1 up, not 0"),
        ({"max_steps": None}, TypeError, "max_steps is an int, not None"),
        ({"keep": 3}, TypeError, 'keep is "auto" or a list of block numbers, not 3'),
        ({"keep": "all"}, ValueError, "keep is \"auto\" or a list of block numbers, not 'all'"),
        ({"keep": [0.5]}, TypeError, "a block number in keep is an int, not 0.5"),
        ({"watch": 3}, TypeError, "watch is a list of names of variables; 3 is not a name"),
        ({"watch": ["i", 3]}, TypeError, "3 is not a name"),
    ],
)
def test_options_are_checked(options: dict[str, Any], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as caught:
        simulate(double, **options)
    assert said in str(caught.value)


@pytest.mark.filterwarnings("ignore:Grid size")
def test_a_launch_that_never_begins_says_so() -> None:
    trace = simulate(double, check=True, keep=[0])[0, 32](np.ones(4, np.float32))
    assert [finding.kind for finding in trace.findings] == ["launch-limit"]
    assert (trace.ran, trace.schedule) == (False, "not run")
    assert simulate(double)[1, 32](np.ones(4, np.float32)).ran


@pytest.mark.parametrize("shape", [(0, 32), (1, 0), (1, 1025), (1, (32, 33)), ((1, 70000), 32), (1, 32, 0, 1 << 20)])
def test_launch_limits(shape: Any) -> None:
    with pytest.raises(SimulationError) as caught:
        simulate(double)[shape](np.zeros(4, np.float32))
    assert [finding.kind for finding in caught.value.findings] == ["launch-limit"]
    trace = simulate(double, check=True)[shape](np.zeros(4, np.float32))
    assert [finding.kind for finding in trace.findings] == ["launch-limit"]
    assert trace.lines == ()


# -- device arrays


@pytest.mark.parametrize("kind", [FakeDeviceArray, NumbaLike])
def test_device_arrays_are_copied_in_and_out(kind: Any) -> None:
    memory = np.arange(50, dtype=np.float32)
    trace = simulate(double)[2, 32](kind(memory))
    np.testing.assert_array_equal(memory, 2 * np.arange(50))
    assert trace.thread(1, 1).reads("x") == [33]


@pytest.mark.parametrize("start", [0, 1, 5])
def test_copies_keep_strides_and_alignment(start: int) -> None:
    owner = np.zeros(4096 + 256, np.uint8)
    first = -owner.__array_interface__["data"][0] % 256
    memory = owner[first : first + 4096].view(np.float32)
    view = memory[start : start + 64 : 2]
    view[...] = np.arange(len(view))
    trace = simulate(double)[1, 32](FakeDeviceArray(view))
    np.testing.assert_array_equal(view, 2 * np.arange(len(view)))
    assert trace.arrays["x"].strides == (8,)
    assert trace.arrays["x"].address % 256 == 4 * start
    assert trace.total(operation="load").sectors == (8 if start % 8 < 2 else 9)


def test_device_arrays_that_overlap_share_memory() -> None:
    memory = np.arange(65, dtype=np.float32)
    simulate(add_one)[1, 64](FakeDeviceArray(memory[:-1]), FakeDeviceArray(memory[1:]))
    np.testing.assert_array_equal(memory, np.arange(65))
    memory[...] = 0
    simulate(add_one, orders=("first",))[1, 64](FakeDeviceArray(memory[:-1]), FakeDeviceArray(memory[1:]))
    assert memory.max() > 1  # one warp after the other: the second saw what the first wrote


def test_negative_strides_on_a_device() -> None:
    memory = np.arange(32, dtype=np.float32)
    out = np.zeros(32, np.float32)
    simulate(unguarded)[1, 32](FakeDeviceArray(memory[::-1]), FakeDeviceArray(out))
    np.testing.assert_array_equal(out, memory[::-1])


def test_device_arrays_without_a_way_to_copy() -> None:
    with pytest.raises(TypeError, match=r"Opaque lives on a device and has neither \.get\(\) nor \.copy_to_host\(\)"):
        simulate(double)[1, 32](Opaque())


# -- errors


def test_out_of_bounds_is_an_index_error_with_finding_and_trace() -> None:
    x, y = np.arange(1, 101, dtype=np.float32), np.zeros(128, np.float32)
    with pytest.raises(OutOfBounds, match="thread 4 of block 3 reads x at index 100 along axis 0") as caught:
        simulate(unguarded, orders=("first",))[4, 32](x, y)
    assert isinstance(caught.value, IndexError)
    (found,) = caught.value.findings
    assert (found.kind, found.severity, found.array, found.element, found.threads) == (
        "out-of-bounds", "error", "x", (100,), (4,),
    )  # fmt: skip
    assert found.sites[0].block == 3
    assert found.lines[0] in (row.line for row in caught.value.trace.lines)
    assert caught.value.trace.thread(2, 1).reads("x") == [34]
    np.testing.assert_array_equal(y[:96], x[:96])  # what was written up to the error stays
    np.testing.assert_array_equal(y[96:], 0)


def test_check_collects_instead_of_raising() -> None:
    trace = simulate(unguarded, check=True)[4, 32](np.zeros(100, np.float32), np.zeros(128, np.float32))
    assert [(found.kind, found.count) for found in trace.findings] == [("out-of-bounds", 28)]


@pytest.mark.parametrize("orders", [None, ("first",), (3,)])
def test_barrier_divergence_names_both_lines_and_who_is_missing(orders: Any) -> None:
    with pytest.raises(SimulationError, match=r"wait at syncthreads, but threads 40 to 63") as caught:
        simulate(barrier_in_a_branch, orders=orders)[1, 64](np.zeros(64, np.float32))
    assert caught.value.findings[0].kind == "barrier-divergence"
    assert "threads 40 to 63 (24 of them)" in str(caught.value)


def test_a_hang_ends_as_a_deadlock() -> None:
    with pytest.raises(SimulationError, match="budget of 2000 steps") as caught:
        simulate(never_ends, max_steps=2000)[1, 1](np.zeros(2, np.float32))
    assert caught.value.findings[0].kind == "deadlock"


def test_a_raise_is_a_warning_and_does_not_stop_the_run() -> None:
    x = np.array([1, -1, 1, -1], np.float32)
    trace = simulate(raises)[1, 4](x)
    np.testing.assert_array_equal(x, [7, -1, 7, -1])
    assert [(f.kind, f.severity, f.count, f.threads) for f in trace.findings] == [
        ("kernel-exception", "warning", 2, (1,))
    ]


@cuda.jit
def ill_typed(x):
    x[0] = "text"


def test_what_numba_refuses_does_not_compile() -> None:
    with pytest.raises(SimulationError, match="Numba cannot compile the kernel") as caught:
        simulate(ill_typed)[1, 32](np.zeros(4, np.float32))
    assert caught.value.findings[0].kind == "does-not-compile"
    trace = simulate(ill_typed, check=True)[1, 32](np.zeros(4, np.float32))
    assert [found.kind for found in trace.findings] == ["does-not-compile"]
    with pytest.raises(SimulationError, match="Numba cannot compile the kernel"):
        run(ill_typed, Launch((1, 1, 1), (32, 1, 1)), (np.zeros(4, np.float32),))


def test_a_read_only_argument_does_not_compile_as_on_the_device() -> None:
    x = np.zeros(4, np.float32)
    x.flags.writeable = False
    with pytest.raises(SimulationError, match="readonly") as caught:
        simulate(double)[1, 32](x)
    assert caught.value.findings[0].kind == "does-not-compile"


def test_a_store_to_read_only_memory_is_a_value_error() -> None:
    fault = Fault("read-only", (Place(Pos("k.py", 3), 0, (1,), "st"),), array="table", space="const")
    error = error_of(fault, "k", Launch((1, 1, 1), (32, 1, 1)), None, None)
    assert isinstance(error, ValueError)
    assert isinstance(error, SimulationError)
    assert str(error) == "k.py:3: the kernel writes to table, which is read-only (const memory)"


def test_unsupported_is_a_not_implemented_error() -> None:
    @cuda.jit
    def copies(x):
        x[0] = cuda.libdevice.j0f(x[1])

    with pytest.raises(Unsupported, match=r"test_simulate\.py:\d+: .* is not supported") as caught:
        simulate(copies)[1, 32](np.zeros(4, np.float32))
    assert isinstance(caught.value, NotImplementedError)


# -- orders


def test_orders_start_from_the_same_inputs_and_keep_the_first_result() -> None:
    x = np.ones(40, np.float32)
    trace = simulate(double, orders=("last", "first", "waves", 3))[2, 32](x)
    np.testing.assert_array_equal(x, 2)
    assert (trace.schedule, trace.findings) == ("last", ())


def test_orders_that_disagree_are_a_finding() -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    trace = simulate(missing_barrier, orders=("waves", "first", "last", 1))[1, 64](x, y)
    np.testing.assert_array_equal(y, x[::-1])
    (found,) = trace.findings
    assert (found.kind, found.severity, found.array) == ("order-dependent", "warning", "y")
    assert found.replay is not None
    assert found.replay.order == "first"
    assert "in order waves" in found.message
    assert "in order first" in found.message
    assert found.threads == found.element  # y[i] is written by thread i
    alone = simulate(missing_barrier, orders=(found.replay.order,), seed=found.replay.seed)[1, 64](x, y)
    assert alone.findings == ()
    assert not np.array_equal(y, x[::-1])


def test_the_same_seed_gives_the_same_run() -> None:
    results = []
    for _ in range(2):
        y = np.zeros(64, np.float32)
        trace = simulate(missing_barrier, orders=("random",), seed=11)[1, 64](np.arange(64, dtype=np.float32), y)
        results.append((y.tobytes(), [(a.step, a.warp, a.line) for a in trace.accesses()], trace.schedule))
    assert results[0] == results[1]
    assert results[0][2] == "random (seed 11)"


def test_a_fault_in_a_later_order_is_raised_with_its_replay() -> None:
    @cuda.jit
    def reads_what_the_other_warp_wrote(x, y):
        index = cuda.shared.array(64, "uint32")  # poison is far outside
        i = cuda.threadIdx.x
        index[i] = 63 - i
        y[i] = x[index[63 - i]]

    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    with pytest.raises(SimulationError) as caught:
        simulate(reads_what_the_other_warp_wrote, orders=("waves", "first"))[1, 64](x, y)
    assert caught.value.findings[0].replay.order == "first"
    np.testing.assert_array_equal(y, x)  # the first order's result stands


# -- record and run


def test_record_collects_the_launches_of_a_library() -> None:
    def library(x: np.ndarray) -> None:
        run(double, Launch((4, 1, 1), (32, 1, 1)), (x,))

    x = np.ones(100, np.float32)
    library(x)
    with record(watch=("i",)) as traces:
        library(x)
        simulate(double)[4, 32](x)
        with record() as inner:
            library(x)
    library(x)
    np.testing.assert_array_equal(x, 32)
    assert [trace.kernel for trace in traces] == ["double", "double"]
    assert len(inner) == 1
    assert traces[0].thread(3, 1).values("i") == [35]


def test_record_sees_its_own_thread_alone() -> None:
    x = np.ones(32, np.float32)
    with record() as traces:
        other = threading.Thread(target=lambda: run(double, Launch((1, 1, 1), (32, 1, 1)), (np.ones(32, np.float32),)))
        other.start()
        other.join()
        run(double, Launch((1, 1, 1), (32, 1, 1)), (x,))
    assert len(traces) == 1


def test_run_raises_what_simulate_raises() -> None:
    with pytest.raises(OutOfBounds, match="reads x at index 4"):
        run(unguarded, Launch((1, 1, 1), (32, 1, 1)), (np.zeros(4, np.float32), np.zeros(32, np.float32)))


def test_threads_can_simulate_at_the_same_time() -> None:
    arrays = [np.full(2000, k, np.float32) for k in range(6)]
    traces: list[Any] = [None] * 6

    def work(k: int) -> None:
        traces[k] = simulate(double)[63, 32](arrays[k])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, array in enumerate(arrays):
        np.testing.assert_array_equal(array, 2 * k)
        assert traces[k].total(operation="load").requests == 63


def test_draw_is_imported_when_it_is_asked_for() -> None:
    assert simulator.draw.__name__ == "simulator.draw"
    with pytest.raises(AttributeError, match="no attribute 'paint'"):
        simulator.paint


def test_lineage_is_carried_when_asked() -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    trace = simulate(add_one, lineage=True)[2, 32](x, y)
    assert trace.sources("y", 5) == {("x", 5)}
    with pytest.raises(UnknownName):
        trace.sources("z", 5)


def test_progress_counts_blocks() -> None:
    told: list[tuple[int, int]] = []
    simulate(double, progress=lambda done, blocks: told.append((done, blocks)))[200, 256](np.ones(51200, np.float32))
    assert [done for done, _ in told] == sorted({done for done, _ in told}) and told[-1] == (200, 200)
    assert len(told) > 1 and {blocks for _, blocks in told} == {200}
