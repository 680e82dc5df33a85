"""Races in words: both lines, both threads, the element, what would order them; results that differ by order.

Rules of this file: one function per kind of fault, facts -> (message, mend).
"""

from __future__ import annotations

from typing import Any

from simulator.catalogue.words import Said, Tell, Words
from simulator.findings import Finding, Site
from simulator.machine.faults import Fault, Place

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
    lines = f"line {one.pos.line} and line {two.pos.line}"
    if facts["spins"]:
        return _awaited(fault)
    if "atom" in kinds:
        barrier = "" if facts["relation"] == "grid" else ", or put cuda.syncthreads() between them"
        return f"use an atomic on both sides{barrier}"
    if one.pos.line == two.pos.line:
        if kinds == {"st"}:
            return "let one thread write it, or give each thread a place of its own"
        if facts["update"]:
            return "use an atomic such as cuda.atomic.add, or give each thread an element of its own"
        if facts["relation"] == "grid":
            return "write to another array"
        return "put a barrier between the read and the write, or write to another array"
    if facts["relation"] == "grid":
        flag = "cuda.threadfence() before the atomic that tells of it, or " if facts["atomics"] else ""
        return (
            f"no barrier reaches other blocks: {flag}give each block its own part, read and write by one atomic (as "
            f"cuda.atomic.cas), or split {lines} into two launches"
        )
    barrier = "cuda.syncwarp() or cuda.syncthreads()" if facts["relation"] == "warp" else "cuda.syncthreads()"
    if facts["again"]:
        return f"put {barrier} after line {two.pos.line}, before line {one.pos.line} runs again"
    if one.pos.line > two.pos.line:
        return f"put {barrier} after line {one.pos.line}, before line {two.pos.line} runs again"
    return f"put {barrier} between {lines}"


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
