"""Memory of the stand-in device goes back with the last array that refers to it, whenever that dies."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from numba import cuda

from simulator import device
from simulator.device import numba_host
from simulator.device.memory import _TABLE, SPARE, DeviceMemory, NotOurs


@cuda.jit
def double(x: Any) -> None:
    x[cuda.threadIdx.x] *= 2


@pytest.fixture(autouse=True)
def nothing_dies_meanwhile() -> None:
    """What other tests have left in cycles is gone."""
    gc.collect()


def makers() -> list[Any]:
    """Every kind of memory that has an address on the device."""
    ones = np.ones(4, np.float32)
    return [
        lambda: cuda.to_device(ones),
        lambda: cuda.device_array(4, np.float32)[1:],
        lambda: cuda.managed_array(4, np.float32),
        lambda: cuda.mapped_array(4, np.float32),
    ]


@pytest.mark.filterwarnings("ignore:Host array used in CUDA kernel")
@pytest.mark.parametrize("check", [False, True])
def test_blocks_leave_nothing(check: bool) -> None:
    before = len(_TABLE)
    for _ in range(3):
        with device(check=check) as gpu:
            for make in makers():
                array = make()
                double[1, 3](array)
            double[1, 4](cuda.InOut(np.ones(4, np.float32)))
            part = array[1:]
            del array, part
        assert len(_TABLE) == before
        assert gpu.memory.used == 0


@pytest.mark.parametrize("number", range(4))
def test_what_outlives_its_block_is_freed_when_it_dies(number: int) -> None:
    before = len(_TABLE)
    with device():
        array = makers()[number]()
        double[1, 3](array)
    assert len(_TABLE) == before + 1
    with device():
        double[1, 3](array)  # it is usable until then
        part = array[1:]
    del array
    assert len(_TABLE) == before + 1
    del part
    assert len(_TABLE) == before


def test_inside_the_block_numba_queues_as_on_a_gpu() -> None:
    before = len(_TABLE)
    with device():
        array = cuda.to_device(np.ones(4, np.float32))
        with cuda.defer_cleanup():
            del array
            assert len(_TABLE) == before + 1
        assert len(cuda.current_context().memory_manager.deallocations) == 1
    assert len(_TABLE) == before


def test_a_block_that_fails_leaves_nothing() -> None:
    before = len(_TABLE)

    def fails() -> None:
        with device():
            array = cuda.to_device(np.ones(4, np.float32))
            double[1, 4](array)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    gc.collect()
    assert len(_TABLE) == before


def test_a_captured_array_keeps_its_memory_as_long_as_the_kernel_lives() -> None:
    before = len(_TABLE)

    def made() -> Any:
        table = cuda.to_device(np.arange(4, dtype=np.float32))

        @cuda.jit
        def takes(y: Any) -> None:
            y[cuda.threadIdx.x] = table[cuda.threadIdx.x]

        takes[1, 4](cuda.to_device(np.zeros(4, np.float32)))
        return takes

    with device():
        kernel = made()
    gc.collect()
    assert len(_TABLE) == before + 1
    with device():
        y = cuda.to_device(np.zeros(4, np.float32))
        kernel[1, 4](y)
        assert y.copy_to_host().tolist() == [0, 1, 2, 3]
        del y
    assert len(_TABLE) == before + 1
    del kernel
    gc.collect()
    assert len(_TABLE) == before


def test_every_queue_of_a_context_is_emptied() -> None:
    frees, freed = numba_host.Frees(), []
    queues = [frees.queue(), frees.queue(1 << 20)]
    for queue in queues:
        with queue.disable():
            queue.add_item(freed.append, "queued", 4)
    assert freed == []
    frees.close()
    assert freed == ["queued"] * 2
    queues[0].add_item(freed.append, "later")
    assert freed == ["queued", "queued", "later"]


def test_many_dead_addresses_are_forgotten_and_lead_nowhere() -> None:
    memory = DeviceMemory(1 << 30)
    first, gone = memory.allocate(8), memory.allocate(8)
    memory.free(gone)
    for _ in range(3 * (SPARE + 2 * len(_TABLE))):
        memory.free(memory.allocate(8))
        with pytest.raises(NotOurs):
            memory.find(gone, 8)
        assert memory.find(first + 4, 4)[1] == 4
    assert len(_TABLE._addresses) <= 2 * len(_TABLE) + SPARE + 1
    memory.free(first)
    with pytest.raises(NotOurs):
        memory.find(first, 1)


def test_an_array_may_die_while_memory_is_asked_for() -> None:
    """The garbage collector runs where it likes: in the middle of an allocation, which holds its lock."""
    memory = DeviceMemory(1000)
    address = memory.allocate(600)
    with memory._lock, _TABLE._lock:
        memory.free(address)
    assert memory.used == 0
