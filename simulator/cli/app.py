"""``numba-sim``: its commands and options.

Rules of this file: it decides what runs and what is shown, and does neither.  A user's mistake ends in one line on the
standard error and exit status 2; findings of severity error end in 1, a clean run in 0.
"""

from __future__ import annotations

import importlib.metadata
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter
from cyclopts.exceptions import UnknownOptionError
from rich.console import Console

from simulator.cli import launches, output, streams, words
from simulator.cli.check import check
from simulator.cli.launches import CannotRun, Launchable, NoPicture
from simulator.cli.profile import profile
from simulator.cli.run import run as run_script

if TYPE_CHECKING:
    from simulator.trace import Trace

Index = int | tuple[int, ...]
Picture = Literal["coalescing", "indices", "tree"]

CHOICES: dict[str, tuple[str, ...]] = {
    "coalescing": ("array", "line", "warp", "request"),
    "indices": ("array", "line"),
    "tree": ("array", "index", "reduction"),
}
"""The options that choose what a picture shows."""


def _version() -> str:
    return importlib.metadata.version("numba-norms")


app = App(
    name="numba-sim", help="Runs Numba-CUDA kernels on the CPU and shows what each thread does.",
    result_action="return_value", help_on_error=False, version=_version, version_flags=["--version"],
)  # fmt: skip


def run(tokens: Sequence[str] | None = None) -> int:
    """Carry out a command line (by default the process's); the exit status."""
    streams.exist()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without … shows ?, it does not stop the run
    try:
        with output.writing():
            status = app(sys.argv[1:] if tokens is None else list(tokens), exit_on_error=False, print_error=False)
    except (CannotRun, words.BadWord) as error:
        return _refuse(str(error))
    except UnknownOptionError as error:
        hint = " (write -- before what the script itself takes)" if {"run", "check"} & set(tokens or sys.argv) else ""
        return _refuse(" ".join(str(error).split()) + hint)
    except CycloptsError as error:
        return _refuse(" ".join(str(error).split()))
    except KeyboardInterrupt:
        return _refuse("interrupted")
    except BrokenPipeError:  # the reader of a pipe has seen enough
        return 0
    except OSError as error:
        return _refuse(str(error))
    except MemoryError as error:
        return _refuse(f"too large for the memory of this machine: {error}".removesuffix(": "))
    return status if isinstance(status, int) else 0


def _refuse(message: str) -> int:
    sys.stderr.write(f"numba-sim: {' '.join(message.splitlines())}\n")
    return 2


@app.command
def trace(
    target: str, /, *,
    shape: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None, dtype: str = "float32",
    threads: int | None = None, path: str | None = None,
    launch: str | None = None, arg: Annotated[list[str] | None, Parameter(negative="", consume_multiple=False)] = None,
    thread: Annotated[str, Parameter(allow_leading_hyphen=True)] = "0",
    block: Annotated[str, Parameter(allow_leading_hyphen=True)] = "0",
    watch: Annotated[list[str] | None, Parameter(negative="")] = None,
    seed: int = 0, order: Literal["waves", "first", "last", "random"] = "waves",
    json: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None, figure: Path | None = None,
    picture: Picture | None = None,
    array: str | None = None, line: int | None = None, warp: int | None = None, request: int | None = None,
    index: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None, reduction: int | None = None,
    max_steps: int | None = None,
) -> int:  # fmt: skip
    """Run a kernel; show what one thread reads and writes and what each source line costs.

    Parameters
    ----------
    target
        A built-in kernel (rms_norm), or FILE.py:KERNEL.
    shape
        Built-in kernels: the shape of x, as in 1x4096.
    dtype
        Built-in kernels: the dtype of x.
    threads
        Built-in kernels: threads of a block.
    path
        Built-in kernels: which form of the kernel; for norms strided (the textbook's, the default), vector, stream, or
        auto, which is the one that the library takes.
    launch
        FILE.py:KERNEL: GRID,BLOCK[,0[,SHARED]], as in 4,256 or 2x2,16x16.
    arg
        FILE.py:KERNEL: NAME=VALUE for each parameter, as in x=randn:float32[8,4096], n=8 or eps=float32:1e-6.
    thread
        Which thread of the block is shown: a number, or an index as in 1,2.  It sizes nothing.
    block
        Which block is shown: a number, or an index.
    watch
        A variable whose values are shown; may be repeated.
    seed
        Seeds random arguments and the random order.
    order
        The order of execution: waves (lock step), or warps one by one: first, last, random.
    json
        Write the trace as JSON to this file (- for the standard output) instead of text.
    figure
        Write a picture to this file: .svg, .png or .pdf.
    picture
        Which picture; by default coalescing.
    array
        The array that is drawn; by default the first that is read, for a tree the first that is written.
    line
        The source line that is drawn.
    warp
        The warp whose request is drawn; by default 0.
    request
        Which of its requests is drawn; by default 0, the first.
    index
        The output element whose tree is drawn, as in 0,3.
    reduction
        Which pass is drawn, where a row is reduced more than once: 0 the first, -1 the last (the default).
    max_steps
        How many pieces of straight-line code may run before the launch counts as hanging.
    """
    if seed < 0:
        raise CannotRun(f"--seed is a number from 0 up, not {seed}")
    shown = words.number_of(thread, "thread"), words.number_of(block, "block")
    element = None if index is None else words.index_of(index)
    options = {"line": line, "warp": warp, "request": request, "index": element, "reduction": reduction}
    chosen = _choice(figure, picture, {"array": array, **options})
    output.check(json, figure)
    found = find(target, (shape, dtype, threads, path), launch, arg or [], seed)
    keep = None if isinstance(shown[1], tuple) else shown[1]
    made = launched(found, keep, watch or [], seed, order, max_steps, lineage=figure is not None and picture == "tree")
    _show(made, shown, watch or [], json)
    status = 1 if any(finding.severity == "error" for finding in made.findings) else 0
    if figure is not None:
        _draw(made, figure, picture or "coalescing", chosen, shown[1], failed=status == 1)
    return status


