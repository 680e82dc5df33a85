"""Reads the small languages of the command line: shapes, launches, threads and arguments.

::

    SHAPE   8,4096   8x4096   (8,4096)
    LAUNCH  GRID,BLOCK[,0[,SHARED]]       4,256    2x2,16x16    1,128,0,2048
    ARG     NAME=VALUE
    VALUE   3   1e-6   true   none        a Python number, bool or None
            float32:1e-6                  a NumPy scalar
            randn:float32[8,4096]         an array; also uniform zeros ones arange, full(VALUE) and integers(LOW,HIGH)

Rules of this file: it runs nothing; what it cannot read raises ``BadWord`` with one line that shows how it is written.
Random arrays depend on the seed and on their name alone, not on the order of the options.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np


class BadWord(ValueError):
    """Something on the command line that cannot be read; the message is one line for the user."""


GENERATORS = ("randn", "uniform", "zeros", "ones", "arange", "full", "integers")

_ARRAY = re.compile(r"(?P<fill>\w+)(?:\((?P<given>[^)]*)\))?:(?P<dtype>\w+)\[(?P<shape>[^\]]*)\]")
_SCALAR = re.compile(r"(?P<dtype>[a-z]\w*):(?P<literal>[^\[\]]+)")
_LITERALS = {"true": True, "false": False, "none": None}


def shape_of(text: str) -> tuple[int, ...]:
    """A shape: ``8,4096`` or ``8x4096``.

    >>> shape_of("1x4096"), shape_of("(8, 4)"), shape_of("5")
    ((1, 4096), (8, 4), (5,))
    """
    inside = text.strip().removeprefix("(").removesuffix(")").removesuffix(",")
    parts = re.split(r"[x,×]", inside.lower())
    if not all(re.fullmatch(r"\s*\d+\s*", part) for part in parts):
        raise BadWord(f"{text!r} is not a shape; write 8x4096 or 8,4096")
    return tuple(int(part) for part in parts)


def launch_of(text: str) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Grid, block and bytes of dynamic shared memory.

    >>> launch_of("4,256"), launch_of("2x2,16x16,0,1024")
    (((4,), (256,), 0), ((2, 2), (16, 16), 1024))
    """
    parts = [part.strip() for part in text.split(",")]
    extents = [part for part in parts[:2] if re.fullmatch(r"\d+([x×]\d+){0,2}", part)]
    if not (len(extents) == 2 and len(parts) <= 4 and all(part.isdecimal() for part in parts[2:])):
        raise BadWord(f"{text!r} is not a launch; write GRID,BLOCK[,0,SHARED], as in 4,256 or 2x2,16x16,0,1024")
    return shape_of(extents[0]), shape_of(extents[1]), int(parts[3]) if len(parts) == 4 else 0


def number_of(text: str, what: str) -> int | tuple[int, ...]:
    """A thread or block: its linear number, or its index along x, y, z.

    >>> number_of("33", "thread"), number_of("1,2", "thread")
    (33, (1, 2))
    """
    try:
        index = shape_of(text)
    except BadWord:
        raise BadWord(f"{text!r} is not a {what}; write its number, as in 33, or its index, as in 1,2") from None
    return index if len(index) > 1 else index[0]


def index_of(text: str) -> tuple[int, ...]:
    """The index of an element; negative ones count from the end.

    >>> index_of("0,3"), index_of("-1")
    ((0, 3), (-1,))
    """
    parts = text.strip().removeprefix("(").removesuffix(")").removesuffix(",").split(",")
    if not all(re.fullmatch(r"\s*-?\d+\s*", part) for part in parts):
        raise BadWord(f"{text!r} is not an index; write a number per axis, as in 0,3")
    return tuple(int(part) for part in parts)


def dtype_of(text: str) -> np.dtype[Any]:
    """A dtype by its NumPy name, ``bfloat16`` included.

    >>> dtype_of("bfloat16").itemsize, dtype_of("float32").name
    (2, 'float32')
    """
    if text == "bfloat16":
        from ml_dtypes import bfloat16

        return np.dtype(bfloat16)
    try:  # more than one word is a language of its own to NumPy, with errors of its own
        dtype = np.dtype(text if text.lstrip("<>=|").isidentifier() else object)
    except (TypeError, ValueError):
        dtype = np.dtype(object)
    if dtype.kind not in "biufc":
        raise BadWord(f"{text!r} is not a dtype; write one like float32, bfloat16 or int64")
    return dtype


