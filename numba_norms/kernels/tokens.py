"""Tokens in registers: which thread holds which elements of which token, and what threads do with their part.

``x`` comes as [outer, D, inner].  Elements that lie next to each other in memory belong to ``inner`` different tokens,
as in [n_embd, n_tokens], or in [N, C, H, W] normalised over C.  A block takes a tile of ``width`` neighbouring tokens,
and ``parts`` rows of threads share the D elements of each: 4 tokens of 6 elements on 2 parts::

    token        0   1   2   3
    element 0    t0  t1  t2  t3         part 0 of each token
    element 1    t4  t5  t6  t7         part 1
    element 2    t0  t1  t2  t3
    element 3    t4  t5  t6  t7
    element 4    t0  t1  t2  t3
    element 5    t4  t5  t6  t7

A thread keeps its part in a window of registers.  Where D does not fit into the windows, statistics take window after
window, and ``x`` is read a second time to be normalised, by then most likely from the cache.  A window is loaded as a
whole: its loads are in flight together, their addresses a sum apart.

A token's partners sit in other warps, so partial results meet in shared memory.  In which order they do is settled by
``parts`` (and ``window``) alone: neither ``width`` nor the number of tokens changes a token's bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from numba import cuda, int64, uint32, uint64

from numba_norms.kernels.lanes import widen
from numba_norms.kernels.reduce import merge, merge_rows, quotient, ratio
from numba_norms.kernels.tile import sum_registers, sum_squares


@dataclass(frozen=True)
class TokenTile:
    """How a block deals neighbouring tokens to its threads.

    >>> tile = TokenTile(width=32, parts=16, window=32, whole=True)
    >>> tile.threads, tile.span
    (512, 512)
    """

    width: int
    """Neighbouring tokens of a block: a power of two."""
    parts: int
    """Threads that share a token: a power of two."""
    window: int
    """Elements that a thread holds in registers."""
    whole: bool
    """The window is all of a thread's part, so that ``x`` is read once: ``window`` is D / parts, rounded up."""

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.width * self.parts

    @property
    def span(self) -> int:
        """Elements of a token that its threads hold at once."""
        return self.parts * self.window

    @property
    def reach(self) -> int:
        """The distance from the first element of a window to its last."""
        return self.span - self.parts

    @property
    def sure(self) -> int:
        """How many elements of a window are always there: in a whole tile, the last may lie past the end of a token."""
        return self.window - 1 if self.whole else self.window

    @property
    def single(self) -> TokenTile:
        """Windows of one element each, for the rest of a token that fills no window."""
        return replace(self, window=1, whole=False)


@dataclass(frozen=True)
class Inputs:
    """What the phases are specialised on: the tile, the compute type, and whether there is an ``update``."""

    tile: TokenTile
    compute: Any
    has_update: bool

    @property
    def single(self) -> Inputs:
        """The same for the rest of a token."""
        return replace(self, tile=self.tile.single)


# -- windows ---------------------------------------------------------------------------------------------------------


