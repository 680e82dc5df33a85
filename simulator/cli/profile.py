"""``numba-sim profile``: what a launch costs, line by line, on a chosen card.

Rules of this file: targets are those of ``check``; the runs and the refusals are those of the other commands.  Of a
script, launches of one kernel in one shape cost the same, more or less: the first is shown, the others are counted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.console import Console, RenderableType

from simulator.cli import output, scripts
from simulator.cli.check import Module, refuse
from simulator.cli.launches import CannotRun
from simulator.cost.cards import CARDS, DEFAULT, card

if TYPE_CHECKING:
    from simulator.cost.profile import Profile
    from simulator.trace import Trace


def profile(
    target: str | None = None, /, *argv: str, module: Module = None,
    card_name: Annotated[str, Parameter(name="--card")] = DEFAULT,
    shape: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None, dtype: str = "float32",
    threads: int | None = None, path: str | None = None,
    launch: str | None = None, arg: Annotated[list[str] | None, Parameter(negative="", consume_multiple=False)] = None,
    seed: int = 0, order: Literal["waves", "first", "last", "random"] = "waves",
    json: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None, max_steps: int | None = None,
) -> int:  # fmt: skip
    """Run a kernel; show what each source line costs, the bytes and their time on a card, and the occupancy.

    Parameters
    ----------
    target
        A built-in kernel (rms_norm), FILE.py:KERNEL with --launch, SCRIPT.py, or SCRIPT.py:KERNEL (that kernel's
        launches alone).
    argv
        What the script itself takes; write -- before its options, as in `numba-sim profile SCRIPT.py -- --epochs 3`.
    module
        MODULE or MODULE:KERNEL instead of a script: run it as `python -m MODULE` would.
    card_name
        The card: t4, v100, a100, h100, h200, rtx3090, rtx4090 or rtx5090.
    shape
        Built-in kernels: the shape of x, as in 1x4096.
    dtype
        Built-in kernels: the dtype of x.
    threads
        Built-in kernels: threads of a block.
    path
        Built-in kernels: which form of the kernel, as in `trace`.
    launch
        FILE.py:KERNEL: GRID,BLOCK[,0[,SHARED]], as in 4,256 or 2x2,16x16.
    arg
        FILE.py:KERNEL: NAME=VALUE for each parameter, as in x=randn:float32[8,4096], n=8 or eps=float32:1e-6.
    seed
        Seeds random arguments and the random order.
    order
        The order of execution: waves (lock step), or warps one by one: first, last, random.
    json
        Write the profile as JSON to this file (- for the standard output) instead of text.
    max_steps
        How many pieces of straight-line code may run before the launch counts as hanging.
    """
    if card_name.lower() not in CARDS:
        raise CannotRun(f"there is no card {card_name!r}; the cards are {', '.join(CARDS)}")
    if seed < 0:
        raise CannotRun(f"--seed is a number from 0 up, not {seed}")
    output.check(json, None)
    json = json if json is None or str(json) == "-" else json.absolute()  # a script may change the folder
    script, kernel, given = scripts.named(target, argv, module)
    if script is not None and (script.is_module or (launch is None and arg is None)):
        own = {"--launch": launch, "--arg": arg}
        refuse({"--shape": shape, "--threads": threads, "--path": path, **own}, f"{script}: a script takes no ")
        return _script(script, kernel, given, card_name, order, seed, max_steps, json)
    wrong = "with --launch there are no " if script else "a built-in kernel takes no "
    refuse({"arguments after the target": given}, wrong)
    built = shape, dtype, threads, path
    return _launch(str(target), built, launch, arg or [], card_name, order, seed, max_steps, json)


def _launch(
    target: str, built: tuple[str | None, str, int | None, str | None], launch: str | None, args: list[str],
    card_name: str, order: str, seed: int, max_steps: int | None, json: Path | None,
) -> int:  # fmt: skip
    """Profile one launch."""
    from simulator.cli import app
    from simulator.cost.profile import profile as profiled
    from simulator.views.profile import document, report

    made = app.launched(app.find(target, built, launch, args, seed), 0, [], seed, order, max_steps, operations=True)
    told = profiled(made, card(card_name))
    if json is not None:
        output.write_json(document(told), json)
    else:
        _show([report(told)])
    return _status([told])


class _Launches:
    """The profiles of a script's launches: the first of each kernel and shape, and how many there were."""

    def __init__(self, only: str, card_name: str) -> None:
        self.only, self.card = only, card(card_name)
        self.found: dict[Any, tuple[Profile, int]] = {}

    def __call__(self, trace: Trace) -> None:
        """Take in one launch."""
        from simulator.cost.profile import profile as profiled

        if self.only and trace.kernel != self.only:
            return
        key = trace.kernel, trace.launch, tuple((a.name, a.dtype, a.shape) for a in trace.arrays.values())
        first, times = self.found.get(key, (None, 0))
        self.found[key] = first or profiled(trace, self.card), times + 1


def _script(
    script: scripts.Script, kernel: str, argv: Sequence[str], card_name: str, order: str, seed: int,
    max_steps: int | None, json: Path | None,
) -> int:  # fmt: skip
    """Profile the launches of a script on the stand-in device."""
    from simulator import device
    from simulator.views.profile import documents, reports

    launches = _Launches(kernel, card_name)
    limit: dict[str, Any] = {} if max_steps is None else {"max_steps": max_steps}
    options = {"check": True, "record": False, "orders": (order,), "seed": seed, "card": card_name, **limit}
    quiet = redirect_stdout(sys.stderr) if json is not None and str(json) == "-" else nullcontext()
    try:
        with quiet, device(on_trace=launches, operations=True, **options):
            ended = scripts.run_script(script, argv)
    except (ValueError, RuntimeError) as error:
        raise CannotRun(str(error)) from error
    found = list(launches.found.values())
    if not found and not ended.failed:
        raise CannotRun(f"{script} launched no kernel" + (f" {kernel}" if kernel else ""))
    if json is not None:
        output.write_json(documents(found), json)
    else:
        _show(reports(found))
    if ended.interrupted:
        return ended.status
    return _status([told for told, _ in found]) or (2 if ended.failed else 0)


def _show(said: Sequence[RenderableType]) -> None:
    console = Console(highlight=False)
    with output.writing():
        with console.capture() as captured:
            for one in said:
                console.print(one, crop=False)
        sys.stdout.write(captured.get())


def _status(told: Sequence[Profile]) -> int:
    return 1 if any(finding.severity == "error" for one in told for finding in one.trace.findings) else 0
