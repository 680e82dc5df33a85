"""From Python to typed IR: Numba infers the types, and its result is put into words of our own.

An adapter (``numba_ir``, or ``plain_numba`` where numba-cuda has no wheel) has one compiler infer types; what both need
is in ``front_end``, ``overloads`` and ``successor``; ``translate``, with ``native_types``, ``signs`` and ``columns``,
writes the result as ``simulator.frontend.typed_ir``.
"""
