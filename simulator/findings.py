"""What is wrong with a run: findings and the closed vocabulary of their kinds.

Rules of this file:

* The kinds are closed: tests, graders and configuration rely on them.  A new kind is added to ``SEVERITIES`` first.
* Findings are plain, frozen data.  Their sentences are made in ``simulator.catalogue`` and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

Shape = tuple[int, int, int]

SEVERITIES = {
    **dict.fromkeys(
        (
            "race-shared", "race-global", "barrier-divergence", "warp-sync", "out-of-bounds", "misaligned-access",
            "uninitialized-read", "deadlock", "launch-limit", "does-not-compile",
        ),
        "error",
    ),
    **dict.fromkeys(
        (
            "negative-index", "float64", "overflow", "uncoalesced", "bank-conflict", "order-dependent",
            "shared-overlap", "barrier-not-called", "kernel-exception",
        ),
        "warning",
    ),
    **dict.fromkeys(("unwritten-output", "exited-before-barrier", "partial-warp"), "note"),
}  # fmt: skip
"""Every kind of finding and its severity."""

KINDS = tuple(SEVERITIES)
NOT_BEGUN = ("launch-limit", "does-not-compile")
"""Kinds of a launch that does not begin."""


def extent_in_words(shape: Shape) -> str:
    """An extent as people write it: ``256``, or a tuple if it has more than one axis."""
    return str(shape[0]) if shape[1:] == (1, 1) else str(shape)


def unravel(number: int, shape: Shape) -> Shape:
    """The (x, y, z) index of a linear thread or block number; x runs fastest.

    >>> unravel(35, (32, 4, 1))
    (3, 1, 0)
    """
    return number % shape[0], number // shape[0] % shape[1], number // (shape[0] * shape[1])


@dataclass(frozen=True, slots=True)
class Site:
    """One place of a finding.  ``block`` and ``thread`` are linear numbers (x fastest), None where nobody is meant."""

    file: str
    line: int
    function: str = ""
    block: int | None = None
    thread: int | None = None
    access: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Launch:
    """The shape of the launch that a finding belongs to; ``dynamic_shared`` in bytes."""

    grid: Shape
    block: Shape
    dynamic_shared: int = 0

    def __str__(self) -> str:
        shared = f", {self.dynamic_shared} bytes of dynamic shared memory" if self.dynamic_shared else ""
        return f"grid {extent_in_words(self.grid)}, block {extent_in_words(self.block)}{shared}"


@dataclass(frozen=True, slots=True)
class Replay:
    """The order of execution that shows a finding: pass ``orders=(replay.order,), seed=replay.seed``."""

    order: str = "waves"
    seed: int = 0

    def __str__(self) -> str:
        return f"orders=({self.order!r},), seed={self.seed}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, at a pair of sites at most; ``count`` tells how often it was seen there.

    ``element`` is the index in ``array`` where one is meant, ``limit_of`` what a launch has too much of: one of
    ``simulator.machine.limits.LIMITS``.  ``str()`` gives severity, kind, message and mend.

    >>> found = Finding("out-of-bounds", "thread 4 of block 0 reads x[4]", sites=(Site("k.py", 7, "k", 0, 4),))
    >>> found.severity, found.lines, found.threads
    ('error', (7,), (4,))
    """

    kind: str
    message: str
    sites: tuple[Site, ...] = ()
    kernel: str = ""
    launch: Launch | None = None
    array: str = ""
    element: tuple[int, ...] | None = None
    count: int = 1
    mend: str = ""
    replay: Replay | None = None
    severity: str = ""
    limit_of: str = ""

    def __post_init__(self) -> None:
        if self.kind not in SEVERITIES:
            raise ValueError(f"no such kind of finding: {self.kind!r}; the kinds are {', '.join(KINDS)}")
        object.__setattr__(self, "severity", self.severity or SEVERITIES[self.kind])

    @property
    def lines(self) -> tuple[int, ...]:
        """The source lines of its sites, each once."""
        return tuple(dict.fromkeys(site.line for site in self.sites))

    @property
    def threads(self) -> tuple[int, ...]:
        """The threads of its sites (linear, within their blocks), each once."""
        return tuple(dict.fromkeys(site.thread for site in self.sites if site.thread is not None))

    @property
    def raised(self) -> bool:
        """Is it news that a GPU's host gets as an exception, too, which the program may be waiting for?"""
        return self.kind in NOT_BEGUN or (self.kind == "kernel-exception" and self.severity == "error")

    @property
    def key(self) -> tuple[str, str, str, str, tuple[tuple[str, int], ...]]:
        """Two findings of different runs are the same one if they share this: kind, kernel, array, limit and lines."""
        return self.kind, self.kernel, self.array, self.limit_of, tuple((site.file, site.line) for site in self.sites)

    def __str__(self) -> str:
        mend = f"\n  likely mend: {self.mend}" if self.mend else ""
        return f"{self.severity}: {self.kind}: {self.message}{mend}"
