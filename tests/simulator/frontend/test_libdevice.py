"""Every function of libdevice: it has a reference here and agrees with it, or it is refused by name."""

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from numba import cuda
from numba.cuda import libdevice, libdevicefuncs

from simulator import simulate
from simulator.errors import Unsupported
from simulator.frontend import lower_kernel

BESSEL = {f"{name}{suffix}" for name in ("j0", "j1", "jn", "y0", "y1", "yn") for suffix in ("", "f")}
FLOATS = [0.25, 0.5, 0.75, -0.5, 1.0, 3.5, -2.5, 17.0, 1e-3, 0.1, -0.3, 0.9]
INTEGERS = [0, 1, -1, 5, -7, 123456789, -(2**31), 2**31 - 1, 0x00FF00F0, 0x40302010, -3, 31]
LONGS = [0, 1, -1, 5, -7, 2**40 + 3, -(2**63), 2**63 - 1, 0x00FF00F000FF, -3, 31, -(2**53) - 1]
STEP = {"rn": None, "rd": -math.inf, "ru": math.inf}


def unsigned(x, bits=32):
    return x & (1 << bits) - 1


def signed(x, bits=32):
    x = unsigned(x, bits)
    return x - (1 << bits) if x >> bits - 1 else x


def rounded(exact, dtype, mode):
    """A Fraction (or an int) as a float: to nearest, or the neighbour on the side that the mode says."""
    if mode == "rz":
        mode = "rd" if exact > 0 else "ru"
    with np.errstate(over="ignore"):
        near = np.dtype(dtype).type(float(exact)) if dtype == "f8" else nearest_single(Fraction(exact))
    wrong = {"rd": near > exact, "ru": near < exact, "rn": False}[mode]
    return float(np.nextafter(near, near.dtype.type(STEP[mode])) if wrong else near)


def nearest_single(exact):
    """float32 nearest to a Fraction, by the two candidates around a first guess."""
    guess = np.float32(float(exact))
    around = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    return min(around, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(np.uint32)) & 1))


def whole(mode):
    """A float to an integer in a rounding mode."""
    return {"rn": round, "rd": math.floor, "ru": math.ceil, "rz": math.trunc}[mode]


def saturated(x, low, high):
    return max(low, min(high, x))


def away(x):
    return math.copysign(math.floor(abs(x) + 0.5), x)


def remquo(x, y):
    n = round(Fraction(x) / Fraction(y))
    sign = -1 if (x < 0) != (y < 0) else 1
    return math.remainder(x, y), sign * (abs(n) & 7)


def bits(x, kind, to):
    return np.array(x, kind).view(to)[()].item()


def byte_perm(x, y, s):
    pool = unsigned(y) << 32 | unsigned(x)
    return signed(sum((pool >> 8 * (s >> 4 * k & 7) & 255) << 8 * k for k in range(4)))


def high(x, y, width):
    return signed(x * y >> width, width)


REAL = {
    **{name: getattr(math, name) for name in (
        "sqrt", "fabs", "copysign", "fmod", "floor", "ceil", "trunc", "exp", "exp2", "expm1", "log", "log2", "log10",
        "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf",
        "erfc", "lgamma", "cbrt", "atan2", "hypot", "pow", "remainder", "nextafter", "frexp", "modf",
    )},
    "tgamma": math.gamma, "fmin": min, "fmax": max, "rint": round, "nearbyint": round, "round": away,
    "rsqrt": lambda x: 1 / math.sqrt(x), "rcbrt": lambda x: 1 / math.cbrt(x), "fma": lambda x, y, z: x * y + z,
    "sinpi": lambda x: math.sin(math.pi * x), "cospi": lambda x: math.cos(math.pi * x), "exp10": lambda x: 10.0**x,
    "logb": lambda x: math.frexp(x)[1] - 1.0, "ilogb": lambda x: math.frexp(x)[1] - 1,
    "normcdf": NormalDist().cdf, "normcdfinv": NormalDist().inv_cdf, "fdim": lambda x, y: max(x - y, 0.0),
    "erfinv": lambda x: NormalDist().inv_cdf((x + 1) / 2) / math.sqrt(2),
    "erfcinv": lambda x: -NormalDist().inv_cdf(x / 2) / math.sqrt(2),
    "erfcx": lambda x: math.exp(x * x) * math.erfc(x), "ldexp": math.ldexp, "scalbn": math.ldexp,
    "powi": lambda x, n: x**n, "remquo": remquo,
    "sincos": lambda x: (math.sin(x), math.cos(x)),
    "sincospi": lambda x: (math.sin(math.pi * x), math.cos(math.pi * x)),
    "llrint": round, "llround": away,
}  # fmt: skip
"""Functions with a double and a single form (the name and an f)."""