@cache
def place(tile: TokenTile) -> Any:
    """Device function ``(x) -> outer, inner, part, present`` of the calling thread.

    Lanes past the last token shadow it: they read what its lane reads, and store nothing, being not ``present``.
    Indices have no sign: Python's may count from the end if they have one, which costs instructions at every access.
    """
    width = tile.width

    @cuda.jit(device=True)
    def place(x):
        tiles = uint32((x.shape[2] + width - 1) // width)  # as many as blocks at most; 64 bits would divide by a call
        block, thread = uint32(cuda.blockIdx.x), uint32(cuda.threadIdx.x)
        outer = uint32(block // tiles)
        inner = int64(block - outer * tiles) * width + int64(thread % width)
        return uint64(outer), uint64(min(inner, x.shape[2] - 1)), int64(thread // width), inner < x.shape[2]

    return place


@cache
def load_window(inputs: Inputs) -> Any:
    """Device function ``(x, update, values, where, first)``: ``window`` elements from ``first`` on, 0 past the end."""
    tile, compute, has_update = inputs.tile, inputs.compute, inputs.has_update
    parts, window, sure = tile.parts, tile.window, tile.sure

    @cuda.jit(device=True)
    def load_window(x, update, values, where, first):
        outer, inner = where[0], where[1]
        for r in range(window):
            values[r] = compute(0)
            if r < sure or first + r * parts < x.shape[1]:
                d = uint64(first) + uint64(r * parts)
                values[r] = widen(x[outer, d, inner], compute)
                if has_update:
                    values[r] += widen(update[outer, d, inner], compute)

    return load_window


@cache
def deviation_window(tile: TokenTile, compute: Any) -> Any:
    """Device function ``(values, centre, first, columns) -> sum of squares`` of ``value - centre``."""
    window, parts, sure = tile.window, tile.parts, tile.sure

    @cuda.jit(device=True)
    def deviation_window(values, centre, first, columns):
        total = compute(0)
        for r in range(window):
            if r < sure or first + r * parts < columns:
                centred = values[r] - centre
                total += centred * centred
        return total

    return deviation_window


@cache
def window_moments(tile: TokenTile, compute: Any) -> Any:
    """Device function ``(values, first, columns) -> count, mean, m2`` of the window at ``first``; it has elements."""
    parts, window, sure, divide, share = tile.parts, tile.window, tile.sure, quotient(compute), ratio(compute)
    sum_of, deviations_of = sum_registers(tile.window, compute), deviation_window(tile, compute)

    @cuda.jit(device=True)
    def window_moments(values, first, columns):
        count = compute(window)
        if sure < window and first + sure * parts >= columns:
            count = compute(sure)
        mean = divide(sum_of(values), count, share(compute(1), count))
        return count, mean, deviations_of(values, mean, first, columns)

    return window_moments


# -- parts -----------------------------------------------------------------------------------------------------------


@cache
def square_part(inputs: Inputs) -> Any:
    """Device function ``(x, update, values, where) -> sum of squares`` of a thread's part.

    That of a whole tile is in its registers; any other is read window by window, and the rest element by element.
    """
    tile, compute, load, load_one = inputs.tile, inputs.compute, load_window(inputs), load_window(inputs.single)
    whole, parts, span, reach = tile.whole, tile.parts, tile.span, tile.reach
    squares_of = sum_squares(tile.window, compute)

    @cuda.jit(device=True)
    def square_part(x, update, values, where):
        if whole:
            return squares_of(values)
        total, first = compute(0), where[2]
        while first + reach < x.shape[1]:
            load(x, update, values, where, first)
            total += squares_of(values)
            first += span
        while first < x.shape[1]:
            load_one(x, update, values, where, first)
            total += values[0] * values[0]
            first += parts
        return total

    return square_part


@cache
def stream_part(inputs: Inputs) -> Any:
    """Device function ``(x, update, values, where) -> count, mean, m2`` of a thread's part; see ``square_part``."""
    tile, compute, load, load_one = inputs.tile, inputs.compute, load_window(inputs), load_window(inputs.single)
    whole, parts, span, reach, moments_of = tile.whole, tile.parts, tile.span, tile.reach, window_moments(tile, compute)
    merge_two = merge(compute)

    @cuda.jit(device=True)
    def stream_part(x, update, values, where):
        count, mean, m2, first = compute(0), compute(0), compute(0), where[2]
        if whole:
            if first < x.shape[1]:
                count, mean, m2 = moments_of(values, first, x.shape[1])
            return count, mean, m2
        load(x, update, values, where, first)
        count, mean, m2 = moments_of(values, first, x.shape[1])
        first += span
        while first + reach < x.shape[1]:
            load(x, update, values, where, first)
            other_count, other_mean, other_m2 = moments_of(values, first, x.shape[1])
            count, mean, m2 = merge_two(count, mean, m2, other_count, other_mean, other_m2)
            first += span
        while first < x.shape[1]:
            load_one(x, update, values, where, first)
            count, mean, m2 = merge_two(count, mean, m2, compute(1), values[0], compute(0))
            first += parts
        return count, mean, m2

    return stream_part


@cache
def sum_parts(tile: TokenTile) -> Any:
    """Device function ``(value, partial) -> sum`` over all parts of a token; each of its threads gets the same bits.

    ``partial`` is a shared array of ``tile.threads`` values.  The upper half hands over to the lower, again and again.
    """
    width, parts, half = tile.width, tile.parts, tile.threads // 2

    @cuda.jit(device=True)
    def sum_parts(value, partial):
        if parts == 1:
            return value
        thread = uint32(cuda.threadIdx.x)
        partial[thread] = value
        distance = half
        while distance >= width:
            cuda.syncthreads()  # the upper half stands before the lower reads it
            if thread < distance:
                value += partial[thread + distance]
                partial[thread] = value
            distance >>= 1
        cuda.syncthreads()  # the sums stand before anybody reads them
        return partial[thread % width]

    return sum_parts


@cache
def merge_parts(tile: TokenTile, compute: Any) -> Any:
    """Device function ``(count, mean, m2, counts, means, m2s) -> mean, m2`` of a token, for each of its threads.

    ``counts``, ``means`` and ``m2s`` are shared arrays of ``tile.threads`` values.
    """
    width, parts, merge_all = tile.width, tile.parts, merge_rows(tile.threads, tile.width, compute)

    @cuda.jit(device=True)
    def merge_parts(count, mean, m2, counts, means, m2s):
        if parts == 1:
            return mean, m2
        merge_all(count, mean, m2, counts, means, m2s)
        cuda.syncthreads()  # the moments stand before anybody reads them
        lane = uint32(cuda.threadIdx.x) % width
        return means[lane], m2s[lane]

    return merge_parts
