"""The one catalogue of messages: facts of the machine become sentences that a student can act on.

Rules of this package:

* The machine and the observers report facts (``Fault``); sentences are made here and nowhere else.
* A message says where, which threads, which array and element, who is missing and where they wait.  The likely mend
  stands apart.
* A file per family of faults, each with its table ``SENTENCES``; ``words`` has what they share.
"""

from __future__ import annotations

from simulator.catalogue import barriers, bounds, cost, definedness, machine, races, warp
from simulator.catalogue.words import Tell, Words
from simulator.findings import Finding, Launch, Replay, Site
from simulator.machine.faults import Fault
from simulator.program import Pos

_FAMILIES = (machine, bounds, barriers, warp, definedness, races, cost)

CATALOGUE: dict[str, Tell] = {kind: tell for family in _FAMILIES for kind, tell in family.SENTENCES.items()}
"""How each kind of fault is told."""


def finding_of(fault: Fault, kernel: str, launch: Launch, replay: Replay | None = None) -> Finding:
    """The finding that tells a fault of the machine."""
    message, mend = CATALOGUE[fault.kind](fault, Words(launch))
    facts = fault.facts
    index = facts.get("index")
    return Finding(
        kind="deadlock" if fault.kind == "step-limit" else fault.kind,
        message=message,
        sites=_sites(fault),
        kernel=kernel,
        launch=launch,
        array=facts.get("array", ""),
        element=facts.get("at", (index,) if index is not None and facts.get("axis") == 0 else None),
        count=facts.get("count", 1),
        mend=mend,
        replay=replay,
        severity="error" if facts.get("debug") else "",
        limit_of=facts.get("limit_of", ""),
    )


def _sites(fault: Fault) -> tuple[Site, ...]:
    """The fault's places, and where those stand that it waits for."""
    sites = [_site(place.pos, place.block, tuple(place.threads), place.access) for place in fault.places]
    for pos, kind, *block, threads in fault.facts.get("elsewhere", ()):
        number = block[0] if block else fault.places[0].block if fault.places else None
        sites.append(_site(pos, number, tuple(threads), kind))
    return tuple(sites)


def _site(pos: Pos, block: int | None, threads: tuple[int, ...], access: str) -> Site:
    return Site(pos.file, pos.line, pos.function, block, threads[0] if threads else None, access)
