"""What would mend a race, as facts: what the two accesses are for, and where a barrier can stand.

Rules of this file: it decides, from the program and from the ``rounds`` in which the two raced (``lockstep``); words
are the catalogue's.  Where the rounds are not known, both places of a barrier are told: that is never too little.
"""

from __future__ import annotations

from typing import Any

from simulator.observers.races.mends.lockstep import AGAIN, LATER, WITHIN
from simulator.observers.races.mends.places import Gap, Order, at_the_end, between, order
from simulator.observers.races.mends.roles import spins, told_by
from simulator.observers.races.mends.updates import found_by_data, mixes, update
from simulator.program import Op, Program


def mend_facts(program: Program, one: Op, two: Op, relation: str, rounds: int) -> dict[str, Any]:
    """What the catalogue must know of a racing pair, in the order of its places.

    ``spins``: a load waits for the other one.  ``update``: the atomic that would do what the two do to one element.
    ``told``: the number of the place, and the line of the atomic by which its thread tells the other one.  ``order``:
    where a barrier is missing: the numbers of the places as the flow has them, the ``Gap`` within a round and the one
    at its end, None where none is missing.  ``of_warp``: only a barrier of the warp can stand there.
    """
    facts: dict[str, Any] = {"spins": _spins(program, one, two), "update": "", "told": None, "order": None}
    if facts["spins"]:
        return facts
    plain = "atom" not in (one.kind, two.kind)
    if plain and relation != "grid":
        for number, (op, other) in enumerate(((one, two), (two, one))):
            atomic = told_by(program, op, other)
            if atomic is not None and op.pos.line != atomic.pos.line:
                facts["told"] = number, atomic.pos.line
                return facts
    facts["update"] = name = _update(program, one, two) if plain else ""
    if relation == "grid":
        return facts
    near = relation == "warp"
    found = order(program, one, two, near)
    within, again = _open(found, rounds)
    alone = again and not within and not found_by_data(program, found.second)  # in each round, each element is one's
    if name and (alone or (again and not rounds and _mixed(program, one, two))):
        facts["update"] = ""
    first = 0 if found.first is one else 1
    gaps = _gaps(program, found, within, again, near)
    facts["order"] = (first, 1 - first), *gaps
    facts["of_warp"] = near and gaps != _gaps(program, found, within, again, False)
    return facts


def _open(found: Order, rounds: int) -> tuple[bool, bool]:
    """Where a barrier is missing: within a round, at its end?"""
    within = found.within and bool(rounds & WITHIN)
    again = found.again and bool(rounds & AGAIN)
    if within or again:
        return within, again
    if found.first is found.second or rounds & LATER:
        return not found.again, found.again
    return found.within or not found.again, found.again


def _gaps(program: Program, found: Order, within: bool, again: bool, near: bool) -> tuple[Gap | None, Gap | None]:
    return between(program, found, near) if within else None, at_the_end(program, found, near) if again else None


def _spins(program: Program, one: Op, two: Op) -> bool:
    load = one if one.kind == "ld" else two
    return load.kind == "ld" and any(spins(program, op) for op in _copies(program, load))


def _copies(program: Program, load: Op) -> list[Op]:
    """The loads of the same place in the source: a loop's test stands twice in a program."""
    return [op for op in program.ops() if op.kind == "ld" and op.pos == load.pos]


def _update(program: Program, one: Op, two: Op) -> str:
    """The atomic for a load and a store that it goes into, or for a store alone that goes back to its own load."""
    stores = [op for op in (one, two) if op.kind == "st"]
    loads = [op for op in (one, two) if op.kind == "ld"]
    if not stores or (not loads and one is not two):
        return ""
    if not loads:
        loads = [op for op in program.ops() if op.kind == "ld" and op.attr.get("name") == one.attr.get("name")]
    return next((name for load in loads if (name := update(program, load, stores[0]))), "")


def _mixed(program: Program, one: Op, two: Op) -> bool:
    return any(op.kind == "st" and mixes(program, op) for op in (one, two))
