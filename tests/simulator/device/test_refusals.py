"""Launches that the stand-in device refuses: in the class, and with the words, that a GPU's user knows."""

from __future__ import annotations

from pickle import PicklingError
from typing import Any

import numba.core.errors
import numpy as np
import pytest
from cuda.core._utils.cuda_utils import CUDAError
from numba import cuda, float32
from numba.cuda.core.errors import TypingError

from simulator import SimulationError, Unsupported, device, simulate
from simulator.device.refusals import CODES, as_on_a_gpu
from simulator.findings import Finding
from simulator.machine.limits import LIMITS


@cuda.jit
def double(x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]


def numbers(size: int = 70) -> np.ndarray:
    return np.arange(size, dtype=np.float32)


def test_what_the_card_does_not_take() -> None:
    @cuda.jit(launch_bounds=64)
    def bounded(x: Any) -> None:
        x[cuda.threadIdx.x] = 0

    @cuda.jit
    def dynamic(x: Any) -> None:
        s = cuda.shared.array(0, float32)
        s[cuda.threadIdx.x] = x[cuda.threadIdx.x]

    with device(card="t4"):
        x = cuda.to_device(numbers(128))
        bounded[1, 64](x)
        with pytest.raises(CUDAError, match=r"64 is the most by the kernel's launch_bounds.*CUDA_ERROR_INVALID_VALUE"):
            bounded[1, 128](x)
        with pytest.raises(CUDAError, match=r"block x is 1025.*\(CUDA_ERROR_INVALID_VALUE\)") as caught:
            dynamic[1, 1025, 0, 60_000](x)
        assert isinstance(caught.value, SimulationError)
        assert [finding.kind for finding in caught.value.findings] == ["launch-limit"]
        dynamic[1, 32, 0, 60_000](x)
        with pytest.raises(SimulationError, match="a block has at most 65536 on this card"):
            dynamic[1, 32, 0, 70_000](x)
    with device(check=True, card="h200") as gpu:
        dynamic[1, 32, 0, 70_000](cuda.to_device(numbers(128)))
        for blocks in (128, 2048):
            with pytest.raises(CUDAError, match="CUDA_ERROR_INVALID_VALUE"):
                bounded[1, blocks](cuda.to_device(numbers(128)))
        with pytest.raises(CUDAError, match="block x is 2048"):
            dynamic[1, 2048](cuda.to_device(numbers(128)))
    found = [(finding.kind, finding.kernel) for finding in gpu.findings if finding.severity == "error"]
    assert found == [("launch-limit", "bounded"), ("launch-limit", "dynamic")]


def test_each_limit_that_launches_exceed_is_a_finding() -> None:
    with device(check=True) as gpu:
        x = cuda.to_device(numbers())
        for shape in ((1, 2000), (1, 2001), (1, 0), (0, 1), (1, 32, 0, 10**7), (2**31, 1)):
            with pytest.raises(SimulationError):
                double[shape](x, x)
    assert [(found.kind, found.limit_of) for found in gpu.findings] == [
        ("launch-limit", limit_of) for limit_of in ("block", "empty", "shared", "grid")
    ]


def test_launches_that_no_card_takes() -> None:
    @cuda.jit
    def together(x: Any) -> None:
        cuda.cg.this_grid().sync()

    with device(record=True):
        x = cuda.to_device(numbers(4))
        with pytest.raises(CUDAError, match="CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE") as caught:
            together[1_000_000, 32](x)
        assert caught.value.trace is not None
        with pytest.raises(CUDAError, match="CUDA_ERROR_INVALID_VALUE"):
            together[1_000_000, 2048](x)
        with pytest.raises(ValueError, match="grid x is 0, but a launch needs at least 1") as empty:
            together[0, 32](x)
        assert [finding.kind for finding in empty.value.findings] == ["launch-limit"]


def test_a_cooperative_launch_that_its_launch_bounds_refuse_is_not_too_large() -> None:
    @cuda.jit(launch_bounds=64)
    def together(x: Any) -> None:
        cuda.cg.this_grid().sync()

    with device(), pytest.raises(CUDAError, match=r"launch_bounds.*CUDA_ERROR_INVALID_VALUE") as caught:
        together[1, 128](cuda.to_device(numbers(4)))
    assert isinstance(caught.value, SimulationError)
    assert caught.value.findings[0].limit_of == "launch_bounds"


@pytest.mark.parametrize("limit_of", LIMITS)
def test_every_limit_of_a_card_has_a_code_and_the_simulators_own_has_none(limit_of: str) -> None:
    error = SimulationError("no", findings=(Finding("launch-limit", "no", limit_of=limit_of),))
    known = as_on_a_gpu(error)
    assert isinstance(known, CUDAError) == (limit_of in CODES) == (limit_of not in ("empty", "simulator"))
    assert isinstance(known, ValueError) == (limit_of == "empty")
    assert known.findings == error.findings
    assert (known is error) == (limit_of == "simulator")


def test_numba_refuses_in_its_own_words() -> None:
    @cuda.jit
    def no_such(x: Any) -> None:
        x.nothing()

    with device(), pytest.raises(TypingError, match="nothing"):
        no_such[1, 1](cuda.to_device(numbers()))


def test_what_the_code_generator_of_numba_refuses() -> None:
    """It raises when the kernel is compiled; a check notes the launch that it was compiled for."""

    @cuda.jit
    def odd(x: Any) -> None:
        s = cuda.shared.array(4, float32, alignment=12)
        s[0] = x[0]

    with device(), pytest.raises(ValueError, match="Alignment must be a power of two"):
        odd.compile((float32[::1],))
    with device(check=True) as gpu:
        for _ in range(2):
            with pytest.raises(ValueError, match="Alignment must be a power of two"):
                odd[1, 1](cuda.to_device(numbers(4)))
        with pytest.raises(ValueError, match="Alignment must be a power of two"):
            odd.compile((float32[:],))  # no launch: nothing to note
    assert [finding.kind for finding in gpu.findings] == ["does-not-compile"]


def test_what_numba_cannot_type_raises_its_own_error_in_a_check_too() -> None:
    @cuda.jit
    def two_words(x: Any) -> None:
        x[0] = "one" + 2

    with device(check=True) as gpu, pytest.raises((TypingError, numba.core.errors.TypingError)):
        two_words[1, 1](cuda.to_device(numbers(4)))
    assert [(finding.kind, finding.raised) for finding in gpu.findings] == [("does-not-compile", True)]


def test_a_strided_host_array_is_refused_as_by_numba() -> None:
    with device(), pytest.raises(ValueError, match="non-contiguous buffer"):
        double[1, 32](numbers(64)[::2], numbers(32))


def test_a_second_signature_is_chosen_by_numba_alone() -> None:
    with device():
        both = cuda.jit(["void(float32[:])", "void(float64[:])"])(lambda x: None)
        both[1, 1](cuda.to_device(numbers(8)))
        with pytest.raises(Unsupported, match="choosing one of the 2 signatures"):
            simulate(both)[1, 1](numbers(8))


def test_a_cached_kernel_has_no_arrays_of_the_device() -> None:
    """On a GPU it could not be kept on disk; here nothing is, and it is refused all the same."""
    with device():
        table = cuda.to_device(numbers(4))

        @cuda.jit(cache=True)
        def first(y: Any) -> None:
            y[0] = table[0]

        with pytest.raises(PicklingError, match=r"global device arrays \(table\)"):
            first[1, 1](table)
