"""What the benchmark on a card measures: shapes, our launches for them, and the least bytes that they can move.

Rules of this file: nothing here needs a GPU.  Launches are built over any arrays that our functions take, CuPy's or
NumPy's, so the same lists serve to compile all kernels ahead of time, on as many cores as there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from numba_norms import batch_norm, rms_norm
from numba_norms.arrays import Array
from numba_norms.arrays.dtypes import NAMED
from numba_norms.binding import recording
from numba_norms.launch import Launch
from tests.numba_norms.paths import Case

ELEMENTS = 1 << 26
"""Of x.  In float16 x and y have 256 MiB together, several times any L2."""
COLUMNS = tuple(1 << k for k in range(8, 18))
FEW = (1024, 4096, 16384)
ROW_NORMS = ("rms_norm", "add_rms_norm", "layer_norm", "add_layer_norm")

PASSES = {
    "rms_norm": 2, "layer_norm": 2, "rms_norm_across": 2,  # x read, y written
    "batch_norm": 3,  # training: x is read for the statistics and once more to be normalised
    "add_rms_norm": 4, "add_layer_norm": 4,  # residual and update read, h and z written
}  # fmt: skip
"""How often the bytes of x have to cross the bus: parameters and statistics are not counted."""

New = Callable[[tuple[int, ...], np.dtype[Any]], Any]
"""Makes an array, of shape and dtype"""
Given = dict[str, Any]
"""The arrays of one run of a point"""


@dataclass(frozen=True)
class Point:
    """An operation on arrays of one shape: [rows, D], or [outer, C, inner] for batch_norm and norms across."""

    norm: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def least_bytes(self) -> int:
        """
        >>> Point("add_rms_norm", "float16", (4096, 4096)).least_bytes == 4 * 4096 * 4096 * 2
        True
        """
        return PASSES[self.norm] * math.prod(self.shape) * NAMED[self.dtype].itemsize

    def __str__(self) -> str:
        return f"{self.norm} {self.dtype} {'x'.join(map(str, self.shape))}"


@dataclass(frozen=True)
class Wish:
    """A path, and a number of threads; "auto" and None leave the choice to plan.py."""

    path: str = "auto"
    threads: int | None = None


@dataclass(frozen=True)
class Way:
    """One way to run a point: the launches over some arrays."""

    name: str
    chosen: bool
    """Whether this is what the public function does"""
    wish: Wish
    launches: tuple[Launch, ...]

    @property
    def facts(self) -> dict[str, Any]:
        """What is written beside its time."""
        form = self.launches[-1].form
        return {
            "way": self.name, "chosen": self.chosen, "kernel": [launch.kernel.__name__ for launch in self.launches],
            "grid": self.launches[-1].grid, "block": self.launches[-1].block,
            "path": form.path if form else None, "why": form.why if form else None,
            "registers_for_the_row": form.tile.size if form and form.tile else None,
        }  # fmt: skip


def points() -> list[Point]:
    """All points, those that matter most first."""
    found = [Point(norm, "float16", _rows(columns)) for norm in ROW_NORMS[:3] for columns in COLUMNS]
    found += [Point("batch_norm", "float16", shape) for shape in ((64, 256, 4096), (1 << 16, 1024, 1))]
    found += [Point("rms_norm_across", "float16", (1, columns, ELEMENTS // columns)) for columns in FEW]
    found += [Point("rms_norm", dtype, _rows(columns)) for dtype in ("bfloat16", "float32") for columns in FEW]
    found += [Point("add_layer_norm", "float16", _rows(columns)) for columns in FEW]
    found += [Point("layer_norm", "float32", _rows(columns)) for columns in FEW]
    return found


def _rows(columns: int) -> tuple[int, int]:
    return ELEMENTS // columns, columns


def wishes(point: Point) -> list[Wish]:
    """What is tried for a point beside what plan.py chooses: the tables are tuned from these."""
    if point.norm not in ROW_NORMS:
        return [Wish()]
    lanes = (32, 64, 128) if point.shape[1] <= 512 else (128, 256, 512)
    if point.dtype != "float16" or point.norm.startswith("add_layer"):
        return [Wish(), Wish("strided")]
    streams = (Wish("stream", threads) for threads in (256, 512, 1024) if point.shape[1] >= 4096)
    return [Wish(), *(Wish("vector", threads) for threads in lanes), *streams, Wish("strided")]


def arrays(point: Point, new: New) -> Given:
    """Arrays for one run of a point, each made by ``new``."""
    dtype = NAMED[point.dtype]
    large = ("x", "y", "update", "h") if point.norm.startswith("add_") else ("x", "y")
    made = {name: new(point.shape, dtype) for name in large}
    return made | {name: new((point.shape[1],), dtype) for name in ("weight", "bias")}


def launches(point: Point, wish: Wish, given: Given) -> tuple[Launch, ...]:
    """The launches of a point over the arrays of ``arrays``.  ValueError for a wish that they do not allow."""
    if point.norm in ROW_NORMS:
        names = ("x", "update", "weight", "bias", "h", "y")
        memory = (Array.of(given[name]).memory if name in given else None for name in names)
        case = Case(point.norm, *memory, mean=None, rstd=None)  # the public functions store none unless asked to
        return (case.launch(wish.path, threads=wish.threads),)
    with recording.record(rehearsal=True) as written:
        if point.norm == "rms_norm_across":
            rms_norm(given["x"], given["weight"], axis=1, out=given["y"])
        else:
            batch_norm(given["x"], None, None, given["weight"], given["bias"], training=True, out=given["y"])
    return tuple(written.launches)


def ways(point: Point, given: Given) -> list[Way]:
    """All ways to run a point that its arrays allow, without doubles; the chosen one first.

    >>> [way.name for way in ways(Point("rms_norm", "float16", (64, 4096)), arrays(_POINT, np.empty))]
    ['vector 256', 'vector 128', 'vector 512', 'stream 256', 'stream 512', 'stream 1024', 'strided 256']
    """
    found: dict[str, Way] = {}
    for wish in wishes(point):
        try:
            made = launches(point, wish, given)
        except ValueError:  # a path that is closed, or a number of threads that it cannot have
            continue
        form, block = made[-1].form, made[-1].block
        name = f"{form.path} {block}" if form else f"{made[-1].kernel.__name__} {block}"
        if form and form.tile and form.tile.rows > 1:
            name += f", {form.tile.rows} rows"
        found.setdefault(name, Way(name, wish == Wish(), wish, made))
    return list(found.values())


def every_launch() -> Iterator[Launch]:
    """The launches of all points and ways, over arrays of which no element is ever touched."""
    for point in points():
        for way in ways(point, arrays(point, np.empty)):
            yield from way.launches


_POINT = Point("rms_norm", "float16", (64, 4096))
