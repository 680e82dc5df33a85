"""NumPy and CuPy arrays: where they live, how they overlap, and any axes as the matrix [rows, D] that kernels take.

Rules of this file: CuPy is never imported, it comes in with the caller's array.  An input becomes a matrix without a
copy whenever strides allow it; whatever the strides, the kernels index by them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numba
import numpy as np
from numba.cuda import types

FLOATS: dict[np.dtype[Any], Any] = {
    np.dtype(np.float16): numba.types.float16,
    np.dtype(ml_dtypes.bfloat16): getattr(types, "bfloat16", None),
    np.dtype(np.float32): numba.float32,
    np.dtype(np.float64): numba.float64,
}
"""The dtypes that the norms take, and Numba's types for them (Numba without numba-cuda has no bfloat16)."""


def host_of(array: Any) -> str | None:
    """``"NumPy"``, ``"CuPy"``, or None for anything else."""
    if isinstance(array, np.ndarray):
        return "NumPy"
    module = type(array).__module__.partition(".")[0]
    return "CuPy" if module == "cupy" and hasattr(array, "__cuda_array_interface__") else None


def numba_type(dtype: np.dtype[Any]) -> Any:
    """Numba's type of an element of this dtype.  TypeError where Numba has none."""
    if FLOATS[dtype] is None:
        raise TypeError(f"{dtype} needs the package numba-cuda; Numba's own CUDA target does not know it")
    return FLOATS[dtype]


def compute_dtype(*dtypes: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of statistics: float64 where one of ``dtypes`` is float64, float32 for everything narrower."""
    return np.dtype(np.float64 if np.dtype(np.float64) in dtypes else np.float32)


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], like: Any) -> Any:
    """A new C-contiguous array where ``like`` lives."""
    if host_of(like) == "NumPy":
        return np.empty(shape, dtype)
    import cupy

    with like.device:
        return cupy.empty(shape, dtype)


def address(array: Any) -> int:
    """The address of the array's first element."""
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


@dataclass(frozen=True)
class _Layout:
    """What NumPy asks of an object that has memory."""

    __array_interface__: dict[str, Any]


def overlap(a: Any, b: Any) -> bool:
    """Whether two arrays of one host share an element.  Too hard a case counts as overlap."""
    return bool(a.size and b.size) and _share(_addresses(a), _addresses(b))


def overlaps_itself(array: Any) -> bool:
    """Whether two elements of an array share an address.  Too hard a case counts as overlap.

    >>> square = np.zeros((3, 3))
    >>> overlaps_itself(square.T), overlaps_itself(np.broadcast_to(square, (2, 3, 3)))
    (False, True)
    """
    if not array.size:
        return False
    # Two elements differ first along some axis; there, one may as well be at index 0, and before it both at 0.  The
    # longest stride comes first: in any ordinary layout the two sides then lie apart, which is seen at once.
    rest = _addresses(array).transpose(sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis])))
    while rest.ndim:
        if len(rest) > 1 and _share(rest[:1], rest[1:]):
            return True
        rest = rest[0, ...]  # the dots: a view, where rest[0] of one axis would read an element
    return False


