"""Words of the catalogue: how threads, blocks, places and waits are named.

Rules of this file: it knows no kind of fault.  Words are NVIDIA's: barrier, warp, lane, active mask.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from simulator.findings import Launch, Shape, unravel
from simulator.machine.faults import Fault, Place
from simulator.machine.whereabouts import Parting, Standing
from simulator.program import Pos

Said: TypeAlias = tuple[str, str]
"""A message and its likely mend."""


@dataclass(frozen=True, slots=True)
class Words:
    """Names threads and blocks as the launch's shape suggests: a number in one dimension, a tuple in more."""

    launch: Launch

    def thread(self, number: int) -> str:
        return f"thread {_index(number, self.launch.block)}"

    def block(self, number: int) -> str:
        return f"block {_index(number, self.launch.grid)}"

    def place(self, place: Place) -> str:
        """``k.py:12: thread 4 of block 0``."""
        return f"{at(place.pos)}: {self.thread(place.threads[0])} of {self.block(place.block)}"

    def threads(self, numbers: tuple[int, ...]) -> str:
        """``thread 3``, ``threads 32-63 (32 of them)`` or ``threads 1, 3, 5, … (16 of them)``."""
        if len(numbers) == 1:
            return self.thread(numbers[0])
        return "threads " + listed(numbers, lambda k: _index(k, self.launch.block))


def _index(number: int, shape: Shape) -> str:
    if shape[1:] == (1, 1):
        return str(number)
    return str(unravel(number, shape)[: 3 if shape[2] > 1 else 2])


def listed(numbers: tuple[int, ...], name: Callable[[int], str] = str) -> str:
    """Numbers in words: all of a few, else the ends of a row without gaps or the first four.

    >>> listed((4, 5, 6, 7)), listed((1, 3))
    ('4 to 7 (4 of them)', '1, 3')
    """
    numbers = tuple(sorted(numbers))
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{name(numbers[0])} to {name(numbers[-1])} ({len(numbers)} of them)"
    shown = ", ".join(name(k) for k in numbers[:4])
    return shown if len(numbers) <= 4 else f"{shown}, … ({len(numbers)} of them)"


def at(pos: Pos) -> str:
    """A place in the source, with the line that it was called from."""
    via = f" (called from line {pos.via.line})" if pos.via is not None else ""
    return f"{pos.file}:{pos.line}{via}"


def standings(elsewhere: Iterable[Standing], words: Words, left: str = "") -> str:
    """Where the others are: waiting at an operation, gone (``left`` says how), or on their way."""
    elsewhere = tuple(elsewhere)
    parts = []
    for pos, does, *block, threads in elsewhere[:4]:
        of = f" of {words.block(block[0])}" if block else ""
        one = len(threads) == 1
        match does:
            case "return":
                doing = left or f"ha{'s' if one else 've'} returned"
            case "":
                doing = f"{'is' if one else 'are'} running"
            case _:
                doing = f"wait{'s' if one else ''} at {does}"
        parts.append(f"{words.threads(tuple(threads))}{of} {doing} on line {pos.line}")
    more = len(elsewhere) - len(parts)
    return "; ".join(parts) + (f"; and {more} more groups" if more > 0 else "")


def parted(parting: Parting | None, words: Words) -> str:
    """The branch at which threads parted, and where each side went; "" where no branch tells."""
    if parting is None:
        return ""
    source = linecache.getline(parting.pos.file, parting.pos.line).partition("  #")[0].strip()
    what = f" (`{source}`)" if source else ""
    return (
        f"; they parted on line {parting.pos.line}{what}: {words.threads(parting.here)} went on to line"
        f" {parting.here_to}, {words.threads(parting.there)} to line {parting.there_to}"
    )


def more_lanes(facts: dict[str, Any]) -> str:
    """How many lanes of the same operation do the same: the count is told here, in the sentence, and nowhere else."""
    more = facts.get("count", 1) - 1
    return f" ({more} more of these lanes do{'es' if more == 1 else ''} too)" if more else ""


Tell: TypeAlias = Callable[[Fault, Words], Said]
"""Facts to words, for one kind of fault."""
