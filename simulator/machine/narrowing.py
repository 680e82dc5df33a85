"""Which conversions could cut the upper bits off an index."""

from __future__ import annotations

from simulator.program import INTEGERS, SIZES, Op, Program

_CARRY = frozenset({"mov", "cvt", "select", "add", "sub", "mul", "fma", "min", "max", "shl", "floordiv", "div"})
"""Operations whose result is an index because their operands are numbers that make one up."""
_REDUCE = frozenset({"mod", "rem"})
"""And those that bring any number into a range: of an unsigned one, as a hash is, the lower bits are meant."""


def narrowed_indices(program: Program) -> frozenset[Op]:
    """Conversions to fewer bits whose result ends in the index of an array, through copies and arithmetic.

    A digit is none: what a shift or a mask took out of a word, and a byte, are cut off on purpose.
    """
    cut = {slot for op in program.ops() if op.kind in ("shr", "and") for slot in op.dst}
    whole, direct = (_conversions(program, kinds) for kinds in (_CARRY | _REDUCE, _CARRY))
    return frozenset(
        op
        for op in whole
        if (op.dtype[0] == "i" or op in direct) and not (op.dtype[0] == "u" and (op.dtype == "u1" or op.src[0] in cut))
    )


def _conversions(program: Program, kinds: frozenset[str]) -> frozenset[Op]:
    """Conversions to fewer bits that lead to an index through these kinds of operations."""
    indices = {slot for op in program.ops() if op.kind == "elem" for slot in op.src[1::3]}
    carriers = [op for op in program.ops() if op.kind in kinds and op.dtype in INTEGERS]
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
