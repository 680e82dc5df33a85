"""Elements that are no numbers, on the machine: what they are called, and where they may lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import simulate
from simulator.machine import launch
from simulator.machine.memory import Allocation, Memory, View, numpy_of
from simulator.observers.steps import dtype_name
from simulator.observers.traffic import SECTOR, Traffic
from simulator.program import Block, Const, FromParam, FromRegister, Op, Param, Pos, Program, Struct, Term, size_of
from simulator.runs.arguments import take
from tests.simulator.running import every_way

POS = Pos("k.py", 1)
INNER = Struct("", 8, (("x", 0, "f4", ()), ("n", 4, "u2", (2,))))
OUTER = Struct("", 40, (("id", 0, "i8", ()), ("z", 8, Struct("complex64", 8), ()), ("in", 16, INNER, (3,))))


def test_structures_are_numpys() -> None:
    dtype = numpy_of(OUTER)
    assert dtype.itemsize == size_of(OUTER) == 40
    assert dtype.fields is not None
    assert (dtype.fields["z"][0], dtype.fields["in"][1]) == (np.dtype("c8"), 16)
    assert dtype_name(dtype) == "record(id: int64, z: complex64, in: record(x: float32, n: uint16[2])[3])"
    assert numpy_of(Struct("datetime64[D]", 8)) == np.dtype("M8[D]")


@pytest.mark.parametrize(
    ("byte", "words"),
    [
        (0, "a[0, 0].id"),
        (8, "a[0, 0].z"),
        (12, "a[0, 0].z.imag"),
        (160 + 40 + 16 + 8 + 6, "a[1, 1].in[1].n[1]"),
        (-40, "a[0, -1].id"),
    ],
)
def test_an_address_is_called_by_its_field(byte: int, words: str) -> None:
    view = View("a", numpy_of(OUTER), (3, 4), (160, 40), 0)
    allocation = Allocation(4096, 4096 + 480, "a", "global", np.zeros(480, np.uint8), (view,))
    if byte >= 0:
        assert allocation.describe(4096 + byte) == words
        assert int(view.element(byte)) == byte // 40


def test_a_single_record_has_no_index() -> None:
    view = View("r", np.dtype([("x", "f4"), ("y", "f8")]), (), (), 8)
    allocation = Allocation(4096, 4096 + 20, "r", "global", np.zeros(20, np.uint8), (view,))
    assert allocation.describe(4096 + 8 + 4) == "r.y"


def test_memory_takes_any_dtype() -> None:
    memory = Memory()
    array = np.zeros(3, [("a", "i1"), ("b", "f8")])
    (address,) = memory.add_arrays([("a", array)])
    assert memory.named("a") is not None
    assert memory.find(address, address + 27) is memory.named("a")


# -- addresses at no multiple of a size -------------------------------------------------------------------------------


def copier(code: str, stride: int, count: int, align: int) -> Program:
    """Thread t copies ``count`` elements from byte ``stride*t + offset`` of x to the same place in y."""
    program = Program("copier", "hand", POS, arguments=("x", "y", "where"))
    for k, name in enumerate(program.arguments):
        program.params.append(Param(name, "i8", "address", (k,)))
    x, y, where = (program.slot("i8", name, FromParam(name)) for name in program.arguments)
    tid, eight = program.slot("i4", "", FromRegister("tid.x")), program.slot("i8", "", Const(8))
    wide, at, index, offset, source, target = (program.slot("i8") for _ in range(6))
    pace = program.slot("i8", "", Const(stride))
    values = tuple(program.slot(code) for _ in range(count))

    def op(kind: str, dtype: str, dst: tuple[int, ...], src: tuple[int, ...], **attr: Any) -> Op:
        return Op(kind, dtype, dst, src, POS, attr)

    ops = [
        op("cvt", "i8", (wide,), (tid,), source="i4"),
        op("mul", "i8", (at,), (wide, eight)),
        op("add", "i8", (at,), (where, at)),
        op("ld", "i8", (index,), (at,), name="where"),
        op("mul", "i8", (offset,), (index, pace)),
        op("add", "i8", (source,), (x, offset)),
        op("add", "i8", (target,), (y, offset)),
        op("ld", code, values, (source,), name="x", align=align),
        op("st", code, (), (target, *values), name="y", align=align),
    ]
    program.blocks = {"start": Block(ops, Term("exit", POS))}
    program.entry = "start"
    return program


@every_way
@settings(max_examples=12, deadline=None)
@given(
    code=st.sampled_from(["i2", "u4", "f4", "f8", "b1", "bf"]),
    stride=st.integers(1, 19),
    count=st.integers(1, 3),
    threads=st.integers(1, 40),
    shuffled=st.booleans(),
)
def test_elements_anywhere(way: Any, code: str, stride: int, count: int, threads: int, shuffled: bool) -> None:
    size = {"b1": 1, "bf": 2}.get(code) or int(code[1])
    stride = max(stride, count * size)  # else lanes overwrite each other
    rng = np.random.default_rng(threads)
    where = rng.permutation(threads) if shuffled else np.arange(threads)
    x = rng.integers(0, 2 if code == "b1" else 200, stride * threads + count * size, np.uint8)
    y = np.zeros_like(x)
    launch(copier(code, stride, count, 1), (1, 1, 1), (threads, 1, 1), (x, y, where), **way)
    expected = np.zeros_like(x)
    for t in range(threads):
        expected[stride * t : stride * t + count * size] = x[stride * t : stride * t + count * size]
    assert y.tolist() == expected.tolist()


@settings(max_examples=30, deadline=None)
@given(start=st.integers(0, 15), stride=st.integers(1, 24), threads=st.integers(1, 96), regular=st.booleans())
def test_sectors_of_parts_that_straddle(start: int, stride: int, threads: int, regular: bool) -> None:
    """Two floats side by side, aligned for one: some lie in two sectors."""
    program = copier("f4", 4 * stride, 2, 4)
    where = np.arange(threads) if regular else np.random.default_rng(stride).permutation(threads)
    x = np.zeros(4 * stride * threads + 8 + 64, np.uint8)[4 * start :]
    y = np.zeros(4 * stride * threads + 8, np.uint8)
    traffic = Traffic()
    launch(program, (1, 1, 1), (threads, 1, 1), (x, y, where), observers=[traffic])
    counter = next(counter for key, counter in traffic.rows.items() if key[2] == "x")
    base = 4 * start
    sectors = 0
    for warp in range(0, threads, 32):
        touched = set()
        for index in where[warp : warp + 32].tolist():
            first = base + 4 * stride * index
            touched |= {first // SECTOR, (first + 7) // SECTOR}
        sectors += len(touched)
    assert counter.sectors == sectors
    assert counter.bytes == 8 * threads


def test_a_host_array_at_an_odd_address_is_copied_as_a_transfer_would() -> None:
    from numba import cuda

    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        y[i] = x[7 - i]
        x[i] = i

    x = np.zeros(65, np.uint8)[1:].view(np.float64)
    x[:] = 5
    y = np.zeros(8)
    simulate(kernel)[1, 8](x, y)
    assert x.tolist() == list(range(8))
    assert y.tolist() == [5] * 8
    frozen = x.copy().view(np.uint8)
    frozen = np.concatenate([frozen[:1], frozen])[1:].view(np.float64)
    frozen.flags.writeable = False
    given_ = take((frozen, y))
    assert not frozen.flags.aligned and given_.values[0].flags.aligned and not given_.values[0].flags.writeable
    given_.copy_out()
