"""The race detector: two threads touch the same bytes, at least one of them stores, and nothing orders the two.

``detector`` is the observer.  ``happens`` knows what orders two accesses (``releases``: through atomics); a
``footprint`` remembers who accessed each cell of an allocation last, ``touches`` says which cells an access touches and
``stores`` which bytes it puts there; ``pairs`` gathers what races into one fault per pair of source lines.

``mends`` says what would mend a pair.
"""

from simulator.observers.races.detector import Races

__all__ = ["Races"]
