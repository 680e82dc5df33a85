"""Sentences about barriers and about waiting without end: who waits, who is missing, where those are, what parted them.

Rules of this file: one function per kind of fault, facts -> (message, mend).
"""

from __future__ import annotations

from simulator.catalogue.grids import grid_deadlock, grid_divergence
from simulator.catalogue.words import Said, Tell, Words, at, parted, standings
from simulator.machine.faults import Fault


def _barrier_divergence(fault: Fault, words: Words) -> Said:
    facts, place = fault.facts, fault.places[0]
    if facts.get("grid"):
        return grid_divergence(fault, words)
    waiting, missing = tuple(facts["waiting"]), tuple(facts["missing"])
    verb = "waits" if len(waiting) == 1 else "wait"
    who = f"{words.threads(waiting)} of {words.block(place.block)}"
    head = f"{at(place.pos)}: {who} {verb} at {place.access or 'a barrier'}"
    elsewhere = tuple(facts.get("elsewhere", ()))
    where = standings(elsewhere, words, "went past it and returned" if facts.get("exited") else "")
    if where and {thread for *_, threads in elsewhere for thread in threads} == set(missing):
        rest = where
    else:
        rest = (
            f"{words.threads(missing)} do{'es' if len(missing) == 1 else ''} not arrive{f': {where}' if where else ''}"
        )
    return (
        f"{head}, but {rest}{parted(facts.get('parted'), words)}",
        "move the barrier out of the branch or loop, so that all threads of the block reach it",
    )


def _exited_before_barrier(fault: Fault, words: Words) -> Said:
    facts, place = fault.facts, fault.places[0]
    verb = "passes" if len(place.threads) == 1 else "pass"
    message = (
        f"{at(place.pos)}: {words.threads(place.threads)} of {words.block(place.block)} {verb} {place.access} without"
        f" the others: {standings(facts['elsewhere'], words)}"
    )
    return message, (
        "allowed since Volta, where threads that have returned count as arrived; if they have a share in the work "
        "after the barrier, guard their reads and writes instead of returning"
    )


def _deadlock(fault: Fault, words: Words) -> Said:
    if fault.facts.get("grid"):
        return grid_deadlock(fault, words)
    where = standings(fault.facts.get("elsewhere", ()), words)
    head = f"{at(fault.places[0].pos)}: " if fault.places else ""
    message = f"{head}nobody can go on: {where or 'every thread waits'}"
    return (
        message,
        "threads wait for others that wait themselves, or that have returned: check what each group waits for",
    )


def _step_limit(fault: Fault, words: Words) -> Said:
    where = standings(fault.facts.get("elsewhere", ()), words)
    elsewhere = f"; {where}" if where else ""
    head, many = "", False
    if fault.places:
        place = fault.places[0]
        many = len(place.threads) > 1
        head = f"{at(place.pos)}: {words.threads(place.threads)} of {words.block(place.block)} "
    if fault.facts.get("spins") == "for others":
        return (
            f"{head}{'go' if many else 'goes'} round a loop in which nothing changes any more{elsewhere}: what is "
            "waited for can only come from a block that does not run together with these",
            "blocks that wait for each other must all run at once: simulate fewer or smaller blocks, and on a GPU "
            "launch no more than it holds (a cooperative launch sees to that)",
        )
    if fault.facts.get("spins"):
        return (
            f"{head}{'go' if many else 'goes'} round a loop in which nothing changes any more, no variable and nothing "
            f"that it reads{elsewhere}",
            "the loop never ends: it waits for another thread, so check who ought to write what it reads",
        )
    verb = f"{'are' if many else 'is'} still running" if head else "still running"
    return (
        f"{head}{verb} after the budget of {fault.facts['budget']} steps{elsewhere}",
        "a loop may never end, for example one that waits for another thread; else simulate a smaller launch, or raise "
        "the budget with max_steps= of simulate() (numba-sim: --max-steps)",
    )


SENTENCES: dict[str, Tell] = {
    "barrier-divergence": _barrier_divergence,
    "exited-before-barrier": _exited_before_barrier,
    "deadlock": _deadlock,
    "step-limit": _step_limit,
}
"""How each fault is told.  ``step-limit`` is told as a ``deadlock``: nobody has shown that the kernel would end (or,
where it ``spins``, the machine has shown that it would not)."""
