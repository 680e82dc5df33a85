"""What is to be launched: a built-in kernel by name, or a kernel in a file.

Rules of this file: it launches nothing.  Built-in kernels come from the entry-point group ``simulator.kernels``; each
loads a callable ``(shape, dtype, threads)`` whose result has ``.kernel``, ``.grid``, ``.block`` and ``.args``.  Where a
kernel comes in several forms, the callable takes ``path`` as well.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from simulator.cli import streams, words

GROUP = "simulator.kernels"


class CannotRun(Exception):
    """The command cannot be carried out; the message is one line for the user (exit status 2)."""


class NoPicture(CannotRun):
    """The trace does not hold what the picture shows."""


@dataclass(frozen=True)
class Launchable:
    """A kernel with everything that its launch needs."""

    kernel: Any
    grid: Any
    block: Any
    args: tuple[Any, ...]
    dynamic_shared: int = 0


def built_in() -> dict[str, EntryPoint]:
    """The built-in kernels that are installed, by name."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def from_name(name: str, shape: str | None, dtype: str, threads: int | None, path: str | None = None) -> Launchable:
    """The launch of a built-in kernel.

    Raises
    ------
    CannotRun
        There is no such kernel, or it refuses shape, dtype, threads or path.
    """
    known = built_in()
    if name not in known:
        listed = f"installed are {', '.join(sorted(known))}" if known else "none is installed"
        raise CannotRun(f"no built-in kernel {name!r}: {listed}; for a kernel of your own write FILE.py:KERNEL")
    if shape is None:
        raise CannotRun(f"built-in kernel {name} needs --shape, as in --shape 1x4096")
    extent, kind = words.shape_of(shape), words.dtype_of(dtype)
    build = known[name].load()
    if path is not None and "path" not in inspect.signature(build).parameters:
        raise CannotRun(f"built-in kernel {name} has one form only: it takes no --path")
    options = {} if path is None else {"path": path}
    try:
        made = build(extent, kind, threads, **options)
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise CannotRun(f"{name}: {error or 'too large for the memory of this machine'}") from error
    return Launchable(made.kernel, made.grid, made.block, tuple(made.args), getattr(made, "dynamic_shared", 0))


def split(target: str) -> tuple[Path | None, str]:
    """The file of ``FILE.py[:KERNEL]`` and the name of the kernel; None where the target is a built-in kernel.

    >>> split("a/b.py:scale"), split("rms_norm")
    ((...Path('a/b.py'), 'scale'), (None, ''))

    Raises
    ------
    CannotRun
        It names a kernel, but not in a file.
    """
    file, _, kernel = (target, "", "") if target.endswith(".py") else target.rpartition(":")
    if file.endswith(".py"):
        return Path(file), kernel
    if file:
        path = file.replace(".", "/")
        raise CannotRun(f"{target}: a kernel is named by its file, as in FILE.py:KERNEL; perhaps {path}.py:{kernel}")
    return None, ""


def from_file(target: str, launch: str | None, args: Sequence[str], seed: int) -> Launchable:
    """The launch of ``FILE:KERNEL``.

    Raises
    ------
    CannotRun
        The file or the kernel is not there, or the file fails to import.
    BadWord
        The launch or an argument cannot be read.
    """
    file, _, name = target.rpartition(":")
    module = import_file(Path(file))
    kernel = getattr(module, name, None)
    if not callable(kernel):
        kernels = [key for key, value in vars(module).items() if hasattr(value, "py_func")]
        raise CannotRun(f"{file} has no kernel {name!r}; it has {', '.join(kernels) or 'none'}")
    if launch is None:
        raise CannotRun(f"{target} needs --launch GRID,BLOCK, as in --launch 4,256")
    grid, block, shared = words.launch_of(launch)
    names = list(inspect.signature(getattr(kernel, "py_func", kernel)).parameters)
    return Launchable(kernel, grid, block, words.arguments_of(args, names, name, seed), shared)


def _hint(error: BaseException) -> str:
    """What to do about a file that asks for a device as it is imported."""
    if type(error).__name__ != "CudaSupportError":
        return ""
    return (
        "  It asks for a device as it is imported; a @cuda.jit with signatures does.  `numba-sim check` and `run` open "
        "the stand-in device first; in Python, import it inside simulator.device()"
    )


def import_file(path: Path) -> ModuleType:
    """Import a file as a module, with its folder on the path as for a script.

    A file of a package, which has an ``__init__.py`` beside it, is imported under its package's name, with the folder
    of the outermost package on the path: so its relative imports work.
    """
    if not path.is_file():
        raise CannotRun(f"there is no file {path}")
    folder, name = _place(path.absolute())
    before = dict(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        with streams.kept():
            module = _alone(path) if folder == path.absolute().parent else importlib.import_module(name)
    except BaseException as error:  # the user's code: anything may come
        _forget(name, before)
        if isinstance(error, KeyboardInterrupt):
            raise
        raise CannotRun(f"{path} fails to import: {type(error).__name__}: {error}{_hint(error)}") from error
    finally:
        with suppress(ValueError):  # the file may have changed the list, too
            sys.path.remove(str(folder))
    if not path.samefile(str(module.__file__)):
        raise CannotRun(f"{path} is {name}, but Python has the module of that name from {module.__file__}")
    return module


def _place(path: Path) -> tuple[Path, str]:
    """The folder from which a file is imported, and the name that it has there, by the packages that it lies in."""
    folder, names = path.parent, [path.stem]
    while (folder / "__init__.py").is_file() and folder.name.isidentifier() and "." not in path.stem:
        names.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(names).removesuffix(".__init__")


def _alone(path: Path) -> ModuleType:
    """Import a file that lies in no package, under its own name and whatever else has that name."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError("it is not a Python file")
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _forget(name: str, before: dict[str, ModuleType]) -> None:
    """Take out what a failed import has left of its file or package in ``sys.modules``."""
    package = name.partition(".")[0]
    for known in [known for known in sys.modules if f"{known}.".startswith(f"{package}.")]:
        if known in before:
            sys.modules[known] = before[known]
        else:
            del sys.modules[known]
