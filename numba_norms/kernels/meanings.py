"""What the intrinsics of ``lanes`` do, for the simulator; it finds these functions through their entry points.

They are its only knowledge of ``lanes``, and this file has none of it: ``code`` writes the operations, the parameters
after it are those of the intrinsic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

BYTES = 16
"""The widest access of one lane."""


def vload(code: Any, array: Any, index: Any, registers: Any, j: Any, n: Any) -> None:
    """``registers[j + k] = array[index + k]`` for ``k < n``, up to 16 bytes in one access."""
    for start, count in _accesses(code, array, n):
        for k, value in enumerate(code.load(array, _moved(code, index, start), count), start):
            code.store(registers, j + k, [code.convert(value, registers.dtype)])


def vstore(code: Any, array: Any, index: Any, registers: Any, j: Any, n: Any) -> None:
    """``array[index + k] = registers[j + k]`` for ``k < n``, rounded, up to 16 bytes in one access."""
    for start, count in _accesses(code, array, n):
        values = [code.load(registers, j + k)[0] for k in range(start, start + count)]
        code.store(array, _moved(code, index, start), [code.convert(value, array.dtype) for value in values])


def converted(code: Any, value: Any, dtype: Any) -> Any:
    """``dtype(value)``: what ``widen`` and ``narrow`` do."""
    return code.convert(value, dtype)


def _accesses(code: Any, array: Any, n: Any) -> Iterator[tuple[int, int]]:
    """First element and number of elements of each access."""
    n = code.constant(n)
    count = min(n, BYTES // array.dtype.itemsize)
    if count < 1 or n % count or count & (count - 1):
        code.refuse(f"with n = {n}: elements of {array.dtype} go in powers of two, up to {BYTES} bytes at once")
    return ((start, count) for start in range(0, n, count))


def _moved(code: Any, index: Any, k: int) -> Any:
    """The index ``k`` elements on along the last axis, in 64 bits as the address is."""
    *others, last = index if isinstance(index, tuple) else (index,)
    return (*others, code.convert(last, "int64") + k)
