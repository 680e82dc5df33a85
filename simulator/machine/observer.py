"""What an observer is told while a kernel runs.

The machine owns this interface and names no observer.  Observers get *values* (a Python int, an ``Affine`` or an
array), not lanes: they expand what they need, never mutate it, and cost nothing when absent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulator.program import Op, Program, Term

if TYPE_CHECKING:
    from simulator.machine.memory import Access, Allocation, Memory
    from simulator.machine.split import Split


class Observer:
    """A base class with empty hooks.  Only hooks that a subclass overrides are called."""

    def launch(self, program: Program, grid: tuple[int, int, int], block: tuple[int, int, int], memory: Memory) -> None:
        """A launch begins; arguments already stand in ``memory``."""

    def access(self, split: Split, access: Access, allocation: Allocation, address: Any) -> None:
        """A load, store or atomic is about to happen, at ``address`` (bytes) for the active lanes of ``split``."""

    def barrier(self, split: Split, op: Op) -> None:
        """A block barrier was passed by the lanes of ``split`` (waves: many blocks; splits: once per warp)."""

    def warp(self, split: Split, op: Op) -> None:
        """A warp operation (shuffle, vote, match, syncwarp) runs for the active lanes of ``split``."""

    def undefined(self, split: Split, op: Op, reads: Any, source: Any) -> None:
        """Lanes of a shuffle, in ``reads`` (bool), read a lane that takes no part: number ``source``, per lane.

        Both have shape (warps, 32).  On hardware they get anything; here they get poison.
        """

    def branch(self, split: Split, term: Term, taken: Any, fallen: Any) -> None:
        """Lanes of ``split`` diverge at ``term``: masks of those that jump and those that fall through."""

    def value(self, split: Split, op: Op, slot: int, value: Any) -> None:
        """A watched variable (``watch`` of the launch) got a new value in the active lanes of ``split``."""

    def hand_over(self, first_block: int, blocks: int) -> None:
        """A wave could not go on in lock step; its blocks go on as splits, where lanes meet again only by chance."""

    def trap(self, split: Split, op: Op) -> None:
        """The active lanes of ``split`` reached a ``raise``; they exit."""

    def finish(self) -> None:
        """The launch is over (also after a fault)."""
