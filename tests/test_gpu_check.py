"""The checks for a card, as far as they go without one: what they would run, and what they make of what they find."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import textwrap
import tomllib
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from numba_norms.gpu import compiled
from tests.benchmarks import bench_gpu, gpu_clock, gpu_peers, gpu_points, gpu_report
from tests.benchmarks.gpu_clock import Times
from tests.benchmarks.gpu_points import Point
from tests.gpu import cases, counters, driver, precompile, ready, record, summary

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# -- the script ------------------------------------------------------------------------------------------------------

NO_GPU = '{"cuda": 0, "devices": [], "error": "no CUDA driver is installed"}'
CARD = '{"cuda": 13000, "devices": [{"name": "a card", "capability": "9.0"}], "error": ""}'


def check(folder: Path, *, card: bool = True, probe: int = 0, ready: int = 0, **variables: str) -> tuple[int, str]:
    """Run check.sh with an interpreter that only says what it is asked; exit status and what was printed."""
    stub = folder / "python"
    stub.write_text(
        textwrap.dedent(f"""\
            #!/usr/bin/env bash
            case "$1" in
                tests/gpu/driver.py) echo '{CARD if card else NO_GPU}'; exit {int(not card)} ;;
                tests/gpu/ready.py) echo 'numba>=0'; exit {ready} ;;
                tests/gpu/probe.py) echo "asked $*"; exit {probe} ;;
                tests/gpu/summary.py) exec '{sys.executable}' "$@" ;;
                *) echo "asked $*" ;;
            esac
            """),
        encoding="utf-8",
    )
    stub.chmod(0o755)
    environment = {**os.environ, "PYTHON": str(stub), **variables}
    command = ["bash", str(ROOT / "tests/gpu/check.sh"), str(folder / "results")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_without_a_gpu_nothing_passes(tmp_path: Path) -> None:
    status, said = check(tmp_path, card=False)
    assert status == 1 and "no GPU: nothing was checked (no CUDA driver is installed)" in said
    results = tmp_path / "results"
    assert "No GPU" in (results / "summary.md").read_text(encoding="utf-8")
    fact, skipped = record.read(results)
    assert (fact["kind"], fact["devices"], skipped["why"]) == ("fact", [], "no GPU")
    assert "asked" not in said


def asked(said: str) -> list[str]:
    """What the interpreter was asked to run: the last part of each command that says which."""
    lines = [line.split() for line in said.splitlines() if line.startswith("asked ")]
    return [next(word for word in reversed(line) if ".py" in word).rpartition("/")[2] for line in lines]


TESTS = [f"test_{name}.py" for name in (
    "kernels_on_device", "paths_on_device", "streams_on_device", "hosts_on_device", "large_arrays",
)]  # fmt: skip


def test_the_steps_run_in_order(tmp_path: Path) -> None:
    status, said = check(tmp_path)
    assert asked(said) == ["probe.py", "precompile.py", *TESTS, "counters.py", "bench_gpu.py"]
    assert status == 0, said
    assert sorted(TESTS) == sorted(path.name for path in (ROOT / "tests/gpu").glob("test_*.py")), "one is left out"
    steps = [row["step"] for row in record.read(tmp_path / "results") if row["kind"] == "step"]
    assert steps == ["probe", "compile", *(name.removesuffix(".py") for name in TESTS), "sectors", "bench"]
    files = {path.name for path in (tmp_path / "results").iterdir()}
    assert files == {"results.jsonl", "check.log", "summary.md"}


def test_a_probe_that_fails_is_a_failure_and_costs_no_time_for_benchmarks(tmp_path: Path) -> None:
    status, said = check(tmp_path, probe=1)
    assert status == 1 and asked(said) == ["probe.py", *TESTS]
    assert "step probe: exit status 1" in (tmp_path / "results/summary.md").read_text(encoding="utf-8")


def test_steps_of_choice(tmp_path: Path) -> None:
    _, said = check(tmp_path, STEPS="compile bench")
    assert asked(said) == ["precompile.py", "bench_gpu.py"]
    assert "precompile.py 9.0" in said


def test_no_step_begins_when_time_is_up(tmp_path: Path) -> None:
    status, said = check(tmp_path, SECONDS_IN_ALL="0")
    assert asked(said) == [] and "no time left" in said
    assert status == 1, "what was not checked has not passed"


def test_what_is_lacking_is_said(tmp_path: Path) -> None:
    _, said = check(tmp_path, ready=1)
    assert "this interpreter lacks:\nnumba>=0" in said
    (skipped,) = [row for row in record.read(tmp_path / "results") if row["kind"] == "skipped"]
    assert skipped["why"] == "lacking: numba>=0"


def test_what_an_interpreter_lacks() -> None:
    versions = {"numba": "0.60", "numpy": "2.4.6", "pytest": "9.0", "cupy-cuda12x": "14.1"}

    def version_of(name: str) -> str:
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    found = ready.lacking(PROJECT, version_of)
    names = [line.split(">")[0].split("=")[0] for line in found]
    assert "numba" in names and "hypothesis" in names
    assert not {"numpy", "pytest"} & set(names) and not any("cupy" in line for line in found)
    del versions["cupy-cuda12x"]
    assert any("cupy-cuda12x" in line and " or " in line for line in ready.lacking(PROJECT, version_of))


def test_no_driver_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_library", lambda: None)
    assert driver.find() == json.loads(NO_GPU)


# -- what is run -----------------------------------------------------------------------------------------------------


def test_every_case_is_open_on_its_path() -> None:
    shapes = cases.shapes()
    assert len(set(map(str, shapes))) == len(shapes)
    for shape in shapes:
        form = shape.case.launch(shape.path, threads=shape.threads).form
        assert form is not None and form.path == shape.path, shape
    met = Counter((shape.norm, shape.path, shape.dtype) for shape in shapes)
    assert len(met) == 4 * 3 * 4


def test_kernels_to_compile_ahead_are_each_named_once() -> None:
    found = precompile.jobs(precompile.every_launch())
    assert len(found) == len({(id(kernel), types) for kernel, types in found}) > 200
    wanted = {launch.kernel for shape in cases.shapes() for launch in [shape.case.launch(shape.path)]}
    assert wanted <= {kernel for kernel, _ in found}


def test_kernels_compile_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_NORMS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiled, "_kept", {})
    shapes = [cases.Shape("rms_norm", "vector", 4, columns, np.dtype(np.float32)) for columns in (8, 16)]
    launches = [shape.case.launch() for shape in shapes]
    assert precompile.main((9, 0), iter([*launches, *launches]), processes=1) == 0
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == len({launch.kernel for launch in launches})


def test_points_have_one_chosen_way_and_no_two_alike() -> None:
    points = gpu_points.points()
    assert len(set(points)) == len(points)
    assert {point.shape[1] for point in points if point.norm == "rms_norm"} == {2**k for k in range(8, 18)}
    for point in points:
        ways = gpu_points.ways(point, gpu_points.arrays(point, np.empty))
        assert [way.chosen for way in ways] == [True] + [False] * (len(ways) - 1)
        assert 1 << 26 <= np.prod(point.shape) <= 1 << 27
        if point.norm in gpu_points.ROW_NORMS:
            assert any(way.name.startswith("strided") for way in ways)
        json.dumps([way.facts for way in ways])


@pytest.mark.parametrize(
    ("norm", "passes"), [("rms_norm", 2), ("layer_norm", 2), ("add_rms_norm", 4), ("batch_norm", 3)]
)
def test_least_bytes(norm: str, passes: int) -> None:
    assert Point(norm, "float16", (6, 10)).least_bytes == passes * 60 * 2
    assert Point(norm, "float32", (6, 10)).least_bytes == passes * 60 * 4


@pytest.mark.parametrize(("norm", "times"), [("rms_norm", 2), ("add_rms_norm", 4), ("batch_norm", 2)])
def test_bytes_of_the_copy(norm: str, times: int) -> None:
    """As many as the norm must move; two passes of BatchNorm's three."""
    given = gpu_points.arrays(Point(norm, "float16", (6, 10)), np.empty)
    assert gpu_peers.copied_bytes(Point(norm, "float16", (6, 10)), given) == times * 60 * 2


