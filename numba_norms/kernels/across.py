"""The norms along an axis that is not contiguous: neighbouring lanes take neighbouring tokens.

    h[o, :, i] = x[o, :, i] + update[o, :, i]                           where there is an update
    y[o, :, i] = norm(h[o, :, i])                                       of the unrounded sum

They compute what ``rms_norm``, ``layer_norm`` and ``add_norm`` compute for rows; ``tokens`` tells how a block shares
its tokens.  Where D fits into the registers of a block, each element crosses the memory bus once.

A thread reads and writes the same elements, each before it is written: ``y`` or ``h`` may be ``x``, and ``y`` may be
``update``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from numba import cuda, uint64

from numba_norms.kernels.lanes import narrow, widen
from numba_norms.kernels.reduce import constant, quotient, rsqrt
from numba_norms.kernels.tile import sum_registers
from numba_norms.kernels.tokens import (
    Inputs,
    deviation_window,
    load_window,
    merge_parts,
    place,
    square_part,
    stream_part,
    sum_parts,
)

# -- normalising -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outputs:
    """How results are scaled and rounded: the types of ``h`` and ``y``, which parameters there are, and the options."""

    sums: Any
    storage: Any
    has_weight: bool
    has_bias: bool = False
    weight_offset: float = 0.0
    llama: bool = False
    stats: bool = True
    """Whether mean and rstd are stored; otherwise they are ``()``"""


@cache
def scale_element(compute: Any, outputs: Outputs) -> Any:
    """Device function ``(value, d, weight, bias, centre, scale) -> value``, not yet rounded."""
    has_weight, has_bias, llama, storage = outputs.has_weight, outputs.has_bias, outputs.llama, outputs.storage
    has_offset, offset = outputs.weight_offset != 0, constant(outputs.weight_offset, compute)

    @cuda.jit(device=True)
    def scale_element(value, d, weight, bias, centre, scale):
        value = (value - centre) * scale
        if llama:
            value = widen(narrow(value, storage), compute)
        if has_weight:
            factor = widen(weight[d], compute)
            if has_offset:
                factor += offset
            value *= factor
        if has_bias:
            value += widen(bias[d], compute)
        return value

    return scale_element


@cache
def store_window(inputs: Inputs, outputs: Outputs) -> Any:
    """Device function ``(values, where, first, columns, weight, bias, h, y, centre, scale)``: one window of both."""
    parts, window, sure, has_update = inputs.tile.parts, inputs.tile.window, inputs.tile.sure, inputs.has_update
    scaled, sums, storage = scale_element(inputs.compute, outputs), outputs.sums, outputs.storage

    @cuda.jit(device=True)
    def store_window(values, where, first, columns, weight, bias, h, y, centre, scale):
        outer, inner = where[0], where[1]
        for r in range(window):
            if has_update and (r < sure or first + r * parts < columns):
                h[outer, uint64(first) + uint64(r * parts), inner] = narrow(values[r], sums)
        for r in range(window):  # a loop of its own: no load of a weight waits behind a store to y
            if r < sure or first + r * parts < columns:
                values[r] = scaled(values[r], uint64(first) + uint64(r * parts), weight, bias, centre, scale)
        for r in range(window):
            if r < sure or first + r * parts < columns:
                y[outer, uint64(first) + uint64(r * parts), inner] = narrow(values[r], storage)

    return store_window


@cache
def store_part(inputs: Inputs, outputs: Outputs) -> Any:
    """Device function ``(x, update, values, where, weight, bias, h, y, centre, scale)``: a thread's part of both."""
    tile, load, load_one = inputs.tile, load_window(inputs), load_window(inputs.single)
    whole, parts, span, reach = tile.whole, tile.parts, tile.span, tile.reach
    store, store_one = store_window(inputs, outputs), store_window(inputs.single, outputs)

    @cuda.jit(device=True)
    def store_part(x, update, values, where, weight, bias, h, y, centre, scale):
        first, columns = where[2], x.shape[1]
        if whole:
            store(values, where, first, columns, weight, bias, h, y, centre, scale)
            return
        while first + reach < columns:
            load(x, update, values, where, first)
            store(values, where, first, columns, weight, bias, h, y, centre, scale)
            first += span
        while first < columns:
            load_one(x, update, values, where, first)
            store_one(values, where, first, columns, weight, bias, h, y, centre, scale)
            first += parts

    return store_part


# -- kernels ---------------------------------------------------------------------------------------------------------


