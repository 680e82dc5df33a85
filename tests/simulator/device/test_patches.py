"""What is put under numba.cuda is taken away again, however the block ends."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba import cuda, vectorize
from numba.cuda import args, dispatcher
from numba.cuda.cudadrv import devicearray, devices, driver, nvvm
from numba.cuda.cudadrv.error import CudaSupportError

from simulator import device
from simulator.cost.cards import card
from simulator.device import numba_driver, numba_host
from simulator.device.memory import DeviceMemory

OWNERS = [
    driver, driver.Stream, driver.ManagedMemory, driver.MappedMemory, driver.MemoryPointer, driver.Event,
    driver.Context, driver.Device, driver.Driver, driver._ActiveContext, devices, devices._runtime, devicearray,
    devicearray.DeviceNDArray, dispatcher, dispatcher.CUDADispatcher, dispatcher.CUDACache, dispatcher._Kernel, nvvm,
    args, cuda, cuda.cudadrv, sys.modules["numba.cuda.api"], sys.modules["numba.cuda.device_init"],
]  # fmt: skip


def contents() -> list[tuple[Any, str, int]]:
    """What every module and class that could be patched holds, by identity."""
    state = [(owner, name, id(value)) for owner in OWNERS for name, value in vars(owner).items() if name != "_logger"]
    real = driver.driver
    return [*state, (real, "class", id(type(real))), (real, "state", id(real.__dict__))]


@cuda.jit
def one(x: Any) -> None:
    x[0] = 1


def test_nothing_stays() -> None:
    with device():  # Numba fills in some names lazily
        one[1, 1](cuda.to_device(np.zeros(1)))
    before = contents()
    with device(check=True):
        assert contents() != before
        one[1, 1](cuda.to_device(np.zeros(1)))
    assert contents() == before
    with pytest.raises(ZeroDivisionError), device():
        one[1, 1](cuda.to_device(np.zeros(1 // 0)))
    assert contents() == before
    assert one.signatures == []


def test_afterwards_there_is_what_there_was_before() -> None:
    there = cuda.is_available()
    with device():
        kept = cuda.to_device(np.zeros(1))
        one[1, 1](kept)
        assert cuda.is_available()
    assert cuda.is_available() is there
    if there:  # on a card the same kernel runs on the card
        x = cuda.to_device(np.zeros(1))
        one[1, 1](x)
        assert x.copy_to_host()[0] == 1
        return
    with pytest.raises(CudaSupportError):
        cuda.to_device(np.zeros(1))
    with pytest.raises(CudaSupportError):
        one[1, 1](np.zeros(1))
    with pytest.raises(CudaSupportError):
        kept.copy_to_host()
    with pytest.raises(CudaSupportError):  # an eager signature asks for a device when it is decorated
        cuda.jit("void(float64[:])")(one.py_func)


def test_a_kernel_with_signatures_says_what_it_was_made_for() -> None:
    with device():
        eager = cuda.jit("void(float64[:])")(one.py_func)
    with device():
        x = cuda.to_device(np.zeros(1))
        eager[1, 1](x)
        assert x.copy_to_host()[0] == 1
    (kernel,) = eager.overloads.values()
    with pytest.raises(RuntimeError, match=r"one was compiled for the stand-in device, which is closed"):
        kernel.launch((np.zeros(1),), (1, 1, 1), (1, 1, 1))


LAUNCH = r"""
import re, sys, numpy, simulator
from numba import cuda
@cuda.jit
def one(x):
    x[0] = 1
with simulator.device() as gpu:
    x = cuda.to_device(numpy.zeros(1))
    one[1, 1](x)
    assert cuda.is_available() and x.copy_to_host()[0] == 1
maps = open("/proc/self/maps").read() if sys.platform == "linux" else ""
print(*re.findall(r"lib(?:nvvm|nvrtc|cuda)\.so", maps))
"""


def test_a_launch_loads_no_compiler_and_no_driver() -> None:
    command = [sys.executable, "-W", "ignore", "-c", LAUNCH]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


def test_device_functions_with_signatures_need_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba_host, "_has_compiler", lambda: False)
    with device():

        @cuda.jit("int32(int32)", device=True)
        def cut(x: Any) -> Any:
            return x

        @cuda.jit
        def whole(x: Any) -> None:
            x[0] = cut(x[0])

        @vectorize(["float32(float32)"], target="cuda")
        def half(x: Any) -> Any:
            return x / 2

        x = cuda.to_device(np.array([2.75]))
        whole[1, 1](x)
        assert x.copy_to_host()[0] == 2
        assert half(np.float32([1, 3])).tolist() == [0.5, 1.5]


@pytest.mark.parametrize("name", numba_driver.RELEASES)
def test_what_a_real_card_gave_goes_back_to_it(name: str) -> None:
    """Arrays of a real GPU may die while the stand-in device is open, and be freed after it."""
    freed: list[Any] = []
    real = SimpleNamespace(**dict.fromkeys(numba_driver.RELEASES, freed.append))
    release = getattr(numba_driver.StandInDriver(card("t4"), DeviceMemory(1000), real), name)
    release(0x7F00_0000_0000)
    assert freed == [0x7F00_0000_0000]


def test_it_does_not_nest() -> None:
    with device():
        with pytest.raises(RuntimeError, match="does not nest"), device():
            pass
        assert cuda.is_available()  # the first one stays


def test_options_are_looked_at_before_anything_is_patched() -> None:
    before = contents()
    with pytest.raises(TypeError, match="max_steps"), device(max_steps=1.5):
        pass
    with pytest.raises(ValueError, match="an order is one of"), device(orders=["sideways"]):
        pass
    assert contents() == before


def test_numbas_own_simulator_is_in_the_way() -> None:
    code = "import simulator\nwith simulator.device(): pass"
    env = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "NUMBA_ENABLE_CUDASIM is set" in done.stderr
    assert "unset it" in done.stderr