def test_the_command_line_of_the_benchmark() -> None:
    given = bench_gpu.parser().parse_args(["--seconds", "5", "--only", "add", "--compiled"])
    assert (given.seconds, given.only, given.compiled, given.rounds) == (5.0, "add", True, 7)


def test_the_benchmark_without_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    monkeypatch.setattr(bench_gpu, "found", lambda: "")
    monkeypatch.setattr(sys, "argv", ["bench_gpu.py"])
    monkeypatch.setenv("OUT", str(tmp_path))
    assert bench_gpu.main() == 1
    assert "no GPU" in capsys.readouterr().out
    assert record.read(tmp_path) == [{"kind": "skipped", "what": "benchmarks", "why": "no GPU"}]


def test_a_point_that_fails_costs_no_other_and_time_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OUT", str(tmp_path))
    now, measured = [0.0], []

    def measure(point: Point, rounds: int, compiled: bool) -> None:
        now[0] += 1
        measured.append(str(point))
        if len(measured) == 2:
            raise RuntimeError("out of memory")

    monkeypatch.setattr(bench_gpu, "measure", measure)
    monkeypatch.setattr(bench_gpu.time, "monotonic", lambda: now[0])
    bench_gpu.run(bench_gpu.parser().parse_args(["--seconds", "3", "--only", "norm"]))
    assert len(measured) == 4
    broken, late = record.read(tmp_path)
    assert (broken["what"], broken["why"]) == (measured[1], "RuntimeError: out of memory")
    assert late["why"] == "no time was left" and len(late["what"]) == len(gpu_points.points()) - 4


