"""Sentences about what stops a launch before it starts, and about exceptions.

Rules of this file: one function per kind of fault, facts -> (message, mend).
"""

from __future__ import annotations

from simulator.catalogue.words import Said, Tell, Words, at
from simulator.machine.faults import Fault


def _launch_limit(fault: Fault, words: Words) -> Said:
    facts = fault.facts
    head = f"{at(fault.places[0].pos)}: " if fault.places else ""
    return f"{head}{facts['what']} is {facts['value']}, but {facts['limit']}", facts.get("mend", "")


def _does_not_compile(fault: Fault, words: Words) -> Said:
    head = f"{at(fault.places[0].pos)}: " if fault.places else ""
    return f"{head}Numba cannot compile the kernel: {fault.facts['reason']}", fault.facts.get("mend", "")


def _kernel_exception(fault: Fault, words: Words) -> Said:
    said, more = fault.facts.get("message", ""), fault.facts.get("count", 1) - 1
    others = f" (as do {more} more threads)" if more else ""
    return f"{words.place(fault.places[0])} reaches a `raise`" + (f": {said}" if said else "") + others, ""


SENTENCES: dict[str, Tell] = {
    "launch-limit": _launch_limit,
    "does-not-compile": _does_not_compile,
    "kernel-exception": _kernel_exception,
}
"""How each kind of fault is told."""
