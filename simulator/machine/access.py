"""Loads and stores, called by the generated code.

An affine address that stays inside one allocation costs no work per lane: it becomes a strided view of the bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.machine.addresses import in_turn, place, positions, resolve, several, strides
from simulator.machine.faults import Fault
from simulator.machine.going_on import go_on, only
from simulator.machine.memory import Access, Allocation
from simulator.machine.split import Split
from simulator.machine.unaligned import lies_askew, read_bytes, write_bytes
from simulator.machine.values import Affine, array_of
from simulator.program import FLOATS

Value = Any


def load(split: Split, address: Value, access: Access) -> Value:
    """One element per lane; lanes that are off get anything."""
    if type(address) is Affine and address.l and (seen := _read_row(split, address, access)) is not None:
        return seen
    try:
        if type(address) is np.ndarray and (allocations := several(split, address, access)) is not None:
            return _load_parts(split, address, access, allocations)
        found, address = resolve(split, address, access)
    except Fault as fault:
        return go_on(fault, split, address, access, load, split, address, access)
    return read(split, address, access, found, access.dtype)


def _in_row(split: Split, address: Affine, access: Access) -> Allocation | None:
    """The allocation, in the usual case that takes one step: rows of aligned lanes where the operation was before."""
    found = access.cached
    if (
        found is None
        or address.lo < found.base
        or found.end < address.hi + access.nbytes
        or found.lane_stride
        or (found.block_stride and split.group.nb > 1)
        or split.lanes.ny > 1
        or (address.b | address.a | address.l) & (access.align - 1)
    ):
        return None
    return found


def _read_row(split: Split, address: Affine, access: Access) -> np.ndarray | None:
    """``load`` in the usual case; else None."""
    found, lanes = _in_row(split, address, access), split.lanes
    if found is None:
        return None
    if split.group.on_access is not None:
        split.group.on_access(split, access, found, address)
    shape = (lanes.nb if address.a else 1, lanes.P)
    return np.ndarray(shape, access.numpy, found.data, address.b - found.base, (address.a, address.l)).copy()


def _write_row(split: Split, address: Affine, access: Access, value: Value) -> bool:
    """``store`` in the usual case, for all lanes and to a place each; else False."""
    found, lanes = _in_row(split, address, access), split.lanes
    if (
        found is None
        or found is not access.writable
        or split.mask is not None
        or not disjoint(lanes, address.a, 0, address.l, access.itemsize)
    ):
        return False
    if split.group.on_access is not None:
        split.group.on_access(split, access, found, address)
    if split.group.hooks.store is not None:
        split.group.hooks.store(split, access, found, address, (value,))
    split.group.memory.change(found, address, access.nbytes)
    shape = (lanes.nb, lanes.P)
    target: np.ndarray = np.ndarray(shape, access.numpy, found.data, address.b - found.base, (address.a, address.l))
    target[...] = array_of(value, access.dtype)
    return True


def load_many(split: Split, address: Value, access: Access) -> tuple[Value, ...]:
    """``access.count`` consecutive elements per lane as one access."""
    try:
        if type(address) is np.ndarray and (allocations := several(split, address, access)) is not None:
            steps = range(access.count)
            return tuple(_load_parts(split, address + k * access.itemsize, access, allocations, k == 0) for k in steps)
        found, address = resolve(split, address, access)
    except Fault as fault:
        many: tuple[Value, ...] = go_on(fault, split, address, access, load_many, split, address, access)
        return many
    return tuple(read(split, address + k * access.itemsize, access, found, access.dtype) for k in range(access.count))


def _load_parts(
    split: Split, address: Value, access: Access, allocations: list[tuple[Allocation, np.ndarray]], report: bool = True
) -> np.ndarray:
    result = np.zeros((split.lanes.nb, split.lanes.P), access.numpy)
    for found, mask, inside in in_turn(split, address, access, allocations, report):
        result = np.where(mask, array_of(read(split, inside, access, found, access.dtype), access.dtype), result)
    return result


def read(split: Split, address: Value, access: Access, found: Allocation, code: str) -> Value:
    """One element per lane of an allocation that the active lanes stay inside; reports to nobody."""
    lanes, dtype = split.lanes, access.numpy
    if access.align < access.itemsize and lies_askew(address, access):
        return read_bytes(split, address, access, found)
    kind = type(address)
    if kind is not np.ndarray and not (found.word_stride and kind is Affine):
        first, block, row, column = strides(split, address, found)
        if lanes.nb == 1:
            block = 0
        if not (block or row or column):
            value = found.typed(code)[first >> access.shift]
            return value if code in FLOATS else value.item()
        if kind is Affine and not (found.base <= address.lo and address.hi + access.itemsize <= found.end):
            return _read_box(split, first, block, column, access, found)
        nb = lanes.nb if block else 1
        if not (row or column):
            return np.ndarray((nb, 1), dtype, found.data, first, (block, 0)).copy()
        if lanes.ny == 1:
            return np.ndarray((nb, lanes.P), dtype, found.data, first, (block, column)).copy()
        rows = np.ndarray((nb, lanes.ny, lanes.nx), dtype, found.data, first, (block, row, column))
        return rows.reshape(nb, lanes.P).copy()
    return found.typed(code).take(positions(split, address, found, access.shift))


def _read_box(split: Split, first: int, block: int, column: int, access: Access, found: Allocation) -> np.ndarray:
    """Active lanes are inside the allocation, others are not: read the box of the active ones."""
    lanes = split.lanes
    top, bottom, left, right = split.box()
    shape = (bottom - top + 1, right - left + 1)
    window = np.ndarray(shape, access.numpy, found.data, first + top * block + left * column, (block, column))
    result = np.zeros((lanes.nb, lanes.P), access.numpy)
    result[top : bottom + 1, left : right + 1] = window
    return result


def store(split: Split, address: Value, access: Access, *values: Value) -> None:
    """Write one element per lane and value; of lanes that write one place, the last one wins."""
    if type(address) is Affine and len(values) == 1 and _write_row(split, address, access, values[0]):
        return
    try:
        if type(address) is np.ndarray and (allocations := several(split, address, access)) is not None:
            for found, mask, inside in in_turn(split, address, access, allocations):
                with only(split, mask):
                    _write_all(split, inside, access, found, values)
            return
        found, address = resolve(split, address, access)
    except Fault as fault:
        go_on(fault, split, address, access, store, split, address, access, *values)
        return
    _write_all(split, address, access, found, values)


def _write_all(split: Split, address: Value, access: Access, found: Allocation, values: tuple[Value, ...]) -> None:
    if not (found.views[0] if len(found.views) == 1 else found.view(access.name)).writable:
        lanes = split.active()
        raise Fault("read-only", (place(split, lanes, access),), array=access.name or found.name, space=found.space)
    access.writable = found
    if split.group.hooks.store is not None:
        split.group.hooks.store(split, access, found, address, values)
    split.group.memory.change(found, address, access.nbytes)
    for k, value in enumerate(values):
        write(split, address + k * access.itemsize if k else address, access, found, value)


def write(split: Split, address: Value, access: Access, found: Allocation, value: Value) -> None:
    """Write one element per active lane, which all stay inside the allocation; reports to nobody."""
    lanes, mask, dtype = split.lanes, split.mask, access.numpy
    if access.align < access.itemsize and lies_askew(address, access):
        write_bytes(split, address, access, found, value)
        return
    if type(address) is not np.ndarray and not (found.word_stride and type(address) is Affine):
        first, block, row, column = strides(split, address, found)
        if disjoint(lanes, block, row, column, access.itemsize):
            if type(address) is Affine and mask is not None and lanes.ny == 1:
                _write_box(split, first, block, column, access, found, value)
                return
            target = np.ndarray(
                (lanes.nb, lanes.ny, lanes.nx), dtype, found.data, first, (block if lanes.nb > 1 else 0, row, column)
            )
            value = array_of(value, access.dtype)
            if value.shape:
                value = split.expand(value, access.dtype).reshape(target.shape)
            if mask is None:
                target[...] = value
            else:
                np.copyto(target, value, where=mask.reshape(target.shape), casting="unsafe")
            return
    where = positions(split, address, found, access.shift)
    if mask is None and type(value) is not np.ndarray and type(value) is not Affine:
        found.typed(access.dtype)[where] = value
        return
    where = split.expand(where, "i8")
    value = split.expand(value, access.dtype)
    if mask is not None:
        where, value = where[mask], value[mask]
    found.typed(access.dtype)[where] = value


def _write_box(
    split: Split, first: int, block: int, column: int, access: Access, found: Allocation, value: Value
) -> None:
    """Write the active lanes; only the box around them need be inside the allocation."""
    lanes, mask = split.lanes, split.mask
    assert mask is not None
    top, bottom, left, right = split.box()
    shape = (bottom - top + 1, right - left + 1)
    block = block if lanes.nb > 1 else 0
    target = np.ndarray(shape, access.numpy, found.data, first + top * block + left * column, (block, column))
    box = (slice(top, bottom + 1), slice(left, right + 1))
    value = array_of(value, access.dtype)
    if value.shape:
        value = split.expand(value, access.dtype)[box]
    np.copyto(target, value, where=mask[box], casting="unsafe")


def disjoint(lanes: Any, block: int, row: int, column: int, itemsize: int) -> bool:
    """Can no two lanes write the same place?"""
    if abs(column) < itemsize or (lanes.ny > 1 and abs(row) < abs(column) * lanes.nx):
        return False
    span = abs(row) * lanes.ny if lanes.ny > 1 else abs(column) * lanes.nx
    return lanes.nb == 1 or abs(block) >= span
