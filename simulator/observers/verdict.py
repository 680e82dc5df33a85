"""What a verdict is: an observer that tells what is wrong, once the run is over."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from simulator.machine.faults import Fault
from simulator.machine.observer import Observer


class Verdict(Observer, ABC):
    """An observer that judges what it saw."""

    @abstractmethod
    def faults(self) -> Sequence[Fault]:
        """What is wrong, as facts for the catalogue."""
