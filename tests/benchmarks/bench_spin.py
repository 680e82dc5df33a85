"""What lanes that spin cost: ``python tests/benchmarks/bench_spin.py [--clock cpu] [--only WORD] [--cudasim]``.

Kernels whose threads wait for each other in loops, in every order of execution, side by side: a lock by compare and
swap and one by tickets, a chain of blocks that look back at their predecessor, a barrier of the grid by hand.  Each
figure is milliseconds of one run without verdicts, best of two; *check* is a check in all its orders.

With ``--cudasim`` Numba's old simulator runs them, too (NUMBA_ENABLE_CUDASIM=1): a thread of the operating system for
each thread of a block, and one block after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import cuda

CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
ORDERS = ("waves", "first", "last", "round-robin", "random")
ROUNDS = 2


@cuda.jit
def cas_lock(lock, count):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    count[0] += 1
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


@cuda.jit
def ticket_lock(tickets, count):
    mine = cuda.atomic.add(tickets, 0, 1)
    while cuda.atomic.add(tickets, 1, 0) != mine:
        pass
    count[0] += 1
    cuda.threadfence()
    cuda.atomic.add(tickets, 1, 1)


@cuda.jit
def look_back(flags, total):
    block = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        before = 0
        if block > 0:
            while cuda.atomic.add(flags, block - 1, 0) == 0:
                pass
            cuda.threadfence()
            before = total[block - 1]
        total[block] = before + block
        cuda.threadfence()
        cuda.atomic.exch(flags, block, 1)
    cuda.syncthreads()


@cuda.jit
def grid_barrier(arrived, x):
    block, blocks = cuda.blockIdx.x, cuda.gridDim.x
    thread = cuda.threadIdx.x
    i = block * cuda.blockDim.x + thread
    x[i] = i
    cuda.threadfence()
    cuda.syncthreads()
    if thread == 0:
        cuda.atomic.add(arrived, 0, 1)
        while cuda.atomic.add(arrived, 0, 0) < blocks:
            pass
        cuda.threadfence()
    cuda.syncthreads()


SHAPES = (
    (cas_lock, 1, 32), (cas_lock, 1, 80), (cas_lock, 1, 256), (cas_lock, 8, 32), (ticket_lock, 1, 256),
    (look_back, 64, 32), (grid_barrier, 16, 64),
)  # fmt: skip
"""Kernel, blocks, threads."""


def arguments(blocks: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """What the threads spin on, and what they work on."""
    return np.zeros(max(2, blocks), np.int32), np.zeros(blocks * threads, np.int32)


def best_of(run: Callable[..., Any], blocks: int, threads: int, clock: str) -> float:
    """Milliseconds of the best run, each on fresh arrays."""
    now, found = CLOCKS[clock], []
    for _ in range(ROUNDS):
        args = arguments(blocks, threads)
        start = now()
        run(*args)
        found.append(1000 * (now() - start))
    return min(found)


def name_of(kernel: Any, blocks: int, threads: int) -> str:
    function = getattr(kernel, "py_func", None) or kernel.fn
    return f"{function.__name__} {blocks} x {threads}"


def ours(kernel: Any, blocks: int, threads: int, clock: str) -> dict[str, float]:
    """Milliseconds by order, and of a check."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from simulator import simulate

    found = {}
    for order in ORDERS:
        found[order] = best_of(simulate(kernel, orders=(order,))[blocks, threads], blocks, threads, clock)
    found["check"] = best_of(simulate(kernel, check=True)[blocks, threads], blocks, threads, clock)
    return found


def old_simulator(clock: str, only: str) -> dict[str, float]:
    """Milliseconds on Numba's old simulator, by kernel; a barrier of the grid never opens there."""
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, __file__, "--clock", clock, "--only", only]
    found = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    answer: dict[str, float] = json.loads(found.stdout)
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clock", default="wall", choices=tuple(CLOCKS))
    parser.add_argument("--only", default="", help="kernels whose line contains this")
    parser.add_argument("--cudasim", action="store_true")
    given = parser.parse_args()
    chosen = [shape for shape in SHAPES if given.only in name_of(*shape)]
    if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        able = [shape for shape in chosen if shape[0] is not grid_barrier]
        print(json.dumps({name_of(*one): best_of(one[0][one[1], one[2]], *one[1:], given.clock) for one in able}))
        return
    old = old_simulator(given.clock, given.only) if given.cudasim else {}
    columns = (*ORDERS, "check", *(("cudasim",) if old else ()))
    print(f"{given.clock} milliseconds".ljust(24) + "".join(f"{name:>13s}" for name in columns))
    for shape in chosen:
        found = ours(*shape, given.clock) | ({"cudasim": old[name_of(*shape)]} if name_of(*shape) in old else {})
        figures = (f"{found[name]:13.1f}" if name in found else f"{'-':>13s}" for name in columns)
        print(f"{name_of(*shape):24s}" + "".join(figures), flush=True)


if __name__ == "__main__":
    main()
