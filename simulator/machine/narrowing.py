"""Which conversions could cut the upper bits off an index."""

from __future__ import annotations

from simulator.program import INTEGERS, SIZES, Op, Program

_CARRY = frozenset(
    {"mov", "cvt", "select", "add", "sub", "mul", "fma", "min", "max", "shl", "floordiv", "mod", "div", "rem"}
)
"""Operations whose result is an index because their operands are numbers that make one up."""


def narrowed_indices(program: Program) -> frozenset[Op]:
    """Conversions to fewer bits whose result ends in the index of an array, through copies and arithmetic."""
    indices = {slot for op in program.ops() if op.kind == "elem" for slot in op.src[1::3]}
    carriers = [op for op in program.ops() if op.kind in _CARRY and op.dtype in INTEGERS]
    grown = True
    while grown:
        before = len(indices)
        for op in carriers:
            if indices.intersection(op.dst):
                indices.update(slot for slot in op.src if program.slots[slot].dtype in INTEGERS)
        grown = len(indices) > before
    return frozenset(op for op in carriers if op.kind == "cvt" and _narrows(op) and indices.intersection(op.dst))


def _narrows(op: Op) -> bool:
    source = op.attr["source"]
    return source in INTEGERS and SIZES[source] > SIZES[op.dtype]
