"""The gate's front end: PTX -> Program, for the opcodes that a tree reduction needs.  All others are refused.

A PTX register is one slot of its canonical dtype; an instruction that reads or writes it as another type of that size
gets a ``bitcast``.  The parameters are those of Numba's ABI for arrays.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from simulator.machine.values import RANGE, wrap
from simulator.program import (
    REGISTERS,
    Alloc,
    Block,
    FromAlloc,
    FromParam,
    FromRegister,
    Op,
    Param,
    Pos,
    Program,
    Term,
    validate,
)
from tests.simulator.ptx.parse import Instruction, Kernel, parse

DTYPES = {"pred": "b1", "b32": "i4", "s32": "i4", "u32": "u4", "b64": "i8", "s64": "i8", "u64": "u8", "f32": "f4"}
"""PTX type -> dtype; of a register declared as that type, the canonical one."""

SAME_TYPES = {
    "add": "add", "sub": "sub", "div": "div", "max": "max", "min": "min", "neg": "neg",
    "and": "and", "or": "or", "xor": "xor", "not": "not",
}  # fmt: skip
"""Opcodes of which all operands have the type of the instruction, and the kind of operation that they are."""


def lower(text: str, arguments: Sequence[tuple[str, int]], shared: Sequence[str], folder: Path) -> Program:
    """The program of a PTX kernel.

    PTX has forgotten names: ``arguments`` are the arrays that the kernel takes (name, axes), ``shared`` names the
    float32 arrays that it declares, in order.  File names are relative to ``folder``.
    """
    return _Lowering(parse(text), arguments, shared, folder).run()


class _Lowering:
    def __init__(
        self, kernel: Kernel, arguments: Sequence[tuple[str, int]], shared: Sequence[str], folder: Path
    ) -> None:
        self.kernel = kernel
        self.folder = folder
        self.pos = self._pos(kernel.code[0])
        self.program = Program(kernel.name, "ptx", self.pos, tuple(name for name, _ in arguments))
        self.params = self._abi(arguments)
        self.shared = dict(zip(kernel.shared, shared, strict=True))
        for symbol, name in self.shared.items():
            size, align = kernel.shared[symbol]
            self.program.allocs[name] = Alloc(name, "shared", size, max(align, 16), "f4", (size // 4,), self.pos)
        self.registers: dict[str, int] = {}
        self.ops: list[Op] = []

    def _pos(self, instruction: Instruction) -> Pos:
        return Pos(str(self.folder / self.kernel.files[instruction.file]), instruction.line)

    def _abi(self, arguments: Sequence[tuple[str, int]]) -> dict[str, str]:
        """Numba's seven words and more per array; returns our name of each PTX parameter."""
        for k, (name, axes) in enumerate(arguments):
            words = [(name, "address"), (f"{name}.size", "size"), (f"{name}.itemsize", "itemsize")]
            shapes = [(f"{name}.shape{axis}", "shape", axis) for axis in range(axes)]
            strides = [(f"{name}.stride{axis}", "stride", axis) for axis in range(axes)]
            zeros = [(f"{name}.meminfo", "zero"), (f"{name}.parent", "zero")]
            layout = [*zeros, *words[1:], words[0], *shapes, *strides]
            self.program.params += [Param(word, "i8", role, (k,), *axis) for word, role, *axis in layout]
        names = [param.name for param in self.program.params]
        return dict(zip((name for name, _ in self.kernel.params), names, strict=True))

    # -- control ----------------------------------------------------------------------------------------------

    def run(self) -> Program:
        """Cut the code into blocks at labels and after branches."""
        code, labels = self.kernel.code, self.kernel.labels
        starts = {0, *labels.values(), *(k + 1 for k, found in enumerate(code[:-1]) if found.opcode in ("bra", "ret"))}
        name_at = {k: f"b{k}" for k in starts}
        self.program.entry = name_at[0]
        for k, instruction in enumerate(code):
            if k in starts:
                block = self.program.blocks[name_at[k]] = Block(self.ops)
            self.pos = self._pos(instruction)
            if instruction.opcode == "bra":
                block.term = self._branch(instruction, name_at[labels[instruction.operands[0]]], name_at.get(k + 1))
            elif instruction.opcode == "ret" and instruction.guard is None:
                block.term = Term("exit", self.pos)
            else:
                self._instruction(instruction)
                if k + 1 in starts:
                    block.term = Term("jump", self.pos, (name_at[k + 1],))
            if k + 1 in starts:
                self.ops = []
        return validate(self.program)

    def _branch(self, instruction: Instruction, to: str, after: str | None) -> Term:
        if instruction.guard is None:
            return Term("jump", self.pos, (to,))
        register, wanted = instruction.guard
        assert after is not None
        return Term("branch", self.pos, (to, after) if wanted else (after, to), self._register(register))

    # -- operands ---------------------------------------------------------------------------------------------

    def _emit(self, kind: str, dtype: str, *src: int, result: str | None = None, **attr: object) -> int:
        slot = self.program.slot(result or dtype)
        self.ops.append(Op(kind, dtype, (slot,), src, self.pos, attr))
        return slot

    def _register(self, name: str) -> int:
        if name not in self.registers:
            declared = self.kernel.registers[name.rstrip("0123456789")]
            self.registers[name] = self.program.slot(DTYPES[declared], name)
        return self.registers[name]

    def _as(self, slot: int, dtype: str) -> int:
        have = self.program.slots[slot].dtype
        return slot if have == dtype else self._emit("bitcast", dtype, slot, source=have)

    def _read(self, operand: str, dtype: str) -> int:
        """The slot of an operand that is read as ``dtype``."""
        if operand in self.shared:
            return self._as(self.program.slot("i8", "", FromAlloc(self.shared[operand])), dtype)
        if operand[1:] in REGISTERS:
            return self._as(self.program.slot("i4", "", FromRegister(operand[1:])), dtype)
        if operand.startswith("%"):
            return self._as(self._register(operand), dtype)
        if operand.startswith("0f"):
            return self.program.const(dtype, struct.unpack(">f", bytes.fromhex(operand[2:]))[0])
        return self.program.const(dtype, wrap(int(operand, 0), *RANGE[dtype]))

    def _write(self, register: str, slot: int) -> None:
        """Put a result, which is the last operation's or a constant, into a register."""
        target = self._register(register)
        slot = self._as(slot, self.program.slots[target].dtype)
        if self.ops and self.ops[-1].dst == (slot,):
            self.ops[-1].dst = (target,)
        else:
            self.ops.append(Op("mov", self.program.slots[target].dtype, (target,), (slot,), self.pos))

    def _address(self, operand: str) -> int:
        base, _, offset = operand.strip("[]").partition("+")
        address = self._read(base, "i8")
        return self._emit("add", "i8", address, self.program.const("i8", int(offset))) if offset else address

    # -- instructions -----------------------------------------------------------------------------------------

    def _instruction(self, found: Instruction) -> None:
        lower = getattr(self, f"_{found.opcode}_", self._same_types if found.opcode in SAME_TYPES else None)
        if lower is None or found.guard is not None or (found.modifiers and found.modifiers[-1] not in KNOWN):
            raise NotImplementedError(f"{self.pos}: {found.text}")
        lower(found)

    def _same_types(self, found: Instruction) -> None:
        to, *sources = found.operands
        dtype = DTYPES[found.modifiers[-1]]
        attr = {"nan": "ignore"} if found.opcode in ("min", "max") and dtype == "f4" else {}
        slots = [self._read(source, dtype) for source in sources]
        self._write(to, self._emit(SAME_TYPES[found.opcode], dtype, *slots, **attr))

    def _mov_(self, found: Instruction) -> None:
        to, source = found.operands
        self._write(to, self._read(source, self.program.slots[self._register(to)].dtype))

    def _cvta_(self, found: Instruction) -> None:
        self._mov_(found)  # one flat address space: generic and global addresses are the same here

    def _cvt_(self, found: Instruction) -> None:
        to, source = (DTYPES[name] for name in found.modifiers)
        value = self._read_narrow(found.operands[1], source)
        self._write(found.operands[0], self._emit("cvt", to, value, source=source))

    def _read_narrow(self, operand: str, dtype: str) -> int:
        """An operand of ``cvt``, which may be wider than its type: its low bits count."""
        have = self.program.slots[self._register(operand)].dtype
        if have[1] == dtype[1]:
            return self._read(operand, dtype)
        return self._emit("cvt", dtype, self._register(operand), source=have)

    def _mul_(self, found: Instruction) -> None:
        how, name = found.modifiers if len(found.modifiers) == 2 else ("lo", found.modifiers[0])
        if how not in ("lo", "wide"):
            raise NotImplementedError(f"{self.pos}: {found.text}")
        narrow = DTYPES[name]
        dtype = narrow if how == "lo" else f"{narrow[0]}8"
        slots = [self._read(source, narrow) for source in found.operands[1:]]
        if how == "wide":
            slots = [self._emit("cvt", dtype, slot, source=narrow) for slot in slots]
        self._write(found.operands[0], self._emit("mul", dtype, *slots))

    def _shift(self, found: Instruction) -> None:
        to, value, amount = found.operands
        name = found.modifiers[-1]
        dtype = DTYPES[name if name[0] != "b" else f"u{name[1:]}"]
        slots = self._read(value, dtype), self._read(amount, "u4")
        self._write(to, self._emit(found.opcode, dtype, *slots, amount="u4"))

    _shl_ = _shr_ = _shift

    def _setp_(self, found: Instruction) -> None:
        how, name = found.modifiers
        dtype = DTYPES[name]
        slots = [self._read(source, dtype) for source in found.operands[1:]]
        self._write(found.operands[0], self._emit("cmp", dtype, *slots, result="b1", how=how, unordered=False))

    def _selp_(self, found: Instruction) -> None:
        to, yes, no, condition = found.operands
        dtype = DTYPES[found.modifiers[-1]]
        slots = self._read(condition, "b1"), self._read(yes, dtype), self._read(no, dtype)
        self._write(to, self._emit("select", dtype, *slots))

    # -- memory and barriers ----------------------------------------------------------------------------------

    def _ld_(self, found: Instruction) -> None:
        to, source = found.operands
        if found.modifiers[0] == "param":
            return self._write(to, self.program.slot("i8", "", FromParam(self.params[source.strip("[]")])))
        dtype = DTYPES[found.modifiers[-1]]
        return self._write(to, self._emit("ld", dtype, self._address(source)))

    def _st_(self, found: Instruction) -> None:
        to, source = found.operands
        dtype = DTYPES[found.modifiers[-1]]
        self.ops.append(Op("st", dtype, (), (self._address(to), self._read(source, dtype)), self.pos))

    def _bar_(self, found: Instruction) -> None:
        if found.operands != ("0",):
            raise NotImplementedError(f"{self.pos}: {found.text}")
        self.ops.append(Op("bar", "i4", (), (), self.pos))


KNOWN = {*DTYPES, "sync"}
"""Last modifiers that are understood; any other changes what an opcode does."""
