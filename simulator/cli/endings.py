"""What Python does after a script's last line, done while the stand-in device is still there.

Rules of this file: the order is Python's own.  Pools of threads and processes end, the threads that are no daemons are
waited for, and the ``atexit`` handlers run, the last one first.  That goes for what the script and its modules have
started and registered; handlers of Python's own library, of Numba and of the simulator are left to the process's end.
"""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from simulator.cli import tracebacks
from simulator.errors import SimulationError

OTHERS = frozenset((*sys.stdlib_module_names, "simulator", "numba", "llvmlite", "cuda"))
"""Packages whose handlers are left to the end of the process."""
POOLS = {"concurrent.futures.thread": "_shutdown", "concurrent.futures.process": "_global_shutdown"}
"""Modules whose pools wait for work until Python calls their ``_python_exit``, and what they note of it."""
STAND_IN = "stand-in device"
"""How the names of the device's own threads begin."""


class Ending:
    """What is to be done when a script has ended: opened before its first line, with ``finish`` after its last."""

    def __init__(self) -> None:
        self._threads = frozenset(threading.enumerate())
        self._handlers: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []
        self._real = {name: getattr(atexit, name) for name in ("register", "unregister")}
        self._open = False

    def __enter__(self) -> Self:
        self._open = True
        for name in self._real:
            setattr(atexit, name, getattr(self, name))
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False  # who has taken the function out of ``atexit`` may still call it
        for name, real in self._real.items():
            setattr(atexit, name, real)

    def register(self, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        """Stands for ``atexit.register``."""
        if not self._open or not callable(func) or _caller() in OTHERS:
            return self._real["register"](func, *args, **kwargs)
        self._handlers.append((func, args, kwargs))
        return func

    def unregister(self, func: Callable[..., Any], /) -> None:
        """Stands for ``atexit.unregister``."""
        self._handlers = [handler for handler in self._handlers if handler[0] != func]
        self._real["unregister"](func)

    def finish(self) -> SimulationError | None:
        """Wait for threads and run the handlers; the first launch in a handler that went wrong, if one did.

        What a handler raises changes nothing of how the script has ended, but a launch may not fail unseen.

        Raises
        ------
        KeyboardInterrupt
            While threads were waited for; the handlers have run.
        """
        interrupted = None
        with _pools_ended() as end_pools:
            try:
                if self._waited_for():
                    end_pools()
                while threads := self._waited_for():
                    threads[0].join()
            except KeyboardInterrupt as error:
                interrupted = error
            failed = self._run_handlers()
        if interrupted is not None:
            raise interrupted
        return failed

    def _waited_for(self) -> list[threading.Thread]:
        """Threads of the script that keep a process alive."""
        return [
            thread
            for thread in threading.enumerate()
            if thread not in self._threads and not thread.daemon and not thread.name.startswith(STAND_IN)
        ]

    def _run_handlers(self) -> SimulationError | None:
        failed: SimulationError | None = None
        while self._handlers:
            func, args, kwargs = self._handlers.pop()
            try:
                func(*args, **kwargs)
            except SystemExit:
                pass
            except BaseException as error:  # noqa: BLE001 - Python goes on to the next handler, whatever comes
                tracebacks.tell(error, f"Exception ignored in atexit callback: {func!r}\n")
                if isinstance(error, SimulationError):
                    failed = failed or error
        return failed


def _caller() -> str:
    """The package of the code that called the function that asks."""
    return str(sys._getframe(2).f_globals.get("__name__")).partition(".")[0]


@contextmanager
def _pools_ended() -> Iterator[Callable[[], None]]:
    """Gives what ends all pools.  They take no more work until the block ends, and do after it."""
    ended = []

    def end() -> None:
        for name, noted in POOLS.items():
            if (module := sys.modules.get(name)) is not None:
                ended.append((module, noted))
                module._python_exit()

    try:
        yield end
    finally:
        for module, noted in ended:
            setattr(module, noted, False)
