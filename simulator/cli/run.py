"""``numba-sim run``: a script whose numba.cuda runs on the CPU.

Rules of this file: the script's output is the output.  The exit status is the script's own, but 1 where a launch was
at fault, and 2 where the script stopped for another reason or launched nothing; 130 where it was interrupted.
"""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from simulator.cli import scripts
from simulator.cli.launches import CannotRun
from simulator.errors import SimulationError, Unsupported


def run(
    script: str | None = None, /, *argv: str,
    module: Annotated[str | None, Parameter(name=("--module", "-m"))] = None, card: str | None = None,
) -> int:  # fmt: skip
    """Run a script; what it does with numba.cuda happens on the CPU.

    Parameters
    ----------
    script
        A Python script; it needs no change.
    argv
        What the script itself takes; write -- before its options, as in `numba-sim run SCRIPT.py -- --epochs 3`.
    module
        Instead of a script: run this module as `python -m MODULE` would.
    card
        The card that the script sees: t4, v100, a100, h100, h200, rtx3090, rtx4090 or rtx5090.
    """
    from simulator import device
    from simulator.cost.cards import DEFAULT

    what, given = scripts.script_of(script, argv, module)
    try:
        with device(card=card or DEFAULT) as gpu:
            ended = scripts.run_script(what, given)
    except (ValueError, RuntimeError) as error:
        raise CannotRun(str(error)) from error
    if ended.error is not None and not ended.interrupted and not isinstance(ended.error, SystemExit):
        fault = isinstance(ended.error, SimulationError) and not isinstance(ended.error, Unsupported)
        return 1 if fault else 2
    if not gpu.launches and not ended.failed:
        sys.stderr.write(f"numba-sim: {what} launched no kernel\n")
        return 2
    return ended.status
