"""Streams, events and the questions that a program asks of a device."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest
from numba import cuda

from simulator import Unsupported, device


@cuda.jit
def add(x: Any, step: float) -> None:
    x[cuda.threadIdx.x] += step


def test_work_in_streams_is_done_in_order() -> None:
    host = np.zeros(4)
    with device():
        stream = cuda.stream()
        with stream.auto_synchronize():
            x = cuda.to_device(host, stream=stream)
            add[1, 4, stream](x, 1)
            add[1, 4, stream](x, 2)
            x.copy_to_host(host, stream=stream)
        for other in (cuda.default_stream(), cuda.legacy_default_stream(), cuda.per_thread_default_stream(), 0):
            add[1, 4, other](x, 1)
        assert host.tolist() == [3] * 4
        assert x.bind(stream).copy_to_host().tolist() == [7] * 4


def test_callbacks_run_in_order_on_a_thread_of_their_own() -> None:
    seen: list[Any] = []
    with device():
        stream = cuda.stream()
        stream.add_callback(lambda *given: seen.append((given, threading.get_ident())), "first")
        stream.add_callback(lambda stream, status, arg: seen.append((arg, stream.synchronize())), "second")
        stream.synchronize()
        (given, thread), second = seen
        assert given == (stream, 0, "first")
        assert thread != threading.get_ident()
        assert second == ("second", None)  # a callback that waits does not wait for itself


@pytest.mark.filterwarnings("ignore:Exception in stream callback")
def test_an_error_in_a_callback_ends_no_stream() -> None:
    with device():
        stream = cuda.stream()
        stream.add_callback(lambda *_: 1 / 0)
        stream.synchronize()
        done = threading.Event()
        stream.add_callback(lambda *_: done.set())
        cuda.synchronize()
        assert done.is_set()


def test_async_done() -> None:
    async def wait() -> Any:
        stream = cuda.stream()
        return stream, await stream.async_done()

    with device():
        stream, done = asyncio.run(wait())
        assert done is stream


def test_events_have_happened_and_no_time_has_passed() -> None:
    with device():
        start, end = cuda.event(), cuda.event()
        start.record()
        end.record(cuda.stream())
        end.wait()
        end.synchronize()
        assert end.query()
        with pytest.raises(Unsupported, match="takes no time on a card"):
            start.elapsed_time(end)
        with pytest.raises(Unsupported, match="takes no time on a card"):
            cuda.event_elapsed_time(start, end)


def test_the_device_is_the_card_that_was_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    with device(card="A100"):
        assert cuda.is_available()
        found = cuda.get_current_device()
        assert found.compute_capability == (8, 0)
        assert (found.name, found.MULTIPROCESSOR_COUNT, found.WARP_SIZE) == ("NVIDIA A100-SXM4-80GB", 108, 32)
        assert found.MAX_THREADS_PER_BLOCK == 1024
        assert found.MAX_SHARED_MEMORY_PER_BLOCK == 49152
        assert cuda.is_bfloat16_supported()
        assert not cuda.is_fp8_supported()
        assert len(cuda.gpus) == len(cuda.list_devices()) == 1
        assert cuda.detect()
        with pytest.raises(Unsupported, match="attribute CLOCK_RATE of a device"):
            _ = found.CLOCK_RATE
    assert "NVIDIA A100-SXM4-80GB" in capsys.readouterr().out
    with pytest.raises(ValueError, match="no card 'gtx'"), device(card="gtx"):
        pass


def test_there_is_one_device() -> None:
    with device():
        assert cuda.select_device(0).id == 0
        with pytest.raises(IndexError):
            cuda.select_device(1)
        with cuda.gpus[0]:
            assert cuda.current_context().device.id == 0


def test_closing_and_profiling() -> None:
    with device():
        with cuda.profiling():
            cuda.profile_start()
            cuda.profile_stop()
        cuda.close()
        x = cuda.to_device(np.zeros(4))
        add[1, 4](x, 1)
        assert x.copy_to_host().tolist() == [1] * 4
