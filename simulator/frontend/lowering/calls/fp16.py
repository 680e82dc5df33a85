"""numba.cuda's intrinsics for float16 and bfloat16 (``cuda.fp16``, ``cuda.bf16``).

Arithmetic is rounded once, in the rounding mode that a name ends with; elementary functions are rounded correctly,
which is closer than the GPU's (``htanh_approx`` too).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulator.frontend.lowering.builder import Builder
from simulator.frontend.lowering.calls.libdevice import ROUNDINGS, Rule, bits_as, to_float, to_integer
from simulator.frontend.lowering.calls.table import Bound, meaning
from simulator.frontend.lowering.values import Value

MODULES = ("cuda.fp16", "cuda.bf16")
_HALVES = frozenset({"f2", "bf"})


def _both(name: str, rule: Rule) -> None:
    """Register an operation on numbers of float16, or of bfloat16, under both of its names in both modules."""

    def function(bound: Bound) -> Value:
        slots = bound.numbers()
        codes = {bound.builder.dtype(slot) for slot in slots}
        if len(codes) != 1 or not codes <= _HALVES:
            raise bound.refuse(f"with {', '.join(map(bound.builder.dtype, slots))}")
        found = rule(bound.builder, *slots)
        assert isinstance(found, int)
        return bound.builder.cast(found, bound.result)

    for module in MODULES:
        meaning(f"{module}.{name}", "*")(function)
        meaning(f"{module}.__{name}", "*")(function)


def _operation(kind: str, result: str | None = None, **attr: Any) -> Rule:
    return lambda builder, *slots: builder.op(kind, builder.dtype(slots[0]), *slots, result=result, **attr)


def _bounded(rule: Rule, low: float, high: float | None, nan: str) -> Rule:
    """The result held above ``low`` and below ``high``; where NaN is ignored it becomes ``low``."""

    def bounded(builder: Builder, *slots: int) -> int:
        found = rule(builder, *slots)
        assert isinstance(found, int)
        code = builder.dtype(found)
        found = builder.op("max", code, found, builder.const(code, low), nan=nan)
        return found if high is None else builder.op("min", code, found, builder.const(code, high), nan=nan)

    return bounded


def _reciprocal(builder: Builder, x: int) -> int:
    return builder.op("div", builder.dtype(x), builder.const(builder.dtype(x), 1), x)


def _infinite(builder: Builder, x: int) -> int:
    """1 for infinity, -1 for its negative, else 0."""
    code = builder.dtype(x)
    infinite, negative = (builder.op("classify", code, x, result="b1", fn=fn) for fn in ("isinf", "signbit"))
    sign = builder.op("select", "i4", negative, builder.const("i4", -1), builder.const("i4", 1))
    return builder.op("select", "i4", infinite, sign, builder.const("i4", 0))


for _kind in ("add", "sub", "mul"):
    _both(f"h{_kind}", _operation(_kind))
    _both(f"h{_kind}_rn", _operation(_kind))
    _both(f"h{_kind}_sat", _bounded(_operation(_kind), 0.0, 1.0, "ignore"))
_both("hdiv", _operation("div"))
_both("hrcp", _reciprocal)
_both("hfma", _operation("fma"))
_both("hfma_sat", _bounded(_operation("fma"), 0.0, 1.0, "ignore"))
_both("hfma_relu", _bounded(_operation("fma"), 0.0, None, "propagate"))
_both("hneg", _operation("neg"))
_both("habs", _operation("abs"))
for _how in ("eq", "ne", "lt", "le", "gt", "ge"):
    _both(f"h{_how}", _operation("cmp", "b1", how=_how, unordered=False))
    _both(f"h{_how}u", _operation("cmp", "b1", how=_how, unordered=True))
for _kind in ("min", "max"):
    _both(f"h{_kind}", _operation(_kind, nan="ignore"))
    _both(f"h{_kind}_nan", _operation(_kind, nan="propagate"))
_both("hisnan", _operation("classify", "b1", fn="isnan"))
_both("hisinf", _infinite)
for _name, _mode in (("floor", "floor"), ("ceil", "ceil"), ("trunc", "trunc"), ("rint", "even")):
    _both(f"h{_name}", _operation("round", mode=_mode))
for _kind in ("sqrt", "rsqrt"):
    _both(f"h{_kind}", _operation(_kind))
for _fn in ("exp", "exp2", "exp10", "log", "log2", "log10", "sin", "cos", "tanh"):
    _both(f"h{_fn}", _operation("math", fn=_fn))
_both("htanh_approx", _operation("math", fn="tanh"))

# --------------------------------------------------------------------------------------------------- conversions


def _convert(rule: Rule) -> Callable[[Bound], Value]:
    def convert(bound: Bound) -> Value:
        (value,) = bound.numbers()
        found = rule(bound.builder, value)
        assert isinstance(found, int)
        return bound.builder.cast(found, bound.result)

    return convert


_INTEGERS = {
    "char": ("i1", "int8"), "uchar": ("u1", "uint8"), "short": ("i2", "int16"), "ushort": ("u2", "uint16"),
    "int": ("i4", "int32"), "uint": ("u4", "uint32"), "ll": ("i8", "int64"), "ull": ("u8", "uint64"),
}  # fmt: skip
"""CUDA's names of the integers, our codes, and the names that numba.cuda.bf16 gives its functions too."""
_REALS = {"float": "float32", "double": "float64"}


def _conversions(prefix: str, half: str, code: str) -> None:
    """``__int2half_rd``, ``__half2float`` ...: CUDA's names."""

    def define(name: str, rule: Rule) -> None:
        meaning(f"{prefix}{name}", "*")(_convert(rule))

    for real in _REALS:
        define(f"{real}2{half}", to_float(code, "even"))
    define(f"{half}2float", to_float("f4", "even"))
    for suffix, mode in ROUNDINGS.items():
        define(f"float2{half}_{suffix}", to_float(code, mode))
        for word, (integer, _) in _INTEGERS.items():
            define(f"{word}2{half}_{suffix}", to_float(code, mode))
            define(f"{half}2{word}_{suffix}", to_integer(integer, mode))
    for word in ("short", "ushort"):
        define(f"{half}_as_{word}", bits_as(_INTEGERS[word][0]))
        define(f"{word}_as_{half}", bits_as(code))


def _numpy_names() -> None:
    """``int32_to_bfloat16_rd`` ...: what numba.cuda.bf16 calls the same functions."""

    def define(name: str, rule: Rule) -> None:
        meaning(f"cuda.bf16.{name}", "*")(_convert(rule))

    for real in _REALS.values():
        define(f"{real}_to_bfloat16", to_float("bf", "even"))
    define("bfloat16_to_float32", to_float("f4", "even"))
    for suffix, mode in ROUNDINGS.items():
        define(f"float32_to_bfloat16_{suffix}", to_float("bf", mode))
        for integer, word in _INTEGERS.values():
            define(f"{word}_to_bfloat16_{suffix}", to_float("bf", mode))
            define(f"bfloat16_to_{word}_{suffix}", to_integer(integer, mode))
    for word, code in (("int16", "i2"), ("uint16", "u2")):
        define(f"bfloat16_as_{word}", bits_as(code))
        define(f"{word}_as_bfloat16", bits_as("bf"))


_conversions("cuda.fp16.__", "half", "f2")
_conversions("cuda.bf16.", "bfloat16", "bf")
_conversions("cuda.bf16.__", "bfloat16", "bf")
_numpy_names()
