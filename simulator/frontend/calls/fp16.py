"""numba.cuda's intrinsics for float16 and bfloat16 (``cuda.fp16``, ``cuda.bf16``).

Those that are one operation, rounded once to nearest even, or an exact conversion; saturating forms and other
rounding modes are refused.
"""

from __future__ import annotations

from typing import Any

from simulator.frontend.calls.table import Bound, Meaning, meaning
from simulator.frontend.values import Value
from simulator.program import FLOATS, INTEGERS

MODULES = ("cuda.fp16", "cuda.bf16")


def _operation(kind: str, operands: int, result: str | None = None, **attr: Any) -> Meaning:
    def operation(bound: Bound) -> Value:
        values = bound.numbers()
        codes = {bound.builder.dtype(value) for value in values}
        if len(values) != operands or len(codes) != 1 or not codes <= {"f2", "bf"}:
            raise bound.refuse(f"with {', '.join(map(bound.builder.dtype, values))}")
        found = bound.builder.op(kind, codes.pop(), *values, result=result, **attr)
        return bound.builder.cast(found, bound.result)

    return operation


def _convert(bound: Bound) -> Value:
    """From a float: rounded to nearest even; to an integer: truncated, saturating."""
    (value,) = bound.numbers()
    return bound.builder.cast(value, bound.result)


def _reinterpret(bound: Bound) -> Value:
    (value,) = bound.numbers()
    source = bound.builder.dtype(value)
    if source not in (*FLOATS, *INTEGERS):
        raise bound.refuse(f"of {source}")
    return bound.builder.op("bitcast", bound.result, value, source=source)


def _both(name: str, function: Meaning) -> None:
    for module in MODULES:
        meaning(f"{module}.{name}", "*")(function)
        meaning(f"{module}.__{name}", "*")(function)


for _kind in ("add", "sub", "mul"):
    _both(f"h{_kind}", _operation(_kind, 2))
    _both(f"h{_kind}_rn", _operation(_kind, 2))
_both("hdiv", _operation("div", 2))
_both("hfma", _operation("fma", 3))
_both("hneg", _operation("neg", 1))
_both("habs", _operation("abs", 1))
for _how in ("eq", "ne", "lt", "le", "gt", "ge"):
    _both(f"h{_how}", _operation("cmp", 2, "b1", how=_how, unordered=False))
    _both(f"h{_how}u", _operation("cmp", 2, "b1", how=_how, unordered=True))
for _kind in ("min", "max"):
    _both(f"h{_kind}", _operation(_kind, 2, nan="ignore"))
    _both(f"h{_kind}_nan", _operation(_kind, 2, nan="propagate"))
_both("hisnan", _operation("classify", 1, "b1", fn="isnan"))
for _name, _mode in (("floor", "floor"), ("ceil", "ceil"), ("trunc", "trunc"), ("rint", "even")):
    _both(f"h{_name}", _operation("round", 1, mode=_mode))
for _kind in ("sqrt", "rsqrt"):
    _both(f"h{_kind}", _operation(_kind, 1))
for _fn in ("exp", "exp2", "exp10", "log", "log2", "log10", "sin", "cos", "tanh"):
    _both(f"h{_fn}", _operation("math", 1, fn=_fn))

_WORDS = {"short": "int16", "ushort": "uint16", "int": "int32", "uint": "uint32", "ll": "int64", "ull": "uint64"}
"""CUDA's names of the integers, and those that numba.cuda.bf16 gives its functions too."""

for _half, _module in (("half", "cuda.fp16.__"), ("bfloat16", "cuda.bf16.")):
    for _wide in ("float", "double"):
        for _suffix in ("", "_rn"):
            meaning(f"{_module}{_wide}2{_half}{_suffix}", "*")(_convert)
    meaning(f"{_module}{_half}2float", "*")(_convert)
    for _integer in _WORDS:
        meaning(f"{_module}{_integer}2{_half}_rn", "*")(_convert)
        meaning(f"{_module}{_half}2{_integer}_rz", "*")(_convert)
    for _integer in ("short", "ushort"):
        meaning(f"{_module}{_half}_as_{_integer}", "*")(_reinterpret)
        meaning(f"{_module}{_integer}_as_{_half}", "*")(_reinterpret)

for _name in ("bfloat16_to_float32", "float32_to_bfloat16", "float32_to_bfloat16_rn", "float64_to_bfloat16"):
    meaning(f"cuda.bf16.{_name}", "*")(_convert)
for _integer in _WORDS.values():
    meaning(f"cuda.bf16.{_integer}_to_bfloat16_rn", "*")(_convert)
    meaning(f"cuda.bf16.bfloat16_to_{_integer}_rz", "*")(_convert)