REFERENCES = {
    **{f"{name}{suffix}": function for name, function in REAL.items() for suffix in ("", "f")},
    **{f"fast_{name}f": REAL[name] for name in (
        "sin", "cos", "tan", "exp", "exp10", "log", "log2", "log10", "pow", "sincos",
    )},
    "fast_fdividef": lambda x, y: x / y, "saturatef": lambda x: saturated(x, 0.0, 1.0),
    **{f"{name}{letter}": function for letter in "df" for name, function in (
        ("isinf", math.isinf), ("isnan", math.isnan), ("signbit", lambda x: x < 0), ("isfinite", math.isfinite),
    )},
    "finitef": math.isfinite, "frsqrt_rn": REAL["rsqrt"],
    "float_as_int": lambda x: bits(x, "f4", "i4"), "int_as_float": lambda x: bits(x, "i4", "f4"),
    "double_as_longlong": lambda x: bits(x, "f8", "i8"), "longlong_as_double": lambda x: bits(x, "i8", "f8"),
    "float2half_rn": lambda x: bits(x, "f2", "i2"), "half2float": lambda x: bits(x, "i2", "f2"),
    "double2hiint": lambda x: bits(x, "f8", "i8") >> 32, "double2loint": lambda x: signed(bits(x, "f8", "i8")),
    "hiloint2double": lambda h, w: bits(signed(unsigned(h) << 32 | unsigned(w), 64), "i8", "f8"),
    "abs": lambda x: signed(abs(x)), "llabs": lambda x: signed(abs(x), 64), "byte_perm": byte_perm,
    **{f"{prefix}{name}": lambda x, y, f=function, b=width, u=prefix: (
        signed(f(unsigned(x, b), unsigned(y, b)), b) if "u" in u else f(x, y))
       for name, function in (("min", min), ("max", max))
       for prefix, width in (("", 32), ("u", 32), ("ll", 64), ("ull", 64))},
    "hadd": lambda x, y: x + y >> 1, "rhadd": lambda x, y: x + y + 1 >> 1,
    "uhadd": lambda x, y: signed(unsigned(x) + unsigned(y) >> 1),
    "urhadd": lambda x, y: signed(unsigned(x) + unsigned(y) + 1 >> 1),
    "mul24": lambda x, y: signed(signed(x, 24) * signed(y, 24)),
    "umul24": lambda x, y: signed(unsigned(x, 24) * unsigned(y, 24)),
    "mulhi": lambda x, y: high(x, y, 32), "umulhi": lambda x, y: high(unsigned(x), unsigned(y), 32),
    "mul64hi": lambda x, y: high(x, y, 64), "umul64hi": lambda x, y: high(unsigned(x, 64), unsigned(y, 64), 64),
    "sad": lambda x, y, z: signed(abs(x - y) + z), "usad": lambda x, y, z: signed(abs(unsigned(x) - unsigned(y)) + z),
}  # fmt: skip
for _suffix, _width in (("", 32), ("ll", 64)):
    REFERENCES |= {
        f"brev{_suffix}": lambda x, b=_width: signed(int(f"{unsigned(x, b):0{b}b}"[::-1], 2), b),
        f"clz{_suffix}": lambda x, b=_width: b - unsigned(x, b).bit_length(),
        f"popc{_suffix}": lambda x, b=_width: unsigned(x, b).bit_count(),
        f"ffs{_suffix}": lambda x, b=_width: (unsigned(x, b) & -unsigned(x, b)).bit_length(),
    }
