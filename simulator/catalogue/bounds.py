"""Sentences about addresses: outside an axis or every allocation, not aligned, counted from the end, overlapping.

Rules of this file: one function per kind of fault, facts -> (message, mend).
"""

from __future__ import annotations

from typing import Any

from simulator.catalogue.words import Said, Tell, Words, more_lanes
from simulator.machine.faults import Fault

_VERBS = {"ld": "reads", "st": "writes", "atom": "updates"}


def _out_of_bounds(fault: Fault, words: Words) -> Said:
    facts, place = fault.facts, fault.places[0]
    verb, others = _VERBS[place.access], more_lanes(facts)
    if "axis" not in facts:
        of = f" of array {facts['array']!r}" if facts.get("array") else ""
        what = f"{verb} {facts['nbytes']} bytes at address {facts['address']:#x}{of}, outside every allocation"
        return f"{words.place(place)} {what}{_nearest(facts)}{others}", "check the address arithmetic"
    index, extent, axis = facts["index"], facts["extent"], facts["axis"]
    if (run := facts.get("run", 1)) > 1:
        what = f"{verb} {run} elements of {facts['array']} from index {facts['first']} on"
        mend = f"guard the access with `if index + {run} <= {facts['array']}.shape[{axis}]:`"
    else:
        what = f"{verb} {facts['array']} at index {index}"
        mend = f"guard the access with `if index < {facts['array']}.shape[{axis}]:`"
    what = f"{what} along axis {axis}, which has {extent} elements{others}"
    if index < 0 and "run" in facts:
        return f"{words.place(place)} {what}", "this access takes no index from the end; check the subtraction"
    if index < 0:
        return f"{words.place(place)} {what}", "a negative index wraps only once; check the subtraction that made it"
    if "needed" in facts:
        mend = (
            f"ask for at least {facts['needed']} bytes of dynamic shared memory, the launch's fourth number (it is "
            f"{facts['asked']}), or {mend}"
        )
    return f"{words.place(place)} {what}", mend


def _nearest(facts: dict[str, Any]) -> str:
    """Which allocation the address missed, and by how much."""
    if facts.get("nearest") is None:
        return ""
    name, size, past = facts["nearest"]
    if past < 0:
        return f": it starts {-past} bytes before {name} ({size} bytes)"
    return f": it ends {past} bytes past the end of {name} ({size} bytes)"


def _misaligned(fault: Fault, words: Words) -> Said:
    facts = fault.facts
    message = (
        f"{words.place(fault.places[0])} accesses {facts['nbytes']} bytes of {facts['array']} at address "
        f"{facts['address']:#x}, which is not a multiple of {facts['nbytes']}{more_lanes(facts)}"
    )
    return message, "a wide access needs an aligned address: handle the first elements one by one, or load narrower"


def _negative_index(fault: Fault, words: Words) -> Said:
    facts, place = fault.facts, fault.places[0]
    index, extent, axis = facts["index"], facts["extent"], facts["axis"]
    message = (
        f"{words.place(place)} {_VERBS[place.access]} {facts['array']} at index {index} along axis {axis}, which "
        f"counts from the end: index {index + extent} of {extent}{more_lanes(facts)}"
    )
    return message, (
        f"if the end is not what is meant, guard the access with `if index >= 0:`; if it is, say so: "
        f"`index % {facts['array']}.shape[{axis}]`"
    )


def _shared_overlap(fault: Fault, words: Words) -> Said:
    facts, place = fault.facts, fault.places[0]
    message = (
        f"{words.place(place)} {_VERBS[place.access]} {facts['element']}, whose bytes were last written through"
        f" {facts['other']} (declared on line {facts['declared']}): all dynamic shared arrays start at one"
        f" place{more_lanes(facts)}"
    )
    return message, (
        "take each array from its own part of one: `a = cuda.shared.array(0, dtype)[:n]` and `b = …[n:]`, with as many "
        "bytes in the launch"
    )


SENTENCES: dict[str, Tell] = {
    "out-of-bounds": _out_of_bounds,
    "misaligned-access": _misaligned,
    "negative-index": _negative_index,
    "shared-overlap": _shared_overlap,
}
"""How each kind of fault is told."""
