"""What the simulator raises at its users.

Rules of this file: it imports only ``simulator.program``, so that every part can raise without a cycle.  Sentences
about faults of a launch come from ``simulator.catalogue``; here are only the types that carry them.
"""

from __future__ import annotations

import operator
from contextlib import suppress
from typing import Any

import numpy as np

from simulator.program import Pos


def integer(what: str, given: Any, least: int | None = None) -> int:
    """``given`` as an int; refuses what only looks like one (1.5, True, "a") and what is below ``least``.

    >>> integer("max_steps", 1.5, least=1)
    Traceback (most recent call last):
    ...
    TypeError: max_steps is an int, not 1.5
    """
    number: Any = None
    with suppress(TypeError):  # an array of floats has __index__, too
        number = None if isinstance(given, bool) else operator.index(given)
    if number is None:
        raise TypeError(f"{what} is an int, not {given!r}")
    if least is not None and number < least:
        raise ValueError(f"{what} is an int from {least} up, not {number}")
    return number


def flag(what: str, given: Any) -> bool:
    """``given`` as a bool; refuses anything else, since "no" and an array are no answers to yes or no.

    >>> flag("check", "no")
    Traceback (most recent call last):
    ...
    TypeError: check is True or False, not 'no'
    """
    if not isinstance(given, bool | np.bool_):
        raise TypeError(f"{what} is True or False, not {given!r}")
    return bool(given)


def word(what: str, given: Any) -> str:
    """``given`` as a str; refuses anything else.

    >>> word("the name of an array", 3)
    Traceback (most recent call last):
    ...
    TypeError: the name of an array is a str, not 3
    """
    if not isinstance(given, str):
        raise TypeError(f"{what} is a str, not {given!r}")
    return given


def called(what: str, given: Any) -> Any:
    """``given``, which the simulator will call, or None; refuses what cannot be called.

    >>> called("progress", 3)
    Traceback (most recent call last):
    ...
    TypeError: progress is something to call, not 3
    """
    if given is not None and not callable(given):
        raise TypeError(f"{what} is something to call, not {given!r}")
    return given


def check_question(**asked: Any) -> None:
    """Refuse what is no name where a trace is asked for an array, an operation or a space, and no number of a line.

    >>> check_question(array="x", line="17")
    Traceback (most recent call last):
    ...
    TypeError: line is an int, not '17'
    """
    for what, given in asked.items():
        if given is not None:
            integer(what, given) if what in ("line", "warp") else word(what, given)


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
    >>> print(Unsupported(Pos("k.py", 3), "a list", "use a tuple"))
    k.py:3: a list is not supported by the simulator; use a tuple
    """

    def __init__(self, pos: Pos | None, construct: str, mend: str = "") -> None:
        where = "" if pos is None else f"{pos}: "
        super().__init__(f"{where}{construct} is not supported by the simulator" + (f"; {mend}" if mend else ""))
        self.pos = pos
        self.construct = construct
        self.mend = mend
        if pos is not None and pos.via is not None:
            self.add_note(f"called from {pos.via}")

    def __reduce__(self) -> Any:
        return type(self), (self.pos, self.construct, self.mend), {"findings": self.findings, "trace": self.trace}


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
