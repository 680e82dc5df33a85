"""The front end: kernels to programs.

``lower_kernel`` is all that the rest of the simulator needs; ``lower`` drives it.  The way of a kernel:

* ``inference``: from Python to typed IR.  Numba infers the types.
* ``typed_ir``: that IR in words of our own, its types in ``kernel_types``, how they lie in memory in ``layouts``.
* ``lowering``: from typed IR to the operations of a program.

What Numba or the simulator cannot do is told by ``refusal``.
"""

from simulator.frontend.lower import forget, front_end, lower_kernel
from simulator.frontend.refusal import DoesNotCompile

__all__ = ["DoesNotCompile", "forget", "front_end", "lower_kernel"]
