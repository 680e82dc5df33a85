"""Races in words: both lines, both threads, the element, what would order them; results that differ by order.

Rules of this file: one function per kind of fault, facts -> (message, mend).
"""

from __future__ import annotations

from typing import Any

from simulator.catalogue.words import Said, Tell, Words
from simulator.findings import Finding, Site
from simulator.machine.faults import Fault, Place
from simulator.observers.races.mends.places import Gap
from simulator.observers.races.mends.updates import LOOP, NONE

VERBS = {"ld": ("reads", ""), "st": ("writes", ""), "atom": ("updates", " by an atomic")}


def _race(fault: Fault, words: Words) -> Said:
    facts, (one, two) = fault.facts, fault.places
    who = words.thread(one.threads[0]), words.thread(two.threads[0])
    blocks = f"{words.block(one.block)} and of {words.block(two.block)}"
    if one.block == two.block:
        of = tuple(f"{thread} of {words.block(one.block)}" for thread in who)
    else:
        of = who[0] + " of " + blocks.split(" and of ")[0], who[1] + " of " + blocks.split(" and of ")[1]
    again = " too" if one.pos.line == two.pos.line and one.access == two.access else ""
    where = "on the same line" if one.pos.line == two.pos.line else f"on line {two.pos.line}"
    more = f" ({facts['count'] - 1} more places)" if facts["count"] > 1 else ""
    (does, how), (does_too, how_too) = VERBS[one.access], VERBS[two.access]
    message = (
        f"{words.place(one)} {does} {facts['element']}{how} and {of[1]} {does_too} it{how_too}{again} {where}, "
        f"and nothing orders the two{more}"
    )
    return message, _mend(fault, one, two)


def _mend(fault: Fault, one: Place, two: Place) -> str:
    facts, kinds = fault.facts, {one.access, two.access}
    if facts["spins"]:
        return _awaited(fault)
    if "atom" in kinds:
        barrier = "" if facts["relation"] == "grid" else f", or {_barrier(fault, kinds)}"
        return f"use an atomic on both sides{barrier}"
    if facts["told"] is not None:
        number, atomic = facts["told"]
        line = fault.places[number].pos.line
        return f"put cuda.threadfence_block() after line {line}, before the atomic on line {atomic} that tells of it"
    if facts["update"]:
        return _updated(facts["update"])
    if facts["relation"] != "grid":
        return _barrier(fault, kinds)
    if one.pos.line == two.pos.line:
        return _APART if kinds == {"st"} else "write to another array"
    flag = "cuda.threadfence() before the atomic that tells of it, or " if facts["atomics"] else ""
    return (
        f"no barrier reaches other blocks: {flag}give each block its own part, read and write by one atomic (as "
        f"cuda.atomic.cas), or split line {one.pos.line} and line {two.pos.line} into two launches"
    )


_APART = "let one thread write it, or give each thread a place of its own"


def _updated(name: str) -> str:
    """Threads make new values of one element out of its old one."""
    if name == NONE:
        return "give each thread an element of its own: no atomic takes this type"
    atomic = "cuda.atomic.cas in a loop" if name == LOOP else f"cuda.atomic.{name}"
    return f"use an atomic such as {atomic}, or give each thread an element of its own"


def _barrier(fault: Fault, kinds: set[str]) -> str:
    """A barrier between the two accesses within a round of a loop, at the end of the round, or both."""
    numbers, within, again = fault.facts["order"]
    first, second = (fault.places[number].pos.line for number in numbers)
    barrier = "cuda.syncwarp() or cuda.syncthreads()" if fault.facts["relation"] == "warp" else "cuda.syncthreads()"
    barrier = "cuda.syncwarp()" if fault.facts["of_warp"] else barrier
    where = "it" if first == second else f"line {first}"
    behind = f"after line {second}, before {where} runs again"
    if within is None:
        return f"put {barrier} {behind}{_at_the_end(again)}"
    if first != second:
        said = f"put {barrier} between line {first} and line {second}{_between(within)}"
    elif kinds == {"st"}:
        return _APART
    elif again is None and "atom" not in kinds:
        what = barrier if fault.facts["of_warp"] else "a barrier"
        return f"put {what} between the read and the write{_between(within)}, or write to another array"
    else:
        both = "the two" if "atom" in kinds else "the read and the write"
        said = f"put {barrier} between {both}{_between(within)}"
    return said if again is None else f"{said}, and again {behind}{_at_the_end(again)}"


def _between(gap: Gap) -> str:
    """How to make room for a barrier between two lines."""
    if gap.uneven:
        return f", where all threads go round {_lines('the loop', gap.uneven)} equally often"
    if gap.outer:
        return f", with {_lines('the branch', gap.outer)} ended before it and begun again behind it"
    return _outside(gap)


def _at_the_end(gap: Gap) -> str:
    """How to make room for a barrier at the end of a loop's round."""
    also = _outside(gap)
    if gap.outer:
        also += f", with {_lines('the branch', gap.outer)} moved into the loop"
    if gap.uneven:
        also += f", where all threads go round {_lines('the loop', gap.uneven)} equally often"
    return also


def _outside(gap: Gap) -> str:
    branches = tuple(line for line in gap.inner if line not in gap.loops)
    said = [_lines(what, lines) for what, lines in (("the loop", gap.loops), ("the branch", branches)) if lines]
    return f", outside {' and '.join(said)}" if said else ""


def _lines(what: str, lines: tuple[int, ...]) -> str:
    """``the branch of line 3``, ``the branches of lines 3 and 5``."""
    if len(lines) == 1:
        return f"{what} of line {lines[0]}"
    return f"{what}{'es' if what.endswith('ch') else 's'} of lines {', '.join(map(str, lines[:-1]))} and {lines[-1]}"


def _awaited(fault: Fault) -> str:
    """A loop waits for what another thread stores: a barrier would never be reached."""
    name = fault.facts["array"]
    fence = "cuda.threadfence()" if fault.facts["relation"] == "grid" else "cuda.threadfence_block()"
    return (
        f"a loop waits for {name}: read it by an atomic (as cuda.atomic.add({name}, i, 0)) and write it by one "
        f"(as cuda.atomic.exch), with {fence} between the results that it tells of and that write"
    )


def order_dependent(
    array: str, index: tuple[int, ...], values: tuple[str, Any, str, Any], count: int, site: Site | None
) -> Said:
    """Two orders of execution leave different results; ``values`` are order, value, order, value."""
    element = f"{array}[{', '.join(map(str, index))}]"
    where = f"{site}: " if site is not None else ""
    more = f" ({count} elements of {array} differ)" if count > 1 else ""
    message = f"{where}{element} is {values[1]} in order {values[0]} and {values[3]} in order {values[2]}{more}"
    return message, "threads meet at this element without a barrier between them, or add floats atomically"


MOVED = "an atomic gives the places, so they depend on who comes first: no fault unless the places matter"
"""The mend of an array that holds the same values in every order, in other places."""


def explained(race: Finding) -> str:
    """The mend of results that depend on the order, where there is a race."""
    one, two = race.sites[0].line, race.sites[-1].line
    lines = f"on line {one}" if one == two else f"between line {one} and line {two}"
    return f"mend the race on {race.array} {lines} first: it lets results differ"


SENTENCES: dict[str, Tell] = {"race-shared": _race, "race-global": _race}
