"""How a norm is launched: a table of thresholds.

The number of threads is chosen by D alone, never by the number of rows.  The reduction tree follows from it, so a
row's result is the same, bit for bit, alone or among a thousand rows.
"""

from __future__ import annotations

MAX_THREADS = 1024

THREADS: tuple[tuple[int, int], ...] = (
    # up to D, threads: a warp alone needs no barrier; long rows want 16 elements a thread
    (128, 32),
    (512, 64),
    (2048, 128),
    (8192, 256),
    (1 << 62, 512),
)


def threads_for(columns: int) -> int:
    """Threads of the block that takes a row of ``columns`` elements.

    >>> [threads_for(columns) for columns in (1, 128, 129, 4096, 1 << 20)]
    [32, 32, 64, 256, 512]
    """
    return next(threads for most, threads in THREADS if columns <= most)


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
