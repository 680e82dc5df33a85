"""The parameters of a launch, laid out as Numba's kernels and the driver want them.

Numba's kernels take an array as 5 + 2·ndim parameters of 8 bytes: two pointers that its memory management would need
(0 here), the number of elements, the bytes of one, the address of the first, then shape and strides.  A number is one
parameter of its own size, ``()`` is none (numba-cuda 0.30, ``_Kernel._prepare_args``).  The driver gets an array of
addresses, one per parameter, and copies what they point to before the launch returns.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from numba_norms.arrays.addresses import address_of

POINTER = 4
"""Where the address of an array is, counted from the first of its words."""

_MASK = (1 << 64) - 1


def words_of(argument: Any) -> Sequence[int]:
    """The parameters of one argument, a word of 8 bytes each; a narrower one takes the lower bytes of its word.

    >>> x = np.zeros((2, 3), np.float32)
    >>> meminfo, parent, *rest = words_of(x)
    >>> rest[0], rest[1], rest[2] == x.ctypes.data, rest[3:]
    (6, 4, True, [2, 3, 12, 4])
    >>> words_of(np.float32(1)), words_of(-1) == (2**64 - 1,), words_of(True), words_of(())
    ((1065353216,), True, (1,), ())
    """
    if isinstance(argument, np.ndarray):
        shape, strides = argument.shape, argument.strides
        if strides and min(strides) < 0:
            strides = tuple(stride & _MASK for stride in strides)
        return 0, 0, argument.size, argument.itemsize, address_of(argument), *shape, *strides
    if isinstance(argument, np.generic):
        return (int.from_bytes(argument.tobytes(), "little"),)
    if isinstance(argument, float):
        return (int.from_bytes(struct.pack("<d", argument), "little"),)
    return (argument & _MASK,) if isinstance(argument, int) else ()


def flat(arguments: Iterable[Any]) -> list[int]:
    """The words of all arguments, in order."""
    words: list[int] = []
    for argument in arguments:
        words += words_of(argument)
    return words


class Block:
    """Memory that holds the words of one launch, and the array of addresses that the driver takes.

    A block serves one launch at a time: the driver reads it without Python's lock.
    """

    __slots__ = ("_pointers", "address", "words")

    def __init__(self, words: Sequence[int]) -> None:
        self.words = array("Q", words)
        start, count = self.words.buffer_info()
        self._pointers = array("Q", range(start, start + 8 * count, 8))
        self.address = self._pointers.buffer_info()[0]
