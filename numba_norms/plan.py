"""How a norm is launched: tables of thresholds, and the reason of each choice in words.

The number of threads is chosen by D alone, never by the number of rows.  The reduction tree follows from it, so a
row's result is the same, bit for bit, alone or among a thousand rows that lie alike.  Four paths lead through a row:

* *vector*: each lane keeps its part of the row in registers, read by accesses of up to 16 bytes;
* *stream*: the same for a row too long for registers, read twice;
* *strided*: the textbook's, one element a lane a round, for any strides and any alignment;
* *across*: for rows whose elements lie farther apart than the rows: neighbouring lanes take neighbouring rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from numba_norms.arrays.addresses import address_of
from numba_norms.kernels.lanes import BYTES
from numba_norms.kernels.reduce import WARP
from numba_norms.kernels.tile import Tile
from numba_norms.kernels.tokens import TokenTile

MAX_THREADS = 1024
MAX_COLUMNS = (1 << 31) - (1 << 15)
"""The kernels with registers count columns in 32 bits, a tile past the end included."""

PATHS = ("auto", "strided", "vector", "stream")

THREADS: tuple[tuple[int, int], ...] = (
    # strided: up to D, threads: a warp alone needs no barrier; long rows want 16 elements a thread
    (128, 32),
    (512, 64),
    (2048, 128),
    (8192, 256),
    (1 << 62, 512),
)

LANES: tuple[tuple[int, int], ...] = (
    # vector: up to D, lanes that share a row: within a warp nobody waits; up to 32 registers a lane leave room for the
    # parameters beside the row, up to 64 for the row alone
    (64, 8),
    (128, 16),
    (1024, 32),
    (2048, 128),
    (8192, 256),
    (32768, 512),
)
MAX_REGISTERS = 64
"""Registers of 32 bits that a lane can have for the row; with more the compiler starts to spill."""
MAX_REGISTERS_RAGGED = 48
"""The same where some lanes have fewer elements than others, and the code has to ask."""
BLOCK_REGISTERS = 65536
"""Registers of a block on every architecture (CUDA C++ Programming Guide, "Technical Specifications")."""

ROW_THREADS = 128
"""Threads of a block that takes several short rows."""

STREAM_LANES, STREAM_ELEMENTS = 512, 16
"""stream: threads of a block, and elements that each has in flight."""


@dataclass(frozen=True)
class Form:
    """How a launch deals with its rows.

    >>> x = np.zeros((4, 4096), np.float16)
    >>> form = choose([x, x], [])
    >>> form.path, form.threads, form.tile.size
    ('vector', 256, 16)
    """

    path: str
    """strided, vector, stream or across; for BatchNorm planes or tiles"""
    threads: int
    """Threads of a block"""
    tile: Tile | None
    """How a row lies in registers, on the paths vector and stream"""
    why: str
    """The reason, in words"""
    reads: int
    """How often a row is read"""

    def blocks(self, rows: int) -> int:
        """Blocks that so many rows need."""
        return rows if self.tile is None else -(-rows // self.tile.rows)


def choose(
    rows: Iterable[np.ndarray],
    parameters: Iterable[np.ndarray | None],
    *,
    path: str = "auto",
    threads: int | None = None,
    streaming: bool = False,
    reads: int = 2,
) -> Form:
    """The form of a launch whose row arrays are [rows, D], all of one shape, with parameters [D].

    ``path`` and ``threads`` are wishes; ``streaming`` asks for the one-pass variance; ``reads`` is how often the
    strided kernel reads a row.  ValueError for a path that these arrays do not allow, and for a number of threads that
    no kernel can have.
    """
    rows = list(rows)
    columns = rows[0].shape[1]
    if path not in PATHS:
        raise ValueError(f"path is {path!r}; it must be one of {', '.join(map(repr, PATHS))}")
    if threads is not None:
        check_threads(threads)
    if path != "strided":
        width, why = access_width(rows, [p for p in parameters if p is not None])
        if width > 1 and threads is not None and threads < WARP:
            width, why = 1, f"{threads} threads are less than a warp"
        if width > 1:
            return _in_registers(rows, width, why, path, threads, streaming)
        if path != "auto":
            raise ValueError(f"the path {path!r} is closed: {why}")
    else:
        why = "asked for"
    return Form("strided", threads_for(columns) if threads is None else threads, None, why, reads)


def access_width(rows: list[np.ndarray], parameters: list[np.ndarray]) -> tuple[int, str]:
    """How many neighbouring elements a lane can read at once, a power of two, and the reason.

    All arrays are read or written in the same portions, so that a lane meets the same columns in each: 16 bytes of the
    narrowest row; a wider array takes several accesses.

    >>> x = np.zeros((4, 4100), np.float16)
    >>> access_width([x], [])
    (4, '8 bytes a lane: D = 4100 is a multiple of 4 elements, not of 8')
    >>> access_width([x[:, 1:]], [])
    (1, 'D = 4099 is odd')
    """
    columns = rows[0].shape[1]
    most = BYTES // min(array.itemsize for array in rows)
    if columns > MAX_COLUMNS:
        return 1, f"D = {columns} is more than the kernels can count in 32 bits"
    if any(array.strides[-1] != array.itemsize and columns > 1 for array in (*rows, *parameters)):
        return 1, "the elements of a row are not neighbours in memory"
    width, limit = most, ""
    for found, what in _limits(rows, parameters, columns):
        if found < width:
            width, limit = found, what
    if width == 1:
        return 1, f"D = {columns} is odd" if columns % 2 else limit
    itemsize = min(array.itemsize for array in rows)
    return width, f"{width * itemsize} bytes a lane: {limit or 'D, strides and addresses are multiples of that'}"


def _limits(rows: list[np.ndarray], parameters: list[np.ndarray], columns: int) -> Iterable[tuple[int, str]]:
    """What the width is limited by: D, and for each array the stride of its rows and its address."""
    yield (
        _power_of_two(columns),
        f"D = {columns} is a multiple of {_power_of_two(columns)} elements, not of "
        f"{BYTES // min(array.itemsize for array in rows)}",
    )
    for array in (*rows, *parameters):
        steps = array.strides[:-1]  # of a single row too: its bits are then those that it has among others
        for bytes_, what in ((address_of(array), "starts at"), *((step, "has rows apart by") for step in steps)):
            aligned = _power_of_two(bytes_)
            if aligned < BYTES:
                limit = f"an array of {array.dtype} {what} a multiple of {aligned} bytes only"
                yield max(1, aligned // array.itemsize), limit


def _power_of_two(number: int) -> int:
    """The largest power of two that divides it; 0 is divided by all."""
    return number & -number or 1 << 62


def _in_registers(
    rows: list[np.ndarray], width: int, why: str, path: str, threads: int | None, streaming: bool
) -> Form:
    columns = rows[0].shape[1]
    share = (
        2 if any(array.dtype == np.float64 for array in rows) else 1
    )  # the arithmetic of float64 takes its share too
    usual = next((lanes for limit, lanes in LANES if columns * share <= limit), STREAM_LANES)
    lanes = usual if threads is None else threads
    whole = columns % (lanes * width) == 0
    most = min(MAX_REGISTERS if whole else MAX_REGISTERS_RAGGED, BLOCK_REGISTERS // 2 // lanes) // share**2
    fits = columns <= lanes * most
    if path == "vector" and streaming:
        raise ValueError("the path 'vector' is closed: it takes the variance from two passes over its registers")
    if path == "vector" and not fits:
        raise ValueError(
            f"the path 'vector' is closed: a row of {columns} elements on {lanes} threads needs more than {most}"
            " elements of each"
        )
    if path == "stream" or streaming or not fits:
        reason = (
            "asked for" if path == "stream"
            else "one pass for the variance" if streaming
            else f"D = {columns} is more than {most} elements a lane"
        )  # fmt: skip
        needed = 1 << (-(-columns // STREAM_ELEMENTS) - 1).bit_length()
        lanes = min(STREAM_LANES, max(WARP, needed)) if threads is None else threads
        rounds = max(1, STREAM_ELEMENTS // width)
        tile = Tile.of_part(columns, lanes, width, rounds)
        return Form("stream", lanes, tile, f"{why}; {reason}", 2)
    together = ROW_THREADS // lanes if threads is None and lanes <= WARP else 1
    tile = Tile.of_row(columns, lanes, together, width)
    return Form("vector", tile.threads, tile, why, 1)


def threads_for(columns: int) -> int:
    """Threads of the block that takes a row of ``columns`` elements on the strided path.

    >>> [threads_for(columns) for columns in (1, 128, 129, 4096, 1 << 20)]
    [32, 32, 64, 256, 512]
    """
    return next(threads for most, threads in THREADS if columns <= most)


TOKENS = 32
"""Tokens that a block takes side by side: a warp reads them in one request."""

PARTS: tuple[tuple[int, int, int], ...] = (
    # up to D, threads that share a token, registers of 4 bytes that each has for it: up to D = 256 they hold it as a
    # whole; beyond that they are few, so that two blocks find room and one reads while the other waits
    (16, 2, 8),
    (64, 4, 16),
    (256, 8, 32),
    (1 << 62, 16, 8),
)


def tile_across(columns: int, inner: int, itemsize: int = 4, threads: int | None = None) -> TokenTile:
    """How blocks deal out tokens of ``columns`` elements, ``inner`` of them side by side.

    Parts and window, from which the order of additions follows, are chosen by D and by ``itemsize``, the bytes of an
    element in registers, never by the number of tokens.  ``threads`` is a wish.

    >>> tile_across(200, 1000)
    TokenTile(width=32, parts=8, window=25, whole=True)
    >>> tile_across(4096, 3)
    TokenTile(width=4, parts=16, window=8, whole=False)
    """
    width = min(TOKENS, 1 << (inner - 1).bit_length())
    parts, window = next((parts, window) for most, parts, window in PARTS if columns <= most)
    if threads is not None:
        width = min(width, threads)
        parts = threads // width
    rounds, window = -(-columns // parts), window * 4 // itemsize
    return TokenTile(width, parts, min(window, rounds), rounds <= window)


TILE_WIDTH = 32
"""Channels that a block takes side by side where channels are contiguous: a warp reads them in one request."""

TILE_THREADS: tuple[tuple[int, int], ...] = (
    # up to so many samples, threads: blocks are few (one for 32 channels), so long batches want large ones
    (8, 64),
    (64, 256),
    (512, 512),
    (1 << 62, 1024),
)


def tile_for(samples: int, channels: int) -> tuple[int, int]:
    """Threads and width of the blocks for contiguous channels: few channels leave a warp room for several samples.

    >>> [tile_for(samples, channels) for samples, channels in ((4, 100), (64, 100), (1 << 20, 3))]
    [(64, 32), (256, 32), (1024, 4)]
    """
    width = min(TILE_WIDTH, 1 << (channels - 1).bit_length())
    return next(threads for most, threads in TILE_THREADS if samples <= most), width


def check_threads(threads: int) -> int:
    """``threads`` if the kernels can run with it: a power of two from 1 to 1024.  ValueError otherwise."""
    if not 1 <= threads <= MAX_THREADS or threads & (threads - 1):
        raise ValueError(f"{threads} threads: the reductions need a power of two from 1 to {MAX_THREADS}")
    return threads
