"""Programs written down operation by operation: what no kernel can say yet, but other front ends will.

Guarded memory operations, raw addresses, accesses of several elements, reads of uninitialised memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simulator.machine import Fault, launch
from simulator.observers.traffic import Traffic
from simulator.program import (
    Alloc,
    Block,
    FromAlloc,
    FromParam,
    FromRegister,
    Op,
    Param,
    Pos,
    Program,
    Term,
    validate,
)
from tests.simulator.running import every_way, zeros

Way = dict[str, Any]


class Writer:
    """Writes a program of one block over arrays x and out, a line of source per operation."""

    def __init__(self) -> None:
        self.program = Program("written", "hand", Pos("k.py", 1), ("x", "out"))
        for k, name in enumerate(("x", "out")):
            self.program.params.append(Param(name, "i8", "address", (k,)))
        self.program.entry = "entry"
        self.block = self.program.blocks["entry"] = Block([], Term("exit", Pos("k.py", 99)))
        self.x, self.out = (self.program.slot("i8", name, FromParam(name)) for name in ("x", "out"))
        self.thread = self.op("cvt", "i8", self.program.slot("i4", "", FromRegister("tid.x")), source="i4")

    def op(self, kind: str, dtype: str, *src: int, results: int = 1, result: str | None = None, **attr: Any) -> Any:
        dst = tuple(self.program.slot(result or dtype) for _ in range(results))
        self.block.ops.append(Op(kind, dtype, dst, src, Pos("k.py", len(self.block.ops) + 1), attr))
        return dst[0] if results == 1 else dst

    def const(self, value: Any, dtype: str = "i8") -> int:
        return self.program.const(dtype, value)

    def at(self, base: int, stride: int, offset: int = 0) -> int:
        """The address base + stride * thread + offset, without any check."""
        moved = self.op("mul", "i8", self.thread, self.const(stride))
        return self.op("add", "i8", self.op("add", "i8", base, moved), self.const(offset))

    def less(self, limit: int) -> int:
        return self.op("cmp", "i8", self.thread, self.const(limit), result="b1", how="lt", unordered=False)

    def run(self, *args: np.ndarray, threads: int = 32, **way: Any) -> None:
        launch(validate(self.program), (1, 1, 1), (threads, 1, 1), args, **way)

    def fault(self, *args: np.ndarray, threads: int = 32, **way: Any) -> Fault:
        with pytest.raises(Fault) as caught:
            self.run(*args, threads=threads, **way)
        return caught.value


def copying(stride: int, offset: int = 0, dtype: str = "i4", count: int = 1) -> Writer:
    """out[t * count + k] = the k-th element at x + stride * t + offset."""
    writer = Writer()
    loaded = writer.op("ld", dtype, writer.at(writer.x, stride, offset), results=count, name="x")
    values = (loaded,) if count == 1 else loaded
    size = count * np.dtype(dtype).itemsize
    writer.op("st", dtype, writer.at(writer.out, size), *values, results=0, name="out")
    return writer


@every_way
@pytest.mark.parametrize(("count", "dtype"), [(1, "i4"), (4, "i4"), (2, "f8"), (8, "f2")])
def test_wide_accesses_are_one_request(way: Way, count: int, dtype: str) -> None:
    x, traffic = np.arange(40 * count).astype(dtype), Traffic()
    out = np.zeros_like(x)
    size = count * x.itemsize
    copying(size, 0, dtype, count).run(x, out, threads=40, observers=(traffic,), **way)
    np.testing.assert_array_equal(out, x)
    for (*_, array, _, _), row in traffic.rows.items():
        assert (row.requests, row.sectors, row.bytes) == (2, 40 * size // 32, 40 * size), array


@every_way
def test_bytes_of_local_memory_hold_accesses_of_any_size(way: Way) -> None:
    """As a PTX front end declares it: an array of bytes, accessed as what lies there; a copy for each lane."""
    writer = Writer()
    writer.program.allocs["depot"] = Alloc("depot", "local", 40, 8, "u1", (40,), Pos("k.py", 1))
    depot = writer.program.slot("i8", "depot", FromAlloc("depot"))
    first, second = writer.op("ld", "f8", writer.at(writer.x, 16), results=2, name="x")

    def inside(offset: int) -> int:
        return int(writer.op("add", "i8", depot, writer.const(offset)))

    writer.op("st", "f8", inside(16), first, second, results=0, name="depot")
    words = writer.op("ld", "u4", inside(16), results=2, name="depot")
    more = [writer.op("ld", "u4", inside(offset), name="depot") for offset in (24, 28)]
    writer.op("st", "u4", writer.at(writer.out, 16), *words, *more, results=0, name="out")
    x = np.arange(80) / 3
    out = zeros(160, "u4")
    writer.run(x, out, threads=40, **way)
    np.testing.assert_array_equal(out.view("f8"), x)


@every_way
def test_a_raw_address_outside_every_allocation(way: Way) -> None:
    fault = copying(4).fault(zeros(30, "i4"), zeros(64, "i4"), **way)
    assert (fault.kind, fault.facts["nbytes"], fault.facts["count"]) == ("out-of-bounds", 4, 2)
    assert fault.facts["nearest"] == ("x", 120, 4)
    assert "axis" not in fault.facts
    assert (fault.places[0].threads, fault.places[0].access) == ((30,), "ld")
    fault = copying(4).fault(zeros(32, "i4"), zeros(31, "i4"), **way)
    assert (fault.facts["array"], fault.places[0].threads, fault.places[0].access) == ("out", (31,), "st")
    fault = copying(4, -4).fault(zeros(32, "i4"), zeros(32, "i4"), **way)
    assert fault.places[0].threads == (0,)


@every_way
@pytest.mark.parametrize(
    ("count", "stride", "offset", "thread"), [(1, 4, 2, 0), (1, 5, 0, 1), (4, 16, 4, 0), (4, 24, 0, 1), (2, 8, 4, 0)]
)
def test_misaligned_accesses(way: Way, count: int, stride: int, offset: int, thread: int) -> None:
    fault = copying(stride, offset, "i4", count).fault(zeros(1000, "i4"), zeros(1000, "i4"), **way)
    assert (fault.kind, fault.facts["nbytes"], fault.facts["array"]) == ("misaligned-access", 4 * count, "x")
    assert fault.places[0].threads == (thread,)


@every_way
def test_a_guard_keeps_lanes_out(way: Way) -> None:
    """Lanes whose guard is false touch nothing, wherever they point, and are not counted."""
    writer, traffic = Writer(), Traffic()
    guard = writer.less(20)
    value = writer.op("ld", "i4", writer.at(writer.x, 4), guard, name="x", guarded=True)
    writer.op("st", "i4", writer.at(writer.out, 4), value, guard, results=0, name="out", guarded=True)
    old = writer.op("atom", "i4", writer.x, writer.const(1, "i4"), writer.less(3), name="x", op="add", guarded=True)
    writer.op("st", "i4", writer.at(writer.out, 4, 80), old, writer.less(3), results=0, name="out", guarded=True)
    x, out = np.arange(20, dtype="i4"), zeros(23, "i4")
    writer.run(x, out, observers=(traffic,), **way)
    assert out.tolist() == [*range(20), 0, 1, 2]
    assert x[0] == 3
    assert [row.lanes for row in traffic.rows.values()] == [20, 20, 3, 3]


@every_way
def test_a_guard_that_holds_for_nobody(way: Way) -> None:
    writer = Writer()
    nobody = writer.less(-1)
    loaded = writer.op("ld", "f4", writer.const(0), nobody, results=2, name="x", guarded=True)
    writer.op("st", "f4", writer.const(8), *loaded, nobody, results=0, name="out", guarded=True)
    x, out = np.ones(1, "f4"), np.ones(1, "f4")
    writer.run(x, out, **way)
    assert x[0] == out[0] == 1


@every_way
@pytest.mark.parametrize(("space", "dtype"), [("shared", "f4"), ("local", "f8"), ("shared", "i4")])
def test_memory_that_nobody_wrote_is_poison(way: Way, space: str, dtype: str) -> None:
    writer = Writer()
    size = np.dtype(dtype).itemsize
    writer.program.allocs["tile"] = Alloc("tile", space, 64 * size, 16, dtype, (64,), Pos("k.py", 1))
    tile = writer.program.slot("i8", "tile", FromAlloc("tile"))
    value = writer.op("ld", dtype, writer.at(tile, size), name="tile")
    writer.op("st", dtype, writer.at(writer.out, size), value, results=0, name="out")
    out = zeros(32, dtype)
    writer.run(zeros(1), out, **way)
    assert np.isnan(out).all() if dtype[0] == "f" else (out == -1).all()


@every_way
def test_shared_arrays_do_not_run_into_each_other(way: Way) -> None:
    """One past the end of a shared array is an error even where another array follows."""
    writer = Writer()
    for name in ("a", "b"):
        writer.program.allocs[name] = Alloc(name, "shared", 128, 16, "i4", (32,), Pos("k.py", 1))
    first = writer.program.slot("i8", "a", FromAlloc("a"))
    index = writer.op("add", "i8", writer.thread, writer.const(1))
    address = writer.op("elem", "i8", first, index, writer.const(32), writer.const(4), name="a", signed=(True,))
    writer.op("st", "i4", address, writer.const(7, "i4"), results=0, name="a")
    fault = writer.fault(zeros(1), zeros(1), **way)
    assert (fault.kind, fault.facts["array"], fault.facts["index"]) == ("out-of-bounds", "a", 32)


def test_validate_refuses_what_breaks_the_rules_of_a_program() -> None:
    def broken(change: Any) -> str:
        writer = copying(4)
        change(writer.program)
        with pytest.raises(ValueError, match=r".") as caught:
            validate(writer.program)
        return str(caught.value)

    def first(program: Program) -> Op:
        return program.blocks["entry"].ops[1]

    assert "unknown operation kind 'typo'" in broken(lambda p: setattr(first(p), "kind", "typo"))
    assert "1 sources instead of 2" in broken(lambda p: setattr(first(p), "src", (p.const("i8", 1),)))
    assert "operand of dtype" in broken(lambda p: setattr(first(p), "dtype", "i4"))
    assert "no attribute ['typo']" in broken(lambda p: first(p).attr.update(typo=1))
    assert "which is constant" in broken(lambda p: setattr(first(p), "dst", (p.const("i8", 5),)))
    assert "does not exist" in broken(lambda p: setattr(p.blocks["entry"], "term", Term("jump", p.pos, ("gone",))))
    assert "no terminator" in broken(lambda p: setattr(p.blocks["entry"], "term", None))
    assert "no entry" in broken(lambda p: setattr(p, "entry", "gone"))
    branch = Term("branch", Pos("k.py", 1), ("entry", "entry"), 0)
    assert "not a predicate" in broken(lambda p: setattr(p.blocks["entry"], "term", branch))
