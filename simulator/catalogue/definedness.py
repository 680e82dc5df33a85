"""Sentences about values that nobody made: memory read before it was written, and where such a value goes.

Rules of this file: one function per kind of fault, facts -> (message, mend).
"""

from __future__ import annotations

from typing import Any

from simulator.catalogue.words import Said, Tell, Words, more_lanes
from simulator.machine.faults import Fault, Place

_MENDS = {
    "shared": "shared memory starts with whatever was there before: let a thread write each element that is read, and "
    "call cuda.syncthreads() before others read it",
    "local": "a local array does not start at zero: write each element before it is read",
    "global": "an array from cuda.device_array has no contents: write each element first, or pass "
    "cuda.to_device(np.zeros(…))",
}


def _uninitialized_read(fault: Fault, words: Words) -> Said:
    facts, place = fault.facts, fault.places[0]
    verb = {"ld": "reads", "atom": "updates"}[place.access]
    message = (
        f"{words.place(place)} {verb} {facts['element']} ({facts['space']} memory), which nobody has written"
        f"{_so_far(facts)}{more_lanes(facts)}"
    )
    if "user" in facts:
        message += f"; {used(facts['use'], facts['user'], words)}"
    return message, _MENDS[facts["space"]]


def _so_far(facts: dict[str, Any]) -> str:
    """How much of the array has been written; "" where nobody has counted."""
    if "written" not in facts:
        return ""
    written, elements = facts["written"], facts["elements"]
    if written:
        return f"; {written} of its {elements} elements {'are' if written > 1 else 'is'} written so far"
    return f"; none of its {elements} elements is written yet"


def used(facts: dict[str, Any], place: Place, words: Words) -> str:
    """Where an undefined value goes."""
    who, line = words.thread(place.threads[0]), f"on line {place.pos.line}"
    match facts["used"]:
        case "store":
            return f"{who} stores it to {facts['element']} {line}"
        case "address":
            array = f"indexes {facts['array']} with it" if facts["array"] else "makes an address of it"
            return f"{who} {array} {line}"
        case "branch":
            return f"{who} decides by it where to go {line}"
        case "atomic":
            return f"{who} passes it to an atomic operation {line}"
    return f"{who} passes it to {facts['used']} {line}"


SENTENCES: dict[str, Tell] = {"uninitialized-read": _uninitialized_read}
"""How each kind of fault is told."""
