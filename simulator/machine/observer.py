"""What an observer is told while a kernel runs.

The machine owns this interface and names no observer.  Observers get *values* (a Python int, an ``Affine`` or an
array), not lanes: they expand what they need, never mutate it, and cost nothing when absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulator.program import Op, Program, Term

if TYPE_CHECKING:
    from simulator.machine.faults import Fault
    from simulator.machine.memory import Access, Allocation, Memory
    from simulator.machine.split import Split


@dataclass(frozen=True, slots=True)
class Span:
    """Operations ``first`` … ``last`` - 1 of a block of the program."""

    block: str
    first: int
    last: int


class Observer:
    """A base class with empty hooks.  Only hooks that a subclass overrides are called."""

    def launch(self, program: Program, grid: tuple[int, int, int], block: tuple[int, int, int], memory: Memory) -> None:
        """A launch begins; arguments already stand in ``memory``."""

    def access(self, split: Split, access: Access, allocation: Allocation, address: Any) -> None:
        """A load, store or atomic is about to happen, at ``address`` (bytes) for the active lanes of ``split``."""

    def store(
        self, split: Split, access: Access, allocation: Allocation, address: Any, values: tuple[Any, ...]
    ) -> None:
        """The store that ``access`` told of, with what each active lane writes: one value per element."""

    def atomic(self, split: Split, access: Access, allocation: Allocation, address: Any, wrote: Any) -> None:
        """The atomic that ``access`` told of has run, lane after lane; ``wrote`` (bool, one per lane of ``split``) are
        the active lanes that changed memory by it, all but those whose comparison failed."""

    def fault(self, split: Split, access: Access, fault: Fault, lanes: Any) -> None:
        """The address is wrong in ``lanes`` (bool, one per lane of ``split``), and a forgiving launch goes on.

        ``access`` is that of the ``elem`` where an index is outside its axis.
        """

    def lost(self, split: Split, access: Access, lanes: Any) -> None:
        """``lanes`` (bool, one per lane of ``split``) do not load, store or update: their address is wrong, as
        ``fault`` has told.  What they read is 0.
        """

    def fence(self, split: Split, op: Op) -> None:
        """The active lanes of ``split`` pass a memory fence."""

    def wrap(self, split: Split, access: Access, axis: int, lanes: Any, index: Any, extent: Any) -> None:
        """Lanes (bool, one per lane of ``split``) index with a negative number, which counts from the end.

        ``access`` is that of the ``elem``; ``index`` and ``extent`` are one per lane, or one for all.
        """

    def barrier(self, split: Split, op: Op) -> None:
        """A block barrier was passed by the lanes of ``split`` (waves: many blocks; splits: once per warp)."""

    def warp(self, split: Split, op: Op) -> None:
        """A warp operation (shuffle, vote, match, syncwarp) runs for the active lanes of ``split``."""

    def undefined(self, split: Split, op: Op, reads: Any, source: Any) -> None:
        """Lanes of a shuffle, in ``reads`` (bool), read a lane that takes no part: number ``source``, per lane.

        Both have shape (warps, 32).  On hardware they get anything; here they get poison.
        """

    def segment(self, split: Split, segment: Span) -> None:
        """The active lanes of ``split`` are about to run operations in which nobody waits, all of ``segment``."""

    def overflow(self, split: Split, op: Op, operands: tuple[Any, ...], lanes: Any) -> None:
        """In ``lanes`` (bool, blocks x threads) ``op`` makes infinity of finite floats, the values ``operands``."""

    def narrowed(self, split: Split, op: Op, value: Any, result: Any) -> None:
        """``op`` converted an integer ``value``, on its way to an index, to one of fewer bits, ``result``."""

    def branch(self, split: Split, term: Term, taken: Any, fallen: Any) -> None:
        """Lanes of ``split`` diverge at ``term``: masks of those that jump and those that fall through."""

    def value(self, split: Split, op: Op, slot: int, value: Any) -> None:
        """A watched variable (``watch`` of the launch) got a new value in the active lanes of ``split``."""

    def hand_over(self, first_block: int, blocks: int) -> None:
        """A wave could not go on in lock step; its blocks go on as splits, where lanes meet again only by chance."""

    def trap(self, split: Split, op: Op) -> None:
        """The active lanes of ``split`` reached a ``raise``; they exit."""

    def print(self, split: Split, op: Op, values: tuple[Any, ...]) -> None:
        """The active lanes of ``split`` print: the pieces of ``op.attr["text"]``, ``values`` in the gaps."""

    def finish(self) -> None:
        """The launch is over (also after a fault)."""
