"""Random kernels: every way of running them on the machine, against two evaluations per thread that it has no part in.

Waves and splits, affine values and arrays must agree bit for bit; with the per-thread evaluations they agree bit for
bit too, but for the sign and payload of NaNs, which IEEE 754 leaves open.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import cuda, njit, types

from simulator.frontend import lower_kernel
from simulator.machine.launch import launch
from simulator.machine.values import RANGE, wrap
from tests.fuzz.random_kernels import (
    FLOATS,
    INTEGERS,
    NAMES,
    SIGNED,
    RandomKernel,
    arithmetic_type,
    random_kernel,
)

KERNELS, CHUNK = 20, 5
MORE = 2000
"""As many in a full run (``pytest -m full``)."""
BLOCKS = 2
WAYS: tuple[dict[str, Any], ...] = (
    {"schedule": "waves"},
    {"schedule": "waves", "values": "vector"},
    {"schedule": "splits", "order": "last"},
    {"schedule": "splits", "order": "random"},
)
Arrays = dict[str, np.ndarray]


# -- the machine --------------------------------------------------------------------------------------------------


@cuda.jit(device=True)
def near(x):
    if -100 <= x and x < 100:
        return types.float64(x)
    return 7.0


@cuda.jit(device=True)
def near_positive(x):
    if 0 <= x and x < 100:
        return types.float64(x)
    return 7.0


TYPES = {name: getattr(types, name) for name in NAMES.values()}


def compiled(text: str, seed: int, names: dict[str, Any]) -> Callable[..., Any]:
    """The function that a text defines."""
    space: dict[str, Any] = {"math": math, **names}
    exec(compile(text, f"<random kernel {seed}>", "exec"), space)
    return space["kernel"] if "kernel" in space else space["thread"]  # type: ignore[no-any-return]


def on_the_machine(kernel: RandomKernel, given: Arrays, table: np.ndarray) -> list[Arrays]:
    """The arrays after the kernel, for each way of running it."""
    function = compiled(kernel.cuda, kernel.seed, {"cuda": cuda, **TYPES, "near": near, "near_positive": near_positive})
    program = lower_kernel(function, (table, *given.values()))
    found = []
    for way in WAYS:
        arrays = {name: array.copy() for name, array in given.items()}
        seed = kernel.seed if way.get("order") == "random" else 0
        launch(program, (BLOCKS, 1, 1), (kernel.threads, 1, 1), (table, *arrays.values()), seed=seed, **way)
        found.append(arrays)
    return found


# -- one thread after the other -----------------------------------------------------------------------------------


def phase_by_phase(kernel: RandomKernel, run: Callable[[int, int, int], None], state: dict[str, Any]) -> None:
    """Run ``run(phase, thread, s)`` for all threads, and the shuffles in between on ``state[variable][thread]``."""
    for number, phase in enumerate(kernel.phases):
        for s in range(phase.repeat):
            for t in range(BLOCKS * kernel.threads):
                run(number, t, s)
            if phase.shuffle is not None:
                mode, name, operand = phase.shuffle
                values = list(state[name])
                for t in range(len(values)):
                    state[name][t] = values[t - t % 32 + source_lane(mode, t % 32, operand)]


def source_lane(mode: str, lane: int, operand: int) -> int:
    """Whose value a lane gets; its own where the source would be outside the warp."""
    source = {
        "shfl_sync": operand,
        "shfl_up_sync": lane - operand,
        "shfl_down_sync": lane + operand,
        "shfl_xor_sync": lane ^ operand,
    }[mode]
    return source if 0 <= source < 32 else lane


def in_plain_python(kernel: RandomKernel, given: Arrays, table: np.ndarray) -> Arrays:
    """Python ints and NumPy scalars, each operand converted and each result wrapped by our own rules of typing."""
    thread = compiled(kernel.thread(plain=True), kernel.seed, PLAIN)
    state = {name: array.tolist() if array.dtype.kind in "iu" else list(array) for name, array in given.items()}
    numbers, lists = table.tolist(), tuple(state.values())
    with np.errstate(all="ignore"):
        phase_by_phase(kernel, lambda phase, t, s: thread(phase, t, s, numbers, *lists), kernel_state(kernel, state))
    return {name: np.array(values, given[name].dtype) for name, values in state.items()}


def kernel_state(kernel: RandomKernel, arrays: dict[str, Any]) -> dict[str, Any]:
    """Arrays by the names of the variables that they hold."""
    return dict(zip(kernel.variables, arrays.values(), strict=True))


def _wrapper(code: str) -> Callable[[int], int]:
    low, high = RANGE[code]
    return lambda value: wrap(value, low, high)


def _float(dtype: type[np.floating[Any]]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, int):  # by way of NumPy's integers: Python's own conversion would round twice
            return (np.int64 if value < 2**63 else np.uint64)(value).astype(dtype)
        return dtype(value)

    return convert


def _near(low: int) -> Callable[[Any], float]:
    return lambda value: float(value) if low <= value < 100 else 7.0


PLAIN = {
    **{code: _wrapper(code) for code in INTEGERS},
    **{code: _float(dtype) for code, dtype in zip(FLOATS, (np.float16, np.float32, np.float64), strict=True)},
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "sqrt": np.sqrt,
    "near": _near(-100),
    "near_positive": _near(0),
}


# -- Numba on the CPU ---------------------------------------------------------------------------------------------


@njit
def half(x):
    """Rounded to float16 (from float32 or float64, once), kept in a float32, as Numba has no float16 on the CPU."""
    size = abs(types.float64(x))
    if not size < 65520.0:
        return types.float32(x if x != x else math.copysign(math.inf, x))
    exponent = max(math.frexp(size)[1], -13)  # below 2**-14 the spacing stays that of subnormals
    quantum = 2.0 ** (exponent - 11)
    steps = size / quantum
    whole = math.floor(steps)
    rest = steps - whole
    if rest > 0.5 or (rest == 0.5 and whole % 2 == 1):
        whole += 1
    return types.float32(math.copysign(whole * quantum, x))


near_on_cpu, near_positive_on_cpu = (njit(function.py_func) for function in (near, near_positive))
ON_CPU = {**TYPES, "float16": half, "near": near_on_cpu, "near_positive": near_positive_on_cpu}


def by_numba(kernel: RandomKernel, given: Arrays, table: np.ndarray) -> Arrays:
    """Numba's CPU compiler: its promotions, LLVM's arithmetic."""
    thread = njit(error_model="numpy", no_cfunc_wrapper=True)(compiled(kernel.thread(plain=False), kernel.seed, ON_CPU))
    arrays = [array.astype(np.float32 if array.dtype == np.float16 else array.dtype) for array in given.values()]
    state = kernel_state(kernel, dict(zip(given, arrays, strict=True)))
    phase_by_phase(kernel, lambda phase, t, s: thread(phase, t, s, table, *arrays), state)
    with np.errstate(over="ignore"):
        return {name: array.astype(given[name].dtype) for name, array in zip(given, arrays, strict=True)}


# -- the comparison -----------------------------------------------------------------------------------------------


def inputs(kernel: RandomKernel) -> tuple[Arrays, np.ndarray]:
    """An array per variable, with the extreme values of its dtype among the numbers, and a table to gather from."""
    numbers = np.random.default_rng(kernel.seed)
    count = BLOCKS * kernel.threads
    arrays = {}
    for name, code in kernel.variables.items():
        if code in INTEGERS:
            low, high = RANGE[code]
            array = numbers.integers(max(low, -60), min(high, 60), count).astype(code)
            array[numbers.integers(0, count, 6)] = numbers.choice(np.array([low, high, 0], code), 6)
        else:
            array = numbers.normal(0, 20, count).astype(code)
            array[numbers.integers(0, count, 5)] = np.array([0.0, -0.0, np.inf, np.nan, 65519.0], code)
        arrays[f"{name}_"] = array
    return arrays, numbers.integers(-(2**31), 2**31, 32).astype(np.int32)


def bits(array: np.ndarray, one_nan: bool) -> np.ndarray:
    if one_nan and array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return array.view(f"u{array.dtype.itemsize}")


def differences(expected: Arrays, found: Arrays, one_nan: bool = False) -> list[str]:
    """Where two results differ, in words."""
    said = []
    for name, array in expected.items():
        wrong = np.flatnonzero(bits(array, one_nan) != bits(found[name], one_nan))
        said += [f"{name}[{k}]: {array[k]} and {found[name][k]}" for k in wrong[:2]]
    return said


@pytest.mark.parametrize(
    "first",
    [*range(0, KERNELS, CHUNK), *(pytest.param(n, marks=pytest.mark.full) for n in range(KERNELS, MORE, CHUNK))],
)
def test_random_kernels(first: int) -> None:
    for seed in range(first, first + CHUNK):
        kernel = random_kernel(seed)
        given, table = inputs(kernel)
        found = on_the_machine(kernel, given, table)
        for way, arrays in zip(WAYS[1:], found[1:], strict=True):
            assert not differences(found[0], arrays), (seed, way, kernel.cuda)
        for evaluate in (in_plain_python, by_numba):
            said = differences(evaluate(kernel, given, table), found[0], one_nan=True)
            assert not said, (seed, evaluate.__name__, said, kernel.cuda)


def test_the_kernels_are_those_that_were_meant() -> None:
    texts = "".join(random_kernel(seed).cuda for seed in range(300))
    for construct in (
        "if ",
        "elif ",
        "else:",
        "for ",
        "while ",
        "break",
        "continue",
        "return",
        "shfl_xor_sync",
        "near(",
    ):
        assert texts.count(construct) >= 30, construct
    assert {code for seed in range(300) for code in random_kernel(seed).variables.values()} == {*INTEGERS, *FLOATS}


@pytest.mark.parametrize("left", [*INTEGERS, "f4", "f8"])
def test_the_rules_of_typing_are_numbas(left: str) -> None:
    """Our table against Numba's own compiler, but for the pairs that are never generated."""
    add = njit(lambda a, b: a + b)
    for right in (*INTEGERS, "f4", "f8"):
        if "u8" in (left, right) and {left, right} & set(SIGNED):
            continue
        result = add.compile((TYPES[NAMES[left]], TYPES[NAMES[right]])) and add.nopython_signatures[-1].return_type
        assert str(result) == NAMES[arithmetic_type(left, right)], right
