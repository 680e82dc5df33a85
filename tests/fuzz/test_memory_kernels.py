"""Random kernels about memory, atomics and device functions: every way of running them against plain Python.

Waves and splits in any order, affine values and arrays give the same bits.  A check has nothing to say about a kernel
that is free of races by construction, and finds the race once the barrier is dropped that the kernel needs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numba import cuda, types

from simulator import simulate
from simulator.compiled import NotCompiled
from simulator.frontend import lower, lower_kernel
from simulator.machine.launch import launch
from tests.fuzz import lane_by_lane
from tests.fuzz.expressions import NAMES
from tests.fuzz.memory_kernels import MemoryKernel, Place, memory_kernel

KERNELS, CHUNK = 20, 5
MORE = 2000
"""As many in a full run (``pytest -m full``)."""
WAYS: tuple[dict[str, Any], ...] = (
    {"schedule": "waves"},
    {"schedule": "waves", "values": "vector"},
    *({"schedule": "splits", "order": order} for order in ("first", "last", "round-robin", "random")),
    {"schedule": "splits", "order": "random", "values": "vector"},
)
TYPES = {name: getattr(types, name) for name in NAMES.values()}
Arrays = dict[str, np.ndarray]


def compiled(text: str, seed: int) -> Any:
    """The kernel that a text defines, and its device functions, for Numba."""
    space: dict[str, Any] = {"math": math, "cuda": cuda, "device": cuda.jit(device=True), **TYPES}
    exec(compile(text, f"<random kernel {seed}>", "exec"), space)
    return space["kernel"]


def arguments(kernel: MemoryKernel) -> Arrays:
    """The arrays of a launch; always the same for the same kernel."""
    numbers = np.random.default_rng(kernel.seed)
    count = kernel.grid * int(np.prod(kernel.block))
    totals = {name: np.arange(8).astype(code) for name, code in kernel.totals.items()}
    places = {f"g{place.name}": laid_out(place, kernel.grid, numbers) for place in kernel.arguments}
    return {"ends": np.zeros(count, np.int64), "halves": np.zeros(count), **totals, **places}


def laid_out(place: Place, grid: int, numbers: np.random.Generator) -> np.ndarray:
    """Numbers in the layout of a place: contiguous, every second element of more, backwards, or in Fortran order."""
    shape = (grid, *place.shape) if len(place.shape) == 2 else (grid * place.size,)
    array = numbers.integers(0 if place.dtype[0] in "ub" else -90, 90, shape).astype(place.dtype)
    if place.home == "strided":
        wide = np.zeros((*shape[:-1], 2 * shape[-1] + 1), array.dtype)
        wide[..., 1::2] = array
        return wide[..., 1::2]
    if place.home == "reversed":
        return array[..., ::-1]
    return np.asfortranarray(array) if place.home == "F" else array


def differences(expected: Arrays, found: Arrays) -> list[str]:
    """Where two results differ, in words; IEEE 754 leaves the sign and payload of a NaN open."""
    said = []
    for name, array in expected.items():
        one, other = (np.where(a == a, a, np.nan) if a.dtype.kind == "f" else a for a in (array, found[name]))
        wrong = np.argwhere(
            np.ascontiguousarray(one).view(f"V{one.itemsize}") != np.ascontiguousarray(other).view(f"V{one.itemsize}")
        )
        said += [f"{name}{k}: {array[tuple(k)]} and {found[name][tuple(k)]}" for k in wrong[:2].tolist()]
    return said


def in_every_way(kernel: MemoryKernel, function: Any) -> list[Arrays]:
    """The arrays after the kernel, for each way of running it."""
    program = lower_kernel(function, tuple(arguments(kernel).values()))
    x, y, z = (*kernel.block, 1, 1)[:3]
    found = []
    for way in WAYS:
        arrays = arguments(kernel)
        seed = kernel.seed if way.get("order") == "random" else 0
        options = {"dynamic_shared": kernel.dynamic, "seed": seed, **way}
        launch(program, (kernel.grid, 1, 1), (x, y, z), tuple(arrays.values()), **options)
        found.append(arrays)
    return found


def in_plain_python(kernel: MemoryKernel) -> Arrays:
    arrays = arguments(kernel)
    lane_by_lane.run(kernel.text, {}, (kernel.grid,), kernel.block, tuple(arrays.values()), kernel.dynamic)
    return arrays


def checked(kernel: MemoryKernel, function: Any, **options: Any) -> set[str]:
    """The kinds of errors that a check finds, and whether orders disagree."""
    simulation = simulate(function, check=True, seed=kernel.seed, **options)
    trace = simulation[kernel.grid, kernel.block, 0, kernel.dynamic](*arguments(kernel).values())
    return {one.kind for one in trace.findings if one.severity == "error" or one.kind == "order-dependent"}


@pytest.fixture(autouse=True)
def no_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check compiles what computes in float64 to machine code: half of the time, and no matter of these tests."""

    def compile(*_: Any) -> Any:
        raise NotCompiled("not here")

    monkeypatch.setattr(lower, "_compile", compile)


@pytest.mark.parametrize(
    "first",
    [*range(0, KERNELS, CHUNK), *(pytest.param(n, marks=pytest.mark.full) for n in range(KERNELS, MORE, CHUNK))],
)
def test_random_kernels_about_memory(first: int) -> None:
    for seed in range(first, first + CHUNK):
        kernel = memory_kernel(seed)
        function = compiled(kernel.text, seed)
        found = in_every_way(kernel, function)
        for way, arrays in zip(WAYS[1:], found[1:], strict=True):
            assert not differences(found[0], arrays), (seed, way, kernel.text)
        said = differences(in_plain_python(kernel), found[0])
        assert not said, (seed, said, kernel.text)
        assert not checked(kernel, function), (seed, kernel.text)
        if seed % 2:
            assert "race-shared" in checked(kernel, compiled(kernel.dropped, seed)), (seed, kernel.dropped)


FORMS = """
shared.array(0 local.array r[ t[ [::-1] ::2] .reshape( ][ :][0] [b*T pair( h1( put( meet( return break continue fors
atomic.cas atomic.add atomic.xor atomic.min atomic.max atomic.or_ atomic.and_ atomic.inc atomic.dec atomic.exch
syncthreads_count syncthreads_and syncthreads_or
"""
"""Each in some of the kernels, written without blanks."""


def test_the_kernels_are_those_that_were_meant() -> None:
    kernels = [memory_kernel(seed) for seed in range(100)]
    texts = ["".join(kernel.text.split("def kernel")[1]).replace(" ", "") for kernel in kernels]
    for form in FORMS.split():
        assert sum(form in text for text in texts) >= 3, form
    places = [place for kernel in kernels for place in kernel.places]
    assert {place.dtype for place in places} == {*NAMES}
    assert {place.home for place in places} == {"shared", "dynamic", "C", "F", "strided", "reversed"}


def test_a_wrong_reference_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison looks at what the kernels compute: an atomic addition that is off by one shows."""
    monkeypatch.setitem(lane_by_lane.CHANGES, "add", lambda old, value: old + value + 1)
    kernel = next(kernel for kernel in map(memory_kernel, range(KERNELS)) if "atomic.add(total" in kernel.text)
    found = in_every_way(kernel, compiled(kernel.text, kernel.seed))
    assert differences(in_plain_python(kernel), found[0])
