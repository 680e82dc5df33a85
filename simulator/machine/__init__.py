"""The machine: runs a typed SIMT program on NumPy values, by waves or by splits.

It knows no front end and names no observer.  ``launch`` runs a program; ``Observer`` is what it reports to;
``Fault`` is what it raises.

* Scheduling: ``waves`` and ``splits`` run a ``group`` of blocks, a ``split`` at a time, in an ``order`` of choice;
  ``gathering`` brings lanes together again that have parted, ``spinning`` finds who goes round in vain and
  ``sleepers`` wakes them, ``grids`` has the barriers of the whole grid, ``whereabouts`` says who stands where when
  nobody can go on.
* Code: ``code`` makes Python of a program's blocks, by its ``flow`` of control.
* Values: ``values`` has their forms, ``registers`` the special ones, ``operations`` what is computed, ``warp`` what
  lanes exchange; ``overflow`` and ``narrowing`` notice what gets lost; ``shadow`` carries a domain along.
* Memory: ``memory`` has allocations, ``elements`` work out addresses by axis, ``addresses`` find the allocation;
  ``access``, ``unaligned`` and ``atomics`` move the bytes; ``going_on`` lets a check go past a wrong address.
"""

from simulator.machine.faults import Fault, Place
from simulator.machine.launch import launch
from simulator.machine.observer import Observer

__all__ = ["Fault", "Observer", "Place", "launch"]
