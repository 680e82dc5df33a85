"""Memory: bytes in allocations, one table that finds them by address.

* All memory is byte-addressed.  Arguments that share memory share an allocation; views keep their offset.
* Shared and local memory are *windows*: one address for every block (lane), a copy behind it for each of them.
* Only addresses live in a program; array, element and axis words come from inverting an address through a view.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simulator.machine.values import DT
from simulator.program import SIZES, Element, Op, Pos

GLOBAL_BASE = 0x7F00_0000_0000
SHARED_BASE = 0x7E00_0000_0000
LOCAL_BASE = 0x7D00_0000_0000
CONST_BASE = 0x7C00_0000_0000
ALIGNMENT = 256
"""Allocations start at multiples of this, as the CUDA driver's do ..."""
WIDEST = 16
"""... if the host's start at multiples of this, the widest access; otherwise they are off by as much as those."""
GUARD = 512
"""Bytes left free between allocations, so that an address just past one is in none."""
WORD_SHIFT = 3
WORD = 1 << WORD_SHIFT
"""Bytes of a word of interleaved memory: no element is larger."""
POISON = 0xFF
"""Uninitialised shared and local memory: NaN as a float, -1 as an integer."""


def numpy_of(element: Element) -> np.dtype[Any]:
    """NumPy's dtype of an element.

    >>> from simulator.program import Struct
    >>> numpy_of("bf").name, numpy_of(Struct("complex64", 8)).name
    ('bfloat16', 'complex64')
    >>> numpy_of(Struct("", 12, (("x", 0, "f4", ()), ("at", 4, "i4", (2,)))))
    dtype([('x', '<f4'), ('at', '<i4', (2,))])
    """
    if isinstance(element, str):
        return DT[element]
    if element.name:
        return np.dtype(element.name)
    names, offsets, elements, shapes = zip(*element.fields, strict=True) if element.fields else ((), (), (), ())
    formats = [(numpy_of(of), shape) for of, shape in zip(elements, shapes, strict=True)]
    return np.dtype({"names": names, "offsets": offsets, "formats": formats, "itemsize": element.size})


@dataclass(frozen=True, slots=True)
class View:
    """How an argument or declared array sees an allocation: ``offset`` and ``strides`` are bytes.

    An element is of NumPy's ``dtype``; what lies inside one (a field of a record, a part of a complex number) counts
    as that element.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    writable: bool = True

    def index(self, offset: Any) -> tuple[Any, ...]:
        """Byte offsets from the allocation's base -> index along each axis (0 along axes of stride 0)."""
        rest = offset - self.offset
        for extent, stride in zip(self.shape, self.strides, strict=True):
            if stride < 0:
                rest = rest - stride * (extent - 1)
        found: list[Any] = [rest * 0] * len(self.shape)
        for axis in sorted(range(len(self.shape)), key=lambda k: -abs(self.strides[k])):
            step = abs(self.strides[axis])
            if step == 0 or self.shape[axis] == 1:
                continue
            found[axis] = rest // step
            rest = rest - found[axis] * step
            if self.strides[axis] < 0:
                found[axis] = self.shape[axis] - 1 - found[axis]
        return tuple(found)

    def element(self, offset: Any) -> Any:
        """Byte offsets from the allocation's base -> flat C-order element offsets."""
        flat = (offset - self.offset) * 0
        for extent, index in zip(self.shape, self.index(offset), strict=True):
            flat = flat * extent + index
        return flat


