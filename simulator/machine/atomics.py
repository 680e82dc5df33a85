"""Atomics, called by the generated code: one read-modify-write per active lane, in lane order where lanes meet."""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.machine.addresses import in_turn, place, positions, resolve, several
from simulator.machine.faults import Fault
from simulator.machine.going_on import go_on, only
from simulator.machine.memory import Access, Allocation
from simulator.machine.split import Split

Value = Any


def atomic(split: Split, address: Value, access: Access, wanted: bool, *operands: Value) -> Value:
    """A read-modify-write per active lane, in lane order where lanes meet; returns the old values if ``wanted``."""
    try:
        if type(address) is np.ndarray and (allocations := several(split, address, access)) is not None:
            return _atomic_parts(split, address, access, allocations, wanted, operands)
        found, address = resolve(split, address, access)
    except Fault as fault:
        return go_on(fault, split, address, access, atomic, split, address, access, wanted, *operands)
    return _update(split, address, access, found, wanted, operands)


def _atomic_parts(
    split: Split,
    address: np.ndarray,
    access: Access,
    allocations: list[tuple[Allocation, np.ndarray]],
    wanted: bool,
    operands: tuple[Value, ...],
) -> Value:
    """Lanes that touch several allocations: those of each in turn, for lanes meet in one allocation only."""
    result = np.zeros((split.lanes.nb, split.lanes.P), access.numpy)
    for found, mask, inside in in_turn(split, address, access, allocations):
        with only(split, mask):
            old = _update(split, inside, access, found, wanted, operands)
        if wanted:
            result[mask] = old[mask]
    return result if wanted else None


def _update(
    split: Split, address: Value, access: Access, found: Allocation, wanted: bool, operands: tuple[Value, ...]
) -> Value:
    """The read-modify-write in one allocation, which all active lanes stay inside."""
    if not found.view(access.name).writable:
        raise Fault(
            "read-only", (place(split, split.active(), access),), array=access.name or found.name, space=found.space
        )
    active = split.active()
    shape = active.shape
    where = split.expand(positions(split, address, found, access.shift), "i8")[active]
    given = [split.expand(operand, access.dtype)[active] for operand in operands]
    memory = found.typed(access.dtype)
    before = memory[where]
    old = _apply(access.op.attr["op"], memory, where, given)
    if memory[where].tobytes() != before.tobytes():
        split.group.memory.change(found, address, access.nbytes)
    if split.group.hooks.atomic is not None:
        wrote = active
        if access.op.attr["op"] == "cas":
            wrote = active.copy()
            wrote[active] = old == given[0]
        split.group.hooks.atomic(split, access, found, address, wrote)
    if not wanted:
        return None
    result = np.zeros(shape, access.numpy)
    result[active] = old
    return result


def _apply(how: str, memory: np.ndarray, where: np.ndarray, operands: list[np.ndarray]) -> np.ndarray:
    """Apply lane after lane; lanes that share no place go together.  Returns what each lane saw."""
    if len(where) == 1:
        alone = memory[where]
        memory[where] = _combine(how, alone, operands)
        return alone
    if bool((where == where[0]).all()) and _is_chain(how, memory.dtype, operands):
        seen = _chain(how, memory[where[0]], operands)
        memory[where[0]] = seen[-1]
        return seen[:-1]
    order = np.argsort(where, kind="stable")
    same = where[order]
    starts = np.flatnonzero(np.concatenate(([True], same[1:] != same[:-1])))
    counts = np.diff(starts, append=len(where))
    old = np.empty(len(where), memory.dtype)
    if len(starts) < counts.max() and _is_chain(how, memory.dtype, operands):
        for first, count in zip(starts, counts, strict=True):
            lanes = order[first : first + count]
            seen = _chain(how, memory[same[first]], [operand[lanes] for operand in operands])
            old[lanes], memory[same[first]] = seen[:-1], seen[-1]
        return old
    ranks = np.empty(len(where), np.int64)
    ranks[order] = np.arange(len(where)) - np.repeat(starts, counts)
    by_rank = np.argsort(ranks, kind="stable")
    ends = np.bincount(ranks).cumsum()
    for lanes in np.split(by_rank, ends[:-1]):
        here = where[lanes]
        old[lanes] = memory[here]
        memory[here] = _combine(how, old[lanes], [operand[lanes] for operand in operands])
    return old


_CHAINS = {
    "add": np.add, "sub": np.subtract, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "nanmax": np.fmax, "nanmin": np.fmin,
}  # fmt: skip


def _is_chain(how: str, dtype: np.dtype[Any], operands: list[np.ndarray]) -> bool:
    """Is there one NumPy call for many lanes that meet at one place?"""
    if how == "cas":
        return all(bool((operand == operand[0]).all()) for operand in operands)
    return how == "exch" or (how in _CHAINS and dtype.itemsize >= 4)


def _chain(how: str, start: Any, operands: list[np.ndarray]) -> np.ndarray:
    """What lies at a place before each of its lanes, and after the last; what ``_combine`` gives lane after lane."""
    chain = np.concatenate(([start], operands[-1]), dtype=operands[-1].dtype)
    if how == "cas":
        chain[1:] = operands[1][0] if start == operands[0][0] else start
    elif how != "exch":
        chain = _CHAINS[how].accumulate(chain, dtype=chain.dtype)  # NumPy would add up int32 as int64
    return chain


def _combine(how: str, old: np.ndarray, operands: list[np.ndarray]) -> np.ndarray:
    """The new value of each place.  max and min keep a NaN that is there and ignore one that comes (as Numba does)."""
    value = operands[-1]
    match how:
        case "add":
            return old + value
        case "sub":
            return old - value
        case "max" | "min":
            better = np.fmax(old, value) if how == "max" else np.fmin(old, value)
            return np.where(old != old, old, better)
        case "nanmax":
            return np.fmax(old, value)
        case "nanmin":
            return np.fmin(old, value)
        case "and":
            return old & value
        case "or":
            return old | value
        case "xor":
            return old ^ value
        case "inc":
            return np.where(old >= value, old.dtype.type(0), old + old.dtype.type(1))
        case "dec":
            return np.where((old == 0) | (old > value), value, old - old.dtype.type(1))
        case "exch":
            return value
        case "cas":
            return np.where(old == operands[0], value, old)
    raise AssertionError(how)
