"""Warp operations of lanes that stand together, and the reduction that a barrier may carry.

The schedulers see to it that every lane a mask names is here before these run.  Lane arithmetic follows the PTX ISA
(shfl.sync, vote.sync, match.sync).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from simulator.machine.faults import Fault, Place
from simulator.machine.memory import POISON
from simulator.machine.split import Split
from simulator.machine.values import DT, Affine, array_of
from simulator.program import Op

Value = Any
LANE = np.arange(32)
BIT = np.left_shift(np.uint32(1), np.arange(32, dtype=np.uint32))
FULL = 0xFFFF_FFFF


def bits(lanes: np.ndarray) -> np.ndarray:
    """bool (warps, 32) -> one u4 per warp, lane 0 in the lowest bit."""
    return np.asarray((lanes * BIT).sum(1, dtype=np.uint32))


def named(split: Split, mask: Value) -> np.ndarray:
    """Lanes that the active lanes of each warp name in ``mask``: bool (warps, 32)."""
    active = split.active().reshape(-1, 32)
    if type(mask) is int:
        word = np.full(len(active), mask & FULL, np.uint32)
        word[~active.any(1)] = 0
    else:
        words = split.expand(mask, "u4").reshape(-1, 32)
        word = np.bitwise_or.reduce(np.where(active, words, np.uint32(0)), axis=1)
    return np.asarray((word[:, None] & BIT) != 0)


def check_named(split: Split, mask: Value, op: Op) -> None:
    """A lane that executes a warp operation must stand in its own mask."""
    if type(mask) is int and mask & FULL == FULL:
        return
    active = split.active().reshape(-1, 32)
    words = split.expand(mask, "u4").reshape(-1, 32)
    outside = active & ((words & BIT) == 0)
    if outside.any():
        warp, lane = map(int, np.argwhere(outside)[0])
        raise _warp_fault(split, op, warp, outside[warp], lane=lane, unnamed=True)


def _warp_fault(split: Split, op: Op, row: int, lanes: np.ndarray, **facts: Any) -> Fault:
    """A warp-sync fault in warp number ``row`` of the split (counted over its blocks)."""
    per_block = split.lanes.P // 32
    block, warp = divmod(row, per_block)
    warp += split.lanes.first_thread // 32
    threads = tuple(int(k) + 32 * warp for k in np.flatnonzero(lanes))
    place = Place(op.pos, split.lanes.first_block + block, threads, op.kind)
    return Fault("warp-sync", (place,), operation=describe(op), warp=warp, **facts)


def describe(op: Op) -> str:
    """A synchronising operation as its author knows it."""
    names = {"idx": "shfl_sync", "up": "shfl_up_sync", "down": "shfl_down_sync", "bfly": "shfl_xor_sync"}
    match op.kind:
        case "shfl":
            return names[op.attr["mode"]]
        case "vote":
            return f"{op.attr['mode']}_sync"
        case "match":
            return f"match_{op.attr['mode']}_sync"
        case "bar" if op.attr.get("scope") == "grid":
            return "grid.sync"
        case "bar":
            return "syncthreads" + (f"_{op.attr['reduce']}" if op.attr.get("reduce") else "")
    return op.kind


# -- shuffles -----------------------------------------------------------------------------------------------------


def source_lanes(mode: str, amount: np.ndarray | int, clamp: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
    """Which lane each lane reads, and whether that lane was in range; arrays of shape (…, 32)."""
    limit, segment = clamp & 31, (clamp >> 8) & 31
    furthest = (LANE & segment) | (limit & ~segment)
    match mode:
        case "up":
            source = LANE - amount
            valid = source >= furthest
        case "down":
            source = LANE + amount
            valid = source <= furthest
        case "bfly":
            source = LANE ^ amount
            valid = source <= furthest
        case _:
            source = (LANE & segment) | (amount & ~segment)
            valid = source <= furthest
    return np.where(valid, source, LANE), valid


def sources(split: Split, amount: Value, clamp: Value, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """``source_lanes`` for the values of a shuffle: shape (32,) when they are uniform, else (warps, 32)."""
    if type(amount) is int and type(clamp) is int:
        return source_lanes(mode, amount & 31, clamp)
    amounts = split.expand(amount, "i4").reshape(-1, 32).astype(np.int64) & 31
    clamps = split.expand(clamp, "i4").reshape(-1, 32).astype(np.int64)
    return source_lanes(mode, amounts, clamps)


def shuffle(split: Split, value: Value, amount: Value, clamp: Value, mask: Value, op: Op) -> Value:
    """The value of another lane of the warp; an operation with two results also gets whether that lane was in range.

    A lane that reads a lane which takes no part gets poison: hardware promises nothing (PTX ISA, shfl.sync).
    """
    check_named(split, mask, op)
    source, valid = sources(split, amount, clamp, op.attr["mode"])
    _tell(split, op)
    lanes = split.lanes
    moved = _moved(split, value, source, op) if _varies(value) else value
    undefined = undefined_reads(split, source, mask)
    if undefined is not None:
        if split.group.hooks.undefined is not None:
            split.group.hooks.undefined(split, op, undefined, np.broadcast_to(source, undefined.shape))
        moved = np.where(undefined.reshape(lanes.nb, lanes.P), poison(op.dtype), array_of(moved, op.dtype))
    if len(op.dst) == 1:
        return moved
    found = np.tile(valid, lanes.P // 32)[None] if valid.ndim == 1 else valid.reshape(lanes.nb, lanes.P)
    return moved, found


def poison(code: str) -> np.generic:
    """What undefined values look like: every bit set, as in memory that nobody has written (NaN, or -1)."""
    return np.frombuffer(bytes([POISON] * 8), DT[code])[0]


def _moved(split: Split, value: Value, source: np.ndarray, op: Op) -> np.ndarray:
    lanes = split.lanes
    if source.ndim == 1:
        items = array_of(value, op.dtype)
        return np.asarray(items.reshape(-1, 32)[:, source].reshape(items.shape))
    items = split.expand(value, op.dtype).reshape(-1, 32)
    return np.take_along_axis(items, source, 1).reshape(lanes.nb, lanes.P)


def _varies(value: Value) -> bool:
    """Does a value differ from lane to lane?"""
    if type(value) is np.ndarray:
        return bool(value.shape[1] > 1)
    return type(value) is Affine and bool(value.l or value.y)


def undefined_reads(split: Split, source: np.ndarray, mask: Value) -> np.ndarray | None:
    """Active lanes that read a lane which takes no part, bool (warps, 32); None if there are none."""
    if split.mask is None and type(mask) is int and mask & FULL == FULL:
        return None
    active = split.active().reshape(-1, 32)
    words = split.expand(mask, "u4").reshape(-1, 32)
    wanted = np.broadcast_to(source, active.shape)
    there = np.take_along_axis(active, wanted, 1) & ((words >> wanted.astype(np.uint32)) & np.uint32(1) != 0)
    bad = active & ~there
    return bad if bad.any() else None


def absences(split: Split, source: np.ndarray) -> np.ndarray:
    """Why lanes ``source``, of shape (warps, 32), take no part: "no thread", "returned" or "elsewhere" each."""
    group, (warps, _) = split.group, source.shape
    first = 32 * (np.arange(warps) % (split.lanes.P // 32)) + split.lanes.first_thread
    gone = np.take_along_axis(group.exited[group.region(split)].reshape(-1, 32), source, 1)
    nobody = first[:, None] + source >= group.geometry.threads
    return np.where(nobody, "no thread", np.where(gone, "returned", "elsewhere"))


def _tell(split: Split, op: Op) -> None:
    if split.group.on_warp is not None:
        split.group.on_warp(split, op)


# -- votes --------------------------------------------------------------------------------------------------------


def _per_lane(split: Split, words: np.ndarray) -> np.ndarray:
    """One word per warp -> one per lane, shape (blocks, threads)."""
    return np.repeat(words, 32).reshape(split.lanes.nb, split.lanes.P)


def vote(split: Split, predicate: Value, mask: Value, op: Op) -> Value:
    """all, any, eq (one bool) or ballot (one bit a lane) over the lanes that each lane's mask names."""
    check_named(split, mask, op)
    _tell(split, op)
    active = split.active().reshape(-1, 32)
    true = split.expand(predicate, "b1").reshape(-1, 32) & active
    yes, no = _per_lane(split, bits(true)), _per_lane(split, bits(active & ~true))
    members = split.expand(mask, "u4")
    match op.attr["mode"]:
        case "ballot":
            return yes & members
        case "any":
            return (yes & members) != 0
        case "all":
            return (no & members) == 0
        case _:
            return ((no & members) == 0) | ((yes & members) == 0)


