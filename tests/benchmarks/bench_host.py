"""What a call costs on the host, with real CuPy arrays, and nothing behind device, stream and launch.

`python tests/benchmarks/bench_host.py` prints microseconds per call of an operation, of a plan, and of the cheapest
launch that one would write by hand: allocate the same arrays, put four addresses into prepared parameters, launch.
Needs CuPy, no GPU: arrays lie in one piece of host memory that nobody reads.  Calls are measured in turns, best of
many, so that a busy machine slows all of them or none.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

ROWS, COLUMNS = 64, 4096
ROUNDS, CALLS = 400, 25
BASE = "launch by hand"


class _Stream:
    ptr = 0x7F00


class _Loaded:
    """A loaded kernel whose launch does nothing."""

    def start(self, grid: int, block: int, stream: int, parameters: int) -> None:
        pass


def _allocator(cupy: Any) -> Callable[[int], Any]:
    """One of four places in host memory, in turn: as quick as a pool that has what is asked for."""
    room = np.zeros(4 << 20, np.uint8)
    start = -room.ctypes.data % 512
    memory = cupy.cuda.UnownedMemory(room.ctypes.data + start, 3 << 20, room, 0)
    places = [cupy.cuda.MemoryPointer(memory, k << 19) for k in range(4)]
    turns = itertools.cycle(places)
    return lambda size: next(turns)


def measure() -> dict[str, float]:
    """Microseconds per call."""
    import cupy

    from numba_norms import plan, rms_norm
    from numba_norms.gpu import device
    from numba_norms.gpu.parameters import Block

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cupy.cuda, "get_current_stream", lambda device=0: _Stream)
        patch.setattr(cupy.cuda.runtime, "getDevice", lambda: 0)
        patch.setattr(device, "load", lambda *_: _Loaded())
        patch.setattr(rms_norm.operation, "_bindings", {})
        cupy.cuda.set_allocator(_allocator(cupy))
        x, y = (cupy.ndarray((ROWS, COLUMNS), np.float16) for _ in range(2))
        weight = cupy.ndarray((COLUMNS,), np.float16)
        block, start = Block([0] * 40), _Loaded().start
        bound = plan(rms_norm, x, weight)

        def by_hand() -> Any:
            y, rstd = cupy.empty((ROWS, COLUMNS), np.float16), cupy.empty((ROWS,), np.float32)
            words = block.words
            words[4], words[13], words[20], words[29] = x.data.ptr, weight.data.ptr, y.data.ptr, rstd.data.ptr
            start(ROWS, 256, cupy.cuda.get_current_stream(0).ptr, block.address)
            return y

        def by_hand_into_out() -> Any:
            rstd, words = cupy.empty((ROWS,), np.float32), block.words
            words[4], words[13], words[20], words[29] = x.data.ptr, weight.data.ptr, y.data.ptr, rstd.data.ptr
            start(ROWS, 256, cupy.cuda.get_current_stream(0).ptr, block.address)
            return y

        found = best({
            BASE: by_hand,
            "plan": lambda: bound(x, weight),
            "rms_norm": lambda: rms_norm(x, weight),
            f"{BASE}, out=": by_hand_into_out,
            "plan, out=": lambda: bound(x, weight, out=y),
            "rms_norm, out=": lambda: rms_norm(x, weight, out=y),
            "rms_norm in full": lambda: rms_norm.__wrapped__(x, weight),
        })  # fmt: skip
        cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)
        return found


def best(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The least time of each call, in microseconds, taken in turns."""
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            begin = time.perf_counter()
            for _ in range(CALLS):
                call()
            least[name] = min(least[name], (time.perf_counter() - begin) / CALLS * 1e6)
    return least


def ratios(found: dict[str, float]) -> dict[str, float]:
    """How many launches by hand each call takes, one into `out=` compared with one into `out=`."""
    suffix = ", out="
    return {name: time_ / found[BASE + suffix * name.endswith(suffix)] for name, time_ in found.items()}


def main() -> None:
    found = measure()
    times = ratios(found)
    for name, microseconds in found.items():
        print(f"{name:22} {microseconds:7.2f} us  {times[name]:5.2f} x")


if __name__ == "__main__":
    main()
