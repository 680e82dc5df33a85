"""Sentences about barriers of the whole grid (``grid.sync``): which blocks wait, and which never come."""

from __future__ import annotations

from simulator.catalogue.words import Said, Words, at, listed, standings
from simulator.machine.faults import Fault


def grid_divergence(fault: Fault, words: Words) -> Said:
    """Some threads of the grid wait at one barrier of the grid, others somewhere else, or went past it."""
    facts, place = fault.facts, fault.places[0]
    head = f"{at(place.pos)}: {_blocks(facts['waiting'], words)} at {place.access}"
    if exited := facts["exited"]:
        block, threads = exited[0]
        more = f" (and threads of {len(exited) - 1} more blocks)" if len(exited) > 1 else ""
        rest = f"{words.threads(threads)} of {words.block(block)} went past it and returned{more}"
    else:
        rest = standings(facts["elsewhere"], words)
    return (
        f"{head}, but {rest}",
        "let all threads of all blocks reach the same grid.sync(): move it out of the branch or loop",
    )


def grid_deadlock(fault: Fault, words: Words) -> Said:
    """A block has left the kernel, or its thread 0 has: the others wait for ever."""
    facts, place = fault.facts, fault.places[0]
    gone = facts["gone"]
    if facts["whole"]:
        who = f"{_named(gone, words)} {'has' if len(gone) == 1 else 'have'} returned, and it waits for every block"
    else:
        who = f"thread 0 of {_named(gone, words)} has returned, and it is thread 0 that tells the grid of its block"
    return (
        f"{at(place.pos)}: {_blocks(facts['waiting'] or gone, words)} at {place.access} for ever: {who}",
        "return after the last grid.sync(), and guard the work before it with an `if` instead",
    )


def _named(numbers: tuple[int, ...], words: Words) -> str:
    if len(numbers) == 1:
        return words.block(numbers[0])
    return "blocks " + listed(numbers, lambda k: words.block(k).removeprefix("block "))


def _blocks(numbers: tuple[int, ...], words: Words) -> str:
    return f"{_named(numbers, words)} {'waits' if len(numbers) == 1 else 'wait'}"
