"""The stand-in device: inside ``simulator.device()``, numba.cuda's host side runs on the CPU.

``session`` knows what was launched and found, ``memory`` holds the device's memory in host buffers; neither knows
Numba.  The ``numba_*`` files stand in for the lowest level of numba-cuda that will do: its one driver object, the
objects of cuda.core that it makes, and the class that a compiled kernel has.  All else (device arrays, transfers,
the choice of a signature, casts) is numba-cuda's own code.
"""

from simulator.device.session import Device, device

__all__ = ["Device", "device"]
