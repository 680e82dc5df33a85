"""What identifies a kernel: a digest of all that its machine code is made from, the same in every process.

A kernel is more than its text.  A factory closes over the number of threads, over Numba types, and over the device
functions that the kernel calls; an intrinsic generates code by functions that call further ones.  So the digest covers,
from the kernel on: the byte code of each function, the values it closes over, and the globals that its code names, and
so on through device functions, intrinsics and their helpers.  Byte code, not text: it is what will be compiled, even
when the file has been edited since, and comments do not matter.

Numba, NumPy and the like count by name; their versions are the business of whoever keeps compiled code.  What has no
description that means the same in another process raises ``Unidentifiable``: nothing is guessed.
"""

from __future__ import annotations

import builtins
import dataclasses
import dis
import enum
import hashlib
import sys
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.cuda.dispatcher import CUDADispatcher

_BY_NAME = {"numba", "numba_cuda", "numpy", "llvmlite", "ml_dtypes"} | sys.stdlib_module_names
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented), range)


class Unidentifiable(TypeError):
    """A kernel reaches a value that has no description which holds in other processes."""


def fingerprint(kernel: Any) -> str:
    """The digest of a ``cuda.jit`` function, in hexadecimal digits.

    >>> from numba import cuda
    >>> def scale(factor):
    ...     @cuda.jit
    ...     def kernel(x):
    ...         x[cuda.threadIdx.x] *= factor
    ...     return kernel
    >>> fingerprint(scale(2)) == fingerprint(scale(2)), fingerprint(scale(2)) == fingerprint(scale(3))
    (True, False)

    Raises ``Unidentifiable``, a TypeError, if the kernel or something it reaches refers to, say, an open file.
    """
    return hashlib.sha256("\n".join(_Description().of(kernel)).encode()).hexdigest()


class _Description:
    """One walk through all that a kernel reaches.  A function met again is named by its number: walks may be cyclic."""

    def __init__(self) -> None:
        self._met: dict[int, int] = {}

    def of(self, value: Any) -> Iterator[str]:
        """The lines that describe a value."""
        if isinstance(value, _PLAIN):
            yield f"{type(value).__name__} {value!r}"
        elif isinstance(value, (np.generic, np.ndarray, np.dtype)):
            yield from _numpy(value)
        elif isinstance(value, (types.Type, ir.Type)):
            yield f"{type(value).__name__} {value}"
        elif isinstance(value, enum.Enum):
            yield f"enum {type(value).__qualname__}.{value.name}"
        elif isinstance(value, (tuple, list, dict, set, frozenset)):
            yield from self._items(value)
        elif isinstance(value, CodeType):
            yield from self._code(value)
        elif isinstance(value, ModuleType) and _root(value.__name__) in _BY_NAME:
            yield f"module {value.__name__}"
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield type(value).__qualname__
            yield from self._items({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
        else:
            yield from self._named_or_function(value)

    def _named_or_function(self, value: Any) -> Iterator[str]:
        definition = getattr(value, "_defn", value)  # what an intrinsic was made of
        module, name = getattr(definition, "__module__", None), getattr(definition, "__qualname__", None)
        if isinstance(value, CUDADispatcher):
            yield "jit"
            yield from self._items(value.targetoptions)
            yield from self._function(value.py_func)
        elif name and module and _root(module) in _BY_NAME | {"builtins"}:
            yield f"name {module}.{name}"
        elif isinstance(value, (BuiltinFunctionType, np.ufunc)):
            yield f"name {value.__name__}"
        elif isinstance(definition, FunctionType):
            yield type(value).__name__
            yield from self._function(definition)
        else:
            kind = type(value)
            raise Unidentifiable(f"a kernel reaches {kind.__module__}.{kind.__qualname__}, which has no lasting name")

    def _function(self, function: FunctionType) -> Iterator[str]:
        if id(function) in self._met:
            yield f"again {self._met[id(function)]}"
            return
        self._met[id(function)] = len(self._met)
        yield f"function {function.__qualname__}"
        yield from self.of(function.__code__)
        yield from self._items((function.__defaults__, function.__kwdefaults__))
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            yield f"closes over {name}"
            yield from self.of(cell.cell_contents)
        for name in sorted(_globals_named(function.__code__)):
            yield f"global {name}"
            if name in function.__globals__:
                yield from self.of(function.__globals__[name])
            elif not hasattr(builtins, name):
                yield "undefined"

    def _code(self, code: CodeType) -> Iterator[str]:
        yield f"code {code.co_name} {code.co_code.hex()} {code.co_exceptiontable.hex()} {code.co_flags}"
        yield f"{code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount}"
        yield f"{code.co_names} {code.co_varnames} {code.co_cellvars} {code.co_freevars}"
        yield from self._items(code.co_consts)

    def _items(self, values: Any) -> Iterator[str]:
        """A collection; one without an order is put into one, since Python's changes from process to process."""
        yield f"{type(values).__name__} {len(values)}"
        if isinstance(values, dict):
            values = values.items()
        elif isinstance(values, (set, frozenset)):
            yield from sorted("\n".join(self.of(value)) for value in values)
            return
        for value in values:
            yield from self.of(value)


def _numpy(value: Any) -> Iterator[str]:
    if isinstance(value, np.dtype):
        yield f"dtype {value.name} {value.descr if value.names else value.str}"
    elif value.dtype.hasobject:
        raise Unidentifiable("a kernel reaches a NumPy array of Python objects")
    else:
        yield f"{type(value).__name__} {value.dtype.name} {value.shape} {value.tobytes().hex()}"


def _root(module: str) -> str:
    return module.partition(".")[0]


def _globals_named(code: CodeType) -> set[str]:
    """The global names that a function and the functions within it load."""
    named = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            named |= _globals_named(constant)
    return named
