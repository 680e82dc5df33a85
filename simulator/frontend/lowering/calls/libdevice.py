"""The functions of libdevice.

Elementary functions are rounded correctly or within an ulp, which is closer than the GPU's (1 to 4 ulp, and more for
the ``fast_`` ones).  The Bessel functions (``j0`` ... ``yn``) have no meaning and are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulator.frontend.lowering.builder import Builder
from simulator.frontend.lowering.calls import wide_integers as wide
from simulator.frontend.lowering.calls.bits import first_bit
from simulator.frontend.lowering.calls.maths import FUNCTIONS
from simulator.frontend.lowering.calls.table import Bound, meaning
from simulator.frontend.lowering.values import Tuple, Value

Rule = Callable[..., int | tuple[int, ...]]
"""What a function does: a builder and the slots of the arguments (in libdevice's dtypes) to the results."""

ROUNDINGS = {"rd": "floor", "ru": "ceil", "rz": "trunc", "rn": "even"}
"""libdevice's suffixes of the rounding modes, and the machine's names of them."""


def _define(name: str, rule: Rule) -> None:
    def function(bound: Bound) -> Value:
        found = rule(bound.builder, *bound.numbers())
        return bound.body.coerce(Tuple(found) if isinstance(found, tuple) else found, bound.kind)

    meaning(f"libdevice.{name}", "*")(function)


def _both(name: str, rule: Callable[[str], Rule]) -> None:
    """The double and the single form of a function."""
    _define(name, rule("f8"))
    _define(name + "f", rule("f4"))


def _operation(kind: str, code: str = "", **attr: Any) -> Rule:
    """One operation, in the dtype of the first operand unless given: integers arrive signed."""

    def operation(builder: Builder, *slots: int) -> int:
        dtype = code or builder.dtype(slots[0])
        return builder.op(kind, dtype, *(builder.cast(slot, dtype) for slot in slots), **attr)

    return operation


def _float(kind: str, **attr: Any) -> Callable[[str], Rule]:
    return lambda code: _operation(kind, code, **attr)


# ----------------------------------------------------------------------------------------- elementary functions

for _name in ("sqrt", "rsqrt", "fabs"):
    _both(_name, _float({"fabs": "abs"}.get(_name, _name)))
for _name, _kind in (("copysign", "copysign"), ("fmod", "rem"), ("fma", "fma")):
    _both(_name, _float(_kind))
_both("fmin", _float("min", nan="ignore"))
_both("fmax", _float("max", nan="ignore"))
_INTEGRAL = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "even", "nearbyint": "even", "round": "away"}
for _name, _mode in _INTEGRAL.items():
    _both(_name, _float("round", mode=_mode))
for _name in (*FUNCTIONS, "cbrt", "rcbrt", "sinpi", "cospi", "exp10", "logb", "normcdf", "normcdfinv", "erfinv",
              "erfcinv", "erfcx", "atan2", "hypot", "pow", "remainder", "nextafter", "fdim"):  # fmt: skip
    _both({"gamma": "tgamma"}.get(_name, _name), _float("math", fn=_name))
for _name in ("sin", "cos", "tan", "exp", "exp10", "log", "log2", "log10", "pow"):
    _define(f"fast_{_name}f", _operation("math", fn=_name))
_define("fast_fdividef", _operation("div"))


def _sine_and_cosine(half_turns: str) -> Callable[[str], Rule]:
    def both(builder: Builder, x: int) -> tuple[int, ...]:
        code = builder.dtype(x)
        return tuple(builder.op("math", code, x, fn=f"{fn}{half_turns}") for fn in ("sin", "cos"))

    return lambda code: both


