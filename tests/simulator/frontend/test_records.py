"""Records: fields of any layout, references, copies, arrays of them in every memory, and what a trace says of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda, float64, from_dtype

from simulator import OutOfBounds, SimulationError, simulate
from tests.simulator.frontend.conftest import run_kernel

Run = Callable[..., Any]

BODY = np.dtype([("at", np.float32, (3,)), ("mass", np.float64), ("kind", np.int8), ("wave", np.complex64)], align=True)
PACKED = np.dtype([("tag", np.int8), ("load", np.float64), ("pair", np.int16, (2,)), ("wave", np.complex64)])
NESTED = np.dtype([("inner", [("x", np.float32), ("n", np.int64)]), ("k", np.uint16)], align=True)
NB_BODY, NB_PACKED = from_dtype(BODY), from_dtype(PACKED)
TABLE = np.array([(np.arange(3), 2.5, 7, 1j), (np.ones(3), -1, 3, 2)], BODY)

# -- layouts ----------------------------------------------------------------------------------------------------------

SCALARS = ("?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", "M8[s]")


@st.composite
def layouts(draw: Any, depth: int = 1, inner: bool = False) -> np.dtype[Any]:
    """A structured dtype: packed, aligned or with offsets of its own; fields are numbers, arrays and records.

    Records within records are packed: Numba believes those that say they are aligned, wherever they lie.
    """
    parts: list[Any] = []
    for _ in range(draw(st.integers(1, 4))):
        of: Any = np.dtype(draw(st.sampled_from(SCALARS)))
        if depth and draw(st.integers(0, 3)) == 0:
            of = draw(layouts(depth=depth - 1, inner=True))
        alone = of.names is not None or of.kind in "bM"  # Numba has no arrays of these in a record
        shape = () if alone else draw(st.sampled_from([(), (), (), (2,), (2, 3)]))
        parts.append((of, shape))
    names = [f"f{k}" for k in range(len(parts))]
    if draw(st.booleans()):
        return np.dtype(
            list(zip(names, *zip(*parts, strict=True), strict=True)), align=not inner and draw(st.booleans())
        )
    offsets, end = [], 0
    for of, shape in parts:
        end += draw(st.integers(0, 5))
        offsets.append(end)
        end += np.dtype((of, shape)).itemsize
    size = end + draw(st.integers(0, 3))
    return np.dtype({"names": names, "formats": parts, "offsets": offsets, "itemsize": size})


def leaves(dtype: np.dtype[Any], path: str = "", at: int = 0) -> list[tuple[str, np.dtype[Any], tuple[int, ...], bool]]:
    """Fields that are no records: path, dtype, shape, and whether they lie at a multiple of their size."""
    found = []
    for name, (of, offset, *_) in dtype.fields.items():
        base, shape = of.subdtype or (of, ())
        if base.names:
            found += leaves(base, f"{path}.{name}", offset)
        else:
            part = base.itemsize // (2 if base.kind == "c" else 1)
            found.append((f"{path}.{name}", base, shape, offset % part == 0))
    return found


def filled(dtype: np.dtype[Any], count: int, seed: int) -> np.ndarray:
    array = np.zeros(count, dtype)
    _fill(array, np.random.default_rng(seed))
    return array


def _fill(array: np.ndarray, rng: np.random.Generator) -> None:
    for name, (of, *_) in (array.dtype.fields or {}).items():
        if (of.subdtype or (of,))[0].names:
            _fill(array[name], rng)
        else:
            array[name] = rng.integers(0, 100, array[name].shape).astype((of.subdtype or (of,))[0])


def assert_same(one: np.ndarray, other: np.ndarray) -> None:
    for name in one.dtype.names or ():
        if one.dtype[name].names:
            assert_same(one[name], other[name])
        else:
            np.testing.assert_array_equal(one[name], other[name])


def kernel_of(lines: list[str]) -> Any:
    source = "def kernel(a, b):\n    i = cuda.grid(1)\n    if i < a.size:\n" + "".join(f"        {x}\n" for x in lines)
    scope: dict[str, Any] = {"cuda": cuda}
    exec(source, scope)
    return cuda.jit(scope["kernel"])


def assignments(place: str, value: str, shape: tuple[int, ...]) -> list[str]:
    return [f"{place}[{index}] = {value}[{index}]" for k in np.ndindex(shape) for index in [str(k)[1:-1]]]


@settings(max_examples=25, deadline=None)
@given(layouts(), st.integers(0, 9))
def test_fields_lie_where_numpy_puts_them(dtype: np.dtype[Any], seed: int) -> None:
    """Field by field; Numba refuses those that lie at no multiple of their size within the record."""
    fields = leaves(dtype)
    lines = []
    for path, _, shape, aligned in fields:
        if aligned:
            lines += assignments(f"b[i]{path}", f"a[i]{path}", shape) if shape else [f"b[i]{path} = a[i]{path}"]
        else:
            refused = kernel_of([f"b[i]{path} = a[i]{path}"])
            name = path.rpartition(".")[2]
            with pytest.raises(SimulationError, match=f"the field {name} of record.* is not aligned"):
                simulate(refused)[1, 8](np.zeros(5, dtype), np.zeros(5, dtype))
    a, b = filled(dtype, 5, seed), np.zeros(5, dtype)
    out = run_kernel(kernel_of(lines or ["pass"]), 1, 8, a, b)
    expected = np.zeros(5, dtype)
    for path, *_, aligned in fields:
        if aligned:
            into, of = expected, a
            *outer, name = path[1:].split(".")
            for step in outer:
                into, of = into[step], of[step]
            into[name] = of[name]
    assert_same(out, expected)


@settings(max_examples=15, deadline=None)
@given(layouts(depth=0), st.integers(0, 9))
def test_columns_need_no_alignment(dtype: np.dtype[Any], seed: int) -> None:
    """``a.x`` is an array, whose elements Numba accesses byte by byte if they may lie anywhere."""
    lines = []
    for path, _, shape, _ in leaves(dtype):
        places = [", ".join(["i", *map(str, k)]) for k in np.ndindex(shape)]
        lines += [f"b{path}[{index}] = a{path}[{index}]" for index in places]
    a = filled(dtype, 5, seed)
    assert_same(run_kernel(kernel_of(lines), 1, 8, a, np.zeros(5, dtype)), a)


@settings(max_examples=15, deadline=None)
@given(layouts(), st.integers(0, 9))
def test_a_record_is_copied_whole(dtype: np.dtype[Any], seed: int) -> None:
    a = filled(dtype, 7, seed)
    raw = a.view(np.uint8).reshape(7, -1)
    raw[:, dtype.itemsize // 2] |= 1 if dtype.fields["f0"][0] != np.dtype(bool) else 0
    out = run_kernel(kernel_of(["b[a.size - 1 - i] = a[i]"]), 1, 8, a, np.zeros(7, dtype))
    assert out.view(np.uint8).reshape(7, -1).tolist() == raw[::-1].tolist()  # the bytes between the fields too


# -- what a record is -------------------------------------------------------------------------------------------------


def test_a_record_is_a_reference(run: Run) -> None:
    @cuda.jit(device=True)
    def scale(body, by):
        body.mass *= by
        body["at"][1] = by

    @cuda.jit
    def kernel(bodies):
        i = cuda.grid(1)
        one = bodies[i]
        scale(one, 2.0)
        other = one if i else bodies[3]
        other.kind += 3
        one["wave"] = one.wave * 1j

    bodies = np.zeros(4, BODY)
    bodies["mass"], bodies["wave"] = [1, 2, 3, 4], 1
    out = run(kernel, 1, 3, bodies)
    assert out["mass"].tolist() == [2, 4, 6, 4]
    assert out["kind"].tolist() == [0, 3, 3, 3]
    assert out["at"][:, 1].tolist() == [2, 2, 2, 0]
    assert out["wave"].tolist() == [1j, 1j, 1j, 1]


def test_nested_records_and_fields_by_number(run: Run) -> None:
    @cuda.jit
    def kernel(a, out):
        i = cuda.grid(1)
        a[i].inner.n = i
        a[i]["inner"]["x"] = 0.5
        inner = a[i].inner
        out[i] = inner.n + inner.x + a[i][1]

    a = np.zeros(4, NESTED)
    a["k"] = 10
    assert run(kernel, 1, 4, a, np.zeros(4)).tolist() == [10.5, 11.5, 12.5, 13.5]


def test_values_are_cast_to_the_field(run: Run) -> None:
    @cuda.jit
    def kernel(a):
        a[0].mass = 3
        a[0].kind = 300
        a[0].wave = 2
        a[0].at[0] = 1 / 3

    out = run(kernel, 1, 1, np.zeros(1, BODY))
    assert (out[0]["mass"], out[0]["kind"], out[0]["wave"], out[0]["at"][0]) == (3, 44, 2, np.float32(1 / 3))


@pytest.mark.parametrize("recarray", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_a_record_is_an_argument_and_written_in_place(own: bool, recarray: bool) -> None:
    @cuda.jit
    def kernel(body, out):
        out[0] = body.mass
        body.mass = 9
        body.at[2] = 1.5

    array = np.zeros(3, BODY).view(np.recarray) if recarray else np.zeros(3, BODY)
    array["mass"] = [1, 2, 3]
    body, out = array[1].copy() if own else array[1], np.zeros(1)
    trace = simulate(kernel)[1, 1](body, out)
    assert (out[0], body["mass"], body["at"].tolist()) == (2, 9, [0, 0, 1.5])
    assert array["mass"].tolist() == ([1, 2, 3] if own else [1, 9, 3])
    assert trace.arrays["body"].shape == ()
    assert trace.thread(0).writes("body") == [0, 0]


def test_an_array_goes_to_a_field_that_is_one(run: Run) -> None:
    @cuda.jit
    def kernel(at, a):
        i = cuda.grid(1)
        a[i]["at"] = at[i]

    at = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert run(kernel, 1, 2, at, np.zeros(2, BODY))["at"].tolist() == at.tolist()


# -- where records lie ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("numba_type", [NB_BODY, NB_PACKED], ids=["aligned", "packed"])
def test_shared_and_local_arrays(run: Run, numba_type: Any) -> None:
    @cuda.jit
    def kernel(x, out):
        i = cuda.threadIdx.x
        tile = cuda.shared.array(40, numba_type)
        mine = cuda.local.array((2, 3), numba_type)
        tile.wave[i] = x[i]
        mine.wave[1, 2] = 2
        mine[0, 1] = mine[1, 2]
        cuda.syncthreads()
        out[i] = (tile.wave[39 - i] * mine.wave[0, 1]).real

    x = np.arange(40, dtype=np.float64)
    assert run(kernel, 1, 40, x, np.zeros(40)).tolist() == (2 * x[::-1]).tolist()


def test_dynamic_shared_memory(run: Run) -> None:
    @cuda.jit
    def kernel(out):
        i = cuda.threadIdx.x
        tile = cuda.shared.array(0, NB_BODY)
        tile[i].mass = i
        cuda.syncthreads()
        out[i] = tile[(i + 1) % len(tile)].mass

    out = run(kernel, 1, 5, np.zeros(5), dynamic_shared=5 * BODY.itemsize)
    assert out.tolist() == [1, 2, 3, 4, 0]


def test_constant_arrays(run: Run) -> None:
    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        table = cuda.const.array_like(TABLE)
        out[i, 0] = table[i].mass + table[i].at[2]
        out[i, 1] = TABLE[i].kind
        out[i, 2] = TABLE[1].wave.real

    assert run(kernel, 1, 2, np.zeros((2, 3))).tolist() == [[4.5, 7, 2], [0, 3, 2]]


@pytest.mark.parametrize("values", ["affine", "vector"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_packed_fields_at_odd_addresses(values: str, shuffled: bool) -> None:
    """Records of 21 bytes: a field lies at every address there is, also in the memory of a thread."""

    @cuda.jit
    def kernel(order, a, out):
        i = cuda.grid(1)
        if i < order.size:
            k = order[i]
            mine = cuda.local.array(3, NB_PACKED)
            for j in range(3):
                mine.load[j] = a.load[k] * j
            out[i] = mine.load[1] + mine.load[2]
            a.wave[k] = complex(k, i)
            if i % 3:
                a.pair[k, 1] = -i

    order = np.random.default_rng(1).permutation(37) if shuffled else np.arange(37)
    a, out = np.zeros(37, PACKED), np.zeros(37)
    a["load"] = np.arange(37) + 0.5
    simulate(kernel, values=values)[2, 32](order, a, out)
    assert out.tolist() == (3 * (order + 0.5)).tolist()
    assert a["wave"][order].tolist() == [complex(k, i) for i, k in enumerate(order.tolist())]
    assert a["pair"][order, 1].tolist() == [-i if i % 3 else 0 for i in range(37)]
    assert not a["tag"].any()


# -- what a trace says of them ----------------------------------------------------------------------------------------


def test_the_trace_counts_elements_and_bytes() -> None:
    @cuda.jit
    def kernel(bodies, out):
        i = cuda.grid(1)
        out[i] = bodies[i].mass
        bodies[i].at[1] = 1

    bodies, out = np.zeros(64, BODY), np.zeros(64)
    trace = simulate(kernel)[2, 32](bodies, out)
    info = trace.arrays["bodies"]
    assert info.dtype == "record(at: float32[3], mass: float64, kind: int8, wave: complex64)"
    assert (info.shape, info.strides) == ((64,), (40,))
    row = trace.total("bodies", operation="load")
    assert (row.requests, row.bytes, row.ideal) == (2, 64 * 8, 2 * 8)
    assert row.sectors == sum(len({(40 * i + 16) // 32 for i in range(w, w + 32)}) for w in (0, 32))
    thread = trace.thread(3, block=1)
    assert (thread.reads("bodies"), thread.writes("bodies")) == ([35], [35])
    access = next(trace.accesses("bodies"))
    assert (access.nbytes, access.itemsize, access.elements[4]) == (8, 8, 4)


def test_an_index_out_of_bounds_names_array_and_thread() -> None:
    @cuda.jit
    def kernel(bodies):
        bodies[cuda.grid(1)].mass = 1

    with pytest.raises(OutOfBounds, match="thread 40 of block 0 writes bodies at index 40 along axis 0"):
        simulate(kernel)[1, 64](np.zeros(40, BODY))


def test_orders_compare_fields_and_not_what_lies_between() -> None:
    @cuda.jit
    def kernel(a):
        a[cuda.grid(1)].kind = 1

    @cuda.jit
    def racy(a):
        a[0].kind = cuda.grid(1)

    a = np.zeros(8, BODY)
    a.view(np.uint8)[...] = 255
    assert not simulate(kernel, orders=["first", "last"], check=True)[1, 8](a).findings
    kinds = {finding.kind for finding in simulate(racy, orders=["first", "last"], check=True)[2, 32](a).findings}
    assert "order-dependent" in kinds


def test_what_an_array_of_records_says_of_itself(run: Run) -> None:
    @cuda.jit
    def kernel(a, out):
        out[0] = a.itemsize
        out[1] = a.nbytes
        out[2] = a.at.ndim
        out[3] = a.at.shape[1]
        out[4] = len(a.mass)
        tile = cuda.shared.array(1, float64)
        tile[0] = a.strides[0]
        out[5] = tile[0]

    assert run(kernel, 1, 1, np.zeros(6, BODY), np.zeros(6)).tolist() == [40, 240, 2, 3, 6, 40]


def test_attributes_of_an_array_go_before_fields_of_that_name(run: Run) -> None:
    @cuda.jit
    def kernel(a, out):
        out[0] = a.size
        out[1] = a["size"][2]
        out[2] = a[2].size

    a = np.zeros(3, [("size", np.float32)])
    a["size"] = [5, 6, 7]
    assert run(kernel, 1, 1, a, np.zeros(3)).tolist() == [3, 7, 7]
