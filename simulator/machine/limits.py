"""What a launch may ask for, checked before it starts.

The numbers are those of compute capability 9.0 in the CUDA programming guide's table of technical specifications;
those that differ between cards (dynamic shared memory) are the largest that one of today's cards has.
"""

from __future__ import annotations

from typing import NoReturn

from simulator.machine.faults import Fault, Place
from simulator.program import Program

THREADS = 1024
"""Threads of a block."""
BLOCK = (1024, 1024, 64)
"""Extents of a block."""
GRID = (2**31 - 1, 65535, 65535)
"""Extents of a grid."""
STATIC_SHARED = 48 * 1024
"""Bytes of shared memory that a kernel may declare with a fixed size."""
SHARED = 227 * 1024
"""Bytes of shared memory of a block, static and dynamic together."""

LOCAL = 512 * 1024
"""Bytes of local memory of a thread."""

TOGETHER = 148
"""Multiprocessors of the largest card (B200): all blocks of a grid with a barrier must be on them at once."""
BLOCKS_TOGETHER = 32 * TOGETHER
THREADS_TOGETHER = 2048 * TOGETHER

Shape = tuple[int, int, int]


def check_limits(program: Program, grid: Shape, block: Shape, dynamic_shared: int = 0) -> None:
    """Raise ``Fault("launch-limit")``, facts ``what``, ``value``, ``limit``, ``mend``, if no card runs this launch."""
    for name, shape, limits in (("grid", grid, GRID), ("block", block, BLOCK)):
        for axis, extent, limit in zip("xyz", shape, limits, strict=True):
            if extent < 1:
                _refuse(
                    program, f"{name} {axis}", extent, "a launch needs at least 1", "skip the launch when it is empty"
                )
            if extent > limit:
                _refuse(
                    program, f"{name} {axis}", extent, f"{limit} is the most", "let each thread do several elements"
                )
    threads = block[0] * block[1] * block[2]
    if threads > THREADS:
        _refuse(program, "the number of threads in a block", threads, f"{THREADS} is the most", "use smaller blocks")
    _check_shared(program, dynamic_shared)
    local = sum(alloc.size for alloc in program.allocs.values() if alloc.space == "local")
    if local > LOCAL:
        _refuse(program, "local memory", f"{local} bytes", f"a thread has at most {LOCAL}", "use smaller arrays")


def static_shared(program: Program) -> int:
    """Bytes of shared memory that a kernel declares with a fixed size."""
    static = 0
    for alloc in program.allocs.values():
        if alloc.space == "shared" and not alloc.dynamic:
            static = -(-static // alloc.align) * alloc.align + alloc.size
    return static


def _check_shared(program: Program, dynamic: int) -> None:
    static = static_shared(program)
    if dynamic < 0:
        _refuse(program, "dynamic shared memory", f"{dynamic} bytes", "it cannot be negative", "")
    if static > STATIC_SHARED:
        mend = (
            "use smaller arrays, or dynamic shared memory: cuda.shared.array(0, dtype) and the launch's fourth number"
        )
        _refuse(program, "static shared memory", f"{static} bytes", f"a block may declare {STATIC_SHARED}", mend)
    if static + dynamic > SHARED:
        _refuse(
            program, "shared memory", f"{static + dynamic} bytes", f"a block has at most {SHARED}", "use smaller arrays"
        )


def check_together(program: Program, blocks: int, threads: int, memory: int, most: int) -> None:
    """Raise ``Fault`` if the blocks of a grid cannot all live at once, on no card or not here.

    ``threads`` is per block, in whole warps; ``memory`` the bytes of shared and local memory of a block, of which the
    simulator holds ``most`` for all.
    """
    mend = "launch fewer blocks, and let each do several parts of the work (a grid-stride loop)"
    for what, value, limit in (
        ("the number of blocks of a grid with grid.sync()", blocks, BLOCKS_TOGETHER),
        ("the number of threads of a grid with grid.sync()", blocks * threads, THREADS_TOGETHER),
    ):
        if value > limit:
            _refuse(program, what, value, f"no card runs more than {limit} at once", mend)
    if blocks * memory > most:
        what = "the shared and local memory of a grid with grid.sync()"
        _refuse(program, what, f"{blocks * memory} bytes", f"the simulator holds at most {most} at once", mend)


def _refuse(program: Program, what: str, value: object, limit: str, mend: str) -> NoReturn:
    raise Fault("launch-limit", (Place(program.pos, 0, ()),), what=what, value=value, limit=limit, mend=mend)