for _mode in ("rn", "rd", "ru", "rz"):
    for _letter, _code in (("f", "f4"), ("d", "f8")):
        REFERENCES |= {
            f"{_letter}add_{_mode}": lambda x, y, c=_code, m=_mode: rounded(Fraction(x) + Fraction(y), c, m),
            f"{_letter}sub_{_mode}": lambda x, y, c=_code, m=_mode: rounded(Fraction(x) - Fraction(y), c, m),
            f"{_letter}mul_{_mode}": lambda x, y, c=_code, m=_mode: rounded(Fraction(x) * Fraction(y), c, m),
            f"{_letter}div_{_mode}": lambda x, y, c=_code, m=_mode: rounded(Fraction(x) / Fraction(y), c, m),
            f"{_letter}rcp_{_mode}": lambda x, c=_code, m=_mode: rounded(1 / Fraction(x), c, m),
            f"{_letter}sqrt_{_mode}": lambda x, c=_code, m=_mode: rounded(
                Fraction(math.isqrt(math.floor(Fraction(x) * 2**200)), 2**100), c, m
            ),
            f"fma{'' if _letter == 'd' else 'f'}_{_mode}": lambda x, y, z, c=_code, m=_mode: rounded(
                Fraction(x) * Fraction(y) + Fraction(z), c, m
            ),
        }
    for _word, _low, _high in (("int", -(2**31), 2**31 - 1), ("uint", 0, 2**32 - 1),
                               ("ll", -(2**63), 2**63 - 1), ("ull", 0, 2**64 - 1)):  # fmt: skip
        _width = 64 if "ll" in _word else 32
        for _real, _code in (("float", "f4"), ("double", "f8")):
            REFERENCES |= {
                f"{_real}2{_word}_{_mode}": lambda x, a=_low, z=_high, m=_mode, b=_width: signed(
                    saturated(whole(m)(x), a, z), b
                ),
                f"{_word}2{_real}_{_mode}": lambda x, c=_code, m=_mode, b=_width, w=_word: rounded(
                    Fraction(unsigned(x, b) if w[0] == "u" else x), c, m
                ),
            }
    REFERENCES[f"double2float_{_mode}"] = lambda x, m=_mode: rounded(Fraction(x), "f4", m)

FUNCTIONS = {name.removeprefix("__nv_"): found for name, found in libdevicefuncs.functions.items()}


def test_there_is_no_reference_of_what_does_not_exist():
    made_up = {f"{real}2{word}" for real in ("float", "double") for word in ("int", "uint", "ll", "ull")}
    extra = set(REFERENCES) - set(FUNCTIONS)
    assert {name for name in extra if not name.rpartition("_")[0].endswith(tuple(made_up))} <= {
        *(f"dsub_{mode}" for mode in STEP), "dsub_rz", "isfinitef",
        *(f"{word}2double_{mode}" for word in ("int", "uint") for mode in ("rd", "ru", "rz")),
    }  # fmt: skip


def operands_of(name, codes):
    """Columns of operands that the function is defined for."""
    columns = []
    for k, code in enumerate(codes):
        pool = {"f": FLOATS, "i": LONGS if code == "i8" else INTEGERS}[code[0]]
        columns.append(np.roll(np.array([p % 30000 if code == "i2" else p for p in pool]), 5 * k))
    base = name.removeprefix("fast_").rstrip("f")
    if base in ("ldexp", "scalbn", "powi"):
        columns[1] = np.array([3, -2, 5, 0, 1, -1, 2, 4, -3, 6, 7, 2])
    if base in ("acosh",):
        columns[0] = np.abs(columns[0]) + 1
    if base in ("asin", "acos", "atanh", "erfinv"):
        columns[0] = columns[0] / 20
    if base in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "lgamma", "tgamma", "pow", "erfcx", "rsqrt_rn") or (
        "sqrt_" in name
    ):
        columns[0] = np.abs(columns[0])
    if base in ("erfcinv", "normcdfinv", "cosh", "sinh", "exp", "exp2", "exp10", "expm1"):
        columns[0] = (columns[0] + 3) / 25
    if name.startswith(("float2", "double2")) and not name.endswith("int"):
        columns[0] = columns[0] * 2.0 ** np.arange(-1, len(FLOATS) - 1) * 1e3
    return [column.astype(code) for column, code in zip(columns, codes, strict=True)]