@cache
def rms_norm_across_kernel(inputs: Inputs, outputs: Outputs) -> Any:
    """The kernel ``(x[outer, D, inner], update, weight[D], h, y[outer, D, inner], rstd[outer, inner], inverse, eps)``.

    ``update`` and ``h`` are like ``x`` or ``()``, ``weight`` may be ``()``; ``inverse`` is 1 / D.  Launch it on
    ``[outer * ceil(inner / tile.width), tile.threads]``.  ``inputs.compute`` is the type of ``rstd``.
    """
    tile, compute, threads, window = inputs.tile, inputs.compute, inputs.tile.threads, inputs.tile.window
    place_of, load, store, whole = place(tile), load_window(inputs), store_part(inputs, outputs), tile.whole
    square, total, inverse_root = square_part(inputs), sum_parts(tile), rsqrt(compute)
    stats = outputs.stats

    @cuda.jit(launch_bounds=threads)
    def rms_norm_across(x, update, weight, h, y, rstd, inverse, eps):
        partial = cuda.shared.array(threads, compute)
        values = cuda.local.array(window, compute)

        # Load: neighbouring lanes read neighbouring tokens.
        where = place_of(x)
        outer, inner, part, present = where
        if whole:
            load(x, update, values, where, part)

        # Reduce: from here on every thread holds its token's scale.
        squares = total(square(x, update, values, where), partial)
        scale = inverse_root(squares * inverse + eps)

        # Normalise and store, rounded once.
        if present:
            store(x, update, values, where, weight, (), h, y, compute(0), scale)
            if stats and part == 0:
                rstd[outer, inner] = scale

    return rms_norm_across


@cache
def layer_norm_across_kernel(inputs: Inputs, outputs: Outputs) -> Any:
    """The kernel ``(x, update, weight, bias[D], h, y, mean[outer, inner], rstd[outer, inner], inverse, eps)``.

    The variance is that of centred values, from a second pass over the registers: the tile has to be whole.  ``bias``
    may be ``()``; for the rest see ``rms_norm_across_kernel``.
    """
    tile, compute, threads, window = inputs.tile, inputs.compute, inputs.tile.threads, inputs.tile.window
    place_of, load, store = place(tile), load_window(inputs), store_part(inputs, outputs)
    sum_of, deviations_of, total = sum_registers(window, compute), deviation_window(tile, compute), sum_parts(tile)
    divide, inverse_root, stats = quotient(compute), rsqrt(compute), outputs.stats

    @cuda.jit(launch_bounds=threads)
    def layer_norm_across(x, update, weight, bias, h, y, mean, rstd, inverse, eps):
        partial_sums = cuda.shared.array(threads, compute)
        partial_squares = cuda.shared.array(threads, compute)  # a slow warp may still read the sums
        values = cuda.local.array(window, compute)

        # Load: neighbouring lanes read neighbouring tokens.
        where = place_of(x)
        outer, inner, part, present = where
        load(x, update, values, where, part)

        # Reduce twice: the mean, then the squares of centred values, so that nothing large cancels.
        centre = divide(total(sum_of(values), partial_sums), compute(x.shape[1]), inverse)
        squares = deviations_of(values, centre, part, x.shape[1])
        scale = inverse_root(total(squares, partial_squares) * inverse + eps)

        # Normalise and store, rounded once.
        if present:
            store(x, update, values, where, weight, bias, h, y, centre, scale)
            if stats and part == 0:
                mean[outer, inner] = centre
                rstd[outer, inner] = scale

    return layer_norm_across


@cache
def layer_norm_stream_across_kernel(inputs: Inputs, outputs: Outputs) -> Any:
    """The kernel with the arguments of ``layer_norm_across_kernel``, for any D, from two readings of ``x``.

    (count, mean, M2) of each window, whose squares are of centred values, merge by Chan's formula.
    """
    tile, compute, threads, window = inputs.tile, inputs.compute, inputs.tile.threads, inputs.tile.window
    place_of, load, store, whole = place(tile), load_window(inputs), store_part(inputs, outputs), tile.whole
    stream, merge, inverse_root = stream_part(inputs), merge_parts(tile, compute), rsqrt(compute)
    stats = outputs.stats

    @cuda.jit(launch_bounds=threads)
    def layer_norm_stream_across(x, update, weight, bias, h, y, mean, rstd, inverse, eps):
        counts = cuda.shared.array(threads, compute)
        means = cuda.shared.array(threads, compute)
        m2s = cuda.shared.array(threads, compute)
        values = cuda.local.array(window, compute)

        # Load: neighbouring lanes read neighbouring tokens.
        where = place_of(x)
        outer, inner, part, present = where
        if whole:
            load(x, update, values, where, part)

        # Reduce: windows merge into a thread's part, parts of unequal counts into the whole token's moments.
        count, centre, m2 = stream(x, update, values, where)
        centre, m2 = merge(count, centre, m2, counts, means, m2s)
        scale = inverse_root(m2 * inverse + eps)

        # Normalise and store, rounded once.
        if present:
            store(x, update, values, where, weight, bias, h, y, centre, scale)
            if stats and part == 0:
                mean[outer, inner] = centre
                rstd[outer, inner] = scale

    return layer_norm_stream_across
