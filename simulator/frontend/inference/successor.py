"""Kernels written against ``numba_cuda_mlir.cuda``, numba-cuda's successor: the same names in another package.

Such a kernel is typed by the front end that is installed.  Its Python function is made anew with the same code and with
that package's modules, functions, types and device functions replaced by those of the same name here; what has no
namesake is refused.  Like Numba, this looks at globals once, when a function is first typed.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator, Mapping
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from simulator.errors import Unsupported
from simulator.frontend.refusal import first_line

PACKAGE = "numba_cuda_mlir"

Names = Callable[[Mapping[str, Any]], dict[int, str]]
"""Gives the qualified names of what modules hold, by id."""


class Successor:
    """Translates functions from the successor's names to those of ``modules`` (``cuda``, ``libdevice`` ...)."""

    def __init__(self, modules: Mapping[str, Any], names: Names) -> None:
        self.modules = modules
        self.names = names
        self._known: dict[int, str] = {}
        self._made: WeakKeyDictionary[FunctionType, FunctionType] = WeakKeyDictionary()
        self._devices: WeakKeyDictionary[FunctionType, Any] = WeakKeyDictionary()

    def translated(self, function: FunctionType) -> FunctionType:
        """The function itself, or one with the same code that refers to the installed package."""
        if PACKAGE not in sys.modules:
            return function
        if function not in self._made:
            held = dict(_globals(function))
            cells = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
            if not any(map(_is_foreign, (*held.values(), *cells))):
                return function
            self._made[function] = self._translate(function, held)
        return self._made[function]

    def _translate(self, function: FunctionType, held: dict[str, Any]) -> FunctionType:
        names: dict[str, Any] = {"__builtins__": builtins, "__name__": function.__module__}
        cells = tuple(CellType() for _ in function.__closure__ or ())
        made = FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells)
        made.__kwdefaults__, made.__qualname__ = function.__kwdefaults__, function.__qualname__
        self._made[function] = made  # before what it refers to: a function may refer to itself
        names.update({name: self._namesake(value, function) for name, value in held.items()})
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            if _filled(original):
                cell.cell_contents = self._namesake(original.cell_contents, function)
        return made

    def _namesake(self, value: Any, user: FunctionType) -> Any:
        if not _is_foreign(value):
            return value
        if isinstance(function := getattr(value, "py_func", None), FunctionType):
            if function not in self._devices:
                self._devices[function] = self.modules["cuda"].jit(device=True)(self.translated(function))
            return self._devices[function]
        path = _module_path(value) if isinstance(value, ModuleType) else self._path(value)
        if path is None or (found := self._resolved(path)) is None:
            name = str(getattr(value, "__name__", value)).removeprefix(f"{PACKAGE}.")
            raise Unsupported(first_line(user), f"{name} of {PACKAGE}")
        return found

    def _path(self, value: Any) -> str | None:
        """What the successor calls one of its objects, such as ``cuda.atomic.add``."""
        if not self._known:
            theirs = {name: _attribute(sys.modules[PACKAGE], _dotted(name)) for name in self.modules}
            self._known = self.names({name: module for name, module in theirs.items() if module is not None})
        return self._known.get(id(value))

    def _resolved(self, path: str) -> Any:
        """The object of this name in the installed package; ``types`` is found beside ``cuda``."""
        root = sys.modules[self.modules["cuda"].__name__.rpartition(".")[0]]
        return _attribute(root, _dotted(path)) if path else root


def _dotted(path: str) -> str:
    """``libdevice`` is a module of ``cuda``, though its functions are named without it."""
    return path if path.split(".")[0] in ("cuda", "types") else f"cuda.{path}"


def _module_path(module: ModuleType) -> str:
    return module.__name__.removeprefix(PACKAGE).lstrip(".")


def _attribute(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = getattr(value, name, None)
    return value


def _is_foreign(value: Any) -> bool:
    """Whether the successor made this: a module of its, or an object whose home or class is one."""
    homes = (
        getattr(value, "__name__", None) if isinstance(value, ModuleType) else getattr(value, "__module__", None),
        type(value).__module__,
    )
    return any(isinstance(home, str) and home.split(".")[0] == PACKAGE for home in homes)


def _globals(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The globals that the code names, with their values."""
    for name in sorted(set(_names(function.__code__))):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # empty as yet
        return False
