"""The standard streams around a user's code, which may put its own in their place, or close them.

Rules of this file: what a command tells comes on the streams that the command was started with, whatever the code has
done.  What the code leaves in a buffer of its own is written out, as Python does before it ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

NAMES = ("stdout", "stderr")
_theirs: dict[str, Any] = {}
"""What the last script left in place of a stream: one that wraps the stream's buffer closes it when it dies."""


def exist() -> None:
    """A process may be started without standard streams; what it says then goes nowhere, and its status is left."""
    for name in NAMES:
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - as long as the process


@contextmanager
def kept() -> Iterator[None]:
    """Around a user's code: afterwards ``sys.stdout`` and ``sys.stderr`` are those of before, and can be written.

    A stream that was closed is opened anew, and leads to its file again, where it had one.
    """
    before = {name: (getattr(sys, name), _copy(getattr(sys, name))) for name in NAMES}
    try:
        yield
    finally:
        for name, (stream, copy) in before.items():
            _theirs[name] = getattr(sys, name, None)
            flush(_theirs[name])
            setattr(sys, name, _writable(stream, copy))


def flush(stream: Any) -> None:
    """Write out what a stream holds; a stream of a script may be anything."""
    with suppress(Exception):
        stream.flush()


def say(text: str) -> None:
    """Write on the standard error as Python does when a script has put something in its place that fails."""
    for stream in (sys.stderr, sys.__stderr__):
        with suppress(Exception):
            stream.write(text)  # type: ignore[union-attr]
            return


def _copy(stream: Any) -> int | None:
    """A second descriptor for the file of a stream, which stays open whatever becomes of the first."""
    try:
        return os.dup(stream.fileno())
    except (OSError, ValueError, AttributeError):  # no file, or closed
        return None


def _writable(stream: Any, copy: int | None) -> Any:
    """The stream, or one that is opened anew if the code has closed it."""
    if copy is None:
        return stream
    try:
        number = stream.fileno()
    except ValueError:  # closed, or its buffer was taken from it
        encoding = getattr(stream, "encoding", None) or "utf-8"
        return open(copy, "w", encoding=encoding, errors="replace")
    if not _leads_to(number, copy):
        os.dup2(copy, number)
    os.close(copy)
    return stream


def _leads_to(number: int, copy: int) -> bool:
    """Does a descriptor lead to the same file as its copy, whatever a script may have done with its number?"""
    try:
        return os.path.sameopenfile(number, copy)
    except OSError:  # closed
        return False
