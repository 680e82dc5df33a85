"""What a launch on the stand-in device left unwritten because something else was wrong is not told of later ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import cuda
from numba.cuda import libdevice

from simulator import OutOfBounds, Unsupported, device
from simulator.runs import agreement


@cuda.jit
def parts_at_a_barrier(x: Any, out: Any) -> None:
    i = cuda.threadIdx.x
    if i < 4:
        cuda.syncthreads()
        out[i] = 0
    else:
        cuda.syncthreads()
        out[i] = 1


@cuda.jit
def parts_inside_a_function(x: Any, out: Any) -> None:
    _parts(out)


@cuda.jit(device=True)
def _parts(where: Any) -> None:
    i = cuda.threadIdx.x
    if i < 4:
        cuda.syncthreads()
    else:
        cuda.syncthreads()
    where[i] = 1


@cuda.jit
def waits_for_ever(x: Any, out: Any) -> None:
    i = cuda.threadIdx.x
    while x[0] < 1:
        pass
    out[i] = 1


@cuda.jit
def stores_beyond(x: Any, out: Any) -> None:
    out[cuda.threadIdx.x + 1] = 1


@cuda.jit
def is_led_astray(x: Any, out: Any) -> None:
    i = cuda.threadIdx.x
    if x[i + 32] >= 1:
        out[i] = 1


@cuda.jit
def raises(x: Any, out: Any) -> None:
    i = cuda.threadIdx.x
    if i >= 8:
        raise ValueError
    out[i] = 1


@cuda.jit
def writes_a_part(x: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i < 8:
        out[i] = 1


@cuda.jit
def writes_all(x: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i < out.size:
        out[i] = i


@cuda.jit
def reads(x: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i]


@pytest.mark.parametrize(
    "kernel",
    [parts_at_a_barrier, parts_inside_a_function, waits_for_ever, stores_beyond, is_led_astray, raises],
    ids=lambda kernel: kernel.__name__,
)
def test_what_it_could_have_written_is_not_told(kernel: Any) -> None:
    with device(check=True) as gpu:
        x, between = cuda.to_device(np.zeros(32, np.float32)), cuda.device_array(32, np.float32)
        kernel[1, 32](x, between)
        first = gpu.findings
        assert first
        reads[1, 32](between, cuda.device_array(32, np.float32))
        assert [one.kind for one in gpu.findings[len(first) :] if one.severity == "error"] == []


@pytest.mark.parametrize("kernel", [parts_at_a_barrier, stores_beyond, is_led_astray, raises, writes_a_part])
def test_what_it_could_not_have_written_is(kernel: Any) -> None:
    with device(check=True) as gpu:
        x, other = cuda.to_device(np.zeros(32, np.float32)), cuda.device_array(32, np.float32)
        kernel[1, 32](x, cuda.device_array(32, np.float32))
        first = gpu.findings
        reads[1, 32](other, cuda.device_array(32, np.float32))
        (found,) = [one for one in gpu.findings[len(first) :] if one.severity == "error"]
        assert (found.kind, found.array) == ("uninitialized-read", "x")


def test_what_a_whole_launch_has_left_out_is_told() -> None:
    with device(check=True) as gpu:
        x, between = cuda.to_device(np.zeros(32, np.float32)), cuda.device_array(32, np.float32)
        writes_a_part[1, 32](x, between)
        reads[1, 32](between, cuda.device_array(32, np.float32))
        (found,) = [one for one in gpu.findings if one.severity == "error"]
        assert (found.kind, found.element, found.count) == ("uninitialized-read", (8,), 24)


def test_blocks_that_the_other_orders_leave_out_have_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large grid the split scheduler runs a sample: what counts as written is what waves wrote."""
    monkeypatch.setattr(agreement, "REQUESTS", 64)
    with device(check=True) as gpu:
        x, between = cuda.to_device(np.zeros(32, np.float32)), cuda.device_array(6400, np.float32)
        writes_all[100, 64](x, between)
        assert all("of 100 blocks" in order for order in gpu.traces[0].orders[1:])
        reads[100, 64](between, cuda.device_array(6400, np.float32))
        assert [one.kind for one in gpu.findings if one.severity == "error"] == []


@cuda.jit
def refused(x: Any, out: Any) -> None:
    i = cuda.threadIdx.x
    out[i] = libdevice.j0f(x[i])


def test_a_kernel_that_the_simulator_refuses() -> None:
    with device(check=True) as gpu:
        x, between = cuda.to_device(np.zeros(32, np.float32)), cuda.device_array(32, np.float32)
        with pytest.raises(Unsupported):
            refused[1, 32](x, between)
        reads[1, 32](between, cuda.device_array(32, np.float32))
        assert not gpu.findings


def test_a_launch_without_a_check_that_is_stopped() -> None:
    """Its arrays are those of a device that keeps track, which has been closed."""
    with device(check=True):
        between = cuda.device_array(32, np.float32)
    with device(), pytest.raises(OutOfBounds):
        stores_beyond[1, 32](between, between)
    with device(check=True) as gpu:
        reads[1, 32](between, cuda.device_array(32, np.float32))
        assert not gpu.findings