_both("sincos", _sine_and_cosine(""))
_both("sincospi", _sine_and_cosine("pi"))
_define("fast_sincosf", _sine_and_cosine("")("f4"))
_both("frexp", lambda code: lambda builder, x: builder.ops("math", code, x, results=(code, "i4"), fn="frexp"))
_both("modf", lambda code: lambda builder, x: builder.ops("math", code, x, results=(code, code), fn="modf"))
for _name in ("ldexp", "scalbn"):
    _both(_name, lambda code: lambda builder, x, n: builder.op("math", code, x, n, fn="ldexp"))


def _integer_power(builder: Builder, x: int, n: int) -> int:
    """In double, which holds every int32."""
    return builder.op("math", "f8", builder.cast(x, "f8"), builder.cast(n, "f8"), fn="pow")


def _remainder_and_quotient(builder: Builder, x: int, y: int) -> tuple[int, int]:
    """The IEEE remainder, and the last three bits of the quotient with its sign."""
    code = builder.dtype(x)
    size = builder.op("abs", code, y)
    near = builder.op("rem", code, builder.op("abs", code, x), builder.op("mul", code, size, builder.const(code, 8)))
    rest = builder.op("math", code, near, size, fn="remainder")
    whole = builder.op("round", code, builder.op("div", code, builder.op("sub", code, near, rest), size), mode="even")
    quotient = builder.op("and", "i4", builder.cast(whole, "i4"), builder.const("i4", 7))
    signs = (builder.op("classify", code, slot, result="b1", fn="signbit") for slot in (x, y))
    negative = builder.op("xor", "b1", *signs)
    signed = builder.op("select", "i4", negative, builder.op("neg", "i4", quotient), quotient)
    return builder.op("math", code, x, y, fn="remainder"), signed


def _exponent(builder: Builder, x: int) -> int:
    """``ilogb``: of zero and NaN the smallest int32, of an infinity the largest."""
    code = builder.dtype(x)
    missing = builder.op("classify", code, x, result="b1", fn="isnan")
    found = builder.cast(builder.op("math", code, x, fn="logb"), "i4")
    return builder.op("select", "i4", missing, builder.const("i4", -(1 << 31)), found)


def _saturated(builder: Builder, x: int) -> int:
    """Held between 0 and 1; NaN gives 0."""
    code = builder.dtype(x)
    positive = builder.op("max", code, x, builder.const(code, 0), nan="ignore")
    return builder.op("min", code, positive, builder.const(code, 1), nan="ignore")


_both("powi", lambda code: _integer_power)
_both("remquo", lambda code: _remainder_and_quotient)
_both("ilogb", lambda code: _exponent)
_define("saturatef", _saturated)


def _class(fn: str) -> Rule:
    return lambda builder, x: builder.op("classify", builder.dtype(x), x, result="b1", fn=fn)


for _name, _fn in (("isinf", "isinf"), ("isnan", "isnan"), ("signbit", "signbit")):
    _define(f"{_name}d", _class(_fn))
    _define(f"{_name}f", _class(_fn))
_define("isfinited", _class("isfinite"))
_define("finitef", _class("isfinite"))

# ---------------------------------------------------------------------------------- arithmetic with a rounding mode


def _directed(mode: str) -> dict[str, str]:
    return {} if mode == "even" else {"rounding": mode}


def _reciprocal(code: str, mode: str) -> Rule:
    return lambda builder, x: builder.op("div", code, builder.const(code, 1), x, **_directed(mode))


for _suffix, _mode in ROUNDINGS.items():
    for _letter, _code in (("f", "f4"), ("d", "f8")):
        for _kind in ("add", "sub", "mul", "div", "sqrt"):
            if _letter + _kind != "dsub":
                _define(f"{_letter}{_kind}_{_suffix}", _operation(_kind, **_directed(_mode)))
        _define(f"{_letter}rcp_{_suffix}", _reciprocal(_code, _mode))
    _define(f"fma_{_suffix}", _operation("fma", **_directed(_mode)))
    _define(f"fmaf_{_suffix}", _operation("fma", **_directed(_mode)))
_define("frsqrt_rn", _operation("rsqrt"))

