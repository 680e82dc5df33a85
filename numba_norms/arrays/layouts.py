"""How an array of any shape becomes the two or three axes that kernels take: rows, rows seen across, channels.

Rules of this file: a layout is arithmetic of shapes and strides, NumPy's, which holds for addresses on a device as
well.  An input is viewed in it without a copy whenever strides allow that; whatever the strides, kernels index by them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from numba_norms.arrays import Array, Target
from numba_norms.arrays.addresses import Shape


@dataclass(frozen=True)
class Rows:
    """How an array of any shape becomes [rows, D]: the normalised axes move to the end and are flattened.

    >>> rows = Rows((4, 2, 3), (0,))
    >>> rows.count, rows.columns, rows.statistics
    (6, 4, (1, 2, 3))
    """

    shape: Shape
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
    def statistics(self) -> Shape:
        """The shape of mean and rstd: normalised axes kept as 1."""
        return tuple(1 if axis in self.axes else n for axis, n in enumerate(self.shape))

    def new(self, like: Array, dtype: np.dtype[Any]) -> Array:
        """A new array of this shape, C-contiguous, in the place of ``like``."""
        return like.new(self.shape, dtype)

    def statistic(self, memory: np.ndarray) -> np.ndarray:
        """One number a row, as kernels of this layout take them."""
        return memory

    def matrix(self, array: Any) -> np.ndarray:
        """``array`` as [rows, D]: a view where its strides allow one, otherwise a copy."""
        return Array.of(array).arranged((*self.kept, *self.axes), (self.count, self.columns))

    def target(self, array: Array) -> Target:
        """``array`` as [rows, D], to be written."""
        return array.target((*self.kept, *self.axes), (self.count, self.columns))

    def vector(self, parameter: Array | None) -> np.ndarray | None:
        """A weight or bias as [D]; None stays None."""
        return None if parameter is None else parameter.arranged(range(parameter.ndim), (self.columns,))


def lies_across(array: np.ndarray, axes: tuple[int, ...]) -> bool:
    """Whether the normalised axes are farther apart in memory than some kept axis: lanes then go along that one.

    Axes of one element do not count, nor do kept axes along which an array is broadcast: those are one row, repeated.

    >>> tokens = np.zeros((768, 100))                                   # [n_embd, n_tokens]
    >>> lies_across(tokens, (0,)), lies_across(tokens, (1,)), lies_across(tokens, (0, 1))
    (True, False, False)
    >>> images = np.zeros((8, 64, 20, 30))                              # [N, C, H, W]
    >>> lies_across(images, (1,)), lies_across(images.transpose(0, 2, 3, 1), (3,)), lies_across(images, (1, 2))
    (True, True, True)
    >>> last = np.zeros((8, 20, 30, 64)).transpose(0, 3, 1, 2)          # [N, C, H, W], channels last in memory
    >>> lies_across(last, (1,))
    False
    """
    return bool(_near(array, axes))


def _near(array: np.ndarray, axes: tuple[int, ...]) -> list[int]:
    """The kept axes whose neighbours lie closer than those of every normalised axis, farthest first."""
    apart = [abs(stride) for stride in array.strides]
    least = min((apart[axis] for axis in axes if array.shape[axis] > 1), default=0)
    kept = (axis for axis in range(array.ndim) if axis not in axes)  # one token too: it may be a slice of many
    return sorted((axis for axis in kept if 0 < apart[axis] < least), key=lambda axis: -apart[axis])


@dataclass(frozen=True)
class Across(Rows):
    """Rows that are columns in memory, seen as [outer, D, inner]: ``inner`` are the kept axes that lie nearest.

    Axes keep their order within each of the three, so that weights are the caller's, flattened.

    >>> images = np.zeros((8, 64, 20, 30))
    >>> across = Across.of(images, (1,))
    >>> across, across.view(images).shape
    (Across(shape=(8, 64, 20, 30), axes=(1,), outer=(0,), inner=(2, 3)), (8, 64, 600))
    >>> across.statistic(np.zeros((8, 1, 20, 30))).shape
    (8, 600)
    >>> part = images[:1, :, :10, :15]                                  # no two of its rows of pixels are one
    >>> across = Across.of(part, (1,))
    >>> across.inner, across.view(part).shape
    ((3,), (10, 64, 15))
    >>> Across.of(images[:, :, :10, :15], (1,)) is None                 # nor are images and rows of pixels
    True
    """

    outer: tuple[int, ...]
    inner: tuple[int, ...]

    @classmethod
    def of(cls, array: np.ndarray, axes: tuple[int, ...]) -> Across | None:
        """The layout of ``array``; None if rows are the right form, or if no view of it is [outer, D, inner]."""
        near = _near(array, axes)
        kept = [axis for axis in range(array.ndim) if axis not in axes]
        for first in range(len(near)):  # as many inner axes as strides allow
            inner = tuple(sorted(near[first:]))
            layout = cls(array.shape, axes, tuple(axis for axis in kept if axis not in inner), inner)
            if layout._in_order and layout.view(array) is not None:
                return layout
        return None

    @property
    def _outer_first(self) -> bool:
        """Whether the outer axes are counted before the inner ones, among those of more than one element."""
        outer = [axis for axis in self.outer if self.shape[axis] > 1]
        return max(outer, default=-1) < min(self.inner)

    @property
    def _in_order(self) -> bool:
        """Whether statistics, in the order of the axes, are [outer, inner] or [inner, outer]."""
        outer = [axis for axis in self.outer if self.shape[axis] > 1]
        return self._outer_first or max(self.inner) < min(outer)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Lengths of outer, D and inner."""
        outer, columns, inner = (
            math.prod(self.shape[axis] for axis in axes) for axes in (self.outer, self.axes, self.inner)
        )
        return outer, columns, inner

    @property
    def order(self) -> tuple[int, ...]:
        """The axes in the order of ``sizes``."""
        return (*self.outer, *self.axes, *self.inner)

    def new(self, like: Array, dtype: np.dtype[Any]) -> Array:
        """A new array of this shape, its axes in ``order`` in memory, so that its tokens are neighbours as well."""
        made = like.new(tuple(self.shape[axis] for axis in self.order), dtype)
        return made.transposed([self.order.index(axis) for axis in range(len(self.shape))])

    def view(self, array: np.ndarray) -> np.ndarray | None:
        """``array`` as [outer, D, inner]; None where no view is that, or no kernel can read it."""
        try:
            blocks = array.transpose(self.order).reshape(self.sizes, copy=False)
        except ValueError:
            return None
        return blocks if blocks.flags.aligned else None

    def matrix(self, array: Any) -> np.ndarray:
        """``array`` as [outer, D, inner]: a view where its strides allow one, otherwise a copy."""
        return Array.of(array).arranged(self.order, self.sizes)

    def target(self, array: Array) -> Target:
        """``array`` as [outer, D, inner], to be written."""
        return array.target(self.order, self.sizes)

    def statistic(self, memory: np.ndarray) -> np.ndarray:
        """One number a token, in the order of the axes and contiguous, as [outer, inner]."""
        outer, _, inner = self.sizes
        if self._outer_first:
            return memory.reshape((outer, inner), copy=False)
        return memory.reshape((inner, outer), copy=False).T


