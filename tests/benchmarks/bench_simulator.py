"""How fast the simulator is: ``python tests/benchmarks/bench_simulator.py [--clock cpu] [--rounds N] [--json FILE]``.

RMSNorm of 1, 64 and 1024 rows of 4096 with 256 threads (see ``rms_norm_shared``), side by side in one run:

* *cudasim*: Numba's old simulator (NUMBA_ENABLE_CUDASIM=1), measured on 8 rows and extrapolated in proportion;
* *numpy*: plain NumPy;
* *waves*, *waves + traffic*: the machine in lock step, and with sectors counted; *simulate*: with the log of all
  accesses, too; *splits*: independent thread scheduling in random order (not at 1024 rows).

The variants take turns, round after round, and the best time of each counts: a shared machine is now and then busy.
Where it is busy all the time, ``--clock cpu`` measures the processor time of the process instead; all of them compute
on one core at a time.
Compilation (typing the kernel) is not in the figures; it is said beside them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from simulator import simulate
from simulator.frontend import lower_kernel
from simulator.machine import launch
from simulator.observers.traffic import Traffic
from tests.benchmarks import rms_norm_shared as bench

ROWS = (1, 64, 1024)
SIMULATED_ROWS = 8
AIMS = (
    ("cudasim / waves, 1 row", 1, "cudasim", "waves", 300, "at least"),
    ("cudasim / waves, 64 rows", 64, "cudasim", "waves", 3000, "at least"),
    ("waves + traffic / numpy, 1024 rows", 1024, "waves + traffic", "numpy", 3, "at most"),
)
"""What is aimed at: name, rows, numerator, denominator, bound, which side."""


def variants(rows: int, dtype: str) -> dict[str, Callable[[], Any]]:
    """What is timed, each on its own arrays."""
    args = (*bench.arrays(rows, dtype), bench.EPS)
    program = lower_kernel(bench.rms_norm_shared, args)
    shape = (rows, 1, 1), (bench.THREADS, 1, 1)
    found: dict[str, Callable[[], Any]] = {
        "numpy": lambda: bench.plain_numpy(*args[:3]),
        "waves": lambda: launch(program, *shape, args),
        "waves + traffic": lambda: launch(program, *shape, args, observers=(Traffic(),)),
        "simulate": lambda: simulate(bench.rms_norm_shared)[rows, bench.THREADS](*args),
    }
    if rows < 1024:
        found["splits"] = lambda: launch(program, *shape, args, schedule="splits", order="random")
    return found


def check(rows: int, dtype: str) -> None:
    """The kernel computes what NumPy computes."""
    x, weight, y = bench.arrays(rows, dtype)
    expected = np.empty_like(y)
    bench.plain_numpy(x, weight, expected)
    simulate(bench.rms_norm_shared)[rows, bench.THREADS](x, weight, y, bench.EPS)
    np.testing.assert_allclose(y.astype(float), expected.astype(float), rtol=2e-3, atol=1e-3)


def cudasim(dtype: str, clock: str) -> float:
    """Seconds per row of Numba's old simulator."""
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, bench.__file__, str(SIMULATED_ROWS), dtype, clock]
    found = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(found.stdout.split()[-1]) / SIMULATED_ROWS


def measure(dtype: str, rounds: int, clock: str) -> dict[int, dict[str, float]]:
    """Best seconds per number of rows and variant."""
    best: dict[int, dict[str, float]] = {}
    ready = {rows: variants(rows, dtype) for rows in ROWS}
    now = bench.CLOCKS[clock]
    for number in range(rounds):
        for rows, found in ready.items():
            for name, run in found.items():
                for _ in range(5 if rows == 1 else 1):
                    start = now()
                    run()
                    took = now() - start
                    times = best.setdefault(rows, {})
                    times[name] = min(times.get(name, math.inf), took) if number else math.inf
    return best


def shown(best: dict[int, dict[str, float]], dtype: str, clock: str, compile_seconds: float) -> Table:
    title = f"RMSNorm, rows of {bench.COLUMNS} {dtype}, {bench.THREADS} threads: {clock} milliseconds, best"
    caption = (
        f"typing and lowering the kernel, once: {1000 * compile_seconds:.0f} ms; cudasim from {SIMULATED_ROWS} rows"
    )
    table = Table("rows", *best[1], title=title, caption=caption)
    for rows, times in best.items():
        cells = (f"{1000 * times[name]:.3g}" if name in times else "-" for name in best[1])
        table.add_row(str(rows), *cells)
    return table


def ratios(best: dict[int, dict[str, float]]) -> dict[str, tuple[float, str, bool]]:
    """Name -> (ratio, aim, reached)."""
    found = {}
    for name, rows, over, under, bound, side in AIMS:
        ratio = best[rows][over] / best[rows][under]
        found[name] = ratio, f"{side} {bound}", ratio >= bound if side == "at least" else ratio <= bound
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", default="float16", choices=("float16", "float32"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", default="wall", choices=tuple(bench.CLOCKS))
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    start = time.perf_counter()
    lower_kernel(bench.rms_norm_shared, (*bench.arrays(1, given.dtype), bench.EPS))
    compile_seconds = time.perf_counter() - start
    check(3, given.dtype)
    best = measure(given.dtype, given.rounds + 1, given.clock)  # the first round warms up
    per_row = cudasim(given.dtype, given.clock)
    best = {rows: {"cudasim": per_row * rows, **times} for rows, times in best.items()}
    console = Console()
    console.print(shown(best, given.dtype, given.clock, compile_seconds))
    for name, (ratio, aim, reached) in ratios(best).items():
        console.print(f"{name}: {ratio:.3g} (aim: {aim}{'' if reached else '; missed'})")
    if given.json:
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        figures = {"dtype": given.dtype, "clock": given.clock, "seconds": best, "ratios": ratios(best), "load": load}
        given.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
