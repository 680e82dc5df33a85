"""Sentences about values that nobody made: memory read before it was written, lanes that do not take part.

Rules of this file: one function per kind of fault, facts -> (message, mend).
"""

from __future__ import annotations

from simulator.catalogue.words import Said, Tell, Words, more_lanes
from simulator.machine.faults import Fault

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
    written, elements = facts["written"], facts["elements"]
    if written:
        so_far = f"{written} of its {elements} elements {'are' if written > 1 else 'is'} written so far"
    else:
        so_far = f"none of its {elements} elements is written yet"
    message = (
        f"{words.place(place)} {verb} {facts['element']} ({facts['space']} memory), which nobody has written;"
        f" {so_far}{more_lanes(facts)}"
    )
    return message, _MENDS[facts["space"]]


SENTENCES: dict[str, Tell] = {"uninitialized-read": _uninitialized_read}
"""How each kind of fault is told."""
