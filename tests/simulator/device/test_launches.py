"""Launches on the stand-in device: Numba's dispatcher chooses and casts, the simulator runs."""

from __future__ import annotations

import gc
import threading
from typing import Any
from weakref import ref

import numpy as np
import pytest
from numba import cuda, float32, vectorize
from numba.cuda import guvectorize, launchconfig
from numba.cuda.core.rewrites import Rewrite, register_rewrite, rewrite_registry
from numba.cuda.memory_management.nrt import rtsys

from simulator import NotRecorded, OutOfBounds, Unsupported, device, simulate

HOST_COPY = "ignore:Host array used in CUDA kernel"


@cuda.jit
def double(x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]


@cuda.jit
def shift(x: Any) -> None:
    x[cuda.grid(1) + 1] = 0


def numbers(size: int = 70) -> np.ndarray:
    return np.arange(size, dtype=np.float32)


def test_device_arrays() -> None:
    with device() as gpu:
        x, y = cuda.to_device(numbers()), cuda.device_array(70, np.float32)
        double[3, 32](x, y)
        double[2, 16](x[::2], y[1:36])
        assert gpu.launches == 2
        found = y.copy_to_host()
    expected = 2 * numbers()
    expected[1:33] = 4 * numbers(32)
    assert np.array_equal(found, expected)


@pytest.mark.filterwarnings(HOST_COPY)
def test_host_arrays_go_there_and_back() -> None:
    x, y, z = numbers(), np.zeros(70, np.float32), np.zeros(70, np.float32)
    with device():
        double[3, 32](x, y)
        double[3, 32](cuda.In(x), cuda.Out(z))
        double[3, 32](cuda.InOut(x), cuda.InOut(x))  # two copies: the later one is written back last
    assert np.array_equal(y, 2 * numbers())
    assert np.array_equal(z, 2 * numbers())
    assert np.array_equal(x, 2 * numbers())


@pytest.mark.filterwarnings(HOST_COPY)
def test_in_is_not_written_back_and_out_is_not_read() -> None:
    @cuda.jit
    def add(x: Any, y: Any) -> None:
        x[cuda.threadIdx.x] += 1
        y[cuda.threadIdx.x] += 1

    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)
    with device():
        add[1, 4](cuda.In(x), cuda.Out(y))
    assert x.tolist() == [0] * 4
    assert np.isnan(y).all()


def test_forall_and_specialize() -> None:
    with device() as gpu:
        x, y = cuda.to_device(numbers(3000)), cuda.device_array(3000, np.float32)
        double.forall(3000)(x, y)
        assert np.array_equal(y.copy_to_host(), 2 * numbers(3000))
        double.specialize(x, y)[1, 32](y, x)
        assert np.array_equal(x.copy_to_host()[:32], 4 * numbers(32))
        assert gpu.launches == 2


def test_signatures_decide_the_types() -> None:
    """Eager signatures: arguments are cast, and the kernel computes in the types that were asked for."""
    with device(record=True) as gpu:

        @cuda.jit("void(float32[:], int8, float64)")
        def store(x: Any, small: int, wide: float) -> None:
            x[0] = small
            x[1] = wide

        assert len(store.signatures) == 1
        x = cuda.to_device(np.zeros(2, np.float32))
        store[1, 1](x, 300, np.float32(0.5))
        assert x.copy_to_host().tolist() == [44, 0.5]
        with pytest.raises(TypeError, match=r"x is array\(int32, 1d, C\), the signature says array\(float32, 1d, A\)"):
            store[1, 1](cuda.to_device(np.zeros(2, np.int32)), 1, 2)
        assert [trace.kernel for trace in gpu.traces] == ["store"]