def match(split: Split, value: Value, mask: Value, op: Op) -> Value:
    """Lanes whose value has the same bits; ``all`` gives the mask and True only if every lane agrees."""
    check_named(split, mask, op)
    _tell(split, op)
    lanes = split.lanes
    items = np.ascontiguousarray(split.expand(value, op.dtype)).reshape(-1, 32)
    items = items.view(f"u{items.dtype.itemsize}")
    active = split.active().reshape(-1, 32)
    members = split.expand(mask, "u4").reshape(-1, 32)
    taking_part = ((members[:, :, None] & BIT) != 0) & active[:, None, :]
    same = (items[:, :, None] == items[:, None, :]) & taking_part
    if op.attr["mode"] == "any":
        return (same * BIT).sum(2, dtype=np.uint32).reshape(lanes.nb, lanes.P)
    agree = (same == taking_part).all(2)
    found = np.where(agree, (taking_part * BIT).sum(2, dtype=np.uint32), np.uint32(0))
    return found.reshape(lanes.nb, lanes.P), agree.reshape(lanes.nb, lanes.P)


def active_mask(split: Split) -> np.ndarray:
    """The lanes of this split, one bit each."""
    return _per_lane(split, bits(split.active().reshape(-1, 32)))


def sync_warp(split: Split, mask: Value, op: Op) -> None:
    """The meeting itself is the schedulers' work; here only the mask is checked."""
    check_named(split, mask, op)
    _tell(split, op)


