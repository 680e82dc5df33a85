"""Addresses: which element, which allocation, which bytes behind it.

Only the active lanes count; lanes that are off may hold any address.  Everything that can be wrong with an address is
found here: an index outside its axis, bytes outside every allocation, an address that is not aligned.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from simulator.machine.faults import Fault, Place
from simulator.machine.memory import Access, Allocation
from simulator.machine.split import Split
from simulator.machine.values import Affine, array_of

Value = Any
NEAR = 1 << 20
"""Bytes by which an address may miss an allocation and still be told as past its end."""


def place(split: Split, bad: np.ndarray, access: Access) -> Place:
    """The first lane of ``bad`` (bool, one per lane) as a place in a message."""
    row, lane = np.argwhere(bad)[0]
    thread = int(lane) + split.lanes.first_thread
    return Place(access.pos, split.lanes.first_block + int(row), (thread,), access.purpose)


# -- which allocation ---------------------------------------------------------------------------------------------


def resolve(split: Split, address: Value, access: Access) -> tuple[Allocation, Value]:
    """The allocation that the active lanes touch, and an address that is inside it for every lane.

    Reports the access to the observers.  The allocation that was last hit is tried first.
    """
    found = access.cached
    kind = type(address)
    bits = access.align - 1
    if kind is int:
        low = high = address
        bits &= address
    elif kind is Affine:
        low, high = address.lo, address.hi
        bits &= address.b | address.a | address.l | address.y
        if split.mask is not None and (found is None or low < found.base or high + access.nbytes > found.end):
            low, high = split.bounds(address)
    else:
        low, high = int(address.min()), int(address.max())
    if found is None or low < found.base or high + access.nbytes > found.end:
        found, address = _locate(split, address, access, low, high)
    if bits:
        check_alignment(split, address, access, found)
    if split.group.on_access is not None:
        split.group.on_access(split, access, found, address)
    return found, address


def _locate(split: Split, address: Value, access: Access, low: int, high: int) -> tuple[Allocation, Value]:
    """Slow path: look at the active lanes alone, and give the others an address that does no harm."""
    found = split.group.memory.find(low, high + access.nbytes)
    if found is not None:
        access.cached = found
        return found, address
    lanes = split.expand(address, "i8")
    mask = split.mask
    active = lanes if mask is None else lanes[mask]
    low, high = int(active.min()), int(active.max())
    found = split.group.memory.find(low, high + access.nbytes)
    if found is None:
        _out_of_bounds(split, lanes, access)
    access.cached = found
    if mask is None:
        return found, address
    return found, np.where(mask, lanes, low)


def _out_of_bounds(split: Split, lanes: np.ndarray, access: Access) -> NoReturn:
    outside = ~_inside(split, lanes, access)
    bad = outside if split.mask is None else outside & split.mask
    row, lane = np.argwhere(bad)[0]
    raise Fault(
        "out-of-bounds",
        (place(split, bad, access),),
        array=access.name,
        address=int(lanes[row, lane]),
        nbytes=access.nbytes,
        count=int(bad.sum()),
        nearest=_nearest(split, int(lanes[row, lane]), access.nbytes),
    )


def _nearest(split: Split, address: int, nbytes: int) -> tuple[str, int, int] | None:
    """The allocation that an address missed by least: name, bytes, and by how much it ends past it (starts before)."""
    found = []
    for candidate in split.group.memory.allocations:
        past = address - candidate.base if address < candidate.base else address + nbytes - candidate.end
        found.append((abs(past), (candidate.name, candidate.end - candidate.base, past)))
    missed, nearest = min(found, default=(0, None))
    return nearest if missed < NEAR else None


def _inside(split: Split, lanes: np.ndarray, access: Access) -> np.ndarray:
    inside = np.zeros(lanes.shape, bool)
    for candidate in split.group.memory.allocations:
        inside |= (lanes >= candidate.base) & (lanes + access.nbytes <= candidate.end)
    return inside


def several(split: Split, address: np.ndarray, access: Access) -> list[tuple[Allocation, np.ndarray]] | None:
    """Per allocation the active lanes that touch it, when lanes touch several (``a = x if c else y``); else None."""
    found = access.cached
    low, high = int(address.min()), int(address.max())
    if found is not None and found.base <= low and high + access.nbytes <= found.end:
        return None
    lanes, active = split.expand(address, "i8"), split.active()
    touched = lanes[active]
    if split.group.memory.find(int(touched.min()), int(touched.max()) + access.nbytes) is not None:
        return None
    if not _inside(split, touched, access).all():
        return None  # resolve() reports it
    parts = []
    for candidate in split.group.memory.allocations:
        here = active & (lanes >= candidate.base) & (lanes + access.nbytes <= candidate.end)
        if here.any():
            parts.append((candidate, here))
    return parts


def check_alignment(split: Split, address: Value, access: Access, found: Allocation) -> None:
    """The address must be a multiple of the access's bytes (PTX ISA, "Addresses as operands"), or of its parts'."""
    low_bits = access.align - 1
    if access.align & low_bits:
        return
    kind = type(address)
    if kind is int:
        bad = address & low_bits
    elif kind is Affine:
        bad = (address.b | address.a | address.l | address.y) & low_bits
    else:
        bad = (address & low_bits).any()
    if not bad:
        return
    lanes = split.expand(address, "i8")
    wrong = (lanes & low_bits != 0) & split.active()
    if not wrong.any():
        return
    first = int(lanes[wrong][0])
    raise Fault(
        "misaligned-access",
        (place(split, wrong, access),),
        array=access.name or found.name,
        address=first,
        nbytes=access.nbytes,
        count=int(wrong.sum()),
    )


# -- element addresses --------------------------------------------------------------------------------------------


def element1(
    split: Split, base: Value, index: Value, extent: Value, stride: Value, access: Access, multiply: Any
) -> Value:
    """Byte address of element ``index`` of a one-dimensional array."""
    if type(index) is Affine and type(extent) is type(stride) is type(base) is int:
        if 0 <= index.lo and index.hi < extent and stride > 0:
            return index.scaled(stride, base)  # a place inside the array: no overflow
    return base + multiply(_checked(split, index, extent, 0, access), stride)


def element(split: Split, base: Value, access: Access, multiply: Any, *triples: Value) -> Value:
    """Byte address of an element: ``triples`` are index, extent and stride of each axis."""
    for k in range(0, len(triples), 3):
        index, extent, stride = triples[k : k + 3]
        kind = type(index)
        if type(extent) is not int or type(stride) is not int:
            base = base + multiply(_checked(split, index, extent, k // 3, access), stride)
        elif kind is int and 0 <= index < extent:
            base = base + index * stride  # a place inside the array: no overflow
        elif kind is Affine and 0 <= index.lo and index.hi < extent and stride > 0:
            base = index.scaled(stride, base) if type(base) is int else base + index.scaled(stride, 0)
        else:
            base = base + multiply(_checked(split, index, extent, k // 3, access), stride)
    return base


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
            tell(split, access, axis, negative, int(lanes[negative][0]), int(extents[negative][0]))
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
    )


# -- physical places ----------------------------------------------------------------------------------------------


def strides(split: Split, address: int | Affine, found: Allocation) -> tuple[int, int, int, int]:
    """Offset into the allocation's bytes and strides along blocks, rows and columns, of an affine address."""
    lanes = split.lanes
    if isinstance(address, int):
        first, block, column, row = address, 0, 0, 0
    else:
        first, block, column, row = address.b, address.a, address.l, address.y
    first = found.inner(first - found.base)
    if found.block_stride:
        first += (lanes.first_block - split.group.first_block) * found.block_stride
        block += found.block_stride
    if found.lane_stride:
        first += lanes.first_thread * found.lane_stride
        column += found.lane_stride
        row += found.lane_stride * lanes.nx
    return first, block, row, column


def positions(split: Split, address: Value, found: Allocation, shift: int) -> np.ndarray:
    """Element number in ``found.typed`` for each lane, shape broadcastable to (blocks, threads)."""
    lanes = split.lanes
    offset = found.inner(array_of(address, "i8") - found.base)
    if found.block_stride:
        offset = offset + (lanes.block + (lanes.first_block - split.group.first_block)) * found.block_stride
    if found.lane_stride:
        offset = offset + (lanes.lane + lanes.first_thread) * found.lane_stride
    return np.asarray(offset >> shift if shift else offset)
