"""Sentences about warp operations: lanes that a mask names and that do not come, lanes that are read and take no part.

Rules of this file: one function per kind of fault, facts -> (message, mend).
"""

from __future__ import annotations

import math
from typing import Any

from simulator.catalogue.definedness import used
from simulator.catalogue.words import Said, Tell, Words, listed, parted, standings
from simulator.machine.faults import Fault


def _warp_sync(fault: Fault, words: Words) -> Said:
    facts, place = fault.facts, fault.places[0]
    head = f"{words.place(place)}: {facts['operation']} in warp {facts['warp']}"
    if facts.get("unnamed"):
        return (
            f"{head}: lane {facts['lane']} runs it, but the mask it passes does not name lane {facts['lane']}",
            "a lane must be in its own mask: 0xffffffff for a full warp, or cuda.activemask() before the branch",
        )
    if "used" in facts:
        return (
            f"{head}: {_reads(facts, words)}; the value is undefined, and {used(facts, fault.places[1], words)}",
            "let every lane that is read from run the operation with a mask that names it (fill up the last warp), or "
            "use the value only where its source lane takes part",
        )
    missing = tuple(facts["missing"])
    lanes = f"lanes {listed(missing)}, which do" if len(missing) != 1 else f"lane {missing[0]}, which does"
    where = f": {others}" if (others := standings(facts.get("elsewhere", ()), words)) else ""
    return (
        f"{head}: the mask names {lanes} not arrive{where}{parted(facts.get('parted'), words)}",
        "name only lanes that run this line, or move the operation out of the branch",
    )


def _reads(facts: dict[str, Any], words: Words) -> str:
    """Who reads whom, and why that one takes no part."""
    why = {
        "no thread": f"does not exist (the block has {math.prod(words.launch.block)} threads)",
        "returned": "has returned",
        "elsewhere": "does not take part",
    }[facts["absence"]]
    return f"lane {facts['lane']} reads from lane {facts['source']}, which {why}"


def _partial_warp(fault: Fault, words: Words) -> Said:
    facts, place = fault.facts, fault.places[0]
    others = f" ({facts['count'] - 1} more such reads)" if facts["count"] > 1 else ""
    return (
        f"{words.place(place)}: {facts['operation']} in warp {facts['warp']}: {_reads(facts, words)}: the value is"
        f" undefined, and shows here as NaN or -1{others}",
        "do not use that value, or let every lane that is read from run the operation with a mask that names it",
    )


SENTENCES: dict[str, Tell] = {"warp-sync": _warp_sync, "partial-warp": _partial_warp}
"""How each kind of fault is told."""
