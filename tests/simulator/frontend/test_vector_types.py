"""CUDA's vector types and named tuples: built in a kernel, passed, read by name."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import cuda, float32
from numba.cuda.vector_types import vector_types

from simulator import SimulationError, simulate

Run = Callable[..., Any]
Point = namedtuple("Point", ("x", "y"))


class Launch(NamedTuple):
    data: Any
    scale: float
    corner: Any


@pytest.mark.parametrize("name", [kind.name for kind in vector_types.values()])
def test_every_vector_type(run: Run, name: str) -> None:
    kind = getattr(cuda, name)
    assert all(getattr(cuda, alias) is kind for alias in kind.aliases)
    count = int(name[-1])
    build = {
        1: lambda a: kind(a),
        2: lambda a: kind(a, a + 1),
        3: lambda a: kind(a, a + 1, a + 2),
        4: lambda a: kind(a, a + 1, a + 2, a + 3),
    }[count]
    make = cuda.jit(build, device=True)
    last = "xyzw"[count - 1]
    scope: dict[str, Any] = {"cuda": cuda, "make": make}
    exec(f"def kernel(out):\n    v = make(7)\n    out[0] = v.x\n    out[1] = v.{last}\n", scope)
    assert run(cuda.jit(scope["kernel"]), 1, 1, np.zeros(2)).tolist() == [7, 6 + count]


def test_vectors_are_made_of_numbers_and_vectors(run: Run) -> None:
    @cuda.jit
    def kernel(out):
        two = cuda.float32x2(1.5, 2)
        three = cuda.float32x3(two, 300)
        four = cuda.uchar4(300, -1, 2.9, 3)  # cast to 8 bits as Numba casts
        for k, v in enumerate((cuda.float32x4(two, two), cuda.float32x4(0, three), cuda.float32x4(three, 9))):
            out[k, 0], out[k, 1], out[k, 2], out[k, 3] = v.x, v.y, v.z, v.w
        out[3, 0], out[3, 1], out[3, 2], out[3, 3] = four.x, four.y, four.z, four.w

    out = run(kernel, 1, 1, np.zeros((4, 4)))
    assert out.tolist() == [[1.5, 2, 1.5, 2], [0, 1.5, 2, 300], [1.5, 2, 300, 9], [44, 255, 2, 3]]


def test_vectors_meet_after_a_branch_and_pass_device_functions(run: Run) -> None:
    @cuda.jit(device=True)
    def doubled(v):
        return cuda.float64x2(v.x * 2, v.y * 2)

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        v = cuda.float64x2(x[i], i)
        if i % 2:
            v = doubled(v)
        for _ in range(i):
            v = cuda.float64x2(v.y, v.x)
        out[i] = v.x - 10 * v.y

    x = np.arange(5.0) + 100
    pairs = [(2 * a, 2 * i) if i % 2 else (a, i) for i, a in enumerate(x)]
    expected = [(a - 10 * b) if i % 2 == 0 else (b - 10 * a) for i, (a, b) in enumerate(pairs)]
    assert run(kernel, 1, 5, x, np.zeros(5)).tolist() == expected


@pytest.mark.parametrize("values", ["affine", "vector"])
def test_a_vector_in_shared_memory_is_one_access(values: str) -> None:
    float32x4 = vector_types["float32x4"]

    @cuda.jit
    def kernel(x, out):
        i = cuda.threadIdx.x
        tile = cuda.shared.array(32, float32x4)
        tile[i] = cuda.float32x4(x[i], 1, 2, 3)
        cuda.syncthreads()
        v = tile[31 - i]
        out[i] = v.x + v.w

    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    trace = simulate(kernel, values=values)[1, 32](x, out)
    assert out.tolist() == (x[::-1] + 3).tolist()
    assert trace.total("tile", operation="load").bytes == 32 * 16
    assert trace.arrays["tile"].dtype == "record(x: float32, y: float32, z: float32, w: float32)"
    assert trace.thread(3).reads("tile") == [28]


def test_a_vector_of_the_wrong_length_does_not_compile() -> None:
    @cuda.jit
    def kernel(out):
        out[0] = cuda.float32x3(cuda.float32x2(1, 2), cuda.float32x2(1, 2)).x

    with pytest.raises(SimulationError, match="Numba cannot compile the kernel"):
        simulate(kernel)[1, 1](np.zeros(1))


# -- named tuples -----------------------------------------------------------------------------------------------------


def test_named_tuples_in_a_kernel(run: Run) -> None:
    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        p = Point(i, 2.5)
        q = Point(y=p.x, x=p.y)
        if i > 1:
            p = Point(x=7, y=p.y)
        out[i, 0] = p.x + 10 * p[1]
        out[i, 1] = q.x
        out[i, 2] = p == Point(7, 2.5)
        out[i, 3] = len(q)
        x, y = q
        out[i, 4] = y

    out = run(kernel, 1, 3, np.zeros((3, 5)))
    assert out.tolist() == [[25, 2.5, 0, 2, 0], [26, 2.5, 0, 2, 1], [32, 2.5, 1, 2, 2]]


def test_a_named_tuple_of_arrays_and_tuples_is_an_argument() -> None:
    @cuda.jit
    def kernel(given, out):
        i = cuda.grid(1)
        out[i] = given.data[i] * given.scale + given.corner.y[i]
        given.corner.x[i] = i

    data, x, y, out = np.arange(4.0), np.zeros(4), np.ones(4), np.zeros(4)
    trace = simulate(kernel)[1, 4](Launch(data, 2.0, Point(x, y)), out)
    assert out.tolist() == [1, 3, 5, 7]
    assert x.tolist() == [0, 1, 2, 3]
    assert list(trace.arrays) == ["given.data", "given.corner.x", "given.corner.y", "out"]
    assert trace.thread(2).reads("given.data") == [2]
    # several orders find the same arrays to save and restore
    simulate(kernel, orders=["first", "last"])[1, 4](Launch(data, 3.0, Point(x, y)), out)
    assert out.tolist() == [1, 4, 7, 10]


def test_a_named_tuple_with_items_left_out_is_refused() -> None:
    Half = namedtuple("Half", ("x", "y"), defaults=(1,))

    @cuda.jit
    def kernel(out):
        out[0] = Half(float32(1)).y

    with pytest.raises(SimulationError):
        simulate(kernel)[1, 1](np.zeros(1))