def test_a_signature_reads_integers_as_signed_or_not() -> None:
    """The bytes are the same; of another width they would not be."""
    with device():

        @cuda.jit("void(int32[:], int32[:])")
        def negated(x: Any, y: Any) -> None:
            y[cuda.threadIdx.x] = -(x[cuda.threadIdx.x] // 2)

        x, y = cuda.to_device(np.uint32([2**32 - 4, 6])), cuda.to_device(np.zeros(2, np.int32))
        negated[1, 2](x, y)
        assert y.copy_to_host().tolist() == [2, -3]
        with pytest.raises(TypeError, match=r"x is array\(uint64, 1d, C\)"):
            negated[1, 2](cuda.to_device(np.uint64([1])), y)


def test_the_signature_that_fits_best_is_taken() -> None:
    with device():

        @cuda.jit(["void(int64[:], int64)", "void(int64[:], float64)"])
        def which(x: Any, value: Any) -> None:
            x[0] = value / 2 * 2 + 0.5 if value == 2.75 else value

        x = cuda.to_device(np.zeros(1, np.int64))
        which[1, 1](x, np.int16(-3))
        assert x.copy_to_host()[0] == -3
        which[1, 1](x, 2.75)
        assert x.copy_to_host()[0] == 3


def test_errors_raise_as_by_simulate() -> None:
    with device():
        x = cuda.to_device(numbers(32))
        with pytest.raises(OutOfBounds, match="thread 31 of block 0"):
            shift[1, 32](x)
        double[1, 32](x, x)  # the device goes on


def test_exceptions_of_kernels_in_debug_mode() -> None:
    @cuda.jit(debug=True, opt=False)
    def picky(x: Any) -> None:
        if cuda.grid(1) == 2:
            raise ValueError("two is too many")

    with device(), pytest.raises(ValueError, match=r"tid=\[0, 0, 2\] ctaid=\[0, 0, 0\]: two is too many"):
        picky[1, 4](cuda.to_device(numbers()))


def test_a_check_collects() -> None:
    @cuda.jit
    def racy(x: Any, y: Any) -> None:
        s = cuda.shared.array(64, float32)
        s[cuda.threadIdx.x] = x[cuda.threadIdx.x]
        y[cuda.threadIdx.x] = s[63 - cuda.threadIdx.x]

    seen: list[str] = []
    with device(check=True, on_trace=lambda trace: seen.append(trace.kernel)) as gpu:
        x = cuda.to_device(numbers(64))
        racy[1, 64](x, cuda.device_array_like(x))
        racy[1, 64](x, cuda.device_array_like(x))
        shift[1, 64](x)
    errors = [finding.kind for finding in gpu.findings if finding.severity == "error"]
    assert errors == ["race-shared", "out-of-bounds"]  # the second launch adds none
    assert seen == ["racy", "racy", "shift"] == [trace.kernel for trace in gpu.traces]


def test_a_check_knows_what_nobody_has_written() -> None:
    with device(check=True) as gpu:
        x = cuda.device_array(32, np.float32)
        double[1, 32](x[:16], cuda.device_array(32, np.float32))
        assert [finding.kind for finding in gpu.findings if finding.severity == "error"] == ["uninitialized-read"]
    with device(check=True) as gpu:
        x, y = cuda.device_array(32, np.float32), cuda.device_array(32, np.float32)
        x[:16] = 1
        double[1, 32](x[:16], y[16:])
        double[1, 32](y[16:], x[:16])  # what a kernel has written is written
        assert [finding.kind for finding in gpu.findings if finding.severity == "error"] == []
        double[1, 32](y[:16], x[:16])
        assert [finding.kind for finding in gpu.findings if finding.severity == "error"] == ["uninitialized-read"]


def test_traces_are_kept_where_asked() -> None:
    with device() as gpu:
        assert gpu.traces == []
        double[1, 32](cuda.to_device(numbers(8)), cuda.device_array(8, np.float32))
        with pytest.raises(NotRecorded, match="record=True"):
            _ = gpu.traces
    with device(watch=("i",)) as gpu:
        double[1, 32](cuda.to_device(numbers(8)), cuda.device_array(8, np.float32))
    assert gpu.traces[0].thread(3).values("i") == [3]


def test_a_kernel_that_is_compiled_for_its_launch() -> None:
    """A rewrite of Numba's that asks for the shape of the launch is asked anew for each shape, on every device."""
    seen: list[int] = []

    class Asks(Rewrite):
        block: Any = None

        def __init__(self, state: Any) -> None:
            pass

        def match(self, func_ir: Any, block: Any, typemap: Any, calltypes: Any) -> bool:
            mine = func_ir.func_id.func_name == "asks_for_its_launch" and self.block is None
            self.block = block if mine else self.block
            return mine

        def apply(self) -> Any:
            config = launchconfig.ensure_current_launch_config()
            seen.append(config.blockdim[0])
            config.dispatcher.mark_launch_config_sensitive()
            return self.block

    @cuda.jit
    def asks_for_its_launch(x: Any) -> None:
        x[cuda.threadIdx.x] += 1

    register_rewrite("after-inference")(Asks)
    try:
        with device():
            with pytest.raises(RuntimeError, match="No launch config set"):
                asks_for_its_launch.compile((float32[::1],))
            for threads in (4, 8, 8, 4):
                asks_for_its_launch[1, threads](cuda.to_device(numbers(8)))
        assert seen == [4, 8]
        with device():
            x = cuda.to_device(numbers(8))
            asks_for_its_launch[1, 8](x)
            assert x.copy_to_host().tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
        assert seen == [4, 8, 8]
    finally:
        rewrite_registry.rewrites["after-inference"].remove(Asks)


def test_extensions_prepare_arguments() -> None:
    class Doubles:
        def prepare_args(self, kind: Any, value: Any, stream: Any, retr: Any) -> Any:
            return kind, 2 * value if isinstance(value, int) else value

    @cuda.jit(extensions=[Doubles()])
    def store(x: Any, value: int) -> None:
        x[0] = value

    with device():
        x = cuda.to_device(np.zeros(1))
        store[1, 1](x, 21)
        assert x.copy_to_host()[0] == 42


def test_kernels_that_numba_writes() -> None:
    with device() as gpu:
        total = cuda.reduce(lambda a, b: a + b)
        assert total(cuda.to_device(np.arange(100.0))) == 4950

        @vectorize(["float32(float32, float32)"], target="cuda")
        def hypotenuse(a: Any, b: Any) -> Any:
            return (a * a + b * b) ** 0.5

        @guvectorize(["void(float32[:], float32[:])"], "(n)->()", target="cuda")
        def sums(row: Any, out: Any) -> None:
            out[0] = 0
            for item in row:
                out[0] += item

        assert np.allclose(hypotenuse(3 * numbers(), 4 * numbers()), 5 * numbers())
        assert sums(numbers(12).reshape(3, 4)).tolist() == [6, 22, 38]
        assert gpu.launches >= 3


def test_simulate_takes_its_arrays_and_kernels_with_signatures() -> None:
    with device() as gpu:

        @cuda.jit("void(float32[:], float32)")
        def fill(x: Any, value: float) -> None:
            x[cuda.threadIdx.x] = value

        x = cuda.to_device(numbers(8))
        trace = simulate(fill)[1, 4](x[2:], 1)
        assert x.copy_to_host().tolist() == [0, 1, 1, 1, 1, 1, 6, 7]
        assert trace.total("x").bytes == 16  # float32, as declared; the int is cast
        assert gpu.launches == 0  # that was not the device's
        assert [finding.kind for finding in trace.findings] == []


def test_threads_launch_side_by_side() -> None:
    results: dict[int, float] = {}

    def work(number: int) -> None:
        x, y = cuda.to_device(np.full(64, number, np.float32)), cuda.device_array(64, np.float32)
        for _ in range(3):
            double[2, 32](x, y)
        results[number] = float(y.copy_to_host().sum())

    with device() as gpu:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert gpu.launches == 18
    assert results == {number: 128.0 * number for number in range(6)}


def test_globals_changed_before_a_recompile() -> None:
    names: dict[str, Any] = {"cuda": cuda, "step": 5}
    exec("def add(x):\n    x[0] += step\n", names)
    add = cuda.jit(names["add"])
    with device():
        x = cuda.to_device(np.zeros(1))
        add[1, 1](x)
        names["step"] = 7
        add[1, 1](x)
        assert x.copy_to_host()[0] == 10
        add.recompile()
        add[1, 1](x)
        assert x.copy_to_host()[0] == 17


def test_what_compilers_know_of_a_kernel() -> None:
    @cuda.jit
    def tree(x: Any) -> None:
        s = cuda.shared.array(32, float32)
        s[cuda.threadIdx.x] = x[cuda.threadIdx.x]
        cuda.syncthreads()
        x[cuda.threadIdx.x] = s[31 - cuda.threadIdx.x]

    with device():
        found = tree.specialize(cuda.to_device(numbers(32)))
        assert found.get_shared_mem_per_block() == 128
        assert found.get_max_threads_per_block() == 1024
        assert found.get_const_mem_size() == found.get_local_mem_per_thread() == 0
        assert 0 < found.get_regs_per_thread() < 64
        assert ".visible .entry" in next(iter(found.inspect_asm().values()))
        (kernel,) = found.overloads.values()
        assert kernel.max_cooperative_grid_blocks(256) == 8 * 132
        ptx, _ = cuda.compile_ptx_for_current_device(tree.py_func, (float32[::1],))
        assert ".target sm_90" in ptx
        with pytest.raises(Unsupported, match="loading compiled code"):
            cuda.current_context().create_module_ptx(ptx)


def test_an_array_of_the_device_may_be_a_global_of_the_kernel():
    with device(check=True) as gpu:
        table = cuda.to_device(np.arange(8, dtype=np.float32).reshape(2, 4))

        @cuda.jit(device=True)
        def entry(i):
            return table[1, i]

        @cuda.jit
        def doubles(y):
            i = cuda.grid(1)
            if i < y.size:
                y[i] = entry(i)
                table[0, i] = np.float32(2) * y[i]

        y = cuda.device_array(4, np.float32)
        doubles[1, 32](y)
        assert y.copy_to_host().tolist() == [4, 5, 6, 7]
        doubles[1, 32](table[1])  # the kernel reads what it is given, too
        assert table.copy_to_host().tolist() == [[8, 10, 12, 14], [4, 5, 6, 7]]
    assert not gpu.findings
    assert gpu.traces[0].thread(3).reads("table") == [7]


@pytest.mark.parametrize("check", [False, True])
def test_a_captured_array_is_the_same_memory_on_the_next_device(check):
    with device():
        table = cuda.to_device(numbers(4))

        @cuda.jit
        def takes(y):
            i = cuda.threadIdx.x
            y[i] += table[i]
            table[i] = 5

        y = cuda.to_device(np.zeros(4, np.float32))
        takes[1, 4](y)
    with device(check=check) as gpu:
        other = cuda.to_device(np.full(4, 9, np.float32))
        takes[1, 4](y)
        takes[1, 4](other)
        assert y.copy_to_host().tolist() == [5, 6, 7, 8]
        assert other.copy_to_host().tolist() == [14] * 4
    assert [finding.kind for finding in gpu.findings if finding.severity == "error"] == []


def test_a_captured_array_lives_as_long_as_the_kernel():
    def made():
        table = cuda.to_device(numbers(4))

        @cuda.jit
        def takes(y):
            y[cuda.threadIdx.x] = table[cuda.threadIdx.x]

        takes[1, 4](cuda.to_device(numbers(4)))
        return takes, ref(table)

    with device():
        kernel, table = made()
    gc.collect()
    assert table() is not None
    del kernel
    gc.collect()
    assert table() is None


def test_a_device_array_is_copied_once_though_the_kernel_captures_another(monkeypatch):
    class Lent:
        """An array of some library's on a device."""

        def __init__(self, array):
            self.array, self.copies = array, 0
            self.__cuda_array_interface__ = {**array.__array_interface__, "version": 3}

        def copy_to_host(self):
            self.copies += 1
            return self.array.copy()

        def copy_to_device(self, array):
            self.array[...] = array

    table, y = Lent(numbers(4)), Lent(np.ones(4, np.float32))

    @cuda.jit
    def adds(y):
        i = cuda.threadIdx.x
        y[i] += table[i]

    simulate(adds)[1, 4](y)
    assert (table.copies, y.copies) == (1, 1)
    assert y.array.tolist() == [1, 2, 3, 4]


def test_what_kernels_allocate_is_counted_as_nothing():
    """Kernels that allocate are refused; numba's own tests ask for the counters all the same."""
    with device():
        rtsys.memsys_enable_stats()
        assert rtsys.memsys_stats_enabled()
        assert tuple(map(int, rtsys.get_allocation_stats())) == (0, 0, 0, 0)
        rtsys.memsys_disable_stats()
        assert not rtsys.memsys_stats_enabled()
