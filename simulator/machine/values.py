"""Values: what a slot holds for all lanes of a group at once.

Rules of this file:

* The dtype of a value is static; a value never decides it.  An **integer** value is a Python ``int`` (uniform), an
  ``Affine`` or an array; a **float** value is a NumPy scalar or an array; a **predicate** (``b1``) is a ``bool`` or an
  array.  Arrays have the slot's dtype and shape (nb or 1, P or 1): a value that is equal along an axis keeps length 1.
* Values are immutable: no operation writes into an operand.
* An int or an ``Affine`` always lies inside the range of its dtype, in every lane.  Coefficients along an axis of
  length 1 are zero, so a value has one affine form.
* Affine and broadcast forms are an optimisation: they give the bits that plain arrays give.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from simulator.program import DTYPES, INTEGERS

Value: TypeAlias = Any
"""An int, ``Affine``, bool, NumPy scalar or array, as the rules above say."""

DT: dict[str, np.dtype[Any]] = {
    code: np.dtype({"b1": np.bool_, "bf": ml_dtypes.bfloat16}.get(code, code)) for code in DTYPES
}
"""NumPy's dtype of every code.  Beware: the kind of bfloat16 is 'V' to NumPy; ask the code, not the dtype."""

RANGE: dict[str, tuple[int, int]] = {
    code: (int(np.iinfo(DT[code]).min), int(np.iinfo(DT[code]).max)) for code in INTEGERS
}
"""Smallest and largest value of every integer code."""

COLLAPSE = 4096
"""Predicate arrays up to this many items are looked at: a unanimous one becomes a bool, which keeps what depends on it
uniform or affine."""

_blank = object.__new__


def wrap(number: int, low: int, high: int) -> int:
    """A Python int brought into [low, high] modulo 2**bits.

    >>> wrap(200, -128, 127)
    -56
    """
    return (number - low) % (high - low + 1) + low


