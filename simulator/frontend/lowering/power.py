"""``x ** y``, as Numba computes it.

An integer exponent means repeated squaring (in the dtype of the base), for literals unrolled: ``x ** 2`` is one
multiplication.  A float exponent is the library's pow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.frontend.lowering.library import call_library
from simulator.frontend.lowering.library_functions import integer_power, real_power
from simulator.program import FLOATS

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body

_UNROLLED = 64
_NUMBERS: dict[str, Any] = {"f4": np.float32, "f8": np.float64, "i8": np.int64, "u8": np.uint64}


def power(body: Body, base: int, exponent: int, code: str) -> int:
    """``base ** exponent``; the result has dtype ``code``."""
    builder = body.builder
    if builder.dtype(exponent) in FLOATS:
        return builder.op("math", code, builder.cast(base, code), builder.cast(exponent, code), fn="pow")
    known = builder.known(exponent)
    base = builder.cast(base, code)
    if known is not None and 0 <= known <= _UNROLLED:
        return _unrolled(body, base, int(known), code)
    if known is not None and -_UNROLLED <= known < 0 and code in FLOATS:
        inverse = _unrolled(body, base, -int(known), code)
        one = builder.const("f8", 1.0)
        return builder.cast(builder.op("div", "f8", one, builder.cast(inverse, "f8")), code)
    if code in ("f2", "bf"):
        raise body.refuse(f"a power of {code} whose exponent is not a constant")
    number = _NUMBERS[code]
    function = real_power(number) if code in FLOATS else integer_power(number, np.iinfo(number).min)
    result = call_library(body, function, (base, exponent))
    assert isinstance(result, int)
    return builder.cast(result, code)


def _unrolled(body: Body, base: int, exponent: int, code: str) -> int:
    result: int | None = None
    while exponent:
        if exponent & 1:
            result = base if result is None else body.builder.op("mul", code, result, base)
        exponent >>= 1
        if exponent:
            base = body.builder.op("mul", code, base, base)
    return body.builder.const(code, 1) if result is None else result