def signature_of(name):
    """Dtypes of the operands and of the results."""
    result, arguments = FUNCTIONS[name]
    results = [*([] if str(result) == "none" else [result]), *(a.ty for a in arguments if a.is_ptr)]
    codes = [
        [np.dtype(str(kind)).str[1:] for kind in kinds]
        for kinds in ([a.ty for a in arguments if not a.is_ptr], results)
    ]
    return "-".join(codes[0]), "-".join(codes[1])


GROUPS = {}
for _name in sorted(set(FUNCTIONS) - BESSEL):
    GROUPS.setdefault(signature_of(_name), []).append(_name)


def kernel_of(names, operands, results):
    """A kernel with one call of each function: ``x[k, i]`` ... are the operands of the k-th."""
    lines = ["def kernel(x, y, z, first, second):", " i = cuda.grid(1)"]
    for k, name in enumerate(names):
        arguments = ", ".join(f"{letter}[{k}, i]" for letter in "xyz"[:operands])
        targets = ", ".join(f"{out}[{k}, i]" for out in ("first", "second")[:results])
        lines.append(f" {targets} = libdevice.{name}({arguments})")
    scope = {"cuda": cuda, "libdevice": libdevice}
    exec("\n".join(lines), scope)
    return cuda.jit(scope["kernel"])


def check(name, expected, found):
    """Integers and directed rounding are exact; functions are within a few units in the last place."""
    exact = found.dtype.kind == "i" or name.endswith(("_rn", "_rd", "_ru", "_rz"))
    if exact:
        np.testing.assert_array_equal(found, np.array(expected, found.dtype), err_msg=name)
        return
    rtol, atol = (3e-7, 1e-7) if found.dtype == np.float32 else (3e-14, 3e-15 if "pi" in name else 2e-16)
    np.testing.assert_allclose(found, np.array(expected, float), rtol=rtol, atol=atol, err_msg=name)


@pytest.mark.parametrize("signature", GROUPS, ids=" to ".join)
def test_functions_agree_with_their_references(signature):
    names, (operands, results) = GROUPS[signature], (part.split("-") for part in signature)
    columns = [operands_of(name, operands) for name in names]
    stacked = [np.array(column) for column in zip(*columns, strict=True)]
    outs = [np.zeros(stacked[0].shape, code) for code in results]
    padded, spare = (stacked * 3)[:3], (outs * 2)[:2]
    simulate(kernel_of(names, len(operands), len(results)))[1, stacked[0].shape[1]](*padded, *spare)
    for k, name in enumerate(names):
        rows = zip(*(column[k].tolist() for column in stacked), strict=True)
        with np.errstate(all="ignore"):
            expected = [REFERENCES[name](*row) for row in rows]
        for part, found in enumerate(outs):
            check(name, [row[part] if isinstance(row, tuple) else row for row in expected], found[k])


@pytest.mark.parametrize("name", sorted(BESSEL))
def test_bessel_functions_are_refused_by_name(name):
    codes = signature_of(name)[0].split("-")
    kernel = kernel_of([name], len(codes), 1)
    arguments = [np.zeros((1, 1), code) for code in (*(codes * 3)[:3], "f8", "f8")]
    with pytest.raises(Unsupported, match=f"libdevice.{name} "):
        lower_kernel(kernel, arguments)
