"""A row in registers: which lane holds which elements, and what lanes do with their part.

A lane reads ``width`` neighbouring elements in one access of up to 16 bytes, skips those of the other lanes, reads the
next ``width``, and so on.  A row of 64 elements on 8 lanes of width 4, in 2 rounds::

    round 0     0 0 0 0  1 1 1 1  2 2 2 2  3 3 3 3  4 4 4 4  5 5 5 5  6 6 6 6  7 7 7 7
    round 1     0 0 0 0  1 1 1 1  2 2 2 2  3 3 3 3  4 4 4 4  5 5 5 5  6 6 6 6  7 7 7 7

The part of a lane is a ``cuda.local.array`` whose size and indices are constants, so that the compiler keeps it in
registers: each element crosses the memory bus once, however often a norm looks at it.

Short rows share a block, long ones take a block each.  A row that is longer than its tile comes as several tiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from numba import cuda, int32, uint32, uint64

from numba_norms.kernels.lanes import vload, vload_readonly, vstore
from numba_norms.kernels.reduce import WARP


@dataclass(frozen=True)
class Tile:
    """How a row is dealt to lanes.

    >>> tile = Tile(lanes=256, rows=1, width=8, rounds=2, full=2)
    >>> tile.threads, tile.size, tile.columns
    (256, 16, 4096)
    """

    lanes: int
    """Lanes that share a row: a power of two, up to 32 neighbours within a warp, or a block."""
    rows: int
    """Rows of a block, more than one only for lanes within a warp."""
    width: int
    """Neighbouring elements that a lane reads in one access: a power of two."""
    rounds: int
    """Accesses of a lane."""
    full: int
    """Rounds for which a row has elements in every lane; in the others a lane may be past the end of its row"""

    @classmethod
    def of_row(cls, columns: int, lanes: int, rows: int, width: int) -> Tile:
        """The tile that holds a whole row.

        >>> Tile.of_row(5120, lanes=256, rows=1, width=8)           # the third round is for half of the lanes
        Tile(lanes=256, rows=1, width=8, rounds=3, full=2)
        """
        return cls(lanes, rows, width, -(-columns // (lanes * width)), columns // (lanes * width))

    @classmethod
    def of_part(cls, columns: int, lanes: int, width: int, rounds: int) -> Tile:
        """A tile that goes along a row of so many columns."""
        whole = columns % (lanes * width * rounds) == 0
        return cls(lanes, 1, width, rounds, rounds if whole else 0)

    @property
    def sure(self) -> int:
        """Rounds in which no lane misses elements; the lanes of a group without a row miss all, but a warp leaves."""
        return self.full if self.rows == 1 or self.lanes == WARP else 0

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.lanes * self.rows

    @property
    def size(self) -> int:
        """Elements of a lane."""
        return self.width * self.rounds

    @property
    def columns(self) -> int:
        """Elements of all lanes: as many as a row can have."""
        return self.lanes * self.size

    @property
    def warps(self) -> int:
        """Warps that share a row, the length of the shared arrays that a reduction needs."""
        return max(1, self.lanes // WARP)


@cache
def place(tile: Tile) -> Any:
    """Device function ``(x) -> row, lane, columns`` of the calling thread; no columns past the last row.

    A warp that has one row to itself may leave then; lanes that share a warp with others stay for the shuffles.
    """
    lanes, rows, shift = tile.lanes, tile.rows, tile.lanes.bit_length() - 1

    @cuda.jit(device=True)
    def place(x):
        thread = int32(cuda.threadIdx.x)
        # Unsigned: a signed index might count from the end.  A block of one row adds 0, unknown to the compiler, which
        # for 8.0 would else compute addresses in registers of the warp, and copy each to those of the lanes.
        row = uint64(uint32(uint32(cuda.blockIdx.x) + uint32(thread >> shift)))
        columns = int32(x.shape[1])
        if rows > 1:
            row = uint64(uint32(cuda.blockIdx.x)) * uint64(rows) + uint64(uint32(thread >> shift))
            if row >= uint64(x.shape[0]):
                columns = int32(0)
        return row, int32(thread & (lanes - 1)), columns

    return place


@cache
def load_row(tile: Tile, compute: Any) -> Any:
    """Device function ``(array[rows, D], row, first, columns, registers)``: this lane's part, 0 past the end.

    ``first`` is the lane's first column.
    """
    lanes, width, rounds, sure = tile.lanes, tile.width, tile.rounds, tile.sure

    @cuda.jit(device=True)
    def load_row(array, row, first, columns, registers):
        for j in range(rounds):
            if j < sure or int32(j * lanes * width + first) < columns:
                vload(array, (row, j * lanes * width + first), registers, j * width, width)
            else:
                for k in range(width):
                    registers[j * width + k] = compute(0)

    return load_row


@cache
def load_sum(tile: Tile, compute: Any, has_update: bool) -> Any:
    """Device function ``(x, update, row, first, columns, values)``: a lane's part of a tile, plus the update's."""
    size, load = tile.size, load_row(tile, compute)

    @cuda.jit(device=True)
    def load_sum(x, update, row, first, columns, values):
        load(x, row, first, columns, values)
        if has_update:
            other = cuda.local.array(size, compute)
            load(update, row, first, columns, other)
            for i in range(size):
                values[i] += other[i]

    return load_sum


@cache
def load_parameter(tile: Tile) -> Any:
    """Device function ``(weight[D], first, registers)``: as ``load_row``, of what all rows share.

    A lane past the end loads the last elements, which are there: nobody looks at what it has, and nobody has to ask.
    """
    lanes, width, rounds, full = tile.lanes, tile.width, tile.rounds, tile.full

    @cuda.jit(device=True)
    def load_parameter(weight, first, registers):
        for j in range(rounds):
            if j < full:
                vload_readonly(weight, j * lanes * width + first, registers, j * width, width)
            else:
                column = min(int32(j * lanes * width + first), int32(weight.shape[0] - width))
                vload_readonly(weight, column, registers, j * width, width)

    return load_parameter


@cache
def store_row(tile: Tile) -> Any:
    """Device function ``(array[rows, D], row, first, columns, registers)``: stores what ``load_row`` loads."""
    lanes, width, rounds, sure = tile.lanes, tile.width, tile.rounds, tile.sure

    @cuda.jit(device=True)
    def store_row(array, row, first, columns, registers):
        for j in range(rounds):
            if j < sure or int32(j * lanes * width + first) < columns:
                vstore(array, (row, j * lanes * width + first), registers, j * width, width)

    return store_row


@cache
def centre_row(tile: Tile) -> Any:
    """Device function ``(registers, mean, first, columns)``: subtracts the mean, but leaves 0 past the end."""
    lanes, width, size, sure = tile.lanes, tile.width, tile.size, tile.sure

    @cuda.jit(device=True)
    def centre_row(registers, mean, first, columns):
        for i in range(size):  # one loop: of two nested ones NVVM for 10.0 keeps the outer, and indexes registers
            if i < sure * width or int32(i // width * lanes * width + first) < columns:
                registers[i] -= mean

    return centre_row


@cache
def sum_registers(size: int, compute: Any) -> Any:
    """Device function ``(registers) -> sum`` of one lane's part."""

    @cuda.jit(device=True)
    def sum_registers(registers):
        total = compute(0)
        for i in range(size):
            total += registers[i]
        return total

    return sum_registers


@cache
def sum_squares(size: int, compute: Any) -> Any:
    """Device function ``(registers) -> sum of squares`` of one lane's part."""

    @cuda.jit(device=True)
    def sum_squares(registers):
        total = compute(0)
        for i in range(size):
            total += registers[i] * registers[i]
        return total

    return sum_squares


@cache
def count_row(tile: Tile, compute: Any) -> Any:
    """Device function ``(first, columns) -> count`` of the elements that one lane holds."""
    lanes, width, rounds, sure, size = tile.lanes, tile.width, tile.rounds, tile.sure, tile.size

    @cuda.jit(device=True)
    def count_row(first, columns):
        count = compute(size)
        for j in range(sure, rounds):
            if int32(j * lanes * width + first) >= columns:
                count -= compute(width)
        return count

    return count_row
