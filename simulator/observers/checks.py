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

EVERY: tuple[type[Verdict], ...] = (Lost, Races)
"""Attached to every run, in whatever order: keep it cheap."""
FIRST: tuple[type[Verdict], ...] = (
    Initialisation, Overlap, NegativeIndices, Barriers, Doubles, Uncalled, Overflows, Outputs,
)  # fmt: skip
"""Attached to the first run of a check alone: what the program or one run of it tells."""


def verdicts(first: bool) -> list[Verdict]:
    """New verdicts for one run of a check, its first or not."""
    return [make() for make in (*EVERY, *(FIRST if first else ()))]
