"""How much of a large grid the orders of a check run.

The split scheduler costs some 20 µs for each access of a warp.  Up to a budget a check runs the whole grid in every
order; beyond it, only groups of neighbouring blocks: the first, the last, and others evenly spread between them.  What
cannot be sampled (one large block, blocks that meet at a barrier of the grid) is cut short instead.  Waves always run
everything, and a trace says which blocks an order ran, and how far.
"""

from __future__ import annotations

from collections.abc import Sequence

REQUESTS = 1 << 18
"""Accesses of warps that an order of a check may make: some five seconds."""
ORDER_STEPS = REQUESTS
"""Segments of code that the blocks of a group may run in an order, if waves have shown that they end."""
LANES = 1 << 15
"""Lanes that it may have, where nobody has counted the accesses yet."""
GROUPS = 3
"""Groups that a sample has at the least, if the grid has as many: the first, one in the middle, the last."""


def sample(blocks: int, together: int, part: float) -> tuple[range, ...] | None:
    """About ``part`` of a grid of so many blocks in groups of ``together`` neighbours; None for all of it.

    >>> sample(100, 4, 0.1)
    (range(0, 4), range(48, 52), range(96, 100))
    >>> sample(8, 4, 0.1), sample(100, 4, 1.5)
    (None, None)
    """
    groups = -(-blocks // together)
    wanted = max(GROUPS, int(groups * part))
    if wanted >= groups:
        return None
    chosen = [round(k * (groups - 1) / (wanted - 1)) for k in range(wanted)]
    return tuple(range(k * together, min((k + 1) * together, blocks)) for k in chosen)


def in_words(ranges: Sequence[range], blocks: int) -> str:
    """The blocks of a sample.

    >>> in_words((range(0, 4), range(99, 100)), 100)
    '5 of 100 blocks: 0 to 3, 99'
    """
    parts = [str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}" for found in ranges]
    shown = ", ".join(parts if len(parts) <= 6 else [*parts[:3], "…", *parts[-2:]])
    return f"{sum(map(len, ranges))} of {blocks} blocks: {shown}"
