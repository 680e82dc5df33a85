"""What the simulator raises at its users.

Rules of this file: it imports only ``simulator.program``, so that every part can raise without a cycle.  Sentences
about faults of a launch come from ``simulator.catalogue``; here are only the types that carry them.
"""

from __future__ import annotations

import operator
from typing import Any

from simulator.program import Pos


def integer(what: str, given: Any, least: int | None = None) -> int:
    """``given`` as an int; refuses what only looks like one (1.5, True, "a") and what is below ``least``.

    >>> integer("max_steps", 1.5, least=1)
    Traceback (most recent call last):
    ...
    TypeError: max_steps is an int, not 1.5
    """
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise TypeError(f"{what} is an int, not {given!r}")
    number = operator.index(given)
    if least is not None and number < least:
        raise ValueError(f"{what} is an int from {least} up, not {number}")
    return number


class SimulationError(Exception):
    """A launch could not be simulated to its end.

    ``findings`` says what is wrong, with both lines, threads, array and element; ``trace`` is what was recorded up to
    that point (``None`` when nothing ran, for example because the kernel does not compile).  Their classes stand above
    this file and are not named in it.
    """

    def __init__(self, message: str = "", *, findings: tuple[Any, ...] = (), trace: Any = None) -> None:
        super().__init__(message)
        self.findings = findings
        self.trace = trace


class OutOfBounds(SimulationError, IndexError):
    """A thread indexed an array, or addressed memory, outside its bounds."""


class Unsupported(SimulationError, NotImplementedError):
    """The kernel uses a construct that the simulator does not model.  It is never approximated in silence.

    >>> from simulator.program import Pos
    >>> print(Unsupported(Pos("k.py", 3), "printing", "remove the print"))
    k.py:3: printing is not supported by the simulator; remove the print
    """

    def __init__(self, pos: Pos | None, construct: str, mend: str = "") -> None:
        where = "" if pos is None else f"{pos}: "
        super().__init__(f"{where}{construct} is not supported by the simulator" + (f"; {mend}" if mend else ""))
        self.pos = pos
        self.construct = construct
        self.mend = mend
        if pos is not None and pos.via is not None:
            self.add_note(f"called from {pos.via}")


class MeaningError(SimulationError):
    """A registered meaning of an intrinsic is at fault, not the kernel; see ``simulator.intrinsics``."""


class ReadOnly(SimulationError, ValueError):
    """A kernel stores to memory that it may not write: a read-only argument, or constant memory."""


class NotRecorded(SimulationError, ValueError):
    """A question about something that the run was not asked to keep; the message says what to pass."""


class UnknownName(SimulationError, KeyError):
    """A question about an array or variable that the launch does not have; the message lists those it has."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show its repr