class Lanes:
    """The lanes of one group: ``nb`` blocks of ``P`` lanes each (a multiple of 32), from lane ``first_thread`` of the
    block on, from block ``first_block`` of the grid on.

    In two-dimensional blocks the lanes form ``ny`` rows of ``nx = row`` lanes; ``row`` must divide ``P``.  ``lane`` is
    0..P-1 of shape (1, P) and ``block`` 0..nb-1 of shape (nb, 1), both int64.  ``values`` is "affine" or "vector":
    "vector" makes arrays where an ``Affine`` would do.

    >>> lanes = Lanes(2, 32)
    >>> lanes.affine(100, 32, 1, "i4").array(DT["i4"])[:, :3]
    array([[100, 101, 102],
           [132, 133, 134]], dtype=int32)
    """

    __slots__ = (
        "N", "P", "_axes", "block", "first_block", "first_thread", "lane", "nb", "nb1", "nx", "nx1", "ny", "ny1",
        "values",
    )  # fmt: skip

    def __init__(
        self,
        nb: int,
        P: int,
        first_thread: int = 0,
        first_block: int = 0,
        values: str = "affine",
        row: int | None = None,
    ) -> None:
        if nb < 1 or P < 32 or P % 32:
            raise ValueError(f"lanes come in blocks of whole warps, not {nb} x {P}")
        if values not in ("affine", "vector"):
            raise ValueError(f"values is 'affine' or 'vector', not {values!r}")
        if row is not None and (row < 1 or P % row):
            raise ValueError(f"rows of {row} lanes do not fill {P} lanes")
        self.nb, self.P, self.N = nb, P, nb * P
        self.first_thread, self.first_block, self.values = first_thread, first_block, values
        self.nx = row or P
        self.ny = P // self.nx
        self.nb1, self.nx1, self.ny1 = nb - 1, self.nx - 1, self.ny - 1
        self.lane = np.arange(P, dtype=np.int64)[None, :]
        self.block = np.arange(nb, dtype=np.int64)[:, None]
        self._axes: dict[np.dtype[Any], tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def affine(self, base: int, block: int, column: int, dtype: str, row: int = 0) -> Value:
        """The value base + block*b + column*x + row*y for block b and the lane in column x of row y.

        It must lie inside the range of ``dtype`` in every lane.
        """
        found = affine(self, base, block, column, row)
        if isinstance(found, int) or self.values == "affine":
            return found
        return np.ascontiguousarray(np.broadcast_to(found.array(DT[dtype]), (self.nb, self.P)))

    def axes(self, dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Block, column and row of the lanes in ``dtype`` (modulo 2**bits), of shapes (nb, 1), (1, P), (1, P)."""
        found = self._axes.get(dtype)
        if found is None:
            column, row = self.lane % self.nx, self.lane // self.nx
            found = self._axes[dtype] = (self.block.astype(dtype), column.astype(dtype), row.astype(dtype))
        return found


class Affine:
    """An integer value ``b + a*block + l*column + y*row`` over the lanes ``c``; ``lo`` and ``hi`` are its exact bounds.

    Sums, differences and multiples of affine values are exact (Python ints), so they may leave the range of a dtype;
    ``fit`` brings them back.
    """

    __slots__ = ("a", "b", "c", "hi", "l", "lo", "y")
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, c: Lanes, b: int, a: int, l: int, y: int = 0) -> None:  # noqa: E741
        self.c = c
        self.b = lo = hi = b
        self.a = a
        self.l = l
        self.y = y
        span = a * c.nb1
        if span < 0:
            lo += span
        else:
            hi += span
        span = l * c.nx1
        if span < 0:
            lo += span
        else:
            hi += span
        if y:
            span = y * c.ny1
            if span < 0:
                lo += span
            else:
                hi += span
        self.lo = lo
        self.hi = hi

    def __repr__(self) -> str:
        return f"Affine({self.b} + {self.a}*block + {self.l}*column + {self.y}*row, {self.lo}..{self.hi})"

    def array(self, dtype: np.dtype[Any]) -> np.ndarray:
        """The value as an array of shape (nb or 1, P or 1), modulo 2**bits of ``dtype``."""
        block, column, row = self.c.axes(dtype)
        low, high = _BOUNDS[dtype]
        inside = (k if low <= k <= high else wrap(k, low, high) for k in (self.b, self.a, self.l, self.y))
        base, by_block, by_column, by_row = inside
        if by_column == 0 and by_row == 0:
            return block * by_block + base
        lanes: np.ndarray = column * by_column if by_column != 1 else column
        if by_row:
            lanes = lanes + row * by_row
        return lanes + (block * by_block + base if by_block else base)

    def shifted(self, by: int) -> Affine:
        """The sum with a Python int: the same coefficients, at half the price of computing the bounds anew."""
        found = _blank(Affine)
        found.c, found.b, found.a, found.l, found.y = self.c, self.b + by, self.a, self.l, self.y
        found.lo, found.hi = self.lo + by, self.hi + by
        return found

    def scaled(self, factor: int, base: int) -> Affine:
        """``base`` + ``factor`` times this value, for a positive factor, with bounds that follow from this one's."""
        found = _blank(Affine)
        found.c, found.b, found.a = self.c, self.b * factor + base, self.a * factor
        found.l, found.y = self.l * factor, self.y * factor
        found.lo, found.hi = self.lo * factor + base, self.hi * factor + base
        return found

    def __add__(self, other: Value) -> Value:
        kind = type(other)
        if kind is int:
            return self.shifted(other)
        if kind is Affine:
            return affine(self.c, self.b + other.b, self.a + other.a, self.l + other.l, self.y + other.y)
        return self.array(other.dtype) + other

    __radd__ = __add__

    def __sub__(self, other: Value) -> Value:
        kind = type(other)
        if kind is int:
            return self.shifted(-other)
        if kind is Affine:
            return affine(self.c, self.b - other.b, self.a - other.a, self.l - other.l, self.y - other.y)
        return self.array(other.dtype) - other

    def __rsub__(self, other: Value) -> Value:
        if type(other) is int:
            return Affine(self.c, other - self.b, -self.a, -self.l, -self.y)
        return other - self.array(other.dtype)

    def times(self, factor: int) -> int | Affine:
        """The exact multiple by a Python int."""
        if factor == 0:
            return 0
        return Affine(self.c, self.b * factor, self.a * factor, self.l * factor, self.y * factor)

    def __eq__(self, other: object) -> bool:
        """The same form over the same lanes (not lane by lane)."""
        return (
            type(other) is Affine
            and self.c is other.c
            and (self.b, self.a, self.l, self.y) == (other.b, other.a, other.l, other.y)
        )

    def divide(self, divisor: int) -> tuple[int | Affine, int | Affine] | None:
        """(quotient, remainder) of the floor division by a positive int, or None where the quotient is not affine.

        The coefficients are split into multiples of the divisor and a rest; where floor(rest / divisor) is the same
        in every lane, it and the multiples are the quotient.
        """
        whole = [k // divisor if k >= 0 else -(-k // divisor) for k in (self.a, self.l, self.y)]
        rest = self - affine(self.c, 0, *(k * divisor for k in whole))
        lo, hi = (rest, rest) if type(rest) is int else (rest.lo, rest.hi)
        constant = lo // divisor
        if constant != hi // divisor:
            return None
        return affine(self.c, constant, *whole), rest - constant * divisor


_BOUNDS = {DT[code]: RANGE[code] for code in INTEGERS}


def affine(c: Lanes, base: int, block: int, column: int, row: int = 0) -> int | Affine:
    """The normal form of base + block*b + column*x + row*y: an int if it is the same in every lane."""
    if not c.nb1:
        block = 0
    if not c.nx1:
        column = 0
    if not c.ny1:
        row = 0
    return Affine(c, base, block, column, row) if block or column or row else base


def fit(value: Value, code: str) -> Value:
    """An exact integer result wrapped into the range of its dtype.  Arrays have wrapped already."""
    kind = type(value)
    low, high = RANGE[code]
    if kind is int:
        return value if low <= value <= high else wrap(value, low, high)
    if kind is not Affine or (low <= value.lo and value.hi <= high):
        return value
    window = (value.lo - low) // (high - low + 1)
    if window == (value.hi - low) // (high - low + 1):
        return value - window * (high - low + 1)
    return value.array(DT[code])


def array_of(value: Value, code: str) -> Any:
    """The value as something that NumPy combines: an array or a NumPy scalar, of the dtype ``code``.

    >>> array_of(7, "u2")
    np.uint16(7)
    """
    kind = type(value)
    if kind is np.ndarray:
        return value
    if kind is Affine:
        return value.array(DT[code])
    return DT[code].type(value) if kind is int or kind is bool else value


def expand(value: Value, lanes: Lanes, code: str) -> np.ndarray:
    """The value with one item per lane, shape (nb, P).  The array may be a broadcast view: read it, never write it."""
    items = array_of(value, code)
    if type(items) is np.ndarray and items.shape == (lanes.nb, lanes.P):
        return items
    return np.broadcast_to(items, (lanes.nb, lanes.P))


def collapse(predicate: Any) -> bool | np.ndarray:
    """A predicate in its cheapest form: a bool if it is a scalar, or a small array that agrees with itself."""
    if type(predicate) is not np.ndarray:
        return bool(predicate)
    size = predicate.size
    if size > COLLAPSE:
        return predicate
    count = np.count_nonzero(predicate)
    return predicate if 0 < count < size else bool(count)


def merge(mask: np.ndarray, a: Value, b: Value, code: str, lanes: Lanes) -> Value:
    """``a`` in the lanes of ``mask``, ``b`` in the others.  Bits survive: -0.0, and the payload of a NaN.

    Equal values stay as cheap as they are.
    """
    if same(a, b, code):
        return a
    merged = np.where(mask, array_of(a, code), array_of(b, code))
    if merged.shape != (lanes.nb, lanes.P):
        merged = expand(merged, lanes, code)
    return collapse(merged) if code == "b1" else merged


def same(a: Value, b: Value, code: str) -> bool:
    """Are two values surely equal, bit by bit?  Looks at uniform and affine values only, never into arrays."""
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b) or kind is np.ndarray:
        return False
    if kind is int or kind is bool or kind is Affine:
        return bool(a == b)
    return bits(a, code) == bits(b, code)


def bits(scalar: Any, code: str) -> int:
    """The bit pattern of a NumPy float scalar, as an unsigned int.

    >>> hex(bits(np.float32(-0.0), "f4"))
    '0x80000000'
    """
    return int.from_bytes(np.asarray(scalar, DT[code]).astype(DT[code].newbyteorder("<")).tobytes(), "little")


def narrow(value: Value, lanes: Lanes, block_index: int, first_lane: int, target_lanes: Lanes, code: str) -> Value:
    """The value of a group as seen by one warp: ``target_lanes`` are lanes of its block ``block_index`` (relative to
    the group) from lane ``first_lane`` of the group on.  Exact for every form of value.
    """
    kind = type(value)
    if kind is np.ndarray:
        rows, columns = value.shape
        row = block_index if rows > 1 else 0
        return value[row : row + 1, first_lane : first_lane + target_lanes.P] if columns > 1 else value[row : row + 1]
    if kind is not Affine:
        return value
    row, column = divmod(first_lane, lanes.nx)
    base = value.b + value.a * block_index + value.y * row + value.l * column
    if value.y == value.l * lanes.nx or column + target_lanes.P <= lanes.nx:  # linear over the target's lanes
        return target_lanes.affine(base, 0, value.l, code, value.l * target_lanes.nx)
    if column == 0 and target_lanes.nx == lanes.nx:
        return target_lanes.affine(base, 0, value.l, code, value.y)
    row_of_lanes = value.array(DT[code])
    return narrow(
        np.broadcast_to(row_of_lanes, (lanes.nb, lanes.P)), lanes, block_index, first_lane, target_lanes, code
    )
