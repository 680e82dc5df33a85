"""Functions that Numba writes into their callers: ``inline="always"`` (as ``@vectorize`` has it) and closures.

Their statements bear their own file and line, and their variables get names that tell whose they are (``places``).
Both adapters share this, so it imports neither numba nor numba-cuda.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from os.path import dirname, sep
from types import FunctionType
from typing import Any

from simulator.frontend.places import Place, inlined_from, inlined_name

_ID = re.compile(r"\$\d+$")


@contextmanager
def marked(inline_closurecall: Any) -> Iterator[None]:
    """While active, variables of inlined functions get the names of ``places``; the module is the compiler's."""
    original = inline_closurecall._created_inlined_var_name
    inline_closurecall._created_inlined_var_name = inlined_name
    try:
        yield
    finally:
        inline_closurecall._created_inlined_var_name = original


def folder_of(cuda: Any) -> str:
    """The folder of Numba's own functions, by its module ``numba.cuda``."""
    return dirname(dirname(cuda.__file__)) + sep


class Places:
    """Where the statements of one function come from, block by block in order of the labels.

    ``compiler`` is the folder of Numba's own functions: such a one, inlined, bears the line of its call.
    """

    def __init__(self, function: FunctionType, blocks: Mapping[int, Any], compiler: str) -> None:
        code = function.__code__
        self._file = code.co_filename
        self._compiler = "" if self._file.startswith(compiler) else compiler
        self._lines = {line for _, _, line in code.co_lines()}
        self._owners = dict(_owners(blocks))
        self._last = Place(code.co_firstlineno)
        self._before: dict[int, Place] = {}

    def enter(self, label: int) -> None:
        """The statements of this block are next."""
        self._last = self._before.get(label, self._last)

    def leave(self, labels: Iterable[int]) -> None:
        """The block ends, and these may follow it."""
        for label in labels:
            self._before.setdefault(label, self._last)

    def of(self, loc: Any, variable: str = "") -> Place:
        """The place of a statement that assigns to this variable; ``loc`` is Numba's."""
        if self._compiler and loc.filename.startswith(self._compiler):
            return self._last
        function = _name(inlined_from(variable))
        if not function and not (loc.filename == self._file and loc.line in self._lines):
            function = self._owners.get((loc.filename, loc.line), "")
        self._last = Place(loc.line, None, "" if loc.filename == self._file else loc.filename, function)
        return self._last


def _owners(blocks: Mapping[int, Any]) -> Iterator[tuple[tuple[str, int], str]]:
    """File and line of the statements of inlined functions, and the name of the function."""
    for block in blocks.values():
        for statement in block.body:
            if type(statement).__name__ == "Assign" and (owner := inlined_from(statement.target.name)):
                yield (statement.value.loc.filename, statement.value.loc.line), _name(owner)


def _name(function: str) -> str:
    """The name of a function that Numba calls ``module.<locals>.f$4``.

    >>> _name("test.<locals>.f$4"), _name("_lambda_$12")
    ('f', '<lambda>')
    """
    name = _ID.sub("", function).rpartition(".")[2]
    return "<lambda>" if name == "_lambda_" else name
