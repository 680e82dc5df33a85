"""What Numba says when it refuses a kernel: the reason in short, and the line.

Numba's messages hold lists of candidate implementations and excerpts of the source, and many name no line at all (those
raised by types of numba's own core).  The line is then that of the innermost statement Numba was typing, which its
traceback knows.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

from simulator.errors import SimulationError
from simulator.program import Pos

_LINES = 2
"""How many lines of a message are kept."""

_NOISE = ("Failed in ", "[1] During: ", "[2] During: ", "- Resolution failure for ")
_END = ("During: ", 'File "', "There are ", "- Of which ", "Overload ", "raised from ", "Raised from ")
_OBJECT = re.compile(r"Function\(<(?:built-in )?(?:function|class|ufunc) '?([\w.]+)'?(?: at 0x[0-9a-f]+)?>\)")

_OWNER = re.compile(r"@[\w.<>]+\$\d+@")
"""The function that a variable comes from (``places``)."""


class DoesNotCompile(SimulationError):
    """Numba refuses the kernel.  ``reason`` is the gist of Numba's text, ``pos`` the line that it names."""

    def __init__(self, reason: str, pos: Pos) -> None:
        super().__init__(f"{pos}: the kernel does not compile: {reason}")
        self.reason = reason
        self.pos = pos

    def __reduce__(self) -> Any:
        return type(self), (self.reason, self.pos), {"findings": self.findings, "trace": self.trace}


def reason_of(error: BaseException) -> str:
    """The first lines of Numba's message that mean something, as one.

    >>> text = "No match for Function(<built-in function setitem>):\\n >>> setitem(int64)\\n - Of which"
    >>> reason_of(ValueError(text))
    'No match for setitem: setitem(int64)'
    """
    kept: list[str] = []
    for raw in str(error).splitlines():
        line = raw.strip()
        if not line or line.startswith(_NOISE):
            continue
        if line.startswith(_END) or len(kept) == _LINES:
            break
        kept.append(line.removeprefix(">>> "))
    return _OWNER.sub("", _OBJECT.sub(r"\1", " ".join(kept))).partition(" Raised from ")[0] or type(error).__name__


def place_of(error: BaseException, functions: Sequence[FunctionType]) -> Pos:
    """The innermost line of these functions (the first is the kernel) that Numba names, else the kernel's first."""
    for file, line in (*_named(error), *_typed(error)):
        owners = [function for function in functions if _covers(function.__code__, file, line)]
        if owners:
            owner = max(owners, key=lambda function: function.__code__.co_firstlineno)
            return Pos(file, line, None, owner.__name__)
    return first_line(functions[0])


def first_line(function: FunctionType) -> Pos:
    """Where a function is defined."""
    return Pos(function.__code__.co_filename, function.__code__.co_firstlineno, None, function.__name__)


def line_with(function: FunctionType, operations: frozenset[str]) -> Pos | None:
    """The first line whose bytecode has one of these operations."""
    for instruction in dis.get_instructions(function):
        where = instruction.positions
        if instruction.opname in operations and where is not None and where.lineno is not None:
            return Pos(function.__code__.co_filename, where.lineno, None, function.__name__)
    return None


def _covers(code: CodeType, file: str, line: int) -> bool:
    lines = [number for _, _, number in code.co_lines() if number is not None]
    return code.co_filename == file and code.co_firstlineno <= line <= max(lines, default=0)


def _named(error: BaseException) -> Iterator[tuple[str, int]]:
    """Places in the text of the message: the innermost comes first."""
    for file, line in re.findall(r"(?:\bat|\bfrom) (.+?) \((\d+)\)", str(error)):
        yield file, int(line)


def _typed(error: BaseException) -> Iterator[tuple[str, int]]:
    """Places of the statements that were being typed when the error was raised, the innermost first."""
    if (place := _location(error)) is not None:
        yield place
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    for frame in reversed(frames):
        if "numba" in frame.f_code.co_filename:
            variables = frame.f_locals
            for name in ("inst", "constraint", "self", "loc"):
                if (place := _location(variables.get(name))) is not None:
                    yield place


def _location(value: Any) -> tuple[str, int] | None:
    """The location that an object of Numba's carries, or is."""
    loc = getattr(value, "loc", value)
    file, line = getattr(loc, "filename", None), getattr(loc, "line", None)
    return (file, line) if isinstance(file, str) and isinstance(line, int) else None
