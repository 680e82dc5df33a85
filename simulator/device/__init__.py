"""The stand-in device: inside ``simulator.device()``, numba.cuda's host side runs on the CPU.

``session`` knows what was launched and found, ``memory`` holds the device's memory in host buffers, ``attributes`` is
what a card says of itself.  The ``numba_*`` files stand in for the lowest level of numba-cuda that will do: its one
driver object, the objects of cuda.core that it makes, and the class that a compiled kernel has.  They are the only ones
to import Numba.  ``library`` has the shape of the code library that Numba asks such a kernel for, and imports nothing;
``refusals`` imports one class of cuda.core, the error that a launch raises on a GPU.  All else (device arrays,
transfers, the choice of a signature, casts) is numba-cuda's own code.
"""

from simulator.device.session import Device, device

__all__ = ["Device", "device"]