@dataclass(slots=True, eq=False)
class Allocation:
    """One allocation.  ``block_stride``/``lane_stride``: bytes from one block's (lane's) copy to the next.

    Local memory is interleaved, as the hardware's is: the lanes' copies of a word lie side by side, ``word_stride``
    is the bytes to those of the next word (0: each copy in one piece).  ``written``, where an argument came without
    contents, has a bool per byte: has anybody written it yet?  ``changed`` is how often memory had changed when this
    allocation last did.
    """

    base: int
    end: int
    name: str
    space: str
    data: np.ndarray
    views: tuple[View, ...]
    block_stride: int = 0
    lane_stride: int = 0
    word_stride: int = 0
    pos: Pos | None = None
    written: np.ndarray | None = None
    changed: int = 0
    _typed: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    def inner(self, offset: Any) -> Any:
        """A byte offset in the window -> one in ``data``, of the first copy."""
        if not self.word_stride:
            return offset
        return (offset >> WORD_SHIFT) * self.word_stride + (offset & WORD - 1)

    def typed(self, code: str) -> np.ndarray:
        """All copies as one flat array of this dtype."""
        found = self._typed.get(code)
        if found is None:
            size = SIZES[code]
            found = self._typed[code] = self.data[: len(self.data) // size * size].view(DT[code])
        return found

    def view(self, name: str) -> View:
        """The view of this name, or the first one where no view has it."""
        return next((view for view in self.views if view.name == name), self.views[0])

    def describe(self, address: int, name: str = "") -> str:
        """An address in words: ``x[0, 256]``, ``particles[3].mass``."""
        view = self.view(name)
        index = [int(k) for k in view.index(address - self.base)]
        inside = address - self.base - view.offset - sum(k * by for k, by in zip(index, view.strides, strict=True))
        part = _part(view.dtype, inside)
        if not view.shape:  # a single number or record
            return view.name + part
        return f"{view.name}[{', '.join(map(str, index))}]{part}"


def _part(dtype: np.dtype[Any], inside: int) -> str:
    """What of an element lies at this byte: ``.mass``, ``.at[1]``, ``.imag``; "" for all of it."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        index = np.unravel_index(inside // base.itemsize, shape) if inside < dtype.itemsize else ()
        return f"[{', '.join(str(int(k)) for k in index)}]" + _part(base, inside % base.itemsize)
    for name, (of, offset, *_) in (dtype.fields or {}).items():
        if offset <= inside < offset + of.itemsize:
            return f".{name}{_part(of, inside - offset)}"
    return ".imag" if dtype.kind == "c" and inside * 2 == dtype.itemsize else ""


@dataclass(slots=True, eq=False)
class Access:
    """The static side of one memory operation, which observers see; ``index`` numbers them in program order.

    ``purpose`` is ``kind``, or for an ``elem`` the kind of the operation that its address is for.  The address is a
    multiple of ``align``.
    ``cached`` is the allocation that the operation last hit, ``writable`` the one that it last found writable, ``hit``
    are all that it has hit; they die whenever the memory map changes.
    """

    op: Op
    kind: str
    dtype: str
    itemsize: int
    count: int
    nbytes: int
    align: int
    pos: Pos
    name: str
    index: int
    numpy: np.dtype[Any]
    shift: int
    purpose: str
    cached: Allocation | None = None
    writable: Allocation | None = None
    hit: set[Allocation] = field(default_factory=set)


def make_access(op: Op, index: int, purpose: str = "") -> Access:
    """The static description of a memory operation (or of an ``elem``, for its messages)."""
    size = SIZES[op.dtype]
    guard = 1 if op.attr.get("guarded") else 0
    count = {"ld": len(op.dst), "st": len(op.src) - 1 - guard}.get(op.kind, 1)
    return Access(
        op=op,
        kind=op.kind,
        dtype=op.dtype,
        itemsize=size,
        count=count,
        nbytes=size * count,
        align=op.attr.get("align", size * count),
        pos=op.pos,
        name=op.attr.get("name", ""),
        index=index,
        numpy=DT[op.dtype],
        shift=size.bit_length() - 1,
        purpose=purpose or op.kind,
    )


class Memory:
    """The allocations of a launch, found by address."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self.changes = 0
        self.news: list[tuple[Allocation, Any, int]] | None = None
        """What was written where, while anybody sleeps until it is (see ``sleepers``)."""
        self._bases: list[int] = []
        self._top = GLOBAL_BASE
        self._flagged: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, allocation: Allocation) -> Allocation:
        """Enter an allocation at its address."""
        place = bisect.bisect(self._bases, allocation.base)
        self._bases.insert(place, allocation.base)
        self.allocations.insert(place, allocation)
        return allocation

    def remove(self, allocation: Allocation) -> None:
        """Forget an allocation."""
        place = self.allocations.index(allocation)
        del self.allocations[place], self._bases[place]

    def change(self, allocation: Allocation, address: Any, nbytes: int) -> None:
        """Somebody writes bytes at addresses in an allocation: who spins on them has something to look at."""
        self.changes += 1
        allocation.changed = self.changes
        if self.news is not None:
            self.news.append((allocation, address, nbytes))

    def find(self, low: int, high: int) -> Allocation | None:
        """The allocation that holds bytes low..high (high excluded), if one does."""
        place = bisect.bisect(self._bases, low) - 1
        if place >= 0 and high <= self.allocations[place].end:
            return self.allocations[place]
        return None

    def named(self, name: str) -> Allocation | None:
        """The allocation of which some view has this name."""
        return next((a for a in self.allocations if any(v.name == name for v in a.views)), None)

    def add_arrays(
        self, arrays: Iterable[tuple[str, np.ndarray]], written: Sequence[tuple[np.ndarray, np.ndarray]] = ()
    ) -> list[int]:
        """Enter argument arrays (name, array); returns the address of each one's element [0, 0, …].

        Arrays that share bytes share one allocation, which spans the bytes of their common owner.  ``written`` pairs
        arrays that came without contents with their flags, one per byte from the array's first to its last.
        """
        arrays = list(arrays)
        bounds = [_owner_bounds(array) for _, array in arrays]
        addresses = [0] * len(arrays)
        for members in _overlapping(bounds):
            low = min(bounds[k][0] for k in members)
            high = max(bounds[k][1] for k in members)
            base = self._top + low % WIDEST  # where a 16-byte access is aligned on the host, it is so here
            views = []
            for k in members:
                name, array = arrays[k]
                offset = array.__array_interface__["data"][0] - low if array.size else 0
                addresses[k] = base + offset
                views.append(View(name, array.dtype, array.shape, array.strides, offset, array.flags.writeable))
            data = _bytes_at(low, high, [arrays[k][1] for k in members])
            found = self.add(Allocation(base, base + high - low, views[0].name, "global", data, tuple(views)))
            self._flag(found, low, [arrays[k][1] for k in members], written)
            self._top = -(-(base + high - low + GUARD) // ALIGNMENT) * ALIGNMENT
        return addresses

    def _flag(
        self,
        allocation: Allocation,
        low: int,
        members: list[np.ndarray],
        written: Sequence[tuple[np.ndarray, np.ndarray]],
    ) -> None:
        """Note which bytes of an allocation, whose first is at ``low`` on the host, nobody has written yet."""
        for array, flags in written:
            if not array.size or not any(array is member for member in members):
                continue
            first, last = np.lib.array_utils.byte_bounds(array)
            if flags.dtype != np.bool_ or flags.shape != (last - first,):
                raise ValueError(f"flags of an array of {last - first} bytes are as many bools, not {flags!r}")
            if allocation.written is None:
                allocation.written = np.ones(allocation.end - allocation.base, bool)
            part = allocation.written[first - low : last - low]
            part &= flags
            self._flagged.append((part, flags))

    def return_flags(self) -> None:
        """Tell the caller's flags what was written since."""
        for part, flags in self._flagged:
            flags |= part


def _owner_bounds(array: np.ndarray) -> tuple[int, int]:
    """First and past-the-last byte of the memory that owns the array's elements."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    low, high = np.lib.array_utils.byte_bounds(array)
    if owner.flags.forc and owner is not array:
        outer = np.lib.array_utils.byte_bounds(owner)
        if outer[0] <= low and high <= outer[1]:
            low, high = outer
    return (low, high) if array.size else (low, low)


def _overlapping(bounds: list[tuple[int, int]]) -> list[list[int]]:
    """Groups of array numbers whose byte ranges overlap, in the order of their first members."""
    groups: list[tuple[int, int, list[int]]] = []
    for k in sorted(range(len(bounds)), key=lambda k: bounds[k]):
        low, high = bounds[k]
        if groups and low < groups[-1][1]:
            first, last, members = groups[-1]
            groups[-1] = (first, max(last, high), [*members, k])
        else:
            groups.append((low, high, [k]))
    return sorted((sorted(members) for _, _, members in groups), key=lambda members: members[0])


class _Bytes:
    """Exposes raw bytes to NumPy; keeps the arrays that own them alive."""

    def __init__(self, low: int, size: int, writable: bool, owners: list[np.ndarray]) -> None:
        self.owners = owners
        self.__array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (low, not writable), "version": 3}


def _bytes_at(low: int, high: int, owners: list[np.ndarray]) -> np.ndarray:
    """The bytes low..high as an array over the caller's own memory; writable if every array over it is."""
    if high == low:
        return np.zeros(0, np.uint8)
    return np.asarray(_Bytes(low, high - low, any(a.flags.writeable for a in owners), owners))
