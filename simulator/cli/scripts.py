"""Runs a user's script as ``python SCRIPT ARGS`` would, on the stand-in device.

Rules of this file: the device is open before the script's first line runs.  Whatever the script does, it is told as
Python would tell it, without our own frames; nothing of it is taken for a mistake of the command line.
"""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from simulator.cli.launches import CannotRun
from simulator.errors import SimulationError

HOSTS = {
    "cupy": "CuPy has no device here: the stand-in device is that of numba.cuda alone; make the arrays with NumPy or "
    "numba.cuda (to_device, device_array)",
    "torch": "torch has no CUDA device here: the stand-in device is that of numba.cuda alone; pass NumPy arrays",
}
"""Libraries that bring a CUDA runtime of their own, and what to say when a script stops in one."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a script ended: its exit status, and the exception that ended it, if one did."""

    status: int = 0
    error: BaseException | None = None

    @property
    def failed(self) -> bool:
        """Did it end in an error?"""
        return self.status != 0


def run_script(script: Path, argv: Sequence[str]) -> Ended:
    """Run a script as ``__main__``; an error is written to the standard error with the script's own frames.

    Raises
    ------
    CannotRun
        There is no such script.
    """
    if not script.is_file():
        raise CannotRun(f"there is no file {script}")
    try:
        with _as_main(script, argv):
            runpy.run_path(str(script), run_name="__main__")
    except SystemExit as ending:
        return _exited(ending)
    except Exception as error:  # noqa: BLE001 - the user's code: anything may come
        _tell(error, script)
        return Ended(1, error)
    finally:
        sys.stdout.flush()
    return Ended()


@contextmanager
def _as_main(script: Path, argv: Sequence[str]) -> Iterator[None]:
    """The command line and the path of modules, as the script expects them."""
    before = sys.argv, list(sys.path)
    sys.argv = [str(script), *argv]
    sys.path.insert(0, str(script.parent.resolve()))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before


def _exited(ending: SystemExit) -> Ended:
    """``sys.exit`` with nothing, a status or a message, as Python takes it."""
    if ending.code is None or isinstance(ending.code, int):
        status = int(ending.code or 0)
        return Ended(status, ending if status else None)
    sys.stderr.write(f"{ending.code}\n")
    return Ended(1, ending)


def _tell(error: BaseException, script: Path) -> None:
    """The traceback from the script's first frame on; of a faulty launch only where it was made, and what is wrong."""
    frame = error.__traceback__
    while frame is not None and Path(frame.tb_frame.f_code.co_filename) != script:
        frame = frame.tb_next
    shown = _own(frame or error.__traceback__) if isinstance(error, SimulationError) else frame or error.__traceback__
    sys.stdout.flush()
    traceback.print_exception(type(error), error, shown, chain=not isinstance(error, SimulationError))
    library = type(error).__module__.partition(".")[0].partition("_")[0]
    said = str(error)
    if library in HOSTS or ("torch" in sys.modules and "NVIDIA driver" in said):
        sys.stderr.write(f"numba-sim: {HOSTS.get(library, HOSTS['torch'])}\n")


def _own(frame: TracebackType | None) -> TracebackType | None:
    """The frames up to the last one outside numba-cuda and the simulator."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.tb_next
    theirs = ("numba", "simulator")
    while len(frames) > 1 and str(frames[-1].tb_frame.f_globals.get("__name__")).partition(".")[0] in theirs:
        frames.pop()
    last: TracebackType | None = None
    for kept in reversed(frames):
        last = TracebackType(last, kept.tb_frame, kept.tb_lasti, kept.tb_lineno)
    return last
