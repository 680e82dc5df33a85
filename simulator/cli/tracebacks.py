"""Tells the errors of a user's script as Python would, and what is behind those that have a reason here.

Rules of this file: a traceback begins at the script's first frame; of a faulty launch, or an interrupted one, it ends
where the launch was made.  It goes where the script has its standard error.
"""

from __future__ import annotations

import sys
import traceback
from types import TracebackType

from simulator.cli import streams
from simulator.errors import SimulationError

HOSTS = {
    "cupy": "CuPy has no device here: the stand-in device is that of numba.cuda alone; make the arrays with NumPy or "
    "numba.cuda (to_device, device_array)",
    "torch": "torch has no CUDA device here: the stand-in device is that of numba.cuda alone; pass NumPy arrays",
}
"""Libraries that bring a CUDA runtime of their own, and what to say when a script stops in one."""


def tell(error: BaseException, head: str = "") -> None:
    """Write the traceback of an error that has come out of a script; ``head`` goes before it."""
    error.__traceback__ = _from_script(error.__traceback__)
    _shorten(error)
    streams.flush(sys.stdout)
    streams.say(head + "".join(traceback.format_exception(error)))
    library = type(error).__module__.partition(".")[0].partition("_")[0]
    if library in HOSTS or ("torch" in sys.modules and "NVIDIA driver" in str(error)):
        streams.say(f"numba-sim: {HOSTS.get(library, HOSTS['torch'])}\n")


def _shorten(error: BaseException) -> None:
    """Let launches that went wrong, in the error or in what led to it, end where they were made."""
    told: BaseException | None = error
    known: set[int] = set()
    while told is not None and id(told) not in known:
        known.add(id(told))
        if isinstance(told, SimulationError | KeyboardInterrupt):
            told.__traceback__ = _to_launch(told.__traceback__)
        if isinstance(told, SimulationError):
            told.__cause__ = None  # the message has said it
        told = told.__cause__ or (None if told.__suppress_context__ else told.__context__)


def _from_script(frame: TracebackType | None) -> TracebackType | None:
    """The frames from the script's first one on; none of an error that it has before it runs, such as of its syntax."""
    while frame is not None and _package(frame) in ("simulator", "importlib"):
        frame = frame.tb_next
    return frame


def _to_launch(frame: TracebackType | None) -> TracebackType | None:
    """The frames up to the last one before numba-cuda and the simulator."""
    frames: list[TracebackType] = []
    while frame is not None and not (frames and _package(frame) == "simulator"):
        frames.append(frame)
        frame = frame.tb_next
    while len(frames) > 1 and _package(frames[-1]) == "numba":
        frames.pop()
    last: TracebackType | None = None
    for kept in reversed(frames):
        last = TracebackType(last, kept.tb_frame, kept.tb_lasti, kept.tb_lineno)
    return last


def _package(frame: TracebackType) -> str:
    return str(frame.tb_frame.f_globals.get("__name__")).partition(".")[0]
