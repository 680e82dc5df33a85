"""The intrinsics of cuda.fp16 and cuda.bf16, against arithmetic in double precision rounded once."""

import math

import ml_dtypes
import numpy as np
import pytest
from numba import cuda
from numba.cuda import bf16, fp16

from simulator import simulate
from simulator.errors import Unsupported
from simulator.frontend import lower_kernel
from simulator.frontend.lowering.calls import meanings

MODULES = {"fp16": (fp16, np.float16), "bf16": (bf16, ml_dtypes.bfloat16)}
A = np.array([0.5, -1.5, 3.25, 0.1, -0.0, 2.0, np.nan, np.inf, -np.inf, 1e-3, 100.0])
B = np.roll(A, 4)
C = np.roll(A, 7)


def clamped(function, low, high):
    return lambda *v: np.where(np.isnan(function(*v)), low, np.clip(function(*v), low, high))


def unordered(how):
    return lambda a, b: np.isnan(a) | np.isnan(b) | how(a, b)


def ordered(how):
    return lambda a, b: ~np.isnan(a) & ~np.isnan(b) & how(a, b)


COMPARISONS = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
ARITHMETIC = {
    "hadd": np.add, "hsub": np.subtract, "hmul": np.multiply, "hdiv": np.divide, "hfma": lambda a, b, c: a * b + c,
    "hneg": np.negative, "habs": np.abs, "hrcp": lambda a: 1 / a, "hmin": np.fmin, "hmax": np.fmax,
    "hmin_nan": np.minimum, "hmax_nan": np.maximum, "hisnan": np.isnan,
    "hisinf": lambda a: (a == np.inf) * 1.0 - (a == -np.inf), "hfma_relu": lambda a, b, c: np.maximum(a * b + c, 0),
    "hfma_sat": clamped(lambda a, b, c: a * b + c, 0, 1), "hfloor": np.floor, "hceil": np.ceil, "htrunc": np.trunc,
    "hrint": np.rint, "hsqrt": np.sqrt, "hrsqrt": lambda a: 1 / np.sqrt(a), "hexp": np.exp, "hexp2": np.exp2,
    "hexp10": lambda a: 10.0**a, "hlog": np.log, "hlog2": np.log2, "hlog10": np.log10, "hsin": np.sin, "hcos": np.cos,
    "htanh": np.tanh, "htanh_approx": np.tanh,
}  # fmt: skip
for _name in ("add", "sub", "mul"):
    ARITHMETIC[f"h{_name}_rn"] = ARITHMETIC[f"h{_name}"]
    ARITHMETIC[f"h{_name}_sat"] = clamped(ARITHMETIC[f"h{_name}"], 0, 1)
for _how, _function in COMPARISONS.items():
    ARITHMETIC[f"h{_how}"] = ordered(_function)
    ARITHMETIC[f"h{_how}u"] = unordered(_function)


def function_of(module, name):
    return getattr(module, name, None) or getattr(module, f"__{name}", None)


def operands_of(name):
    """How many operands a function has."""
    if "fma" in name:
        return 3
    pairs = ("add", "sub", "mul", "div", "min", "max", *COMPARISONS, *(f"{how}u" for how in COMPARISONS))
    return 2 if name[1:].split("_")[0] in pairs else 1


def kernel_of(functions, operands):
    """A kernel that applies the k-th function to the k-th row."""
    scope = {f"f{k}": function for k, function in enumerate(functions)} | {"cuda": cuda}
    calls = [f" y[{k}, i] = f{k}({', '.join(f'{a}[i]' for a in 'abc'[:count])})" for k, count in enumerate(operands)]
    exec("\n".join(["def kernel(a, b, c, y):", " i = cuda.grid(1)", *calls]), scope)
    return cuda.jit(scope["kernel"])


