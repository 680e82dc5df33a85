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

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.simulator.waiting import cas_lock, grid_barrier, look_back, ticket_lock

CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
ORDERS = ("waves", "first", "last", "round-robin", "random")
ROUNDS = 2


SHAPES = (
    (cas_lock, 1, 32), (cas_lock, 1, 80), (cas_lock, 1, 256), (cas_lock, 8, 32), (ticket_lock, 1, 256),
    (look_back, 64, 32), (grid_barrier, 16, 64),
)  # fmt: skip
"""Kernel, blocks, threads."""


def arguments(kernel: Any, blocks: int, threads: int) -> list[np.ndarray]:
    """What the threads spin on, and what they work on."""
    work = 2 if kernel is grid_barrier else 1
    return [np.zeros(max(2, blocks), np.int32), *(np.zeros(blocks * threads, np.int32) for _ in range(work))]


def best_of(run: Callable[..., Any], kernel: Any, blocks: int, threads: int, clock: str) -> float:
    """Milliseconds of the best run, each on fresh arrays."""
    now, found = CLOCKS[clock], []
    for _ in range(ROUNDS):
        args = arguments(kernel, blocks, threads)
        start = now()
        run(*args)
        found.append(1000 * (now() - start))
    return min(found)


def name_of(kernel: Any, blocks: int, threads: int) -> str:
    function = getattr(kernel, "py_func", None) or kernel.fn
    return f"{function.__name__} {blocks} x {threads}"


def ours(kernel: Any, blocks: int, threads: int, clock: str) -> dict[str, float]:
    """Milliseconds by order, and of a check."""
    from simulator import simulate

    shape = kernel, blocks, threads
    found = {order: best_of(simulate(kernel, orders=(order,))[shape[1:]], *shape, clock) for order in ORDERS}
    return found | {"check": best_of(simulate(kernel, check=True)[shape[1:]], *shape, clock)}


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
        print(json.dumps({name_of(*one): best_of(one[0][one[1:]], *one, given.clock) for one in able}))
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
