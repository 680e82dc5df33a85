"""Machine code, counted: what a kernel needs of the hardware, read off a cubin by NVIDIA's disassemblers.

A count is of the code as it stands, not of what runs: an instruction in a loop counts once, or as often as the compiler
has unrolled the loop.  ``Figures.loop`` is what remains comparable then.  NOP, which pads the end of every kernel, does
not count.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.machine_code.toolchain import run

_RESOURCES = re.compile(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)")
_HELPER = "__cuda_"
_GLOBAL_LOADS, _GLOBAL_STORES = ("LDG", "LD"), ("STG", "ST")
_FLOAT64 = re.compile(r"D(ADD|MUL|FMA|SETP|MNMX|SET|MMA)|MUFU\.\w+64H|.*\.F64")


BYTES = 16
"""Of one instruction of machine code."""


class Instruction(NamedTuple):
    """One line of machine code: ``LDG.E.128`` and ``R4,desc[UR4][R2.64]``."""

    opcode: str
    operands: str

    @property
    def kind(self) -> str:
        """The opcode without its modifiers: ``LDG``."""
        return self.opcode.partition(".")[0]

    def has(self, modifier: str) -> bool:
        return modifier in self.opcode.split(".")[1:]


@dataclass(frozen=True)
class Figures:
    """What the machine code of one kernel amounts to."""

    instructions: int
    registers: int
    loads: int
    """Global loads of 16 bytes a lane."""
    stores: int
    """Global stores of 16 bytes a lane."""
    narrow: int
    """Global loads and stores of fewer bytes."""
    shuffles: int
    barriers: int
    stack: int
    """Bytes of stack and local memory of a thread."""
    spills: int
    """Loads from and stores to local memory, where spilled registers go."""
    float64: int
    calls: int
    loop: float
    """Instructions for each access of 16 bytes in the loops over a row, that which reads plus that which writes; 0
    without loops"""
    generic: int
    """Accesses whose address space the compiler lost: the hardware finds out at each whether it is shared memory."""


def figures(code: list[Instruction], registers: int, stack: int) -> Figures:
    """The counts of a kernel's instructions."""
    kinds = Counter(instruction.kind for instruction in code)
    loads, stores = wide(code, _GLOBAL_LOADS), wide(code, _GLOBAL_STORES)
    return Figures(
        instructions=len(code) - kinds["NOP"],
        registers=registers,
        loads=loads,
        stores=stores,
        narrow=sum(kinds[kind] for kind in (*_GLOBAL_LOADS, *_GLOBAL_STORES)) - loads - stores,
        shuffles=kinds["SHFL"],
        barriers=kinds["BAR"],
        stack=stack,
        spills=kinds["LDL"] + kinds["STL"],
        float64=sum(_FLOAT64.match(instruction.opcode) is not None for instruction in code),
        calls=kinds["CALL"],
        loop=round(per_access(code), 2),
        generic=kinds["LD"] + kinds["ST"],
    )


def wide(code: list[Instruction], kinds: tuple[str, ...]) -> int:
    """How many instructions of these kinds move 16 bytes a lane."""
    return sum(instruction.kind in kinds and instruction.has("128") for instruction in code)


def per_access(code: list[Instruction]) -> float:
    """Instructions per access of 16 bytes, of the loop that reads a row plus of the one that writes it.

    Where a compiler has made several of one, an unrolled one and another for the rest, the one with most accesses runs.
    """
    best: dict[bool, tuple[int, float]] = {}
    for loop in loops(code):
        loads, stores = wide(loop, _GLOBAL_LOADS), wide(loop, _GLOBAL_STORES)
        if loads + stores:
            candidate = loads + stores, len(loop) / (loads + stores)
            best[stores > 0] = max(best.get(stores > 0, (0, 0.0)), candidate)
    return sum(share for _, share in best.values())


def loops(code: list[Instruction]) -> Iterator[list[Instruction]]:
    """From the target of each branch backwards up to the branch."""
    for position, instruction in enumerate(code):
        target = re.search(r"0x[0-9a-f]+$", instruction.operands) if instruction.kind == "BRA" else None
        if target and int(target[0], 16) // BYTES < position:
            yield code[int(target[0], 16) // BYTES : position + 1]


def read(cubin: bytes) -> dict[str, Figures]:
    """The figures of each kernel in a cubin, by its mangled name.

    The compiler's own functions (``__cuda_...``, the slow path of a division say) count with a kernel that calls; such
    a kernel has to be alone.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "code.cubin"
        path.write_bytes(cubin)
        codes = dict(_functions(run("nvdisasm", "-json", path)))
        resources = _RESOURCES.findall(run("cuobjdump", "-res-usage", path))
    helpers = [instruction for name in codes if name.startswith(_HELPER) for instruction in codes[name]]
    result = {}
    for name, registers, stack, local in resources:
        if not name.startswith(_HELPER):
            result[name] = figures(codes[name], int(registers), int(stack) + int(local))
            if result[name].calls:
                result[name] = figures(codes[name] + helpers, int(registers), int(stack) + int(local))
    if len(result) != 1 and any(found.calls for found in result.values()):
        raise ValueError(f"one of {len(result)} kernels calls functions: whose are they?")
    return result


def _functions(text: str) -> Iterator[tuple[str, list[Instruction]]]:
    _, functions = json.loads(text)
    for function in functions:
        lines = function["sass-instructions"]
        yield function["function-name"], [Instruction(line["opcode"], line.get("operands", "")) for line in lines]