# -- numbers and tables ----------------------------------------------------------------------------------------------


def test_median_and_quartiles() -> None:
    assert Times.of([4.0, 1.0, 3.0, 2.0, 100.0]) == (3.0, 2.0, 4.0)
    assert Times.of([2.0]) == (2.0, 2.0, 2.0)


def test_rounds_are_taken_in_turns_and_the_first_does_not_count() -> None:
    order: list[str] = []

    def replay(name: str) -> Any:
        return lambda: order.append(name) or float(len(order))

    found = gpu_clock.in_turns({"a": replay("a"), "b": replay("b")}, rounds=3)
    assert order == ["a", "b"] * 4
    assert (found["a"].median, found["b"].median) == (5.0, 6.0)


def test_the_host_waits_off_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def spend(seconds: float) -> Any:
        return lambda: now.__setitem__(0, now[0] + seconds)

    monkeypatch.setattr(gpu_clock.time, "perf_counter", lambda: now[0])
    found = gpu_clock.host_times({"call": spend(2.0)}, spend(1000.0), batches=3, count=5)
    assert found["call"] == (2.0, 2.0, 2.0)


def bench(way: str, microseconds: float, **facts: Any) -> dict[str, Any]:
    times = {"median": microseconds * 1e-6, "low": microseconds * 0.99e-6, "high": microseconds * 1.01e-6}
    return {"kind": "bench", "point": "rms_norm float16 4096x4096", "way": way, "bytes": 1 << 26, **times, **facts}


ROWS = [
    bench("copy", 16.0),
    bench("torch", 40.0),
    bench("vector 256", 99.0, chosen=True),  # measured again below
    bench("vector 128", 18.0, chosen=False),
    bench("vector 256", 20.0, chosen=True),
    {"kind": "host", "call": "bare launch", "median": 2e-6, "low": 2e-6, "high": 2e-6},
    {"kind": "host", "call": "plan", "median": 3e-6, "low": 2.7e-6, "high": 3.3e-6},
    {"kind": "test", "test": "a", "outcome": "passed", "why": ""},
]


def test_tables() -> None:
    (line,) = gpu_report.compared(ROWS)
    assert line == [
        "rms_norm float16 4096x4096", "vector 256", "20.0", "±1.0%", "3355", "80%", "4194", "40.0", "-", "-",
    ]  # fmt: skip
    (choice,) = gpu_report.tuned(ROWS)
    assert choice[1:4] == ["vector 256", "vector 128", "11.1%"] and choice[4] == "vector 128: 18.0; vector 256: 20.0"
    assert gpu_report.on_host(ROWS) == [["bare launch", "2.00", "±0.0%", "1.00"], ["plan", "3.00", "±10.0%", "1.50"]]
    page = gpu_report.markdown(ROWS)
    widths = {line.count("|") for line in page.split("\n\n")[1].splitlines()}
    assert widths == {len(gpu_report.HEADINGS) + 1}
    assert [table.title for table in gpu_report.rich_tables(ROWS)] == ["Norms on the card", "Ways", "On the host"]
    assert gpu_report.markdown([]) == ""


# -- Nsight Compute --------------------------------------------------------------------------------------------------

LOADS, SECTORS = counters.METRICS["requests", "load"], counters.METRICS["sectors", "load"]
PREFIX = '"{}","1","python","host","_ZN_rms_norm","1","7","(256, 1, 1)","(4, 1, 1)","0","9.0"'
IN_LINES = f"""==PROF== Connected to process 1 (/usr/bin/python3)
==PROF== Profiling "rms_norm" - 0: 0%....50%....100% - 1 pass
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"Section Name","Metric Name","Metric Unit","Metric Value"
{PREFIX.format(0)},"Command line profiler metrics","{LOADS}","request","1,536"
{PREFIX.format(0)},"Command line profiler metrics","{SECTORS}","sector","3072"
{PREFIX.format(1)},"Command line profiler metrics","{LOADS}","request","16"
{PREFIX.format(1)},"Command line profiler metrics","{SECTORS}","sector","256"
==PROF== Disconnected from process 1
"""
IN_COLUMNS = f""""ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",\
"Grid Size","Device","CC","{LOADS}","{SECTORS}"
"","","","","","","","","","","","request","sector"
{PREFIX.format(0)},"1,536","3,072"
{PREFIX.format(1)},"16","256"
"""