def _share(a: Any, b: Any) -> bool:
    try:
        return np.shares_memory(a, b, max_work=100_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _addresses(array: Any) -> Any:
    """A NumPy array over the addresses of ``array``, in device memory too: nobody looks at its elements."""
    interface = {
        "data": (address(array), True),
        "shape": array.shape,
        "strides": array.strides,
        "typestr": f"|V{array.dtype.itemsize}",
        "version": 3,
    }
    return np.asarray(_Layout(interface))


def same_elements(a: Any, b: Any) -> bool:
    """Whether two arrays are one and the same view of memory."""
    return address(a) == address(b) and a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype


@dataclass(frozen=True)
class Rows:
    """How an array of any shape becomes [rows, D]: the normalised axes move to the end and are flattened.

    >>> rows = Rows((4, 2, 3), (0,))
    >>> rows.count, rows.columns, rows.statistics
    (6, 4, (1, 2, 3))
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes that are not normalised."""
        return tuple(axis for axis in range(len(self.shape)) if axis not in self.axes)

    @property
    def count(self) -> int:
        """Number of rows."""
        return math.prod(self.shape[axis] for axis in self.kept)

    @property
    def columns(self) -> int:
        """D, the number of elements that are normalised together."""
        return math.prod(self.shape[axis] for axis in self.axes)

    @property
    def statistics(self) -> tuple[int, ...]:
        """The shape of mean and rstd: normalised axes kept as 1."""
        return tuple(1 if axis in self.axes else n for axis, n in enumerate(self.shape))

    def matrix(self, array: Any) -> Any:
        """``array`` as [rows, D]: a view where its strides allow one, otherwise a copy."""
        moved = array.transpose(*self.kept, *self.axes)
        return aligned(moved.reshape(self.count, self.columns))

    def vector(self, parameter: Any) -> Any:
        """A weight or bias as [D]; None stays None."""
        return None if parameter is None else aligned(parameter.reshape(self.columns))

    def write_back(self, matrix: Any, array: Any) -> None:
        """Copy the result into ``array`` unless ``matrix`` is a view of it."""
        if address(matrix) != address(array):
            moved = array.transpose(*self.kept, *self.axes)
            moved[...] = matrix.reshape(moved.shape)


@dataclass(frozen=True)
class Channels:
    """How an array with a channel axis becomes [outer, C, inner], by where its elements lie in memory.

    ``outer`` are the axes whose neighbours lie further apart than neighbouring channels, ``inner`` those whose lie
    closer, each in the order of memory.  Nothing closer: the channels are contiguous.  One channel: all is inner.

    >>> images = np.zeros((8, 3, 20, 30))
    >>> Channels.of(images, 1).blocks(images).shape
    (8, 3, 600)
    >>> last = np.zeros((8, 20, 30, 3)).transpose(0, 3, 1, 2)       # the same shape, channels last in memory
    >>> Channels.of(last, 1).blocks(last).shape
    (4800, 3, 1)
    """

    shape: tuple[int, ...]
    axis: int
    outer: tuple[int, ...]
    inner: tuple[int, ...]

    @classmethod
    def of(cls, array: Any, axis: int) -> Channels:
        """The layout of ``array``, whose channels lie along ``axis``."""
        apart = [abs(stride) for stride in array.strides]
        others = sorted((a for a in range(array.ndim) if a != axis), key=lambda a: -apart[a])
        near = {a for a in others if array.shape[a] > 1 and (array.shape[axis] == 1 or apart[a] < apart[axis])}
        outer, inner = (tuple(a for a in others if (a in near) == which) for which in (False, True))
        return cls(array.shape, axis, outer, inner)

    @property
    def count(self) -> int:
        """C, the number of channels."""
        return self.shape[self.axis]

    @property
    def samples(self) -> int:
        """How many elements a channel has."""
        return math.prod(n for axis, n in enumerate(self.shape) if axis != self.axis)

    @property
    def statistics(self) -> tuple[int, ...]:
        """The shape of mean and rstd: [C], with every other axis kept as 1."""
        return tuple(n if axis == self.axis else 1 for axis, n in enumerate(self.shape))

    @property
    def _order(self) -> tuple[int, ...]:
        return (*self.outer, self.axis, *self.inner)

    def blocks(self, array: Any) -> Any:
        """``array`` as [outer, C, inner]: a view where its strides allow one, otherwise a copy."""
        sizes = (math.prod(self.shape[axis] for axis in axes) for axes in (self.outer, (self.axis,), self.inner))
        return aligned(array.transpose(*self._order).reshape(tuple(sizes)))

    def empty(self, like: Any) -> Any:
        """A new array of this shape in this order of memory, dense, with the dtype and host of ``like``."""
        moved = empty(tuple(self.shape[axis] for axis in self._order), like.dtype, like)
        return moved.transpose(*(self._order.index(axis) for axis in range(len(self.shape))))

    def write_back(self, blocks: Any, array: Any) -> None:
        """Copy the result into ``array`` unless ``blocks`` is a view of it."""
        if address(blocks) != address(array):
            moved = array.transpose(*self._order)
            moved[...] = blocks.reshape(moved.shape)


def aligned(array: Any) -> Any:
    """``array``, copied if its elements straddle their natural alignment, as a field of packed records does."""
    return np.require(array, requirements="A").view(np.ndarray) if isinstance(array, np.ndarray) else array
