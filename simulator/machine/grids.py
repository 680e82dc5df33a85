"""Barriers of the whole grid (``grid.sync``): who has to come, and what is wrong when not everybody can.

A block counts as arrived when its threads that have not exited meet and its thread 0 reports it (CUDA's cooperative
groups do it so): threads that returned early hold nobody up, but thread 0 of a block must not be among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from simulator.machine.faults import Fault, Place
from simulator.machine.split import Split
from simulator.machine.warp import describe
from simulator.program import Op, Program

if TYPE_CHECKING:
    from simulator.machine.group import Group


def of_grid(op: Op | None) -> bool:
    """Is this a barrier of the whole grid?"""
    return op is not None and op.kind == "bar" and op.attr.get("scope") == "grid"


def grid_barrier(program: Program) -> Op | None:
    """The program's first barrier of the whole grid, if it has one: then all blocks must live at once."""
    return next(filter(of_grid, program.ops()), None)


def waiting_lanes(group: Group, splits: Iterable[Split]) -> np.ndarray:
    """The lanes of the group, bool (blocks, threads), that these splits hold."""
    waiting: np.ndarray = np.zeros(group.exited.shape, bool)
    for split in splits:
        waiting[group.region(split)] |= split.active()
    return waiting


def check_arrived(group: Group, splits: Sequence[Split], op: Op) -> None:
    """Everybody who has not exited waits at ``op``: raise ``Fault`` if a block will never report its arrival."""
    gone = group.exited[:, 0]
    if not gone.any():
        return
    waiting = waiting_lanes(group, splits)
    row = int(waiting.any(1).argmax())
    absent = np.flatnonzero(gone)
    raise Fault(
        "deadlock",
        (_place(group, op, waiting, row),),
        grid=True,
        waiting=_blocks(group, np.flatnonzero(waiting.any(1) & ~gone)),
        gone=_blocks(group, absent),
        whole=bool(group.exited[absent].all()),
    )


def skipped(group: Group, splits: Sequence[Split], op: Op, missing: np.ndarray) -> Fault:
    """Lanes in ``missing`` (bool, one per lane of the group) went past the barrier and returned."""
    waiting = waiting_lanes(group, splits)
    row = int(waiting.any(1).argmax())
    return _divergence(group, op, waiting, row, exited=_threads(group, missing), elsewhere=())


def differ(group: Group, splits: Sequence[Split]) -> Fault:
    """Everybody waits, but at different barriers."""
    op = splits[0].waiting
    assert op is not None
    here = [split for split in splits if split.waiting is op]
    waiting = waiting_lanes(group, here)
    others: dict[tuple[Op, int], list[int]] = {}
    for split in splits:
        if split.waiting is not None and split.waiting is not op:
            others.setdefault((split.waiting, split.lanes.first_block), []).extend(split.threads())
    elsewhere = tuple((o.pos, describe(o), block, tuple(sorted(found))) for (o, block), found in others.items())
    row = int(waiting.any(1).argmax())
    return _divergence(group, op, waiting, row, exited=(), elsewhere=elsewhere)


def _divergence(group: Group, op: Op, waiting: np.ndarray, row: int, **facts: object) -> Fault:
    blocks = _blocks(group, np.flatnonzero(waiting.any(1)))
    return Fault("barrier-divergence", (_place(group, op, waiting, row),), grid=True, waiting=blocks, **facts)


def _place(group: Group, op: Op, waiting: np.ndarray, row: int) -> Place:
    threads = tuple(np.flatnonzero(waiting[row]).tolist())
    return Place(op.pos, group.first_block + row, threads, describe(op))


def _blocks(group: Group, rows: np.ndarray) -> tuple[int, ...]:
    return tuple(int(row) + group.first_block for row in rows)


def _threads(group: Group, lanes: np.ndarray) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """(block, its threads) for each block with a lane in ``lanes``."""
    rows = np.flatnonzero(lanes.any(1))
    return tuple((int(row) + group.first_block, tuple(np.flatnonzero(lanes[row]).tolist())) for row in rows)
