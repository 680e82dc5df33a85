"""What the machine code of a kernel says that its typed code cannot: where float64 is left, registers, spills.

Rules of this file: it reads texts (PTX, the assembler's log) and compiles nothing; a front end's adapter does.  Where
there is no compiler, ``NotCompiled`` says so and whoever asks goes on without.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath

Line = tuple[str, int]
"""Name of a source file without its folders, and line: compilers spell folders their own way."""
NO_LINE: Line = ("", 0)


class NotCompiled(Exception):
    """There is no machine code: the compilers are missing, or refuse this kernel."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What a thread or a block of a kernel takes of a multiprocessor.

    ``registers`` and ``local`` (bytes of arrays and spilled registers) are a thread's, ``shared`` (bytes, declared with
    a fixed size) a block's; ``spills`` are the bytes that a thread stores and loads because registers ran out.
    """

    registers: int
    shared: int
    local: int
    spills: int


@dataclass(frozen=True)
class MachineCode:
    """A kernel compiled for one compute capability.  ``assemble`` gives the log of the assembler for ``ptx``."""

    ptx: str
    assemble: Callable[[str], str]

    def float64_instructions(self) -> frozenset[tuple[Line, str]]:
        """The instructions (add, fma, div, …) that compute in float64, each with its line of the source.

        What the compiler moved, as out of a loop, has ``NO_LINE``.
        """
        found = ((line if line[1] else NO_LINE, _FLOAT64.match(text)) for line, text in _instructions(self.ptx))
        return frozenset((line, match["name"] or "cvt") for line, match in found if match)

    def resources(self) -> Resources:
        """Registers and memory, as the assembler reports them.

        Raises
        ------
        NotCompiled
            There is no assembler.
        """
        log = self.assemble(self.ptx)

        def total(pattern: str, text: str = log) -> int:
            return sum(map(int, re.findall(pattern, text)))

        return Resources(
            registers=total(r"Used (\d+) registers"),
            shared=total(r"\.shared\s+\.align\s+\d+\s+\.b8\s+\w+\[(\d+)\]", self.ptx),
            local=total(r"(\d+) bytes stack frame"),
            spills=total(r"(\d+) bytes spill (?:stores|loads)"),
        )


_FLOAT64 = re.compile(
    r"(?:@!?%\w+\s+)?(?:"
    r"(?P<name>add|sub|mul|fma|mad|div|rcp|sqrt|rsqrt|min|max|neg|abs|copysign|setp|set|slct|testp)\b[\w.]*\.f64\b"
    r"|cvt(?:\.\w+)*(?:\.f64\.[us]\d+|\.[us]\d+\.f64|\.f64\.f64)\b)"
)
"""Instructions that compute in float64.  Widening a float32 and narrowing again are not among them: they come with
arithmetic or do nothing."""


def _instructions(ptx: str) -> Iterator[tuple[Line, str]]:
    """Each instruction with the line that it comes from; of inlined functions, the line in the function."""
    names = {
        int(number): PurePath(path).name for number, path in re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', ptx, re.M)
    }
    line = NO_LINE
    for text in map(str.strip, ptx.splitlines()):
        if text.startswith((".loc ", ".loc\t")):  # .local declares memory
            _, file, number, *_ = text.split()
            line = names.get(int(file), ""), int(number)
        elif text and text[0] not in ".{}/$":
            yield line, text
