"""Runs a user's script as ``python SCRIPT ARGS`` or ``python -m MODULE ARGS`` would, on the stand-in device.

Rules of this file: the device is open before the script's first line runs, and until its threads and ``atexit``
handlers have ended.  Whatever the script does, it is told as Python would tell it, without our own frames; nothing of
it is taken for a mistake of the command line, and the streams, path and folder that it replaces are put back.
"""

from __future__ import annotations

import importlib.util
import io
import os
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from simulator.cli import streams, tracebacks
from simulator.cli.endings import Ending
from simulator.cli.launches import CannotRun, split

INTERRUPTED = 130
"""The exit status of a script that was stopped by Ctrl-C, as a shell tells it."""


@dataclass(frozen=True, slots=True)
class Script:
    """What runs as ``__main__``: a file, or a module by its name, which Python looks up as for an import."""

    name: str
    is_module: bool = False

    def __str__(self) -> str:
        return f"-m {self.name}" if self.is_module else self.name


@dataclass(frozen=True, slots=True)
class Ended:
    """How a script ended: its exit status, and the exception that ended it, if one did."""

    status: int = 0
    error: BaseException | None = None

    @property
    def failed(self) -> bool:
        """Did it end in an error?"""
        return self.status != 0

    @property
    def interrupted(self) -> bool:
        """Did Ctrl-C end it?"""
        return isinstance(self.error, KeyboardInterrupt)


def script_of(target: str | None, argv: Sequence[str], module: str | None) -> tuple[Script, tuple[str, ...]]:
    """The script that a command line names, and what the script takes; after ``-m`` that is all words.

    >>> script_of("a/b.py", ["7"], None), script_of("7", [], "a.b")
    ((Script(name='a/b.py', is_module=False), ('7',)), (Script(name='a.b', is_module=True), ('7',)))

    Raises
    ------
    CannotRun
        It names none.
    """
    words = tuple(word for word in (target, *argv) if word is not None)
    if module is not None:
        return Script(module, is_module=True), words
    if not words:
        raise CannotRun("name what is to run: a script, as in SCRIPT.py, or a module, as in -m MODULE")
    return Script(str(Path(words[0]))), words[1:]


def named(target: str | None, argv: Sequence[str], module: str | None) -> tuple[Script | None, str, tuple[str, ...]]:
    """As ``script_of``, where a kernel may be named after a colon; None where the target is a built-in kernel.

    >>> named("a/b.py:scale", ["7"], None)
    (Script(name='a/b.py', is_module=False), 'scale', ('7',))
    >>> named("rms_norm", [], None)
    (None, '', ())

    Raises
    ------
    CannotRun
        It names nothing, or a kernel that is in no file.
    """
    script, given = script_of(target, argv, module)
    if script.is_module:
        name, _, kernel = script.name.partition(":")
        return Script(name, is_module=True), kernel, given
    file, kernel = split(script.name)
    return None if file is None else Script(str(file)), kernel, given


def run_script(script: Script, argv: Sequence[str]) -> Ended:
    """Run a script as ``__main__``; an error is written to the standard error with the script's own frames.

    Raises
    ------
    CannotRun
        There is no such script or module.
    """
    if not script.is_module and not Path(script.name).is_file():
        raise CannotRun(f"there is no file {script}")
    with streams.kept(), _as_main(script, argv) as main, Ending() as ending:
        ended = _run(script, main)
        try:
            late = ending.finish()
        except KeyboardInterrupt as error:
            return _stopped(error)
    return Ended(1, late) if late is not None and not ended.failed else ended


def _run(script: Script, main: ModuleType) -> Ended:
    """Execute the script in the module that is ``__main__``."""
    try:
        exec(_code(script, main), vars(main))
    except CannotRun:
        raise
    except SystemExit as ending:
        return _exited(ending)
    except BaseException as error:  # noqa: BLE001 - the user's code: anything may come
        return _stopped(error)
    return Ended()


def _stopped(error: BaseException) -> Ended:
    tracebacks.tell(error)
    return Ended(INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1, error)


def _exited(ending: SystemExit) -> Ended:
    """``sys.exit`` with nothing, a status or a message, as Python takes it."""
    if ending.code is None or isinstance(ending.code, int):
        status = int(ending.code or 0)
        return Ended(status, ending if status else None)
    streams.flush(sys.stdout)
    streams.say(f"{ending.code}\n")
    return Ended(1, ending)


@contextmanager
def _as_main(script: Script, argv: Sequence[str]) -> Iterator[ModuleType]:
    """The module ``__main__``, the command line and the path of modules, as the script expects them."""
    before = sys.argv, list(sys.path), sys.modules["__main__"], os.getcwd()
    file = Path(script.name).resolve()
    first = Path.cwd() if script.is_module else file.parent if _archive(script) is None else file
    main = ModuleType("__main__")
    sys.argv = ["-m" if script.is_module else script.name, *argv]
    sys.path.insert(0, str(first))
    sys.modules["__main__"] = main
    try:
        yield main
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"], folder = before
        with suppress(OSError):  # it may be gone
            os.chdir(folder)


# -- code --------------------------------------------------------------------------------------------------------------


def _code(script: Script, main: ModuleType) -> CodeType:
    """The script's code; ``main`` gets to know where it comes from.  What a package runs on import runs here."""
    archive = _archive(script)
    if not script.is_module and archive is None:
        vars(main).update(__file__=str(Path(script.name).absolute()), __cached__=None)
        with io.open_code(script.name) as file:
            return compile(file.read(), script.name, "exec", dont_inherit=True)
    spec = _spec(script.name) if archive is None else archive.find_spec("__main__")
    code = getattr(spec and spec.loader, "get_code", lambda _: None)(spec and spec.name)
    if spec is None or code is None:
        raise CannotRun(f"{script}: Python has no code to run there")
    sys.argv[0] = str(spec.origin)
    vars(main).update(
        __spec__=spec, __file__=spec.origin, __cached__=spec.cached, __loader__=spec.loader, __package__=spec.parent
    )
    return code


def _archive(script: Script) -> Any:
    """What imports from a script that is an archive of modules, such as zipapp makes; None of any other."""
    return None if script.is_module else pkgutil.get_importer(script.name)


def _spec(name: str) -> ModuleSpec:
    """Where a module, or the ``__main__`` of a package, is found."""
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name += ".__main__"
            spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}."):  # what its package imports is missing
            raise
        spec = None
    except ValueError:  # no name of a module
        spec = None
    if spec is None:
        raise CannotRun(f"there is no module {name}")
    return spec
