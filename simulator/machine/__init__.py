"""The machine: runs a typed SIMT program on NumPy values, by waves or by splits.

It knows no front end and names no observer.  ``launch`` runs a program; ``Observer`` is what it reports to;
``Fault`` is what it raises.
"""

from simulator.machine.faults import Fault, Place
from simulator.machine.launch import launch
from simulator.machine.observer import Observer

__all__ = ["Fault", "Observer", "Place", "launch"]
