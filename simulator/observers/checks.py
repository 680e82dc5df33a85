"""What a check attaches to a run: the table of verdicts.

Rules of this file: a new verdict gets a line here.  What stops a run (a barrier that not everybody reaches) needs no
verdict: the machine raises it.
"""

from __future__ import annotations

from simulator.observers.barriers import Barriers
from simulator.observers.bounds import NegativeIndices
from simulator.observers.doubles import Doubles
from simulator.observers.initialisation import Initialisation
from simulator.observers.lost import Lost
from simulator.observers.outputs import Outputs
from simulator.observers.overflows import Overflows
from simulator.observers.overlap import Overlap
from simulator.observers.races import Races
from simulator.observers.uncalled import Uncalled
from simulator.observers.verdict import Verdict

EVERY: tuple[type[Verdict], ...] = (Lost,)
"""Attached to every run, in whatever order: keep it cheap."""
UNORDERED: tuple[type[Verdict], ...] = (Races,)
"""Attached until a run has told that everything is ordered: then it is so in every order."""
FIRST: tuple[type[Verdict], ...] = (
    Initialisation, Overlap, NegativeIndices, Barriers, Doubles, Uncalled, Overflows, Outputs,
)  # fmt: skip
"""Attached to the first run of a check alone: what the program or one run of it tells."""


def verdicts(first: bool, ordered: bool = False) -> list[Verdict]:
    """New verdicts for one run of a check, its first or not; ``ordered``: threads are known to race in no order."""
    return [make() for make in (*EVERY, *(() if ordered else UNORDERED), *(FIRST if first else ()))]
