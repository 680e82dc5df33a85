"""PTX text as NVVM prints it -> registers, shared arrays and a flat list of instructions.

NVVM's layout is regular: one statement per line.  What does not fit it is refused, never skipped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Instruction:
    """``@!guard opcode.modifiers operands``, at a source line; ``guard`` is (register, wanted value)."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[str, ...]
    guard: tuple[str, bool] | None
    file: int
    line: int
    text: str


@dataclass(slots=True)
class Kernel:
    """One ``.entry``: types of registers (by prefix), parameters in order, bytes of shared arrays, code and labels."""

    name: str = ""
    registers: dict[str, str] = field(default_factory=dict)
    params: list[tuple[str, str]] = field(default_factory=list)
    shared: dict[str, tuple[int, int]] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)


_IGNORED = re.compile(r"\.version|\.target|\.address_size|\.pragma|[(){}]|$")
_ENTRY = re.compile(r"\.visible \.entry (\w+)\($")
_PARAM = re.compile(r"\.param \.(\w+) (\w+),?$")
_REGISTER = re.compile(r"\.reg \.(\w+)\s+(%\w+)<\d+>;$")
_SHARED = re.compile(r"\.visible \.shared \.align (\d+) \.b8 (\w+)\[(\d+)\];$")
_FILE = re.compile(r'\.file\s+(\d+) "(.*)"$')
_LOC = re.compile(r"\.loc\s+(\d+) (\d+) \d+$")
_LABEL = re.compile(r"(\$\w+):$")
_INSTRUCTION = re.compile(r"(?:@(!?)(%p\d+)\s+)?([a-z]+)((?:\.\w+)*)\s*(.*);$")


def parse(text: str) -> Kernel:
    """Parse a module with one kernel.  SyntaxError for a line that is none of those that are known."""
    kernel = Kernel()
    file, line = 0, 0
    for raw in text.splitlines():
        statement = raw.partition("//")[0].strip()
        if found := _LOC.match(statement):
            if int(found[2]):  # line 0: the compiler's own code, which belongs to what stands before it
                file, line = int(found[1]), int(found[2])
        elif not _declaration(kernel, statement) and not _IGNORED.match(statement):
            kernel.code.append(_instruction(statement, file, line))
    return kernel


def _declaration(kernel: Kernel, statement: str) -> bool:
    if found := _ENTRY.match(statement):
        kernel.name = found[1]
    elif found := _PARAM.match(statement):
        kernel.params.append((found[2], found[1]))
    elif found := _REGISTER.match(statement):
        kernel.registers[found[2]] = found[1]
    elif found := _SHARED.match(statement):
        kernel.shared[found[2]] = (int(found[3]), int(found[1]))
    elif found := _FILE.match(statement):
        kernel.files[int(found[1])] = found[2]
    elif found := _LABEL.match(statement):
        kernel.labels[found[1]] = len(kernel.code)
    else:
        return False
    return True


def _instruction(statement: str, file: int, line: int) -> Instruction:
    found = _INSTRUCTION.match(statement)
    if found is None:
        raise SyntaxError(f"not understood: {statement}")
    guard = (found[2], not found[1]) if found[2] else None
    operands = tuple(part.strip() for part in found[5].split(",")) if found[5] else ()
    return Instruction(found[3], tuple(found[4].split(".")[1:]), operands, guard, file, line, statement)
