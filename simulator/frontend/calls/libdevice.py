"""The functions of libdevice that are exactly an operation of the program."""

from __future__ import annotations

from typing import Any

from simulator.frontend.calls.maths import FUNCTIONS
from simulator.frontend.calls.table import Bound, Meaning, meaning
from simulator.frontend.values import Value

_NAMES = ("x", "y", "z")


def _operation(kind: str, operands: int, **attr: Any) -> Meaning:
    def operation(bound: Bound) -> Value:
        code = bound.result
        return bound.builder.op(kind, code, *(bound.number(name, code) for name in _NAMES[:operands]), **attr)

    return operation


def _both(name: str, kind: str, operands: int, **attr: Any) -> None:
    """Register the double and the single form of a function."""
    for suffix in ("", "f"):
        parameters = " ".join(_NAMES[:operands])
        meaning(f"libdevice.{name}{suffix}", parameters)(_operation(kind, operands, **attr))


for _name in ("sqrt", "rsqrt", "fabs"):
    _both(_name, {"fabs": "abs"}.get(_name, _name), 1)
_both("copysign", "copysign", 2)
_both("fmod", "rem", 2)
_both("fma", "fma", 3)
_both("fmin", "min", 2, nan="ignore")
_both("fmax", "max", 2, nan="ignore")
for _name, _mode in (
    ("floor", "floor"), ("ceil", "ceil"), ("trunc", "trunc"), ("rint", "even"), ("nearbyint", "even"),
    ("round", "away"),
):  # fmt: skip
    _both(_name, "round", 1, mode=_mode)
for _name in (*FUNCTIONS, "cbrt"):
    _both({"gamma": "tgamma"}.get(_name, _name), "math", 1, fn=_name)
for _name in ("atan2", "hypot", "pow", "remainder", "nextafter"):
    _both(_name, "math", 2, fn=_name)
for _kind in ("add", "sub", "mul", "div"):
    for _letter in "fd":
        meaning(f"libdevice.{_letter}{_kind}_rn", "x y")(_operation(_kind, 2))
for _name in ("fsqrt_rn", "dsqrt_rn"):
    meaning(f"libdevice.{_name}", "x")(_operation("sqrt", 1))
for _name in ("fmaf_rn", "fma_rn"):
    meaning(f"libdevice.{_name}", "x y z")(_operation("fma", 3))
# The hardware's is off by up to 2 units in the last place, as its rsqrt is; both are rounded correctly here.
meaning("libdevice.fast_fdividef", "x y")(_operation("div", 2))
