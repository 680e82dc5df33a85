"""What an operation does, written down while it does it, so that it can be done again without the checks (bound.py).

Places tell what they allocate and copy, launches tell themselves.  Nothing is noted unless somebody records, in the
same thread or task.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numba_norms.arrays.places import Place
    from numba_norms.launch import Launch


class NotBindable(ValueError):
    """What an operation does for these arrays cannot be repeated by launches alone."""


class Recording:
    """What happened in one call of an operation.

    ``rehearsal``: nothing is launched, only written down.  ``to_repeat``: a rehearsal ends where something happens that
    launches alone do not repeat; otherwise that is left out as well.
    """

    def __init__(self, rehearsal: bool, to_repeat: bool = True) -> None:
        self.rehearsal = rehearsal
        self.to_repeat = to_repeat
        self.place: Any = None
        """Where all of it happened"""
        self.made: list[Any] = []
        """New arrays of the caller's library, in order"""
        self.launches: list[Launch] = []
        self.obstacle = ""
        """Why this cannot be repeated; empty if it can"""

    def prevent(self, why: str) -> None:
        """Something happened that launches alone do not repeat; a rehearsal ends here, before it touches an array."""
        self.obstacle = self.obstacle or why
        if self.rehearsal and self.to_repeat:
            raise NotBindable(why)


_current: ContextVar[Recording | None] = ContextVar("recording", default=None)
current = _current.get


@contextmanager
def record(*, rehearsal: bool, to_repeat: bool = True) -> Iterator[Recording]:
    """Write down what happens inside."""
    token = _current.set(written := Recording(rehearsal, to_repeat))
    try:
        yield written
    finally:
        _current.reset(token)


def made(place: Place, native: Any) -> Any:
    """``native``, a new array of a place, noted."""
    if (written := current()) is not None:
        written.place = place
        written.made.append(native)
    return native


def launched(place: Place, launch: Launch) -> bool:
    """Note a launch; whether it is only rehearsed."""
    written = current()
    if written is None:
        return False
    written.place = place
    written.launches.append(launch)
    return written.rehearsal


def prevented(why: str) -> bool:
    """Note what launches alone do not repeat; whether it is only rehearsed."""
    written = current()
    if written is None:
        return False
    written.prevent(why)
    return written.rehearsal
