"""Runs Numba's type inference on a kernel and on the device functions it calls.

The half that talks to a compiler is an adapter (``Half``); what both adapters need is here: the table of names, the
cache and the refusal of recursion.  A function is typed once per argument types and only as long as it lives: a
kernel that a notebook cell defines anew is another function.
"""

from __future__ import annotations

import builtins
import cmath
import inspect
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from simulator.compiled import MachineCode, NotCompiled
from simulator.errors import SimulationError, Unsupported
from simulator.frontend import kernel_types as kt
from simulator.frontend import typed_ir as ir
from simulator.frontend.inference.inlining import folder_of
from simulator.frontend.inference.native_types import class_names
from simulator.frontend.inference.overloads import Implementation, attribute, implementation
from simulator.frontend.inference.successor import Successor
from simulator.frontend.inference.translate import Typed, declared, translate
from simulator.frontend.refusal import DoesNotCompile, first_line, line_with, place_of, reason_of
from simulator.program import Pos


class Half(ABC):
    """What an adapter provides: access to one compiler's type inference."""

    name: str
    lock: AbstractContextManager[Any]
    errors: tuple[type[Exception], ...]
    modules: Mapping[str, Any]

    @property
    @abstractmethod
    def context(self) -> Any:
        """The compiler's typing context."""

    @abstractmethod
    def typeof(self, value: Any) -> Any:
        """The compiler's type of a launch argument."""

    @abstractmethod
    def scalar(self, code: str) -> Any:
        """The compiler's type with this dtype code (not bf)."""

    @abstractmethod
    def infer(
        self, function: FunctionType, args: tuple[Any, ...], checked: bool, inline: Any
    ) -> tuple[Any, Any, Any, Any]:
        """IR, types of variables, signatures of calls and result type; ``inline`` is the decorator's option."""

    def machine_code(self, kernel: Any, types: tuple[Any, ...], capability: tuple[int, int]) -> MachineCode:
        """The kernel compiled, with line numbers; needs no GPU.  Raises ``NotCompiled`` where there is no compiler."""
        raise NotCompiled(f"{self.name} does not compile for CUDA here")

    @abstractmethod
    def device_functions(self, front: FrontEnd) -> AbstractContextManager[None]:
        """While active, calls of device functions are typed by ``front.result_of``."""

    @abstractmethod
    def loop(self, ufunc: Any, args: tuple[Any, ...]) -> Any:
        """The loop (``inputs``, ``outputs``) of a ufunc for operands of these types; None where there is no code."""


@dataclass(frozen=True)
class _Entry:
    result: Any
    function: ir.Function