@pytest.mark.parametrize("module", MODULES)
def test_arithmetic_is_rounded_once(module):
    intrinsics, dtype = MODULES[module]
    names = [name for name in ARITHMETIC if function_of(intrinsics, name) is not None]
    assert len(names) > 40
    a, b, c = (column.astype(dtype) for column in (A, B, C))
    functions = [function_of(intrinsics, name) for name in names]
    counts = [operands_of(name) for name in names]
    found = np.zeros((len(names), len(A)), np.float32)
    simulate(kernel_of(functions, counts))[1, len(A)](a, b, c, found)
    for k, name in enumerate(names):
        with np.errstate(all="ignore"):
            exact = np.asarray(ARITHMETIC[name](*(v.astype(float) for v in (a, b, c)[: counts[k]])), float)
            expected = exact.astype(dtype).astype(np.float32)
        np.testing.assert_array_equal(found[k], expected, err_msg=name)


WORDS = {"short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "ll": "i8", "ull": "u8"}
ROUNDINGS = {"rn": round, "rd": math.floor, "ru": math.ceil, "rz": math.trunc}


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("word", WORDS)
def test_conversions_round_as_their_names_say(module, word):
    intrinsics, dtype = MODULES[module]
    half = {"fp16": "half", "bf16": "bfloat16"}[module]
    names = [f"{name}_{mode}" for name in (f"{word}2{half}", f"{half}2{word}") for mode in ROUNDINGS]
    to_rn, to_rd, to_ru, to_rz, rn, rd, ru, rz = (function_of(intrinsics, name) for name in names)

    @cuda.jit
    def kernel(n, x, y, m):
        i = cuda.grid(1)
        y[i, 0], y[i, 1], y[i, 2], y[i, 3] = to_rn(n[i]), to_rd(n[i]), to_ru(n[i]), to_rz(n[i])
        m[i, 0], m[i, 1], m[i, 2], m[i, 3] = rn(x[i]), rd(x[i]), ru(x[i]), rz(x[i])

    info = np.iinfo(WORDS[word])
    n = np.array([0, 1, 5, 255, 2049, 4097, info.max, info.min + 1], WORDS[word])
    x = np.array([0.5, 1.5, 2.25, -0.75, 3.99, 1000.0, np.nan, np.inf], dtype)
    y, m = np.zeros((8, 4), np.float64), np.zeros((8, 4), WORDS[word])
    simulate(kernel)[1, 8](n, x, y, m)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y[:, 0], n.astype(dtype).astype(float))
    assert (y[:, 1] <= n.astype(float)).all()
    assert (n.astype(float) <= y[:, 2]).all()
    np.testing.assert_array_equal(np.abs(y[:, 3]), np.minimum(np.abs(y[:, 1]), np.abs(y[:, 2])))
    for row, given in zip(m.tolist(), x.astype(float).tolist(), strict=True):
        for k, function in enumerate(ROUNDINGS.values()):
            whole = function(given) if math.isfinite(given) else given
            expected = 0 if math.isnan(given) else max(info.min, min(info.max, whole))
            assert row[k] == expected, (given, k)


def test_bits_seen_as_another_type():
    @cuda.jit
    def kernel(x, y):
        y[0] = bf16.bfloat16_as_int16(x[0])
        y[1] = bf16.bfloat16_as_uint16(x[0])
        x[1] = bf16.int16_as_bfloat16(np.int16(0x4049))

    x, y = np.array([-1.5, 0], ml_dtypes.bfloat16), np.zeros(2, "i8")
    simulate(kernel)[1, 1](x, y)
    pattern = int(np.float32(-1.5).view("u4")) >> 16
    assert y.tolist() == [pattern - 2**16, pattern]
    assert float(x[1]) == 3.140625


def test_what_has_no_meaning_is_refused_by_name():
    @cuda.jit
    def kernel(x):
        fp16.atomicAdd(x, x[0])

    known = set(meanings())
    for module, (intrinsics, _) in MODULES.items():
        names = {name for name in intrinsics.__all__ if callable(getattr(intrinsics, name))}
        missing = {name for name in names if f"cuda.{module}.{name}" not in known}
        assert missing <= {"__half", "atomicAdd", "bfloat16"}  # classes are casts
    with pytest.raises((Unsupported, Exception), match="atomicAdd"):
        lower_kernel(kernel, (np.zeros(2, np.float16),))
