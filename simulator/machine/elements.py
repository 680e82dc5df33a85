"""Addresses of elements: index, extent and stride of each axis, added up to bytes.

Only the active lanes count.  An index outside its axis is found here, though its address lie inside the array; negative
signed ones count from the end, as Numba compiles them.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from simulator.machine.addresses import place
from simulator.machine.faults import Fault
from simulator.machine.going_on import go_on
from simulator.machine.memory import Access
from simulator.machine.split import Split
from simulator.machine.values import Affine

Value = Any


def element1(
    split: Split, base: Value, index: Value, extent: Value, stride: Value, access: Access, multiply: Any
) -> Value:
    """Byte address of element ``index`` of a one-dimensional array."""
    if type(index) is Affine and type(extent) is type(stride) is type(base) is int:
        if 0 <= index.lo and index.hi < extent and stride > 0:
            return index.scaled(stride, base)  # a place inside the array: no overflow
    return _along(split, base, access, multiply, 0, index, extent, stride)


def element(split: Split, base: Value, access: Access, multiply: Any, *triples: Value) -> Value:
    """Byte address of an element: ``triples`` are index, extent and stride of each axis."""
    for k in range(0, len(triples), 3):
        index, extent, stride = triples[k : k + 3]
        kind = type(index)
        if type(extent) is type(stride) is int:
            if kind is int and 0 <= index < extent:
                base = base + index * stride  # a place inside the array: no overflow
                continue
            if kind is Affine and 0 <= index.lo and index.hi < extent and stride > 0:
                base = index.scaled(stride, base) if type(base) is int else base + index.scaled(stride, 0)
                continue
        base = _along(split, base, access, multiply, k // 3, index, extent, stride)
    return base


def _along(
    split: Split, base: Value, access: Access, multiply: Any, axis: int, index: Value, extent: Value, stride: Value
) -> Value:
    """Byte address after a step along one axis."""
    try:
        return base + multiply(_checked(split, index, extent, axis, access), stride)
    except Fault as fault:
        _measure(fault, split, base, access, index, stride)
        return go_on(fault, split, base, access, _along, split, base, access, multiply, axis, index, extent, stride)


def _measure(fault: Fault, split: Split, base: Value, access: Access, index: Value, stride: Value) -> None:
    """Behind the end of dynamic shared memory: how many bytes the launch asked for, how many this access needs."""
    alloc = split.group.program.allocs.get(access.name)
    if alloc is None or not alloc.dynamic or len(access.op.attr["signed"]) > 1 or fault.lanes is None:
        return
    asked, last = split.group.geometry.dynamic_shared, fault.facts["extent"]
    if type(base) is not int or type(stride) is not int or fault.facts["index"] < last:
        return
    start = base - split.group.address_of(alloc.name)
    if start + (last + 1) * stride > asked:  # no part of it that ends before
        most = int(split.expand(index, "i8")[fault.lanes].max()) + access.op.attr.get("run", (1,))[0]
        fault.facts.update(asked=asked, needed=start + most * stride)


def run_start(split: Split, base: Value, access: Access, multiply: Any, *triples: Value) -> Value:
    """Byte address of the first of several elements side by side along the last axis, all of them inside it."""
    count, itemsize = access.op.attr["run"]
    *others, extent, stride = triples
    first = element(split, base, access, multiply, *others, extent - (count - 1), stride)
    apart = stride != itemsize if type(stride) is int else (split.expand(stride, "i8") != itemsize) & split.active()
    if count > 1 and np.any(apart):
        raise Fault(
            "unsupported",
            (place(split, split.active(), access),),
            construct=f"one access of {count} elements of {access.name} that do not lie side by side",
            mend="pass an array whose last axis is contiguous",
        )
    return first


def _checked(split: Split, index: Value, extent: Value, axis: int, access: Access) -> Value:
    """An index within its extent: negative signed ones wrap once, as Numba compiles them."""
    kind = type(index)
    if type(extent) is int:
        if kind is int:
            if 0 <= index < extent:
                return index
            if access.op.attr["signed"][axis] and "run" not in access.op.attr and -extent <= index < 0:
                if split.group.hooks.wrap is not None:
                    split.group.hooks.wrap(split, access, axis, split.active(), index, extent)
                return index + extent
        elif kind is Affine:
            if 0 <= index.lo and index.hi < extent:
                return index
            low, high = split.bounds(index)
            if 0 <= low and high < extent:
                return index
        elif index.dtype.itemsize == 8:
            # One comparison does both bounds: a negative index is huge as an unsigned number.  Counting is several
            # times faster than all().
            if np.count_nonzero(index.view("u8") < extent) == index.size:
                return index.view("i8")
    return _checked_lanes(split, index, extent, axis, access)


def _checked_lanes(split: Split, index: Value, extent: Value, axis: int, access: Access) -> Value:
    signed = access.op.attr["signed"][axis]
    lanes = split.expand(index, "i8" if signed else "u8")
    extents = split.expand(extent, "i8")
    if signed:
        wrapped = lanes if "run" in access.op.attr else np.where(lanes < 0, lanes + extents, lanes)
        bad = (wrapped < 0) | (wrapped >= extents)
    else:
        wrapped = lanes
        bad = lanes >= np.maximum(extents, 0).astype("u8")
    if split.mask is not None:
        bad = bad & split.mask
    if bad.any():
        _outside_axis(split, bad, int(lanes[bad][0]), int(extents[bad][0]), axis, access)
    if signed and (tell := split.group.hooks.wrap) is not None:
        negative = (lanes != wrapped) & split.active()
        if negative.any():
            tell(split, access, axis, negative, lanes, extents)
    return wrapped.astype("i8", copy=False)


def _outside_axis(split: Split, bad: np.ndarray, index: int, extent: int, axis: int, access: Access) -> NoReturn:
    facts: dict[str, Any] = {}
    if (run := access.op.attr.get("run")) is not None:
        count = run[0] if axis == len(access.op.attr["signed"]) - 1 else 1
        extent += count - 1  # ``extent`` was that of the places where all of them fit
        facts = {"run": count, "first": index}
        index = index if index < 0 else max(index, extent)
    raise Fault(
        "out-of-bounds",
        (place(split, bad, access),),
        array=access.name,
        axis=axis,
        index=index,
        extent=extent,
        count=int(bad.sum()),
        **facts,
    ).of(bad)
