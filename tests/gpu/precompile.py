"""Compiles the kernels of the tests and benchmarks on all cores: `python tests/gpu/precompile.py 9.0`.

Needs no GPU: the argument is a compute capability.  The kernels go to the cache on disk, from which the tests and the
benchmark take them, so that a slot on a card is not spent on compiling one kernel after the other.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from numba_norms.gpu import compiled, disk
from numba_norms.launch import Launch
from tests.benchmarks import gpu_points
from tests.gpu import cases

Job = tuple[Any, tuple[Any, ...]]
"""A kernel, and the types of its arguments"""

_jobs: list[Job] = []
"""What the processes work on: they are forked, since kernels cannot be sent"""


def jobs(launches: Iterator[Launch]) -> list[Job]:
    """Each kernel and each types of arguments once."""
    found = {}
    for launch in launches:
        types = tuple(map(compiled.type_of, launch.args))
        found[launch.kernel, types] = launch.kernel, types
    return list(found.values())


def _compile(number: int, capability: tuple[int, int]) -> str:
    kernel, types = _jobs[number]
    try:
        compiled.kernel(kernel, types, capability)
    except Exception as broken:  # noqa: BLE001  # whoever needs the kernel will say so again
        return f"{kernel.__name__}{types}: {type(broken).__name__}: {broken}"
    return ""


def main(capability: tuple[int, int], launches: Iterator[Launch], processes: int | None = None) -> int:
    """Compile, by as many processes as there are cores; gives the number of failures, which are printed."""
    begin = time.monotonic()
    if disk.folder() is None:
        print("the cache on disk is turned off: nothing to do")
        return 0
    _jobs[:] = jobs(launches)
    work = [(number, capability) for number in range(len(_jobs))]
    if processes == 1:
        said = [_compile(*job) for job in work]
    else:
        with multiprocessing.get_context("fork").Pool(min(len(work), processes or os.cpu_count() or 1)) as pool:
            said = pool.starmap(_compile, work, chunksize=1)
    failures = [line for line in said if line]
    for line in failures:
        print(line)
    print(f"{len(_jobs)} kernels for {capability} in {disk.folder()}: {time.monotonic() - begin:.0f} s")
    return len(failures)


def every_launch() -> Iterator[Launch]:
    """Of the tests first: they run first."""
    yield from cases.every_launch()
    yield from gpu_points.every_launch()


if __name__ == "__main__":
    major, minor = map(int, sys.argv[1].split("."))
    sys.exit(bool(main((major, minor), every_launch())))
