"""The memory of the stand-in device: addresses that are nobody's, transfers, flags of what has been written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import cuda

from simulator import device
from simulator.device.memory import ALIGNMENT, BASE, POISON, DeviceMemory, NotOurs, OutOfMemory, on_host

sizes = st.integers(0, 700)


@given(st.lists(sizes, min_size=1, max_size=8), st.data())
def test_addresses_lead_to_their_own_bytes_and_are_never_used_twice(asked: list[int], data: st.DataObject) -> None:
    memory = DeviceMemory(1 << 20)
    given_out: list[int] = []
    alive: dict[int, int] = {}
    for size in asked:
        address = memory.allocate(size)
        assert address >= BASE
        assert address % ALIGNMENT == 0
        assert all(address >= other + alive.get(other, 0) for other in given_out)
        given_out.append(address)
        alive[address] = size
        memory.fill(address, len(given_out), size)
        if data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(sorted(alive)))
            memory.free(gone)
            del alive[gone]
    assert memory.used == sum(alive.values())
    for number, address in enumerate(given_out, 1):
        if address in alive:
            block, offset = memory.find(address, alive[address])
            assert offset == 0
            assert set(block.data) <= {number}
            assert block.host % ALIGNMENT == 0
        else:
            with pytest.raises(NotOurs):
                memory.free(address)


def test_what_is_outside_an_allocation_is_nobodys() -> None:
    memory = DeviceMemory(1 << 20)
    first, second = memory.allocate(100), memory.allocate(100)
    memory.find(first + 10, 90)
    for address, size in [(first + 10, 91), (first - 1, 1), (second + 100, 1), (0x7F00_0000_0000, 1), (first, 300)]:
        with pytest.raises(NotOurs, match="not memory of the stand-in device"):
            memory.find(address, size)


def test_a_card_has_so_much_memory_and_no_more() -> None:
    memory = DeviceMemory(1000)
    first = memory.allocate(600)
    with pytest.raises(OutOfMemory, match="600 bytes asked for, 400 of 1000 left"):
        memory.allocate(600)
    memory.free(first)
    memory.allocate(600)


def test_new_memory_holds_no_zeros() -> None:
    memory = DeviceMemory(1000)
    block, _ = memory.find(memory.allocate(8), 8)
    assert set(block.data) == {POISON}
    assert np.isnan(block.data.view(np.float64)).all()


@given(st.integers(1, 4), st.integers(1, 5), st.booleans(), st.sampled_from([1, 2, -1, -2]))
def test_flags_of_views(rows: int, columns: int, transposed: bool, step: int) -> None:
    memory = DeviceMemory(1 << 20, tracked=True)
    address = memory.allocate(rows * columns * 4)
    whole = np.zeros((rows, columns), np.int32)
    part = (whole.T if transposed else whole)[::step]
    start = part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    viewed = memory.view(address + start, part.shape, part.strides, part.dtype)
    viewed.array[...] = 7
    viewed.mark()
    part[...] = 7
    block, _ = memory.find(address, 1)
    assert block.written is not None
    assert block.data.view(np.int32).reshape(whole.shape)[whole == 7].tolist() == [7] * part.size
    assert (block.written.reshape(rows, columns, 4).all(axis=2) == (whole == 7)).all()
    assert viewed.written is not None
    low, high = np.lib.array_utils.byte_bounds(part)
    assert len(viewed.written) == high - low


def test_flags_follow_transfers() -> None:
    memory = DeviceMemory(1 << 20, tracked=True)
    host = np.arange(6, dtype=np.uint8)
    one, other = memory.allocate(6), memory.allocate(6)
    memory.copy_in(one + 1, host.__array_interface__["data"][0], 3)
    memory.copy(other, one, 6)
    memory.fill(other + 5, 9, 1)
    block, _ = memory.find(other, 6)
    assert block.data.tolist() == [POISON, 0, 1, 2, POISON, 9]
    assert block.written is not None
    assert block.written.tolist() == [False, True, True, True, False, True]
    memory.copy_out(host.__array_interface__["data"][0], other, 6)
    assert host.tolist() == block.data.tolist()


def test_lent_memory_is_the_hosts() -> None:
    memory = DeviceMemory(1000, tracked=True)
    host = np.zeros(5, np.uint8)
    address = memory.lend(host.__array_interface__["data"][0], 5)
    memory.fill(address, 4, 3)
    assert host.tolist() == [4, 4, 4, 0, 0]
    assert memory.used == 0
    memory.free(address)
    assert memory.used == 0


class Lent:
    """An array of some other library's on a real device."""

    def __init__(self, shape: tuple[int, ...], address: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": "<f4", "data": (address, False), "strides": None, "version": 3,
        }  # fmt: skip


@pytest.mark.parametrize("shape", [(0,), (3, 0), (3,), ()])
def test_only_its_own_arrays_are_claimed(shape: tuple[int, ...]) -> None:
    with device():
        mine = cuda.device_array(shape, np.float32)
        found = on_host(mine)
    assert found is not None
    assert found.shape == shape
    for address in (0, 0x7F00_0000_0000):
        assert on_host(Lent(shape, address)) is None
