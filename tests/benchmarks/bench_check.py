"""What a check costs: ``python tests/benchmarks/bench_check.py [--clock cpu] [--rounds N]``.

RMSNorm by a tree in shared memory, rows of 4096 float16 with 256 threads (see ``rms_norm_shared``), side by side in one
run, best of some rounds:

* *cudasim*, 64 blocks: Numba's old simulator (NUMBA_ENABLE_CUDASIM=1), which checks nothing; measured on a few rows and
  extrapolated in proportion;
* *check*, 64 blocks: ``simulate(kernel, check=True)`` in waves and in one order of the split scheduler, all verdicts;
* *default*, 64 blocks: the same in all the orders that a check runs by default;
* *races*, 1024 blocks: the machine in lock step with the race detector, beside *waves* without and plain *numpy*.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from simulator import simulate
from simulator.frontend import lower_kernel
from simulator.machine import launch
from simulator.observers.races import Races
from tests.benchmarks import rms_norm_shared as bench

BLOCKS, ROWS = 64, 1024
SIMULATED_ROWS = 4
AIMS = (("cudasim", "check", 20, "at least"), ("races", "numpy", 12, "at most"))
"""What is aimed at: numerator, denominator, bound, which side."""


def variants() -> dict[str, Callable[[], Any]]:
    """What is timed, each on its own arrays."""
    few = (*bench.arrays(BLOCKS, "float16"), bench.EPS)
    many = (*bench.arrays(ROWS, "float16"), bench.EPS)
    program = lower_kernel(bench.rms_norm_shared, many)
    shape = (ROWS, 1, 1), (bench.THREADS, 1, 1)

    def check(orders: tuple[str, ...] | None) -> None:
        trace = simulate(bench.rms_norm_shared, check=True, orders=orders)[BLOCKS, bench.THREADS](*few)
        wrong = [finding for finding in trace.findings if finding.severity == "error"]
        assert not wrong, wrong

    def races() -> None:
        detector = Races()
        launch(program, *shape, many, observers=(detector,))
        assert not detector.faults()

    return {
        "check": lambda: check(("waves", "random")),
        "default": lambda: check(None),
        "numpy": lambda: bench.plain_numpy(*many[:3]),
        "waves": lambda: launch(program, *shape, many),
        "races": races,
    }


def cudasim(clock: str) -> float:
    """Seconds that Numba's old simulator takes for the blocks of the check."""
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, bench.__file__, str(SIMULATED_ROWS), "float16", clock]
    found = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(found.stdout.split()[-1]) / SIMULATED_ROWS * BLOCKS


def measure(rounds: int, clock: str) -> dict[str, float]:
    """Best seconds of each variant; the first round warms up."""
    best: dict[str, float] = {}
    now = bench.CLOCKS[clock]
    found = variants()
    for number in range(rounds + 1):
        for name, run in found.items():
            start = now()
            run()
            best[name] = min(best.get(name, math.inf), now() - start) if number else math.inf
    return {"cudasim": cudasim(clock), **best}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clock", default="wall", choices=tuple(bench.CLOCKS))
    given = parser.parse_args()
    best = measure(given.rounds, given.clock)
    for name, seconds in best.items():
        print(f"{name:10s}{1000 * seconds:10.1f} ms")
    for over, under, bound, side in AIMS:
        ratio = best[over] / best[under]
        reached = ratio >= bound if side == "at least" else ratio <= bound
        print(f"{over} / {under}: {ratio:.3g} (aim: {side} {bound}{'' if reached else '; missed'})")


if __name__ == "__main__":
    main()
