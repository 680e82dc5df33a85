"""How a launch goes on past an access whose address is wrong in some lanes: out of bounds, or not aligned.

Whoever finds a wrong address raises a ``Fault`` that names its lanes, before anything has happened.  It ends a launch,
unless that is *forgiving*: then observers are told of it, and the access is repeated for the other lanes.  Rules:

* A lane that is *lost* does not act: it writes nothing, what it reads is 0, and observers hear of no access.
* The address of an element beyond an axis is ``NOWHERE``, and what is worked out from it stays near that.  An access
  there is lost without a word, for it has been told already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from simulator.machine.faults import Fault
from simulator.machine.memory import Access
from simulator.machine.split import Split
from simulator.program import CALL_STACK, FLOATS

Value = Any

NOWHERE = -(1 << 62)
"""The address of what does not exist: no allocation is near ..."""
NEARBY = 1 << 48
"""... and what is within so many bytes of it was worked out from it."""


@contextmanager
def only(split: Split, mask: np.ndarray) -> Iterator[None]:
    """Some of the split's lanes act alone."""
    whole, split.mask = split.mask, mask
    try:
        yield
    finally:
        split.mask = whole


def go_on(
    fault: Fault, split: Split, address: Value, access: Access, act: Callable[..., Value], *given: Value
) -> Value:
    """The results of an access that met ``fault``: ``act(*given)`` repeats it for the lanes that are not lost.

    ``address`` is where it goes (of an ``elem``: where its array starts).  Raises the fault where it ends the launch:
    ``act`` itself comes back here, with the next fault, until nobody is left.
    """
    hooks = split.group.hooks
    if fault.lanes is None or not hooks.forgiving or access.name.startswith(CALL_STACK):
        raise fault
    active = split.active()
    lost = nowhere(split, address)
    if lost is None:
        lost = fault.lanes
        if hooks.fault is not None:
            hooks.fault(split, access, fault, lost)
    if hooks.lost is not None and access.kind != "elem":
        hooks.lost(split, access, lost)
    left = active & ~lost
    if not left.any():
        return _shaped(access, [_nothing(access)] * len(access.op.dst))
    with only(split, left):
        found = act(*given)
    if not access.op.dst:
        return None
    results = found if len(access.op.dst) > 1 else (found,)
    return _shaped(access, [_but_nothing(split, access, lost, result) for result in results])


def nowhere(split: Split, address: Value) -> np.ndarray | None:
    """The active lanes (bool, one per lane) whose address is ``NOWHERE`` or near; None if there are none."""
    kind = type(address)
    if kind is not np.ndarray:
        low, high = (address, address) if kind is int else (address.lo, address.hi)
        if high < NOWHERE - NEARBY or NOWHERE + NEARBY < low:
            return None
        if kind is int:
            return split.active()
    lanes = split.expand(address, "i8")
    found: np.ndarray = (NOWHERE - NEARBY <= lanes) & (lanes <= NOWHERE + NEARBY) & split.active()
    return found if found.any() else None


def _nothing(access: Access) -> Value:
    """What a lost lane gets, as a value that is the same in every lane."""
    if access.kind == "elem":
        return NOWHERE
    return access.numpy.type(0) if access.dtype in FLOATS else access.numpy.type(0).item()


def _but_nothing(split: Split, access: Access, lost: np.ndarray, result: Value) -> np.ndarray:
    """A result, with nothing in the lanes that are lost."""
    merged = np.array(split.expand(result, "i8" if access.kind == "elem" else access.dtype))
    merged[lost] = _nothing(access)
    return merged


def _shaped(access: Access, results: list[Value]) -> Value:
    """As many results as the operation has: none, one, or a tuple."""
    return tuple(results) if len(results) > 1 else results[0] if results else None
