"""What brought float64 into a kernel: the literal, operand or argument that the message names, and its mend."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numba import cuda, float32, float64, int32, uint8, uint16, uint32

from simulator import simulate
from simulator.findings import Finding
from tests.simulator.running import line_of


def found(kernel: Any, *args: Any, threads: int = 32, kind: str = "float64") -> list[Finding]:
    """The findings of a kind, in the order of their lines."""
    trace = simulate(kernel, check=True)[1, threads](*args)
    return sorted((one for one in trace.findings if one.kind == kind), key=lambda one: one.lines)


def single(*shape: int) -> np.ndarray:
    return np.ones(shape or (32,), np.float32)


@cuda.jit(device=True)
def affine(v):
    return v * 0.1 + 1.3


@cuda.jit(device=True)
def affine_in_single(v):
    return v * float32(0.1) + float32(1.3)


@cuda.jit(device=True)
def nested(v):
    return affine(v) + v


@cuda.jit
def calls(x, y):
    y[cuda.grid(1)] = affine(x[cuda.grid(1)])


@cuda.jit
def calls_nested(x, y):
    y[cuda.grid(1)] = nested(x[cuda.grid(1)])


@cuda.jit
def calls_in_single(x, y):
    y[cuda.grid(1)] = affine_in_single(x[cuda.grid(1)])


@pytest.mark.parametrize("kernel", [calls, calls_nested])
def test_in_device_functions(kernel: Any) -> None:
    """Compiled code has their instructions on the line of the call."""
    (finding,) = found(kernel, single(), single())
    assert finding.lines == (line_of(affine, "0.1"),)
    assert "not confirmed" not in finding.message
    assert not found(calls_in_single, single(), single())


# -- a number that is float32, until it meets another -----------------------------------------------------------------


@cuda.jit
def summed_counts(x, y):
    i = cuda.grid(1)
    s = float32(0)
    for k in range(i):
        s += k
    y[i] = s * x[i]


@cuda.jit
def summed_products(x, y):
    i = cuda.grid(1)
    s = np.float32(0)
    for k in range(i):
        s += x[k] * 0.1
    y[i] = s


def test_who_starts_in_float32_is_not_to_blame() -> None:
    (finding,) = found(summed_counts, single(), single())
    assert finding.lines == (line_of(summed_counts, "s += k"),)
    assert "k is int64, which beside a float32 becomes float64, so this line" in finding.message
    (finding,) = found(summed_products, single(), single())
    assert finding.lines == (line_of(summed_products, "0.1"),) and "the literal 0.1" in finding.message


# -- literals --------------------------------------------------------------------------------------------------------


@cuda.jit
def leaky(x, y):
    i = cuda.grid(1)
    y[i] = x[i] if x[i] > 0 else 0.01 * x[i]


@cuda.jit
def greatest(x, y):
    i = cuda.grid(1)
    m = -math.inf
    for j in range(4):
        m = max(m, x[(i + j) % 32])
    y[i] = m


@cuda.jit
def least(x, y):
    i = cuda.grid(1)
    m = np.inf
    for j in range(4):
        m = min(m, x[(i + j) % 32])
    y[i] = m


@cuda.jit
def doubled(x, y):
    i = cuda.grid(1)
    y[i] = (x[i] + 1) * x[i] / 3


@pytest.mark.parametrize(
    ("kernel", "text", "cause", "mend"),
    [
        (leaky, "0.01", "the literal 0.01 is float64", "write float32(0.01)"),
        (greatest, "-math.inf", "m starts as -math.inf, which is float64", "write m = float32(-math.inf)"),
        (least, "np.inf", "m starts as np.inf, which is float64", "write m = float32(np.inf)"),
        (doubled, "/ 3", "the literal 1 is an integer, which beside a float becomes float64", "write float32(1)"),
    ],
)
def test_literals_are_told_as_they_are_written(kernel: Any, text: str, cause: str, mend: str) -> None:
    (finding,) = found(kernel, single(), single())
    assert finding.lines == (line_of(kernel, text),)
    assert cause in finding.message
    assert finding.mend == mend


def scaled(x, width, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] / (width / y.shape[0])


def test_a_guard_that_debug_adds_is_not_in_the_source() -> None:
    said = []
    for debug in (False, True):
        kernel = cuda.jit(debug=debug, opt=not debug)(scaled)
        said.append([str(one) for one in found(kernel, single(), np.float32(8), single())])
    assert said[0] == said[1] and len(said[0]) == 1
    assert "y.shape[0] is int64, which beside a float32 becomes float64" in said[0][0]


# -- whose float64 it is -----------------------------------------------------------------------------------------------


@cuda.jit
def mandelbrot(low, high, image):
    x, y = cuda.grid(2)
    if x < image.shape[1] and y < image.shape[0]:
        step = (high - low) / image.shape[1]
        real, imag = low + x * step, low + y * step
        image[y, x] = real * real + imag * imag >= 4


def test_an_integer_beside_a_float64_brought_nothing() -> None:
    findings = found(mandelbrot, -2.0, 1.0, np.zeros((4, 8), np.uint8))
    assert findings and all("the argument" in one.message for one in findings)


@cuda.jit
def banded(a, out, bandwidth):
    i = cuda.grid(1)
    if not (abs(i - 3) > bandwidth > 0):
        limit = 1e-12
        while a[i] < limit:
            limit *= 0.5
        out[i] = a[i] * 2.0


@cuda.jit
def banded_mixed(a, out, bandwidth, weight):
    i = cuda.grid(1)
    if not (abs(i - 3) > bandwidth > 0):
        out[i] = a[i] * weight[i]


def test_a_kernel_whose_arrays_are_float64_wants_it() -> None:
    a = np.ones(32)
    assert not found(banded, a, np.zeros(32), 3.0)
    (finding,) = found(banded_mixed, a, np.zeros(32), 3.0, single())
    assert "the argument bandwidth is float64" in finding.message


@cuda.jit
def ratio(s, n, y):
    i = cuda.grid(1)
    y[i] = s[i] / float(n)


@cuda.jit
def flagged(y):
    i = cuda.grid(1)
    y[i] = 1.5 * int(i == 3) + float64(0) * i


def test_a_call_of_float_is_no_division_of_integers() -> None:
    (finding,) = found(ratio, np.ones(32, np.int32), np.int32(9), single())
    assert "float() gives float64" in finding.message


# -- digits and hashes: what is cut off on purpose --------------------------------------------------------------------


@cuda.jit
def hashed(k, table):
    h = uint32(2166136261)
    v = uint32(k[cuda.grid(1)])
    for b in range(4):
        h = uint32((h ^ ((v >> uint32(8 * b)) & uint32(255))) * uint32(16777619))
    cuda.atomic.add(table, h % uint32(64), 1)


@cuda.jit
def digits(k, table):
    word = k[cuda.grid(1)]
    cuda.atomic.add(table, uint8(word), 1)
    cuda.atomic.add(table, uint16(word >> 25), 1)


@cuda.jit
def cut(k, table):
    i = cuda.grid(1)
    cuda.atomic.add(table, int32(k[i] * 65537 * 65537) % 64, 1)


@cuda.jit
def short(k, table):
    table[uint16(k[cuda.grid(1)] * 4099) // 1024] = 1


def test_a_digit_or_a_hash_is_no_index_that_lost_its_bits() -> None:
    keys, table = np.random.default_rng(0).integers(1 << 20, 2**31 - 1, 96).astype(np.int32), np.zeros(256, np.int32)
    assert not found(hashed, keys, table, threads=96, kind="overflow")
    assert not found(digits, keys, table, threads=96, kind="overflow")
    assert found(cut, keys, table, threads=96, kind="overflow")
    assert found(short, keys, table, threads=96, kind="overflow")