def _choice(figure: Path | None, picture: Picture | None, options: dict[str, Any]) -> dict[str, Any]:
    """The options of the picture; those that would change nothing are refused, not ignored."""
    given = {name: value for name, value in options.items() if value is not None}
    if figure is None and (unused := ["picture"] * (picture is not None) + list(given)):
        raise CannotRun(f"--{unused[0]} chooses what a picture shows: it needs --figure FILE")
    kind = picture or "coalescing"
    if wrong := [name for name in given if name not in CHOICES[kind]]:
        raise CannotRun(f"--{wrong[0]} does not go with --picture {kind}, which takes --{', --'.join(CHOICES[kind])}")
    for name in ("request", "warp"):
        if given.get(name, 0) < 0:
            raise CannotRun(f"--{name} is a number from 0 up, not {given[name]}")
    return given


def _draw(made: Trace, figure: Path, picture: Picture, chosen: dict[str, Any], block: Index, *, failed: bool) -> None:
    """Write the picture; a run that failed has told why already, so that a picture that it lacks is only said."""
    try:
        where = {} if picture == "tree" or not made.ran else {"block": made.thread(0, block).block}
        output.write_figure(made, figure, picture, {**chosen, **where})
    except NoPicture as error:
        if not failed:
            raise
        _refuse(f"{figure} is not written: {error}")


def find(
    target: str, built: tuple[str | None, str, int | None, str | None], launch: str | None, args: list[str], seed: int
) -> Launchable:
    """What is to be launched; options of the other kind of target are refused, not ignored."""
    shape, _, threads, path = built
    own = ":" in target or target.endswith(".py")
    extra = (
        [("--shape", shape), ("--threads", threads), ("--path", path)]
        if own
        else [("--launch", launch), ("--arg", args or None)]
    )
    if wrong := [option for option, given in extra if given is not None]:
        takes = "FILE.py:KERNEL, which takes --launch and --arg" if own else "a built-in kernel, which takes --shape"
        raise CannotRun(f"{wrong[0]} does not go with {takes}")
    if not own:
        return launches.from_name(target, *built)
    _, name = launches.split(target)
    if not name:
        raise CannotRun(f"{target}: name the kernel too, as in FILE.py:KERNEL")
    return launches.from_file(target, launch, args, seed)


def launched(
    found: Launchable, block: int | None, watch: list[str], seed: int, order: str, max_steps: int | None, *,
    lineage: bool = False, operations: bool = False,
) -> Trace:  # fmt: skip
    """Run the launch; on a terminal, with a bar of blocks and the time.  Errors of the kernel are findings."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from simulator import SimulationError, simulate

    blocks = math.prod(found.grid) if isinstance(found.grid, tuple) else found.grid
    if block is not None and block >= blocks > 0:
        raise CannotRun(f"there is no block {block}: the grid has blocks 0 to {blocks - 1}")
    keep = [block] if block else "auto"  # block 0 is kept anyway
    limit: dict[str, Any] = {} if max_steps is None else {"max_steps": max_steps}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("blocks"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"running {getattr(found.kernel, '__name__', 'the kernel')}", total=blocks)
        try:
            prepared = simulate(
                found.kernel,
                check=True,
                orders=(order,),
                seed=seed,
                keep=keep,
                watch=watch,
                lineage=lineage,
                operations=operations,
                progress=lambda done, total: progress.update(task, completed=done, total=total),
                **limit,
            )
            return prepared[found.grid, found.block, 0, found.dynamic_shared](*found.args)
        except (SimulationError, TypeError, ValueError, IndexError) as error:
            raise CannotRun(str(error)) from error


def _show(made: Trace, shown: tuple[Index, Index], watch: list[str], json: Path | None) -> None:
    thread, block = shown
    try:
        if json is not None:
            from simulator.views.json import document

            output.write_json(document(made, thread, block, watch), json)
        else:
            from simulator.views.text import report

            console = Console(highlight=False)
            said = report(made, thread, block, watch)
            with output.writing():
                with console.capture() as captured:  # rich itself would end the process on a closed pipe
                    console.print(said, crop=False)
                sys.stdout.write(captured.get())
    except (IndexError, ValueError, KeyError) as error:
        raise CannotRun(str(error)) from error


app.command(profile)
app.command(check)
app.command(run_script, name="run")
