"""Columns for the operations of a function, where they can be had.

Numba's IR keeps the line of an operation and drops the column.  Bytecode keeps both, and Numba translates it in
order: when a line has as many subscripts (calls, operators ...) in the bytecode as in the IR, the k-th belongs to the
k-th.  Where the counts differ the column is unknown (None), never guessed.
"""

from __future__ import annotations

import dis
from collections import defaultdict
from dataclasses import replace
from types import CodeType

from simulator.frontend import typed_ir as ir

_OPERATIONS = {
    "BINARY_SUBSCR": "item",
    "STORE_SUBSCR": "store",
    "CALL": "call",
    "CALL_KW": "call",
    "BINARY_OP": "binary",
    "COMPARE_OP": "binary",
    "IS_OP": "binary",
}


def add_columns(result: ir.Function, code: CodeType) -> None:
    """Give assignments and stores their column; the code knows nothing of those of inlined functions."""
    kinds = {ir.Item: "item", ir.Call: "call", ir.Binary: "binary"}
    places: list[tuple[int, int]] = []
    operations: list[tuple[int, str]] = []
    for label, statements in result.blocks.items():
        for index, statement in enumerate(statements):
            kind = "store" if isinstance(statement, ir.Store) else None
            if isinstance(statement, ir.Assign) and not _implicit(statement):
                kind = kinds.get(type(statement.value))
            if kind is not None and not statement.at.function:
                places.append((label, index))
                operations.append((statement.at.line, kind))
    for (label, index), column in zip(places, columns_of(code, operations), strict=True):
        found = result.blocks[label][index]
        assert isinstance(found, ir.Assign | ir.Store)
        result.blocks[label][index] = replace(found, at=replace(found.at, column=column))


def _implicit(statement: ir.Assign) -> bool:
    """Whether Numba made this operation up: the truth value of a condition, the items of an unpacking."""
    value = statement.value
    return statement.target.endswith("pred") or (isinstance(value, ir.Item) and value.index is None)


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
