"""Where everybody is: what a verdict says of threads that wait, go on or have returned, and where they parted.

Facts only, worked out when a verdict is due.  A position with the threads that are there is a ``Standing``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from simulator.machine.faults import Fault, Place
from simulator.machine.split import Split
from simulator.machine.warp import describe
from simulator.program import Op, Pos, Term

if TYPE_CHECKING:
    from simulator.machine.group import Group

Standing: TypeAlias = tuple[Pos, str, tuple[int, ...]] | tuple[Pos, str, int, tuple[int, ...]]
"""Position, what they do there (the operation that they wait at, "return", or "" for those that go on), their block
where it is not the verdict's, threads."""


@dataclass(frozen=True, slots=True)
class Parting:
    """The branch at which threads parted: those that wait went on to one line, those that are missing to another."""

    pos: Pos
    here: tuple[int, ...]
    here_to: int
    there: tuple[int, ...]
    there_to: int


def by_operation(splits: Iterable[Split]) -> list[list[Split]]:
    """Waiting splits, grouped by the operation that they stand at."""
    found: dict[Op, list[Split]] = {}
    for split in splits:
        assert split.waiting is not None
        found.setdefault(split.waiting, []).append(split)
    return list(found.values())


def threads_of(splits: Iterable[Split]) -> tuple[int, ...]:
    """Thread numbers of splits of one block, sorted."""
    return tuple(sorted(thread for split in splits for thread in split.threads()))


def place_of(splits: Sequence[Split]) -> Place:
    """The operation at which splits of one block wait, as a place in a message."""
    op = splits[0].waiting
    assert op is not None
    return Place(op.pos, splits[0].lanes.first_block, threads_of(splits), describe(op))


# -- standings ----------------------------------------------------------------------------------------------------


def waiting(splits: Iterable[Split], block: int | None = None) -> tuple[Standing, ...]:
    """Splits that wait, by operation; with the block's number where it is not ``block``."""
    found: dict[tuple[Op, int], list[Split]] = {}
    for split in splits:
        assert split.waiting is not None
        found.setdefault((split.waiting, split.lanes.first_block), []).append(split)
    return tuple(
        _standing(op.pos, describe(op), where, threads_of(members), block) for (op, where), members in found.items()
    )


def going(group: Group, splits: Iterable[Split], block: int | None = None) -> tuple[Standing, ...]:
    """Splits that go on, by source line."""
    found: dict[tuple[int, int], tuple[Pos, list[Split]]] = {}
    for split in splits:
        pos = position(group, split)
        found.setdefault((split.lanes.first_block, pos.line), (pos, []))[1].append(split)
    return tuple(_standing(pos, "", where, threads_of(all_of), block) for (where, _), (pos, all_of) in found.items())


def _standing(pos: Pos, does: str, where: int, threads: tuple[int, ...], block: int | None) -> Standing:
    return (pos, does, threads) if where == block else (pos, does, where, threads)


def returned(group: Group, row: int, which: np.ndarray | None = None) -> tuple[Standing, ...]:
    """Threads of a block (number ``row`` of the group) that have returned (only those in ``which``), by place."""
    exits = group.exit_block[row] if which is None else np.where(which, group.exit_block[row], -1)
    found: list[Standing] = []
    for number in np.unique(exits[exits >= 0]).tolist():
        term = group.program.blocks[group.labels[number]].term
        assert term is not None
        found.append((term.pos, "return", tuple(np.flatnonzero(exits == number).tolist())))
    return tuple(found)


def position(group: Group, split: Split) -> Pos:
    """Where a split is."""
    block, segments = group.program.blocks[split.block], group.code.blocks[split.block]
    start = segments[split.segment].start if split.segment < len(segments) else len(block.ops)
    assert block.term is not None
    return block.ops[start].pos if start < len(block.ops) else block.term.pos


# -- partings -----------------------------------------------------------------------------------------------------


def parting(group: Group, label: str, row: int, here: Sequence[int], there: Sequence[int]) -> Parting | None:
    """The outermost branch at which some threads ``there`` parted from those that wait in block ``label``."""
    for branch in group.code.flow.steering[label]:
        sides, term = group.sides[branch][row], group.program.blocks[branch].term
        assert term is not None
        mine = set(sides[list(here)].tolist())
        gone = tuple(thread for thread in there if sides[thread] and int(sides[thread]) not in mine)
        if len(mine) == 1 and gone:
            side = mine.pop()
            to, other = (_line(group, term, term.to[k]) for k in (side - 1, 2 - side))
            return Parting(term.pos, tuple(here), to, gone, other)
    return None


def _line(group: Group, term: Term, label: str) -> int:
    """The source line, in the function of a branch, on which one of its sides begins."""
    block = group.program.blocks[label]
    assert block.term is not None
    pos = block.ops[0].pos if block.ops else block.term.pos
    while pos.via is not None and _depth(pos) > _depth(term.pos):
        pos = pos.via
    return pos.line


def _depth(pos: Pos) -> int:
    return 0 if pos.via is None else 1 + _depth(pos.via)


# -- verdicts -----------------------------------------------------------------------------------------------------


def barriers_differ(group: Group, splits: Sequence[Split]) -> Fault:
    """All threads of a block wait, but at different barriers.

    Barriers on different lines never pair up here.  Hardware counts arrivals whatever the line, but PTX promises
    nothing unless all threads of the block execute the same ``bar.sync`` (it is ``barrier.sync.aligned``).
    """
    block, row = splits[0].lanes.first_block, splits[0].lanes.first_block - group.first_block
    everybody = threads_of(splits)
    here, parted = _told(group, row, by_operation(splits), everybody)
    there = [split for split in splits if split not in here]
    return Fault(
        "barrier-divergence",
        (place_of(here),),
        missing=threads_of(there),
        waiting=threads_of(here),
        elsewhere=waiting(there, block),
        exited=(),
        parted=parted,
    )


def never_arrive(group: Group, splits: Sequence[Split], absent: Callable[[Split], list[int]]) -> Fault:
    """Nobody can go on: the masks of warp operations name lanes that wait elsewhere (``absent`` tells which)."""
    # A barrier would open if the warp operations before it did: they are the cause.
    stuck = [split for split in splits if split.waiting is not None and split.waiting.kind != "bar"]
    stuck = [split for split in stuck if split.warp == min(other.warp for other in stuck)]
    block, first = stuck[0].lanes.first_block, stuck[0].lanes.first_thread
    live = (np.flatnonzero(group.live(stuck[0])[0]) + first).tolist()
    (split, *_), parted = _told(group, block - group.first_block, [[split] for split in stuck], live)
    there = [other for other in splits if other.warp == split.warp and other is not split]
    assert split.waiting is not None
    return Fault(
        "warp-sync",
        (place_of([split]),),
        operation=describe(split.waiting),
        warp=first // 32,
        missing=tuple(absent(split)),
        elsewhere=waiting(there, block),
        parted=parted,
    )


def _told(
    group: Group, row: int, candidates: Sequence[list[Split]], everybody: Sequence[int]
) -> tuple[list[Split], Parting | None]:
    """Of groups that wait for each other the one to tell of: whom a branch led there, else the first in the source."""
    told: list[tuple[bool, int, list[Split], Parting | None]] = []
    for members in candidates:
        assert members[0].waiting is not None
        here = threads_of(members)
        parted = parting(group, members[0].block, row, here, [k for k in everybody if k not in here])
        told.append((parted is None, members[0].waiting.pos.line, members, parted))
    _, _, members, parted = min(told, key=lambda one: one[:2])
    return members, parted