def arguments_of(texts: Sequence[str], names: Sequence[str], kernel: str, seed: int = 0) -> tuple[Any, ...]:
    """The values of ``NAME=VALUE`` words, in the order of the kernel's parameters ``names``.

    >>> arguments_of(["b=float32:2", "a=zeros:int32[3]"], ["a", "b"], "k")
    (array([0, 0, 0], dtype=int32), np.float32(2.0))
    """
    given: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals:
            raise BadWord(f"--arg {text}: write NAME=VALUE, as in x=randn:float32[8,4096] or eps=1e-6")
        if name not in names:
            has = ", ".join(names) or "none"
            raise BadWord(f"--arg {name}: kernel {kernel} has no parameter {name!r}; it has {has}")
        if name in given:
            raise BadWord(f"--arg {name} is given twice")
        given[name] = value_of(value.strip(), name, seed)
    if missing := [name for name in names if name not in given]:
        options = " ".join(f"--arg {name}=…" for name in missing)
        raise BadWord(f"kernel {kernel} also needs {options}")
    return tuple(given[name] for name in names)


def value_of(text: str, name: str = "", seed: int = 0) -> Any:
    """One value; ``name`` and ``seed`` decide the random numbers.

    >>> value_of("3"), value_of("false"), value_of("float16:0.1"), value_of("full(2):float32[2]")
    (3, False, np.float16(0.1), array([2., 2.], dtype=float32))
    """
    if found := _ARRAY.fullmatch(text):
        return _array(text, name, seed, **found.groupdict())
    if found := _SCALAR.fullmatch(text):
        dtype, literal = dtype_of(found["dtype"]), _literal(found["literal"], text, name)
        return _within(dtype, literal, text)
    return _literal(text, text, name)


def _literal(text: str, whole: str, name: str) -> Any:
    if text.strip().lower() in _LITERALS:
        return _LITERALS[text.strip().lower()]
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        value = float(text) if re.fullmatch(r"\s*[-+]?(inf|nan)\s*", text, re.IGNORECASE) else None
    if isinstance(value, bool | int | float | complex):
        return value
    raise BadWord(
        f"--arg {name}={whole}: not a value; write a number, float32:1e-6, or GENERATOR:DTYPE[SHAPE] "
        f"as in randn:float32[8,4096]; the generators are {', '.join(GENERATORS)}"
    )


def _within(dtype: np.dtype[Any], literal: Any, text: str) -> Any:
    """The literal as a scalar of ``dtype``, which must be able to hold it."""
    if dtype.kind in "iu" and not (isinstance(literal, int) and np.iinfo(dtype).min <= literal <= np.iinfo(dtype).max):
        raise BadWord(f"{text}: {literal} is no {dtype.name}")
    if literal is None or (isinstance(literal, complex) and dtype.kind != "c"):
        raise BadWord(f"{text}: {literal} is no {dtype.name}")
    with np.errstate(over="ignore"):  # 1e40 as a float32 is inf, as in the kernel
        return dtype.type(literal)


def _array(text: str, name: str, seed: int, fill: str, given: str | None, dtype: str, shape: str) -> np.ndarray:
    if fill not in GENERATORS:
        raise BadWord(f"--arg {name}={text}: no generator {fill!r}; the generators are {', '.join(GENERATORS)}")
    wanted = {"full": 1, "integers": 2}.get(fill, 0)
    values = [_literal(part, text, name) for part in given.split(",")] if given else []
    if len(values) != wanted:
        form = {"full": "full(VALUE)", "integers": "integers(LOW,HIGH)"}.get(fill, fill)
        raise BadWord(f"--arg {name}={text}: write {form}:{dtype}[{shape}]")
    kind, extent = dtype_of(dtype), shape_of(shape)
    try:
        filled = _filled(fill, values, kind, extent, np.random.default_rng([seed, crc32(name.encode())]), text)
        return _cast(filled, kind, text)
    except BadWord:
        raise
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise BadWord(f"--arg {name}={text}: {error or 'too large for the memory of this machine'}") from None


def _filled(
    fill: str, values: Sequence[Any], kind: np.dtype[Any], extent: tuple[int, ...], random: np.random.Generator,
    text: str,
) -> np.ndarray:  # fmt: skip
    """The numbers that a generator makes, in a dtype of their own."""
    match fill:
        case "randn":
            return random.standard_normal(extent)
        case "uniform":
            return random.random(extent)
        case "zeros" | "ones":
            return np.full(extent, fill == "ones")
        case "arange":
            return np.arange(math.prod(extent)).reshape(extent)
        case "full":
            return np.full(extent, _within(kind, values[0], text))
        case _:
            return random.integers(values[0], values[1], extent)


def _cast(filled: np.ndarray, kind: np.dtype[Any], text: str) -> np.ndarray:
    """The array in the dtype asked for; an integer dtype must be able to hold every number."""
    if kind.kind in "iu" and filled.size and filled.dtype.kind != "b":
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        for value in (filled.min().item(), filled.max().item()):
            if not low <= value <= high:
                raise BadWord(f"{text}: {value} is no {kind.name}")
    with np.errstate(over="ignore"):  # 1e5 as a float16 is inf, as in the kernel
        return np.ascontiguousarray(filled.astype(kind))