def apply(split: Split, op: Op, operands: Sequence[Value]) -> tuple[Value, ...]:
    """Run a warp operation by its description; generated code calls the functions above directly."""
    match op.kind:
        case "shfl":
            found = shuffle(split, operands[0], operands[1], operands[2], operands[3], op)
        case "vote":
            found = vote(split, operands[0], operands[1], op)
        case "match":
            found = match(split, operands[0], operands[1], op)
        case _:
            sync_warp(split, operands[0], op)
            return ()
    return found if len(op.dst) > 1 else (found,)


def same_source(one: Op, other: Op) -> bool:
    """Are two operations one in the source?  Python's compiler copies the test of a loop, and what stands in it."""
    if one is other:
        return True
    if one.pos.column is None:  # two operations may share a line
        return False
    return (one.kind, one.dtype, one.pos) == (other.kind, other.dtype, other.pos) and one.attr == other.attr


# -- barriers -----------------------------------------------------------------------------------------------------


def reduce_at_barrier(passing: Sequence[tuple[Split, Op]]) -> None:
    """Give the splits that pass a reducing barrier its result: count, and, or over the block's threads."""
    group = passing[0][0].group
    yes = np.zeros(group.nb, np.int64)
    everyone = np.zeros(group.nb, np.int64)
    for split, op in passing:
        rows = _rows(split)
        active = split.active()
        np.add.at(yes, rows, (split.expand(split.values[op.src[0]], "b1") & active).sum(1))
        np.add.at(everyone, rows, active.sum(1))
    match passing[0][1].attr["reduce"]:
        case "count":
            result = yes
        case "and":
            result = (yes == everyone).astype(np.int64)
        case _:
            result = (yes > 0).astype(np.int64)
    for split, op in passing:
        split.values[op.dst[0]] = result.astype(np.int32)[_rows(split)][:, None]


def _rows(split: Split) -> np.ndarray:
    first = split.lanes.first_block - split.group.first_block
    return np.arange(first, first + split.lanes.nb)
