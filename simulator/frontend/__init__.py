"""The front end: kernels to programs.

``lower_kernel`` is all that the rest of the simulator needs.  The way of a kernel:

* From Python to typed IR.  An adapter (``numba_ir``, or ``plain_numba`` where numba-cuda has no wheel) has Numba infer
  its types, with what both need in ``inference``, ``overloads``, ``successor`` and ``refusal``; ``translate``, with
  ``native_types`` and ``columns``, puts the result into words of our own: ``typed_ir`` and ``kernel_types``.
* From typed IR to a program.  ``lower`` drives it, ``body`` lowers a function, ``builder`` writes the operations down,
  ``tidy`` ends it.  What a variable is stands in ``values``; a file per noun knows what can be done with it
  (``indexing``, ``iteration``, ``operators``, ``complexes``, ``records``, ``times`` ...), ``calls`` what calls mean.
* What is easier said in Python is lowered from Python: ``library_functions``, ``complex_functions``.
"""

from simulator.frontend.inference import DoesNotCompile
from simulator.frontend.lower import forget, front_end, lower_kernel

__all__ = ["DoesNotCompile", "forget", "front_end", "lower_kernel"]
