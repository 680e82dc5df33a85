"""Where a statement of typed IR comes from, and whose a variable is: Numba writes some functions into their callers.

Numba's own names for the variables of such a function (``f_v4_x``) may be a user's too; these may not.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the source, and the column where it is known.

    ``file`` and ``function`` are "" for those of the function at hand.  A statement of a function that Numba has
    written into it (inlined) says its own.

    >>> Place(3), Place(3, 9, "other.py", "f")
    (3, other.py:3:9 in f)
    """

    line: int
    column: int | None = None
    file: str = ""
    function: str = ""

    def __repr__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part not in ("", None))
        return f"{place} in {self.function}" if self.function else place


def inlined_name(function: str, variable: str) -> str:
    """What a variable of an inlined function is called: no name in Python has this form.

    >>> inlined_name("f$4", "x"), inlined_name("g$2", inlined_name("f$4", "x"))
    ('@f$4@x', '@g$2@@f$4@x')
    """
    return f"@{function}@{variable}"


def inlined_from(variable: str) -> str:
    """The function that a variable comes from, "" for one of the function at hand.

    >>> inlined_from("x.1"), inlined_from("@g$2@@f$4@x.1")
    ('', 'f$4')
    """
    return variable.rpartition("@")[0].rpartition("@")[2]


def own_name(variable: str) -> str:
    """The name that a variable has in its own function.

    >>> own_name("x.1"), own_name("@g$2@@f$4@x.1")
    ('x.1', 'x.1')
    """
    return variable.rpartition("@")[2]
