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

LIMITS = ("empty", "grid", "block", "launch_bounds", "shared", "local", "cooperative", "simulator")
"""What a limit is of: "empty" of a launch without blocks or threads, "cooperative" of a grid that no card holds at
once, "simulator" of what is held here, whatever a card can."""

Shape = tuple[int, int, int]


def check_limits(program: Program, grid: Shape, block: Shape, dynamic_shared: int = 0) -> None:
    """Raise ``Fault("launch-limit")`` if no card runs this launch.

    Facts: ``what``, ``value``, ``limit`` and ``mend`` for people, and ``limit_of`` for programs, one of ``LIMITS``.
    """
    for name, shape, limits in (("grid", grid, GRID), ("block", block, BLOCK)):
        for axis, extent, limit in zip("xyz", shape, limits, strict=True):
            if extent < 1:
                mend = "skip the launch when it is empty"
                _refuse(program, "empty", f"{name} {axis}", extent, "a launch needs at least 1", mend)
            if extent > limit:
                mend = "let each thread do several elements"
                _refuse(program, name, f"{name} {axis}", extent, f"{limit} is the most", mend)
    threads = block[0] * block[1] * block[2]
    if threads > THREADS:
        what = "the number of threads in a block"
        _refuse(program, "block", what, threads, f"{THREADS} is the most", "use smaller blocks")
    _check_shared(program, dynamic_shared)
    local = sum(alloc.size for alloc in program.allocs.values() if alloc.space == "local")
    if local > LOCAL:
        most = f"a thread has at most {LOCAL}"
        _refuse(program, "local", "local memory", f"{local} bytes", most, "use smaller arrays")


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
        _refuse(program, "shared", "dynamic shared memory", f"{dynamic} bytes", "it cannot be negative", "")
    if static > STATIC_SHARED:
        mend = (
            "use smaller arrays, or dynamic shared memory: cuda.shared.array(0, dtype) and the launch's fourth number"
        )
        limit = f"a block may declare {STATIC_SHARED}"
        _refuse(program, "shared", "static shared memory", f"{static} bytes", limit, mend)
    if static + dynamic > SHARED:
        limit = f"a block has at most {SHARED}"
        _refuse(program, "shared", "shared memory", f"{static + dynamic} bytes", limit, "use smaller arrays")


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
            _refuse(program, "cooperative", what, value, f"no card runs more than {limit} at once", mend)
    if blocks * memory > most:
        what = "the shared and local memory of a grid with grid.sync()"
        held = f"the simulator holds at most {most} at once"
        _refuse(program, "simulator", what, f"{blocks * memory} bytes", held, mend)


def _refuse(program: Program, limit_of: str, what: str, value: object, limit: str, mend: str) -> NoReturn:
    place = Place(program.pos, 0, ())
    raise Fault("launch-limit", (place,), limit_of=limit_of, what=what, value=value, limit=limit, mend=mend)
