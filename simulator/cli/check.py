"""``numba-sim check``: what is wrong with the launches of a script, or of one kernel.

Rules of this file: what a project sets in ``[tool.numba-sim]`` holds, and the command line overrides it.  The exit
status is 1 if a finding fails the check, else 2 if the script stopped or nothing was launched, else 0; 130 if it was
interrupted.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from simulator.cli import output, scripts
from simulator.cli.launches import CannotRun, Launchable, from_file, from_name
from simulator.config import LEVELS, Config, ConfigError, find, words
from simulator.findings import KINDS, Finding

if TYPE_CHECKING:
    from simulator.trace import Trace

Module = Annotated[str | None, Parameter(name=("--module", "-m"))]
Words = Annotated[list[str] | None, Parameter(negative="", consume_multiple=False)]


@dataclass
class Seen:
    """What the launches showed; ``only`` picks the launches of one kernel."""

    only: str = ""
    launches: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    findings: dict[Any, Finding] = field(default_factory=dict)

    def __call__(self, trace: Trace) -> None:
        """Take in one launch."""
        if self.only and trace.kernel != self.only:
            self.others[trace.kernel] += 1
            return
        self.launches[trace.kernel] += 1
        for found in trace.findings:
            self.findings.setdefault(found.key, found)


def check(
    target: str | None = None, /, *argv: str, module: Module = None,
    orders: str | None = None, seed: int | None = None, card: str | None = None,
    fail_on: Words = None, ignore: Words = None,
    format: Literal["text", "github"] = "text",
    json: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None,
    launch: str | None = None, arg: Words = None,
    shape: str | None = None, dtype: str = "float32", threads: int | None = None, path: str | None = None,
) -> int:  # fmt: skip
    """Run a script, or launch one kernel, in several orders of execution; tell what is wrong, line by line.

    Parameters
    ----------
    target
        SCRIPT.py, SCRIPT.py:KERNEL (that kernel's launches alone), FILE.py:KERNEL with --launch, or a built-in kernel.
    argv
        What the script itself takes; write -- before its options, as in `numba-sim check SCRIPT.py -- --epochs 3`.
    module
        MODULE or MODULE:KERNEL instead of a script: run it as `python -m MODULE` would.
    orders
        Orders of execution, as in waves,first,last,random,7 (a number is a seed); by default those of a check.
    seed
        Seeds the random order, and random arguments.
    card
        The card that the script sees: t4, v100, a100, h100, h200, rtx3090, rtx4090 or rtx5090.
    fail_on
        A severity (that and graver) or a kind that fails the check; may be repeated.  By default error.
    ignore
        A kind that is tolerated everywhere; may be repeated.
    format
        text, or github for annotations in a pull request.
    json
        Write the findings as JSON to this file (- for the standard output) instead of text.
    launch
        FILE.py:KERNEL: GRID,BLOCK[,0[,SHARED]], as in 4,256; the file is imported and the kernel launched once.
    arg
        FILE.py:KERNEL: NAME=VALUE for each parameter, as in x=randn:float32[8,4096].
    shape
        Built-in kernels: the shape of x, as in 1x4096.
    dtype
        Built-in kernels: the dtype of x.
    threads
        Built-in kernels: threads of a block.
    path
        Built-in kernels: which form of the kernel.
    """
    output.check(json, None)
    json = json if json is None or str(json) == "-" else json.absolute()  # a script may change the folder
    script, kernel, given = scripts.named(target, argv, module)
    settings = _settings(script, orders, seed, card, fail_on, ignore)
    quiet = redirect_stdout(sys.stderr) if json is not None and str(json) == "-" else nullcontext()
    built = {"--shape": shape, "--threads": threads, "--path": path}
    own = {"--launch": launch, "--arg": arg}
    with quiet:
        if script is not None:
            refuse(built if not script.is_module else {**built, **own}, f"{script}: a script takes no ")
            if script.is_module or (launch is None and arg is None):
                seen, ended = _script(script, kernel, given, settings)
            else:
                refuse({"arguments after the target": given}, "with --launch there are no ")
                seen, ended = _kernel(lambda: from_file(str(target), launch, arg or [], settings.seed), settings)
        else:
            refuse({**own, "arguments after the target": given}, "a built-in kernel takes no ")
            seen, ended = _kernel(lambda: from_name(str(target), shape, dtype, threads, path), settings)
    return _report(seen, ended, settings, f"{script}:{kernel}" if kernel else str(script or target), format, json)


def refuse(options: dict[str, Any], said: str) -> None:
    """Options that would change nothing are refused, not ignored."""
    if wrong := [name for name, given in options.items() if given]:
        raise CannotRun(f"{said}{wrong[0]}")


def _settings(
    script: scripts.Script | None, orders: str | None, seed: int | None, card: str | None,
    fail_on: Sequence[str] | None, ignore: Sequence[str] | None,
) -> Config:  # fmt: skip
    """The project's settings, with those of the command line over them."""
    file = Path() if script is None or script.is_module else Path(script.name)
    try:
        config = find(file.parent if file.is_file() else Path())
        given: dict[str, Any] = {"seed": seed, "card": card}
        if orders is not None:
            given["orders"] = tuple(int(word) if word.isdecimal() else word for word in orders.split(","))
        if fail_on:
            given["fail_on"] = words(fail_on, (*LEVELS, *KINDS))
        if ignore:
            given["ignore"] = (*config.ignore, *words(ignore, KINDS))
        return replace(config, **{name: value for name, value in given.items() if value is not None})
    except (ConfigError, ValueError) as error:
        raise CannotRun(str(error)) from error


def _script(
    script: scripts.Script, kernel: str, argv: Sequence[str], settings: Config
) -> tuple[Seen, scripts.Ended]:  # fmt: skip
    """Run a script on the stand-in device."""
    from simulator import device

    seen = Seen(kernel)
    try:
        with device(check=True, record=False, on_trace=seen, **settings.device_options):
            ended = scripts.run_script(script, argv)
    except (ValueError, RuntimeError) as error:
        raise CannotRun(str(error)) from error
    return seen, ended


def _kernel(found: Any, settings: Config) -> tuple[Seen, scripts.Ended]:
    """Launch one kernel; the file that has it is imported on the stand-in device, which signatures need."""
    from simulator import SimulationError, device, simulate

    seen = Seen()
    try:
        with device(check=True, record=False, on_trace=seen, **settings.device_options), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Grid size|Host array used")  # the launch is ours, not the user's
            made: Launchable = found()
            if hasattr(made.kernel, "py_func"):
                made.kernel[made.grid, made.block, 0, made.dynamic_shared](*made.args)
            else:
                prepared = simulate(made.kernel, check=True, orders=settings.orders, seed=settings.seed)
                seen(prepared[made.grid, made.block, 0, made.dynamic_shared](*made.args))
    except (SimulationError, TypeError, ValueError, IndexError, RuntimeError) as error:
        if not (isinstance(error, SimulationError) and error.findings and seen.launches):  # a refusal has been told
            raise CannotRun(str(error)) from error
    return seen, scripts.Ended()


def _report(
    seen: Seen, ended: scripts.Ended, settings: Config, target: str, format: str, json: Path | None
) -> int:  # fmt: skip
    """Tell the findings; the exit status."""
    from simulator.judgement import judge
    from simulator.views import findings as view

    judged = judge(seen.findings.values(), settings)
    status = 1 if any(each.fails for each in judged) else 2 if ended.failed or not seen.launches else 0
    if ended.interrupted:
        status = ended.status
    if json is not None:
        output.write_json(view.document(judged, seen.launches, target, status), json)
    if format == "github":
        sys.stdout.write(view.github(judged))
    elif json is None and (judged or seen.launches):
        sys.stdout.write(view.text(judged, seen.launches))
    if not seen.launches and not ended.failed:
        raise CannotRun(f"{target} launched no kernel" + (f", but {', '.join(seen.others)}" if seen.others else ""))
    return status
