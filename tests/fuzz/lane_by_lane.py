"""A kernel run as the plain Python that it is: lane by lane, each up to its next barrier.

Rules of this file: it shares nothing with the simulator.  NumPy is the memory, a name such as ``int32`` converts as C
does, and every barrier in the text becomes a ``yield``, at which the lanes of a block wait for each other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.fuzz.expressions import FLOATS, INTEGERS

BARRIERS = (
    (re.compile(r"cuda\.(sync\w+)\(\)"), r'(yield "\1")'),
    (re.compile(r"cuda\.(sync\w+)\("), r'(yield "\1", '),  # with an argument: syncthreads_count(…)
    (re.compile(r"= meet\("), "= yield from meet("),  # the device function that has a barrier
)
"""Where lanes wait, in the text for Numba and in the text for Python."""
ANSWERS: dict[str, Callable[[list[Any]], int]] = {
    "syncthreads_count": lambda given: sum(bool(item) for item in given),
    "syncthreads_and": lambda given: int(all(given)),
    "syncthreads_or": lambda given: int(any(given)),
}


class Scalar:
    """A type of Numba as something to call: integers wrap and are Python's, floats are NumPy's."""

    def __init__(self, code: str) -> None:
        self.dtype = np.dtype(code)

    def __call__(self, value: Any) -> Any:
        if self.dtype.kind == "f":
            if isinstance(value, int):  # by way of NumPy's integers: Python's own conversion would round twice
                value = np.int64(value)
            return self.dtype.type(value)
        if self.dtype.kind == "b":
            return bool(value)
        bits = 8 * self.dtype.itemsize
        low = int(value) & ((1 << bits) - 1)
        return low - (1 << bits) if self.dtype.kind == "i" and low >> (bits - 1) else low


SCALARS = {name: Scalar(code) for code, name in {**INTEGERS, **FLOATS, "b1": "boolean"}.items()}


class Cuda:
    """What a kernel calls ``cuda``, for the lane whose turn it is."""

    def __init__(self, grid: Sequence[int], block: Sequence[int], dynamic: int) -> None:
        self.gridDim, self.blockDim = _xyz(_xyzs(grid)), _xyz(_xyzs(block))
        self._dynamic = dynamic
        self.shared = SimpleNamespace(array=self._shared_array)
        self.local = SimpleNamespace(array=lambda shape, dtype: _garbage(shape, dtype.dtype))
        self.const = SimpleNamespace(array_like=np.copy)
        self.atomic = Atomic()

    def block_begins(self, block: Sequence[int]) -> None:
        self.blockIdx = _xyz(block)
        self._arrays: list[np.ndarray] = []
        self._window = _garbage(self._dynamic, np.dtype("u1"))

    def lane_goes_on(self, thread: Sequence[int], begins: bool) -> None:
        self.threadIdx = _xyz(thread)
        if begins:
            self._declared = 0

    def _shared_array(self, shape: Any, dtype: Scalar) -> np.ndarray:
        """The array of the declaration that this lane comes to: the same one for all lanes, none before a barrier."""
        if shape == 0:
            return self._window.view(dtype.dtype)
        self._declared += 1
        if self._declared > len(self._arrays):
            self._arrays.append(_garbage(shape, dtype.dtype))
        return self._arrays[self._declared - 1]


class Atomic:
    """Each of them takes an array, an index and a value, and returns what was there."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        change = CHANGES[name]

        def atomic(array: np.ndarray, index: Any, *operands: Any) -> Any:
            scalar = Scalar(array.dtype.str)
            old = scalar(array[index])
            array[index] = scalar(change(old, *operands))
            return old

        return atomic


CHANGES: dict[str, Callable[..., Any]] = {
    "add": lambda old, value: old + value,
    "sub": lambda old, value: old - value,
    "and_": lambda old, value: old & value,
    "or_": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
    "min": min,
    "max": max,
    "exch": lambda old, value: value,
    "inc": lambda old, most: 0 if old >= most else old + 1,
    "dec": lambda old, most: most if old == 0 or old > most else old - 1,
    "cas": lambda old, expected, value: value if old == expected else old,
}


def run(text: str, names: dict[str, Any], grid: Sequence[int], block: Sequence[int], args: Any, dynamic: int) -> None:
    """Run the ``kernel`` of a text; arrays in ``args`` are updated in place."""
    cuda = Cuda(grid, block, dynamic)
    space: dict[str, Any] = {"math": SimpleNamespace(sqrt=np.sqrt), "cuda": cuda, "device": lambda function: function}
    for barrier, wait in BARRIERS:
        text = barrier.sub(wait, text)
    space |= {**SCALARS, **names}
    exec(compile(text, "<lane by lane>", "exec"), space)
    threads, blocks = (list(np.ndindex(*_xyzs(extent)[::-1])) for extent in (block, grid))
    with np.errstate(all="ignore"):
        for index in blocks:
            cuda.block_begins(index[::-1])
            _run_block(cuda, space["kernel"], [thread[::-1] for thread in threads], args)


def _run_block(cuda: Cuda, kernel: Any, threads: list[tuple[int, ...]], args: Any) -> None:
    lanes: dict[tuple[int, ...], Generator[Any, Any, None]] = {thread: kernel(*args) for thread in threads}
    answer, begins = None, True
    while lanes:
        asked = []
        for thread, lane in list(lanes.items()):
            cuda.lane_goes_on(thread, begins)
            try:
                asked.append(lane.send(answer))
            except StopIteration:
                del lanes[thread]
        assert len(asked) in (0, len(threads)), "a barrier that some lanes do not come to"
        kinds = [item if isinstance(item, str) else item[0] for item in asked]
        assert len(set(kinds)) <= 1, "lanes at different barriers"
        answer = ANSWERS[kinds[0]]([item[1] for item in asked]) if kinds and kinds[0] in ANSWERS else None
        begins = False


def _garbage(shape: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """An array in which nobody has written."""
    size = math.prod(shape) if isinstance(shape, tuple) else shape
    found = np.full(size * dtype.itemsize, 0x01 if dtype.kind == "b" else 0x5A, np.uint8).view(dtype)
    return found.reshape(shape)


def _xyzs(extent: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*extent, 1, 1)[:3]
    return x, y, z


def _xyz(index: Sequence[int]) -> SimpleNamespace:
    return SimpleNamespace(**dict(zip("xyz", (*index, 0, 0)[:3], strict=True)))
