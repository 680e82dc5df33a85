"""Moments of rows, and how the moments of parts make those of the whole: the building block of SyncBN.

A part is known by three things: its count, its mean, and M2, the sum of squared deviations from that mean.  They are
enough to merge parts of unequal size without ever forming mean(x²) - mean², whose large terms cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import index
from typing import Any, NamedTuple

import numpy as np

from numba_norms.arguments import check_array, check_axes, check_place
from numba_norms.arrays import Array
from numba_norms.arrays.dtypes import FLOATS, compute_dtype, numba_type
from numba_norms.arrays.layouts import Rows
from numba_norms.binding.bound import bindable
from numba_norms.kernels.moments import moments_kernel
from numba_norms.launch import Launch
from numba_norms.plan import check_threads, threads_for


class Moments(NamedTuple):
    """Count, mean and sum of squared deviations of a set.

    >>> Moments(2, 1000.5, 0.5).variance()
    0.25
    """

    count: int  # type: ignore[assignment]  # a set has a count; tuple.count is of no use here
    mean: Any
    m2: Any

    def variance(self, ddof: int = 0) -> Any:
        """``m2 / (count - ddof)``: 0 for the variance that norms use, 1 for the unbiased estimate."""
        return self.m2 / (self.count - ddof)


@bindable()
def moments(x: Any, axis: int | tuple[int, ...] = -1) -> Moments:
    """Count, mean and M2 over ``axis``, by one kernel: Welford's stream in each thread, Chan's merge across them.

    ``x`` is an array as for ``layer_norm``.  ``mean`` and ``m2`` are float32 (float64 for float64), where ``x`` lives,
    shaped like ``x`` with these axes kept as 1; ``count`` is an int.  Raises as ``layer_norm`` does.

    >>> moments(np.array([1000, 1001], np.float16))
    Moments(count=2, mean=array([1000.5], dtype=float32), m2=array([0.5], dtype=float32))
    """
    x = check_array("x", x)
    rows = Rows(x.shape, check_axes(axis, x))
    mean, m2 = (x.new((rows.count,), compute_dtype(x.dtype)) for _ in range(2))
    if rows.count:
        launch(rows.matrix(x), mean.memory, m2.memory).run(x.place)
    return Moments(rows.columns, mean.given.reshape(rows.statistics), m2.given.reshape(rows.statistics))


def launch(x: Any, mean: Any, m2: Any, threads: int | None = None) -> Launch:
    """The launch for ``x`` [rows, D], ``mean`` and ``m2`` [rows]."""
    rows, columns = x.shape
    threads = threads_for(columns) if threads is None else check_threads(threads)
    return Launch(moments_kernel(threads, numba_type(mean.dtype)), rows, threads, (x, mean, m2), ("x", "mean", "m2"))


def merge_moments(counts: Iterable[int], means: Iterable[Any], m2s: Iterable[Any]) -> Moments:
    """The moments of the union of disjoint parts, for example of one batch spread over several GPUs.

    ``counts`` holds an int per part, ``means`` and ``m2s`` a number or array per part, all of one shape; each of the
    three may be one array, with the parts along its first axis.  The sum is formed in float64, in the order given, and
    rounded to the dtype of the means: float64 for integers; where parts that are not empty differ, float64 or else
    float32.  A part with count 0 changes nothing, whatever its mean; if all are empty, mean and M2 are 0.

    Chan, Golub and LeVeque 1979, for any number of parts: ``M2 = Σ M2_i + Σ n_i (mean_i - mean)²``.

    >>> merge_moments([2, 0, 1], [1.0, float("nan"), 4.0], [2.0, 0.0, 0.0])     # {0, 2}, {}, {4}
    Moments(count=3, mean=np.float64(2.0), m2=np.float64(8.0))

    Raises ValueError when the three differ in length, a count is negative, or there is no part; TypeError when one of
    the three is a single number, a count is no integer, or a mean or M2 is not real or masked.
    """
    each = _each("counts", counts, _count), _each("means", means, _number), _each("m2s", m2s, _number)
    lists = [list(values) for values in each]
    if len(set(map(len, lists))) > 1:
        counted = "{} counts, {} means, {} m2s".format(*map(len, lists))
        raise ValueError(f"one list is shorter than another: {counted}; merge_moments takes one of each per part")
    parts = list(zip(*lists, strict=True))
    if not parts:
        raise ValueError("merge_moments needs at least one part")
    if any(n < 0 for n, _, _ in parts):
        raise ValueError(f"a count is negative: {[n for n, _, _ in parts]}")
    total, place = sum(n for n, _, _ in parts), parts[0][1].place
    for _, mean, m2 in parts:
        for array in (mean, m2):
            check_place("another", array, parts[0][1], of="a mean or M2")
            if array.shape != parts[0][1].shape:
                raise ValueError(f"a mean or M2 has shape {array.shape}, the first mean {parts[0][1].shape}")
    dtypes = {mean.dtype for n, mean, _ in parts if n > 0 or total == 0}
    dtype = dtypes.pop() if len(dtypes) == 1 else np.result_type(*map(compute_dtype, dtypes))
    wide = np.dtype(np.float64)
    filled = [(n, place.cast(mean.native, wide), place.cast(m2.native, wide)) for n, mean, m2 in parts if n > 0]
    mean = m2 = place.full(parts[0][1].shape, wide, 0.0)
    for n, part_mean, _ in filled:
        mean = mean + n / total * part_mean
    for n, part_mean, part_m2 in filled:
        m2 = m2 + part_m2 + n * (part_mean - mean) ** 2
    return Moments(total, place.cast(mean, dtype)[()], place.cast(m2, dtype)[()])


def _each(name: str, values: Iterable[Any], convert: Callable[[Any], Any]) -> Iterator[Any]:
    """``values`` one by one, converted."""
    try:
        return map(convert, iter(values))
    except TypeError:  # an array without axes has __iter__ too, so only asking tells
        raise TypeError(f"{name} is {values!r}; merge_moments takes a list or array with an entry per part") from None


def _count(value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"a count is {value!r}; merge_moments takes one integer per part") from None


def _number(value: Any) -> Array:
    """A part's mean or M2 as an array of a dtype that norms take: of integers, say, float64."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError("a mean or M2 is masked; leave that part out, or give it a count of 0 and any number")
    if hasattr(type(value), "__cuda_array_interface__"):
        return check_array("a mean or M2", value)
    try:
        array = np.asarray(value)
        if array.dtype.kind in "biuO":
            array = array.astype(np.float64)
    except (TypeError, ValueError):  # objects that are no numbers, lists of several lengths
        array = np.asarray("")
    if array.dtype not in FLOATS:
        if array.dtype.kind != "f":
            raise TypeError(f"a mean or M2 is {value!r}; merge_moments takes real numbers")
        array = array.astype(np.float64)
    return check_array("a mean or M2", array)
