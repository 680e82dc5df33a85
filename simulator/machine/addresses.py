"""Addresses: which element, which allocation, which bytes behind it.

Only the active lanes count; lanes that are off may hold any address.  What can be wrong with an address is found here:
bytes outside every allocation, an address that is not aligned.  (An index outside its axis: ``elements``.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import numpy as np

from simulator.machine.faults import Fault, Place
from simulator.machine.going_on import nowhere, only
from simulator.machine.memory import Access, Allocation
from simulator.machine.split import Split
from simulator.machine.values import Affine, array_of

Value = Any
NEAR = 1 << 20
"""Bytes by which an address may miss an allocation and still be told as past its end."""


def place(split: Split, bad: np.ndarray, access: Access) -> Place:
    """The first lane of ``bad`` (bool, one per lane) as a place in a message."""
    row, lane = divmod(int(bad.argmax()), split.lanes.P)
    return Place(access.pos, split.lanes.first_block + row, (split.lanes.first_thread + lane,), access.purpose)


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


def _remember(access: Access, found: Allocation) -> None:
    access.cached = found
    access.hit.add(found)


def _locate(split: Split, address: Value, access: Access, low: int, high: int) -> tuple[Allocation, Value]:
    """Slow path: look at the active lanes alone, and give the others an address that does no harm."""
    found = split.group.memory.find(low, high + access.nbytes)
    if found is not None:
        _remember(access, found)
        return found, address
    lanes = split.expand(address, "i8")
    mask = split.mask
    active = lanes if mask is None else lanes[mask]
    low, high = int(active.min()), int(active.max())
    found = split.group.memory.find(low, high + access.nbytes)
    if found is None:
        if (lost := nowhere(split, address)) is not None:
            raise Fault("out-of-bounds").of(lost)  # told where the address was worked out
        _out_of_bounds(split, lanes, access)
    _remember(access, found)
    if mask is None:
        return found, address
    return found, np.where(mask, lanes, low)


def _out_of_bounds(split: Split, lanes: np.ndarray, access: Access) -> NoReturn:
    outside = ~_inside(split, lanes, access)
    bad = outside if split.mask is None else outside & split.mask
    first = int(lanes[bad][0])
    raise Fault(
        "out-of-bounds",
        (place(split, bad, access),),
        array=access.name,
        address=first,
        nbytes=access.nbytes,
        count=int(bad.sum()),
        nearest=_nearest(split, first, access.nbytes),
    ).of(bad)


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


def well_placed(split: Split, address: Value, access: Access) -> np.ndarray:
    """The lanes whose address is right: inside an allocation, and a multiple of what it must be."""
    lanes = split.expand(address, "i8")
    return _inside(split, lanes, access) & ((lanes & _low_bits(access)) == 0)


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
            with only(split, here):
                check_alignment(split, lanes, access, candidate)
            access.hit.add(candidate)
            parts.append((candidate, here))
    return parts


def in_turn(
    split: Split, address: Value, access: Access, parts: Iterable[tuple[Allocation, np.ndarray]], report: bool = True
) -> Iterator[tuple[Allocation, np.ndarray, np.ndarray]]:
    """For each of ``several`` allocations: it, the lanes that touch it, and addresses inside it for every lane.

    Observers are told of each, unless ``report`` is False.
    """
    lanes = split.expand(address, "i8")
    for found, mask in parts:
        inside = np.where(mask, lanes, lanes[mask][0])
        if report and split.group.on_access is not None:
            with only(split, mask):
                split.group.on_access(split, access, found, inside)
        yield found, mask, inside


def check_alignment(split: Split, address: Value, access: Access, found: Allocation) -> None:
    """The address must be a multiple of the access's bytes (PTX ISA, "Addresses as operands"), or of its parts'."""
    low_bits = _low_bits(access)
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
    ).of(wrong)


def _low_bits(access: Access) -> int:
    """The bits of an address that must be 0: none where the access is of no power of two of bytes."""
    return 0 if access.align & access.align - 1 else access.align - 1


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
