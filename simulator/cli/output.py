"""Writes what a command produced: figures and JSON, whole or not at all.

Rules of this file: a file appears under its name only when it is complete.  matplotlib is imported only to draw.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.cli.launches import CannotRun, NoPicture

if TYPE_CHECKING:
    from simulator.trace import Trace

FORMATS = (".svg", ".png", ".pdf")


def check(json: Path | None, figure: Path | None) -> None:
    """Refuse files that could not be written, before anything runs."""
    if json is not None and json.is_dir():  # an empty name is the folder "."
        raise CannotRun(f"--json {json} is a folder: write the name of a file, or - for the standard output")
    if figure is not None and figure.suffix.lower() not in FORMATS:
        raise CannotRun(f"--figure {figure}: write a name that ends in {', '.join(FORMATS)}")
    for option, path in (("--json", json), ("--figure", figure)):
        if path is not None and not path.parent.is_dir():
            raise CannotRun(f"{option} {path}: there is no folder {path.parent}")


def write_figure(trace: Trace, path: Path, picture: str, choice: dict[str, Any]) -> None:
    """Draw one picture of the trace; ``choice`` goes to the picture's ``of``, as far as it is not None.

    Raises
    ------
    NoPicture
        The trace does not hold what the picture shows.
    CannotRun
        The file cannot be written.
    """
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    from simulator import draw

    kind: Any = {"coalescing": draw.Strip, "indices": draw.IndexMap, "tree": draw.TreePlan}[picture]
    if not trace.ran:
        raise NoPicture("the launch never began: nothing to draw")
    array = choice.pop("array", None) or _usual_array(trace, "store" if picture == "tree" else "load")
    try:
        plan = kind.of(trace, array, **{key: value for key, value in choice.items() if value is not None})
    except (LookupError, ValueError) as error:  # not there, or not recorded
        raise NoPicture(f"--picture {picture}: {error}") from error
    figure = Figure(figsize=plan.size, dpi=200)
    plan.draw(figure.add_axes((0.0, 0.0, 1.0, 1.0)))
    words = {"Title": plan.title, "Subject" if path.suffix == ".pdf" else "Description": plan.describe()}
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": "numba-sim"}  # text stays text; the same run, the same file
    with matplotlib.rc_context(style):
        undated = {} if path.suffix.lower() == ".png" else {"Date" if path.suffix == ".svg" else "CreationDate": None}
        whole(path, lambda part: figure.savefig(part, format=path.suffix[1:].lower(), metadata={**words, **undated}))


def _usual_array(trace: Trace, operation: str) -> str:
    for row in trace.lines:
        if row.space == "global" and row.operation == operation:
            return row.array
    raise NoPicture(f"the launch holds no {operation} of an array in global memory: nothing to draw")


def write_json(document: dict[str, Any], path: Path) -> None:
    """Write a document to a file, or to the standard output for ``-``."""
    text = json.dumps(document, allow_nan=False) + "\n"
    if str(path) == "-":
        with writing():
            sys.stdout.write(text)
    else:
        whole(path, lambda part: Path(part).write_text(text, encoding="utf-8"))


@contextmanager
def writing() -> Iterator[None]:
    """Around what writes to the standard output.

    Raises
    ------
    BrokenPipeError
        The reader has seen enough.
    CannotRun
        It cannot be written.
    """
    try:
        yield
        sys.stdout.flush()  # what cannot be written is said here, not by Python as it ends
    except BrokenPipeError:
        _discard()
        raise
    except OSError as error:
        if error.filename is not None:  # of some other file
            raise
        _discard()
        raise CannotRun(f"cannot write to the standard output: {error.strerror or error}") from error


def _discard() -> None:
    """Let what is still buffered for the standard output go nowhere, or Python fails on it once more as it ends."""
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError):  # a stream without a file, or closed
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


def whole(path: Path, write: Callable[[str], Any]) -> None:
    """Let ``write`` fill a file next to ``path``, then give it that name.

    Raises
    ------
    CannotRun
        The file cannot be written.
    """
    part = ""
    try:
        handle, part = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
        os.close(handle)
        write(part)
        os.chmod(part, 0o666 & ~_umask())
        os.replace(part, path)
    except OSError as error:
        raise CannotRun(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if part and os.path.exists(part):
            os.unlink(part)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
