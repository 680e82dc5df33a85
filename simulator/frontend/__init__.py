"""The front end: kernels to programs.

``lower_kernel`` is all that the rest of the simulator needs.  The way of a kernel: an adapter (``numba_ir``, or
``plain_numba`` where numba-cuda has no wheel) has Numba infer its types; ``translate`` puts the result into words of
our own (``typed_ir``); ``body`` and its kin turn that into a ``program``.
"""

from simulator.frontend.inference import DoesNotCompile
from simulator.frontend.lower import front_end, lower_kernel

__all__ = ["DoesNotCompile", "front_end", "lower_kernel"]
