"""Elements that lie at no multiple of their size: a front end says where that may be (``align`` of an operation).

They are read and written byte by byte, as the compiled code does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.machine.addresses import positions
from simulator.machine.memory import Access, Allocation
from simulator.machine.split import Split
from simulator.machine.values import Affine
from simulator.program import FLOATS

Value = Any


def lies_askew(address: Value, access: Access) -> bool:
    """Whether some lane's element lies at no multiple of its size."""
    bits = access.itemsize - 1
    if type(address) is int:
        return bool(address & bits)
    if type(address) is Affine:
        return bool((address.b | address.a | address.l | address.y) & bits)
    return bool(np.bitwise_or.reduce(address, axis=None) & bits)


def read_bytes(split: Split, address: Value, access: Access, found: Allocation) -> Value:
    """One element per lane; lanes that are off get anything."""
    parts = [found.data.take(positions(split, _safe(split, address) + k, found, 0)) for k in range(access.itemsize)]
    value = np.ascontiguousarray(np.stack(parts, axis=-1)).view(access.numpy)[..., 0]
    if value.ndim:
        return value
    return value[()] if access.dtype in FLOATS else value.item()


def write_bytes(split: Split, address: Value, access: Access, found: Allocation, value: Value) -> None:
    """One element per active lane; of lanes that write one place, the last one wins."""
    mask = split.active()
    parts = np.ascontiguousarray(split.expand(value, access.dtype)[mask]).view(np.uint8)
    parts = parts.reshape(-1, access.itemsize)
    for k in range(access.itemsize):
        where = split.expand(positions(split, _safe(split, address) + k, found, 0), "i8")
        found.data[where[mask]] = parts[:, k]


def _safe(split: Split, address: Value) -> Value:
    """The address, inside the allocation for lanes that are off too."""
    if type(address) is not Affine or split.mask is None:
        return address
    lanes = split.expand(address, "i8")
    return np.where(split.mask, lanes, lanes[split.mask][0])