# --------------------------------------------------------------------------------------------------- conversions


def to_integer(code: str, mode: str) -> Rule:
    """A float rounded to an integer of this dtype, at most its extremes; NaN gives 0."""

    def convert(builder: Builder, x: int) -> int:
        if mode != "trunc":
            x = builder.op("round", builder.dtype(x), x, mode=mode)
        return builder.cast(x, code)

    return convert


def to_float(code: str, mode: str, source: str = "") -> Rule:
    """A number (its bits seen as ``source`` if given) as a float of this dtype."""

    def convert(builder: Builder, x: int) -> int:
        given = builder.cast(x, source) if source else x
        if mode == "even":
            return builder.cast(given, code)
        return builder.op("cvt", code, given, source=builder.dtype(given), rounding=mode)

    return convert


def bits_as(code: str) -> Callable[[Builder, int], int]:
    """The same bits as another dtype of the same size."""
    return lambda builder, x: builder.op("bitcast", code, x, source=builder.dtype(x))


_INTEGERS = {"int": "i4", "uint": "u4", "ll": "i8", "ull": "u8"}
for _suffix, _mode in ROUNDINGS.items():
    for _word, _integer in _INTEGERS.items():
        for _real, _code in (("float", "f4"), ("double", "f8")):
            _define(f"{_real}2{_word}_{_suffix}", to_integer(_integer, _mode))
            if _integer[1] == "8" or _code == "f4" or _suffix == "rn":  # the others are exact
                _define(f"{_word}2{_real}_{_suffix}", to_float(_code, _mode, _integer))
    _define(f"double2float_{_suffix}", to_float("f4", _mode))
for _name, _mode in (("llrint", "even"), ("llround", "away")):
    _define(_name, to_integer("i8", _mode))
    _define(f"{_name}f", to_integer("i8", _mode))
for _name, _code in (("float_as_int", "i4"), ("int_as_float", "f4"), ("double_as_longlong", "i8"),
                     ("longlong_as_double", "f8")):  # fmt: skip
    _define(_name, bits_as(_code))
_define("float2half_rn", lambda builder, x: bits_as("i2")(builder, builder.cast(x, "f2")))
_define("half2float", lambda builder, x: builder.cast(bits_as("f2")(builder, x), "f4"))
_define("double2hiint", lambda builder, x: wide.halves(builder, bits_as("u8")(builder, x))[0])
_define("double2loint", lambda builder, x: wide.halves(builder, bits_as("u8")(builder, x))[1])
_define("hiloint2double", lambda builder, high, low: bits_as("f8")(builder, wide.joined(builder, high, low)))

# ------------------------------------------------------------------------------------------------------ integers

for _name, _code in (("abs", "i4"), ("llabs", "i8")):
    _define(_name, _operation("abs", _code))
for _kind in ("min", "max"):
    for _prefix, _code in (("", "i4"), ("u", "u4"), ("ll", "i8"), ("ull", "u8")):
        _define(_prefix + _kind, _operation(_kind, _code))
for _kind in ("popc", "clz"):
    for _suffix in ("", "ll"):
        _define(_kind + _suffix, _operation(_kind, result="u4"))
for _suffix in ("", "ll"):
    _define(f"brev{_suffix}", _operation("brev"))
    _define(f"ffs{_suffix}", first_bit)
_define("byte_perm", wide.permuted_bytes)
for _prefix, _code in (("", "i4"), ("u", "u4")):
    _define(f"{_prefix}hadd", wide.average(_code, 0))
    _define(f"{_prefix}rhadd", wide.average(_code, 1))
    _define(f"{_prefix}mul24", wide.product_of_24_bits(_code))
    _define(f"{_prefix}mulhi", wide.high_product(_code))
    _define(f"{_prefix}mul64hi", wide.high_product(f"{_code[0]}8"))
    _define(f"{_prefix}sad", wide.sum_of_difference(_code))