def layout_of(x: Array, axes: tuple[int, ...]) -> Rows:
    """Rows, or rows across where some kept axis lies nearer in memory than the normalised ones."""
    return Across.of(x.memory, axes) or Rows(x.shape, axes)


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

    shape: Shape
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
    def statistics(self) -> Shape:
        """The shape of mean and rstd: [C], with every other axis kept as 1."""
        return tuple(n if axis == self.axis else 1 for axis, n in enumerate(self.shape))

    @property
    def _order(self) -> tuple[int, ...]:
        return (*self.outer, self.axis, *self.inner)

    @property
    def _sizes(self) -> Shape:
        """Lengths of outer, C and inner."""
        axes = (self.outer, (self.axis,), self.inner)
        return tuple(math.prod(self.shape[axis] for axis in several) for several in axes)

    def blocks(self, array: Any) -> np.ndarray:
        """``array`` as [outer, C, inner]: a view where its strides allow one, otherwise a copy."""
        return Array.of(array).arranged(self._order, self._sizes)

    def target(self, array: Array) -> Target:
        """``array`` as [outer, C, inner], to be written."""
        return array.target(self._order, self._sizes)

    def empty(self, like: Array) -> Array:
        """A new array of this shape in this order of memory, dense, with the dtype and place of ``like``."""
        moved = like.new(tuple(self.shape[axis] for axis in self._order), like.dtype)
        back = [self._order.index(axis) for axis in range(len(self.shape))]
        return moved.transposed(back)
