"""Which accesses of a trace a picture shows, and what is said when there are none.

Rules of this file: it draws nothing, and a selection that finds nothing says what could have been selected.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from simulator.errors import word
from simulator.trace import Trace, WarpAccess


class NothingToDraw(LookupError):
    """The trace holds no such access; the message says what it does hold."""


def accesses(
    trace: Trace, array: str, *, line: int | None = None, block: int = 0, warp: int | None = None
) -> list[WarpAccess]:
    """The requests for ``array`` in one block, in program order, all at one source line.

    Without ``line`` it is the line of the first load (of the first access, if the array is only written).

    Raises
    ------
    NothingToDraw
        The array is unknown, or was not accessed there.
    """
    check(trace, array)
    block = trace.thread(0, block).block
    found = list(trace.accesses(array=array, block=block, warp=warp))
    if line is None:
        first = next((access for access in found if access.operation == "load"), found[0] if found else None)
        chosen = [a for a in found if first is not None and (a.file, a.line) == (first.file, first.line)]
    else:
        chosen = [access for access in found if access.line == line]
    if chosen:
        loads = [access for access in chosen if access.operation == "load"]
        return loads or chosen
    where = f"block {block}" if warp is None else f"warp {warp} of block {block}"
    lines = sorted({row.line for row in trace.lines if row.array == array})
    if line is not None and lines and line not in lines:
        raise NothingToDraw(f"line {line} does not access {array!r}; {words(lines, 'line')} does")
    hint = f"; {array!r} is accessed at {words(lines, 'line')}" if lines else f"; nothing accessed {array!r}"
    raise NothingToDraw(f"{where} holds no access to {array!r}{hint}")


def check(trace: Trace, array: str) -> None:
    """Refuse to draw from what is no trace, or what it does not have.

    Raises
    ------
    NothingToDraw
        The array is unknown.
    """
    if not isinstance(trace, Trace):
        raise TypeError(f"a picture is drawn from a trace, not from {type(trace).__name__}")
    if word("array", array) not in trace.arrays:
        raise NothingToDraw(f"the launch has no array {array!r}; it has {words(sorted(trace.arrays))}")


def place(trace: Trace, array: str, element: int) -> str:
    """A flat element offset as it is indexed: ``x[0, 256]``."""
    index = []
    for extent in reversed(trace.arrays[array].shape):
        element, coordinate = divmod(element, extent) if extent else (0, 0)
        index.append(str(coordinate))
    return f"{array}[{', '.join(reversed(index)) or '()'}]"


def source(trace: Trace, file: str, line: int) -> str:
    """``rms_norm.py:17  acc += x[j] * x[j]``, without the text where there is no source."""
    return f"{PurePath(file).name}:{line}  {trace.source(file, line).strip()}".rstrip()


def words(items: Sequence[object], noun: str = "") -> str:
    """A list as one says it.

    >>> words([17, 38], "line"), words([1, 2, 3])
    ('line 17 and 38', '1, 2 and 3')
    """
    said = [str(item) for item in items]
    joined = " and ".join((", ".join(said[:-1]), said[-1])) if len(said) > 1 else (said or ["none"])[0]
    return f"{noun} {joined}".strip()


def shorten(indices: Sequence[int], keep: int = 3) -> str:
    """Indices as a textbook writes them: the first ``keep``, an ellipsis and the last.

    >>> shorten(range(0, 4096, 256)), shorten([0, 4, 8, 12])
    ('0, 256, 512, … 3840', '0, 4, 8, 12')
    """
    if len(indices) <= keep + 2:
        return ", ".join(map(str, indices))
    comma = "," if keep > 1 else ""
    return ", ".join(map(str, indices[:keep])) + f"{comma} … {indices[-1]}"
