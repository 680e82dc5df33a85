"""Columns for the operations of a function, where they can be had.

Numba's IR keeps the line of an operation and drops the column.  Bytecode keeps both, and Numba translates it in
order: when a line has as many subscripts (calls, operators ...) in the bytecode as in the IR, the k-th belongs to the
k-th.  Where the counts differ the column is unknown (None), never guessed.
"""

from __future__ import annotations

import dis
from collections import defaultdict
from types import CodeType

_OPERATIONS = {
    "BINARY_SUBSCR": "item",
    "STORE_SUBSCR": "store",
    "CALL": "call",
    "CALL_KW": "call",
    "BINARY_OP": "binary",
    "COMPARE_OP": "binary",
    "IS_OP": "binary",
}


def columns_of(code: CodeType, operations: list[tuple[int, str]]) -> list[int | None]:
    """The 1-based column of each (line, kind) in ``operations``; kinds: item, store, call, binary.

    >>> columns_of(compile("y[0] = x[1] + x[2]", "f", "exec"), [(1, "item"), (1, "item"), (1, "store"), (1, "call")])
    [8, 15, 1, None]
    """
    found: dict[tuple[int, str], list[int | None]] = defaultdict(list)
    for instruction in dis.get_instructions(code):
        where = instruction.positions
        kind = _OPERATIONS.get(instruction.opname)
        if kind == "binary" and instruction.argrepr == "[]":  # 3.14 has no BINARY_SUBSCR
            kind = "item"
        if kind is not None and where is not None and where.lineno is not None:
            found[where.lineno, kind].append(None if where.col_offset is None else where.col_offset + 1)
    wanted: dict[tuple[int, str], int] = defaultdict(int)
    for key in operations:
        wanted[key] += 1
    rest = {key: iter(columns) for key, columns in found.items() if wanted[key] == len(columns)}
    return [next(rest[key]) if key in rest else None for key in operations]
