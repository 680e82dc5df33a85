"""One fault per operation: what the first lane met there, and how many lanes did."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from simulator.machine.faults import Fault


@dataclass(slots=True)
class _First:
    fault: Fault
    count: int


class Firsts:
    """Faults by key, in the order in which they were met."""

    def __init__(self) -> None:
        self._found: dict[Hashable, _First] = {}

    def known(self, key: Hashable, lanes: np.ndarray) -> bool:
        """Is there a fault of this key?  Then these lanes (bool) count as well."""
        found = self._found.get(key)
        if found is None:
            return False
        found.count += int(np.count_nonzero(lanes))
        return True

    def add(self, key: Hashable, lanes: np.ndarray, fault: Fault) -> None:
        """Enter the fault of the first of these lanes."""
        self._found[key] = _First(fault, int(np.count_nonzero(lanes)))

    def first(self, key: Hashable) -> Fault:
        """The fault of a key that is known."""
        return self._found[key].fault

    def faults(self) -> list[Fault]:
        """All faults, with the ``count`` of their lanes."""
        found = [(one.fault, one.count) for one in self._found.values()]
        return [Fault(fault.kind, fault.places, **{**fault.facts, "count": count}) for fault, count in found]