@pytest.mark.parametrize("text", [IN_LINES, IN_COLUMNS], ids=["lines", "columns"])
def test_counts_of_ncu(text: str) -> None:
    assert counters.parse(text) == [{LOADS: 1536.0, SECTORS: 3072.0}, {LOADS: 16.0, SECTORS: 256.0}]


def test_nothing_of_ncu() -> None:
    assert counters.parse("==ERROR== ERR_NVGPUCTRPERM\n") == []


def test_counts_that_differ_are_told() -> None:
    assert counters.differences({LOADS: 16.0, SECTORS: 256.0}, {LOADS: 16.0, SECTORS: 256.0}) == []
    (told,) = counters.differences({LOADS: 64.0, SECTORS: 256.0}, {LOADS: 16.0, SECTORS: 256.0})
    assert told == f"{LOADS}: 64 on the card, 16 simulated"
    assert counters.differences({}, {LOADS: 16.0}), "what was not measured is no agreement"


def test_the_simulator_s_side_of_the_comparison() -> None:
    """32 lanes of 16 bytes are a request of 16 sectors: 4 rows of 4096 float16 are 64 requests, weights as many."""
    shape = cases.Shape("rms_norm", "vector", 4, 4096, np.dtype(np.float16))
    found = counters.simulated(shape.case.launch("vector"))
    assert (found[LOADS], found[SECTORS]) == (128, 2048)
    assert found[counters.METRICS["sectors", "store"]] == 1024 + 4  # y, and rstd a row


def profiled(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> tuple[list[Any], str]:
    monkeypatch.setenv("OUT", str(folder))
    monkeypatch.setattr(counters.shutil, "which", lambda name: f"/bin/{name}")

    def run(command: list[str], **_: Any) -> Any:
        Path(command[command.index("--log-file") + 1]).write_text(text, encoding="utf-8")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(counters.subprocess, "run", run)
    return counters.profile(10)


def test_reasons_for_no_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    denied = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"
    assert "denies" in profiled(monkeypatch, tmp_path, denied)[1]
    assert f"2 launches were profiled, not {len(counters.SHAPES)}" in profiled(monkeypatch, tmp_path, IN_LINES)[1]
    monkeypatch.setattr(counters, "SHAPES", counters.SHAPES[:2])
    counts, why = profiled(monkeypatch, tmp_path, IN_LINES)
    assert len(counts) == 2 and why == ""
    monkeypatch.setattr(counters.shutil, "which", lambda name: None)
    assert counters.profile(10) == ([], "ncu is not installed")


# -- the summary -----------------------------------------------------------------------------------------------------

FACT = {"kind": "fact", **json.loads(CARD), "packages": {"numba": "0.68.1", "torch": None}}


def test_a_summary_of_a_run_that_went_well() -> None:
    page = summary.summary([FACT, *ROWS])
    assert page.startswith("# a card, compute capability 9.0") and "numba 0.68.1" in page and "torch" in page
    assert "Tests: 1 passed." in page and "Failed" not in page and "| vector 256 |" in page


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"kind": "step", "step": "bench", "status": 137, "seconds": 9, "why": "stopped after 9 s"}, "step bench"),
        ({"kind": "probe", "step": "launched", "ok": False, "error": "..."}, "probe: launched"),
        ({"kind": "test", "test": "t.py::a", "outcome": "failed", "why": "1 != 2"}, "t.py::a: 1 != 2"),
        ({"kind": "sectors", "case": "rms", "differ": ["sectors: 1 on the card, 2 simulated"]}, "sectors rms"),
        (bench("vector 512", 1.0, chosen=False, wrong=True, error=9.0), "wrong result"),
    ],
)
def test_whatever_failed_is_in_the_summary(row: dict[str, Any], told: str, tmp_path: Path) -> None:
    assert any(told in line for line in summary.failures([FACT, row]))
    lines = (json.dumps(line) for line in (FACT, row))
    (tmp_path / record.FILE).write_text("\n".join(lines), encoding="utf-8")
    assert summary.main(tmp_path) == 1


def test_reports_are_merged(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for name in ("a", "b"):
        report = f'<testsuites><testsuite name="{name}"><testcase name="t"/></testsuite></testsuites>'
        (tmp_path / f"parts/{name}.xml").write_text(report, encoding="utf-8")
    (tmp_path / "parts/cut.xml").write_text("<testsuites><testsu", encoding="utf-8")
    (tmp_path / record.FILE).write_text(json.dumps(FACT), encoding="utf-8")
    assert summary.main(tmp_path) == 0
    assert [suite.get("name") for suite in ET.parse(tmp_path / "gpu.xml").iter("testsuite")] == ["a", "b"]
