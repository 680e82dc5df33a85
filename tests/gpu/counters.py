"""Simulated requests and sectors against Nsight Compute's: `python tests/gpu/counters.py`.

Profiles itself (`counters.py launch`) under `ncu`, one kernel after the other, and sets beside each count of the card
what the simulator counts for the same launch.  Where ncu is missing, or the driver denies it the counters, that is
written down and exit status is 0: nothing of ours is wrong then.  Status 1 where counts differ.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from numba_norms.launch import Launch
from simulator import simulate
from tests.gpu.cases import Shape
from tests.gpu.record import note
from tests.tolerances import FLOAT16, FLOAT32

METRICS = {
    (what, operation): f"l1tex__t_{what}_pipe_lsu_mem_global_op_{word}.sum"
    for what in ("requests", "sectors")
    for operation, word in (("load", "ld"), ("store", "st"))
}
SHAPES = (
    Shape("rms_norm", "strided", 4, 4096, FLOAT16),
    Shape("rms_norm", "strided", 5, 4097, FLOAT16),
    Shape("rms_norm", "strided", 4, 1000, FLOAT32),
    Shape("rms_norm", "vector", 37, 64, FLOAT16),
    Shape("rms_norm", "vector", 5, 1000, FLOAT16),
    Shape("rms_norm", "vector", 4, 4096, FLOAT16),
    Shape("rms_norm", "vector", 4, 4096, FLOAT32),
    Shape("add_rms_norm", "vector", 4, 4096, FLOAT16),
    Shape("layer_norm", "strided", 4, 4096, FLOAT16),
    Shape("layer_norm", "vector", 4, 4096, FLOAT16),
    Shape("rms_norm", "stream", 2, 65536, FLOAT16),
)
PLACES = ("ncu", "/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/ncu")
DENIED = "ERR_NVGPUCTRPERM"
Counts = dict[str, float]
"""By metric"""


def parse(text: str) -> list[Counts]:
    """The metrics of each profiled launch, in order, from `ncu --csv`: in lines or in columns, whatever surrounds them.

    >>> parse('''==PROF== Connected
    ... "ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
    ... "0","norm","sectors.sum","sector","1,024"
    ... "1","norm","sectors.sum","sector","8"''')
    [{'sectors.sum': 1024.0}, {'sectors.sum': 8.0}]
    >>> parse('''"ID","Kernel Name","sectors.sum"
    ... "","","sector"
    ... "0","norm","1,024"''')
    [{'sectors.sum': 1024.0}]
    """
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    found: dict[str, Counts] = {}
    for row in csv.DictReader(line for line in lines[start:] if line.startswith('"')):
        if not row["ID"].isdigit():  # the line of units
            continue
        pairs = [(row["Metric Name"], row["Metric Value"])] if "Metric Name" in row else row.items()
        counts = {name: float(value.replace(",", "")) for name, value in pairs if name.endswith(".sum")}
        found.setdefault(row["ID"], {}).update(counts)
    return list(found.values())


def simulated(launch: Launch) -> Counts:
    """The simulator's counts for a launch over NumPy arrays, by metric."""
    trace = simulate(launch.kernel)[launch.grid, launch.block](*launch.args)
    rows = [row for row in trace.lines if row.space == "global"]
    return {
        metric: float(sum(getattr(row, what) for row in rows if row.operation == operation))
        for (what, operation), metric in METRICS.items()
    }


def differences(measured: Counts, counted: Counts) -> list[str]:
    """Where the two disagree, in words."""
    return [
        f"{metric}: {measured.get(metric, float('nan')):.0f} on the card, {count:.0f} simulated"
        for metric, count in counted.items()
        if measured.get(metric) != count
    ]


def command(ncu: str, out: Path) -> list[str]:
    """How ncu is asked.  Clocks stay as they are; counts do not depend on them."""
    asked = [
        "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(METRICS.values()),
        "--clock-control", "none", "--kernel-name-base", "mangled", "--kernel-name", "regex:_norm",
        "--target-processes", "all", "--log-file", str(out),
    ]  # fmt: skip
    return [ncu, *asked, sys.executable, __file__, "launch"]


def launch_all() -> None:
    """What is profiled: each case once, and no other kernel of this name."""
    from tests.gpu.card import run

    for shape in SHAPES:
        run(shape.case, shape.path, threads=shape.threads)


def profile(seconds: float) -> tuple[list[Counts], str]:
    """The counts of the card, or why there are none."""
    ncu = next(filter(None, map(shutil.which, PLACES)), None)
    if ncu is None:
        return [], "ncu is not installed"
    out = Path(os.environ.get("OUT", ".")) / "ncu.csv"
    try:
        done = subprocess.run(command(ncu, out), capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return [], f"ncu took more than {seconds:.0f} s"
    text = out.read_text(encoding="utf-8", errors="replace") if out.is_file() else ""
    said = "\n".join((text, done.stdout, done.stderr))
    if DENIED in said:
        return [], f"the driver denies the counters to this user ({DENIED})"
    counts = parse(text)
    if len(counts) != len(SHAPES):
        return [], f"{len(counts)} launches were profiled, not {len(SHAPES)}; ncu said: {said[-3000:]}"
    return counts, ""


def compare(measured: Iterable[Counts]) -> int:
    """Note and print each case; gives how many disagree."""
    wrong = 0
    for shape, counts in zip(SHAPES, measured, strict=True):
        counted = simulated(shape.case.launch(shape.path, threads=shape.threads))
        differ = differences(counts, counted)
        wrong += bool(differ)
        note("sectors", case=str(shape), card=counts, simulated=counted, differ=differ)
        print(f"{shape}: {'; '.join(differ) or 'the same'}")
    return wrong


def main(arguments: list[str]) -> int:
    if arguments == ["launch"]:
        launch_all()
        return 0
    measured, why = profile(float(arguments[0]) if arguments else 120)
    if why:
        note("skipped", what="sectors against Nsight Compute", why=why)
        print(f"no counters: {why}")
        return 0
    return int(compare(measured) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