class FrontEnd:
    """Types kernels with one adapter.

    ``meanings`` names the callables whose meaning is known: what Python function implements them does not matter.
    """

    def __init__(self, half: Half, meanings: frozenset[str] = frozenset()) -> None:
        self.half = half
        self.meanings = meanings
        self.names = names_of(half.modules)
        self.successor = Successor(half.modules, names_of)
        self._typed: WeakKeyDictionary[FunctionType, dict[Any, _Entry]] = WeakKeyDictionary()
        self._running: dict[tuple[FunctionType, Any], ir.Function] = {}
        self._seen: list[FunctionType] = []
        self._refusal: Unsupported | None = None

    def argument_types(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The types that the GPU gets for these launch arguments."""
        return tuple(self.half.typeof(arg) for arg in args)

    def typed(self, kernel: Any, args: tuple[Any, ...]) -> ir.Function:
        """The typed kernel.  Raises ``DoesNotCompile`` or ``Unsupported``."""
        function = python_function(kernel)
        with self.half.lock, self.half.device_functions(self):
            self._refusal = None
            self._running.clear()
            self._seen = [function]
            try:
                return self._entry(kernel, args).function
            except self.half.errors as error:
                if self._refusal is not None:
                    raise self._refusal from None
                raise self._refused(error, function) from error
            finally:
                self._seen = []  # functions die with their last user

    def forget(self, function: FunctionType) -> None:
        """Type a function anew when it is asked for next."""
        with self.half.lock:
            self._typed.pop(self._function(function), None)

    def library(self, function: Callable[..., Any], codes: tuple[str, ...]) -> ir.Function:
        """A typed function of the simulator's own, for arguments of these dtypes."""
        return self.typed(function, tuple(map(self.half.scalar, codes)))

    def result_of(self, dispatcher: Any, args: tuple[Any, ...]) -> Any:
        """The result type of a device function, asked for while its caller is typed."""
        return self._entry(dispatcher, args).result

    def device(self, dispatcher: Any, args: tuple[Any, ...]) -> ir.Function:
        """The typed body of a device function; of one that is being typed, because it calls itself, what will be."""
        running = self._running.get((self._function(dispatcher), (args, *compiled_with(dispatcher))))
        return self._entry(dispatcher, args).function if running is None else running

    def implementation(self, name: str, kind: Any, signature: Any) -> ir.Function | None:
        """The typed Python function that implements a function or a method, if it has no meaning of its own."""
        return None if name in self.meanings else self._implemented(implementation(self.half.context, kind, signature))

    def operator(self, fn: Any, signature: Any) -> ir.Function | None:
        """The typed Python function that implements an operator, if there is one."""
        return self.implementation("", self.half.context.resolve_value_type(fn), signature)

    def attribute(self, kind: Any, name: str) -> ir.Function | None:
        """The typed Python function that implements an attribute of a type, if there is one."""
        return self._implemented(attribute(self.half.context, kind, name))

    def _implemented(self, found: Implementation | None) -> ir.Function | None:
        return None if found is None else self.device(found.dispatcher, found.args)

    @property
    def compiler(self) -> str:
        """The folder of Numba's own functions."""
        return folder_of(self.half.modules["cuda"])

    def loop(self, ufunc: Any, args: tuple[Any, ...]) -> Any:
        """The loop (``inputs``, ``outputs``) of a ufunc for operands of these types; None where there is no code."""
        return self.half.loop(ufunc, args)

    def _function(self, kernel: Any) -> FunctionType:
        """The Python function to type, with the names of the installed package."""
        return self.successor.translated(python_function(kernel))

    def _entry(self, kernel: Any, args: tuple[Any, ...]) -> _Entry:
        function = self._function(kernel)
        found = self._typed.setdefault(function, {})
        key = (args, *compiled_with(kernel))
        if key not in found:
            if (function, key) in self._running:
                self._refusal = Unsupported(first_line(function), f"recursion of {function.__name__}", "write a loop")
                raise self._refusal
            shell = self._running[function, key] = declared(function, *key)
            if not str(function.__module__).startswith("numba."):  # the users' own, not what implements np.zeros
                self._seen.append(function)
            try:
                with getattr(kernel, "__dict__", {}).get("_compiling_counter", nullcontext()):  # seen by a recursion
                    inline = getattr(kernel, "targetoptions", {}).get("inline") or "never"
                    found[key] = self._infer(function, args, shell, inline)
            finally:
                del self._running[function, key]
        return found[key]

    def _infer(self, function: FunctionType, args: tuple[Any, ...], shell: ir.Function, inline: Any) -> _Entry:
        try:
            func_ir, typemap, calltypes, result = self.half.infer(function, args, shell.checked, inline)
        except SimulationError:
            raise
        except self.half.errors:
            raise
        except Exception as error:  # Numba gives up in other ways too, such as a bare assert
            raise self._refused(error, function) from error
        typed = Typed(func_ir, typemap, calltypes, result, args)
        translate(typed, function, self.names, self, shell)
        return _Entry(result, shell)

    def _refused(self, error: Exception, function: FunctionType) -> DoesNotCompile:
        """What an error of Numba's means; about a with statement it says different things, none of them clear."""
        if (block := line_with(function, _WITH)) is not None:
            return DoesNotCompile("Numba has no with statement in kernels", block)
        return DoesNotCompile(reason_of(error), place_of(error, self._seen or [function]))


def compiled_with(kernel: Any) -> tuple[bool, bool]:
    """Whether a function is compiled with ``debug`` (it raises) and with ``fastmath``."""
    options = getattr(kernel, "targetoptions", {})
    return bool(options.get("debug")), bool(options.get("fastmath"))


def python_function(kernel: Any) -> FunctionType:
    """The Python function behind a dispatcher, or the function itself."""
    function = getattr(kernel, "py_func", kernel)
    if not isinstance(function, FunctionType):
        raise TypeError(f"a kernel is a @cuda.jit function or a plain Python function, not {kernel!r}")
    return function


_WITH = frozenset({"BEFORE_WITH", "SETUP_WITH", "BEFORE_ASYNC_WITH"})
_YIELD = frozenset({"YIELD_VALUE"})
_DEFERRED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def check_kernel(kernel: Any) -> FunctionType:
    """The Python function of something that can be launched; ``TypeError`` or ``DoesNotCompile`` if it cannot."""
    function = python_function(kernel)
    place = first_line(function)
    if getattr(kernel, "targetoptions", {}).get("device"):
        raise TypeError(f"{place}: {function.__name__} is a device function (device=True): only kernels are launched")
    kind = function.__code__.co_flags & _DEFERRED
    if kind & inspect.CO_GENERATOR:
        raise DoesNotCompile("a kernel returns None and has no yield", line_with(function, _YIELD) or place)
    if kind:
        raise DoesNotCompile("a kernel is a plain function, not an async one", place)
    return function


def check_result(function: ir.Function) -> None:
    """``DoesNotCompile`` where a kernel returns a value."""
    if isinstance(function.result, kt.Nothing):
        return
    statements = [statement for block in function.blocks.values() for statement in block]
    values = {s.target: s.value for s in statements if isinstance(s, ir.Assign)}
    for statement in sorted((s for s in statements if isinstance(s, ir.Return)), key=lambda s: s.at.line):
        value = values.get(statement.value)
        name = value.name if isinstance(value, ir.Use) else statement.value  # the value before the cast
        if not isinstance(function.types[name], kt.Nothing):
            place = Pos(function.file, statement.at.line, None, function.name)
            raise DoesNotCompile("a kernel must return None: write results to an argument", place)


def names_of(modules: Mapping[str, Any]) -> dict[int, str]:
    """Ids of known objects to their qualified names; the first module that has an object names it.

    Modules live as long as the process: the ids stay theirs.
    """
    names: dict[int, str] = {}
    cuda = modules["cuda"]
    parts = ("atomic", "shared", "local", "const", "cg")
    nested = {f"cuda.{name}": getattr(cuda, name) for name in parts}
    known = {"builtins": builtins, "math": math, "cmath": cmath, "operator": operator, **nested, **modules, "numpy": np}
    for prefix, module in known.items():
        for name in dir(module):
            value = getattr(module, name, None)
            if callable(value) or class_names(value) & {"Dim3", "Stub"}:
                names.setdefault(id(value), f"{prefix}.{name}")
        names[id(module)] = prefix
    return names
