"""How long work takes on a card, apart from what it costs to launch it.

Several calls are captured in a CUDA graph, which is replayed twice in a row: while the first replay runs, the host
queues the second and the two events around it, so that launches cost the card next to nothing.  What is compared takes
turns, round after round; of the rounds the median counts, and the quartiles tell how steady it was.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Call = Callable[[], Any]
Replay = Callable[[], float]
"""Runs the captured calls, gives the seconds of one"""


class Times(NamedTuple):
    """Seconds of a call: median and quartiles over the rounds.

    >>> Times.of([3.0, 1.0, 2.0, 10.0, 2.5])
    Times(median=2.5, low=2.0, high=3.0)
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Times:
        """Of one measurement, all three are that one."""
        if len(seconds) == 1:
            return cls(seconds[0], seconds[0], seconds[0])
        low, median, high = statistics.quantiles(seconds, n=4, method="inclusive")
        return cls(median, low, high)


def in_turns(replays: Mapping[str, Replay], rounds: int) -> dict[str, Times]:
    """The times of each, one measurement a round; a first round warms up and does not count.

    >>> order = []
    >>> in_turns({"a": lambda: order.append("a") or 1.0, "b": lambda: order.append("b") or 2.0}, rounds=2)["b"].median
    2.0
    >>> "".join(order)
    'ababab'
    """
    seconds: dict[str, list[float]] = {name: [] for name in replays}
    for number in range(rounds + 1):
        for name, replay in replays.items():
            took = replay()
            if number:
                seconds[name].append(took)
    return {name: Times.of(found) for name, found in seconds.items()}


def cupy_replay(calls: Sequence[Call]) -> Replay:
    """Calls that launch on CuPy's current stream, captured.  They run once before, so that nothing is new to them."""
    from cupy.cuda import Event, Stream, get_elapsed_time

    stream = Stream(non_blocking=True)
    with stream:
        for call in calls:
            call()
        stream.synchronize()
        stream.begin_capture()
        try:
            for call in calls:
                call()
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is the one to tell
                stream.end_capture()
            raise
        graph = stream.end_capture()

    def replay() -> float:
        begin, end = Event(), Event()
        graph.launch(stream)
        begin.record(stream)
        graph.launch(stream)
        end.record(stream)
        end.synchronize()
        return float(get_elapsed_time(begin, end)) * 1e-3 / len(calls)

    return replay


def torch_replay(calls: Sequence[Call]) -> Replay:
    """Calls of torch, captured; what they allocate comes from a pool of the graph's own."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # torch's own recipe: warm up on a stream other than the default one
        for _ in range(3):
            calls[0]()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()

    def replay() -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        graph.replay()
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3 / len(calls)

    return replay


def host_times(calls: Mapping[str, Call], wait: Call, *, batches: int = 15, count: int = 100) -> dict[str, Times]:
    """Seconds that each call takes the host; after each batch it waits, off the clock, for the card to catch up."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(batches + 1):
        for name, call in calls.items():
            begin = time.perf_counter()
            for _ in range(count):
                call()
            took = (time.perf_counter() - begin) / count
            wait()
            if number:
                seconds[name].append(took)
    return {name: Times.of(found) for name, found in seconds.items()}
