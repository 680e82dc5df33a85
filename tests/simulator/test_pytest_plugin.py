"""``pytest --cuda-simulator``: whole runs of pytest, each in a process of its own and in a folder of its own.

A run costs seconds, so that each shows many things; the files of the runs stand beside what is asked of them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace

import pytest

from simulator.findings import Finding, Site
from simulator.judgement import Judged
from simulator.pytest_plugin.session import Session
from simulator.pytest_plugin.tally import MOST, Tally

HEAD = """
import os, unittest
import numpy as np
import pytest
from numba import cuda

@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2

@cuda.jit
def past_the_end(x):
    x[cuda.grid(1) + 1] = 1

def run(kernel):
    x = np.ones(32, np.float32)
    kernel[1, 32](x)
    return x
"""


def pytest_in(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on the files of a folder."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "NUMBA_"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "ignore", "--junitxml=r.xml", *options],
        cwd=folder, env=env | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def outcomes(folder: Path) -> dict[str, tuple[str, str]]:
    """The outcome and the text of each test in the report."""
    told = {}
    for case in ET.parse(folder / "r.xml").iter("testcase"):
        child = next((each for each in case if each.tag in ("failure", "error", "skipped")), None)
        told[case.get("name", "")] = ("passed", "") if child is None else (child.tag, child.text or "")
    return told


# -- a run that is checked ---------------------------------------------------------------------------------------------

CHECKED = (
    HEAD
    + """
@cuda.jit("void(float32[:])")
def eager(x):
    x[cuda.threadIdx.x] = 3

@cuda.jit
def tolerated(x):
    x[cuda.grid(1) + 1] = 1  # sim: ignore[race-global, out-of-bounds] shown on purpose

@cuda.jit
def mute(x):
    x[cuda.grid(1) + 1] = 1  # sim: ignore[out-of-bounds]

@pytest.fixture(scope="module")
def launched():
    return run(past_the_end)

def test_clean(): assert run(double)[31] == 2
def test_eager(): assert run(eager)[31] == 3
def test_wrong(): run(past_the_end)
def test_wrong_and_failing(): assert run(past_the_end)[0] == 5
def test_comment(): run(tolerated)
def test_comment_without_reason(): run(mute)
def test_fixture(launched): pass
def test_fixture_again(launched): pass

@pytest.mark.cuda_findings(expect=["out-of-bounds"])
def test_expected(): run(past_the_end)

@pytest.mark.cuda_findings(expect=["deadlock"], ignore=["out-of-bounds"])
def test_missing(): run(past_the_end)

@pytest.mark.cuda_findings(expect=["deadlock"])
class TestMarked:
    @pytest.mark.cuda_findings(ignore=["out-of-bounds"])
    def test_marks_add_up(self): run(past_the_end)

def test_refused():
    with pytest.raises(Exception, match="1024 is the most"):
        double[1, 2000](np.ones(32, np.float32))

@pytest.mark.cuda_findings(expect=["launch-limit"])
def test_refused_as_expected(): test_refused()

@cuda.jit
def known(x):
    x[cuda.grid(1) + 1] = 1

@pytest.mark.xfail(strict=True, reason="known")
def test_known(): run(known)

def test_known_by_itself():
    run(known)
    pytest.xfail("known")

def test_skipping():
    run(past_the_end)
    pytest.skip("not here")

@pytest.fixture
def skipping():
    run(past_the_end)
    raise unittest.SkipTest("not here")

def test_fixture_skipping(skipping): pass

def test_skipping_clean():
    run(double)
    pytest.skip("not here")

class TestCase(unittest.TestCase):
    def test_unit(self): run(past_the_end)
    def test_unit_failing(self): self.assertEqual(run(past_the_end)[0], 5)
    def test_unit_clean(self): self.assertEqual(run(double)[0], 2)
    def test_unit_skipping(self):
        run(past_the_end)
        self.skipTest("not here")
"""
)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("checked")
    late = "assert cuda.is_available()\ndef pytest_sessionfinish(): run(past_the_end)\n"
    (folder / "conftest.py").write_text(HEAD + late, encoding="utf-8")
    (folder / "test_it.py").write_text(CHECKED, encoding="utf-8")
    (folder / "test_import.py").write_text(HEAD + "run(past_the_end)\ndef test_it(): pass\n", encoding="utf-8")
    skipped = HEAD + "run(past_the_end)\npytest.skip('not here', allow_module_level=True)\n"
    (folder / "test_skipped.py").write_text(skipped, encoding="utf-8")
    broken = HEAD + "run(past_the_end)\nraise ImportError('not here')\n"
    (folder / "test_broken.py").write_text(broken, encoding="utf-8")
    (folder / "pyproject.toml").write_text('[tool.numba-sim]\norders = ["first"]\ncard = "t4"\n', encoding="utf-8")
    return folder, pytest_in(
        folder, "--cuda-simulator=check", "--strict-markers", "--continue-on-collection-errors"
    ).stdout


@pytest.mark.parametrize(
    ("test", "outcome", "told"),
    [
        ("test_clean", "passed", ""),
        ("test_eager", "passed", ""),
        ("test_wrong", "failure", "error: out-of-bounds: "),
        ("test_wrong_and_failing", "failure", "error: out-of-bounds: "),
        ("test_comment", "passed", ""),
        ("test_comment_without_reason", "failure", "the comment gives no reason"),
        ("test_fixture", "error", "error: out-of-bounds: "),
        ("test_fixture_again", "passed", ""),
        ("test_expected", "passed", ""),
        ("test_missing", "failure", "expects deadlock, but no launch of the test shows it"),
        ("test_marks_add_up", "failure", "expects deadlock, but no launch of the test shows it"),
        ("test_refused", "passed", ""),
        ("test_refused_as_expected", "passed", ""),
        ("test_known", "skipped", ""),
        ("test_known_by_itself", "skipped", ""),
        ("test_skipping", "failure", "\nSkipped: not here"),
        ("test_fixture_skipping", "error", "\nSkipped: not here"),
        ("test_skipping_clean", "skipped", ""),
        ("test_unit_skipping", "failure", "\nSkipped: not here"),
        ("test_unit", "failure", "error: out-of-bounds: "),
        ("test_unit_failing", "failure", "error: out-of-bounds: "),
        ("test_unit_clean", "passed", ""),
    ],
)
def test_findings_fail_the_test_that_launched(checked: tuple[Path, str], test: str, outcome: str, told: str) -> None:
    found = outcomes(checked[0])[test]
    assert found[0] == outcome, checked[1]
    assert told in found[1]
    assert ("likely mend" in found[1]) == ("out-of-bounds: " in found[1])


def test_a_test_that_fails_by_itself_says_both(checked: tuple[Path, str]) -> None:
    for test in ("test_wrong_and_failing", "test_unit_failing"):
        assert re.search(r"assert.*5.*out-of-bounds: ", outcomes(checked[0])[test][1], re.DOTALL)


def test_a_launch_at_import_belongs_to_the_module(checked: tuple[Path, str]) -> None:
    for name, also in (("import", ""), ("skipped", "Skipped: not here"), ("broken", "ImportError: not here")):
        told = re.search(rf"ERROR collecting test_{name}\.py(.*?)\n(_{{5}}|={{5}})", checked[1], re.DOTALL)
        assert told is not None
        assert "\nerror: out-of-bounds: " in told[1]
        assert also in told[1]
    assert "test_it" not in outcomes(checked[0])


def test_a_summary_closes_the_run(checked: tuple[Path, str]) -> None:
    said = checked[1]
    assert re.search(r"cuda-simulator: check, stand-in for Tesla T4, settings in .*pyproject\.toml", said)
    assert "25 launches of 6 kernels; orders: first\n" in said
    assert re.search(r"findings: .*\b7 out-of-bounds, .*3 tolerated", said)
    told = re.findall(r"  error: out-of-bounds \((.*?)\): .*?(\w+\.py):\d+: thread 31 ", said)
    assert told == [("2 tests", "test_it.py"), ("1 test", "conftest.py")]  # expected failures, and what comes too late
    assert re.search(r"tolerated: out-of-bounds at test_it.py:\d+ \(1 test\): shown on purpose", said)
    assert re.search(r"tolerated: out-of-bounds at test_it.py:\d+ \(3 tests\): stated by the mark", said)


def test_what_comes_too_late_for_a_test_fails_the_run() -> None:
    found = [Judged(Finding("deadlock", ""), fails=True)]
    for status, then in ((pytest.ExitCode.OK, 1), (pytest.ExitCode.INTERRUPTED, 2)):
        run = SimpleNamespace(exitstatus=status)
        mine = SimpleNamespace(_take=lambda *_: found, check=True, config=None, tally=Tally())
        hook = Session.pytest_sessionfinish(mine, run)  # type: ignore[arg-type]
        assert [*hook] == [None]
        assert run.exitstatus == then


# -- other runs --------------------------------------------------------------------------------------------------------


def test_workers_of_xdist_have_a_device_each_and_one_summary(tmp_path: Path) -> None:
    source = HEAD + "@pytest.mark.parametrize('n', range(4))\ndef test_it(n): assert run(double)[n] == 2\n"
    (tmp_path / "test_it.py").write_text(source + "def test_wrong(): run(past_the_end)\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text('[tool.numba-sim]\norders = ["last"]\n', encoding="utf-8")
    done = pytest_in(tmp_path, "--cuda-simulator=check", "-n", "2")
    assert "5 launches of 2 kernels; orders: last\n" in done.stdout
    assert [outcome for outcome, _ in outcomes(tmp_path).values()].count("passed") == 4
    assert "out-of-bounds: " in outcomes(tmp_path)["test_wrong"][1]
    assert done.returncode == 1


PLAIN = (
    HEAD
    + """
import importlib, numba.cuda, sys

@pytest.fixture
def reloaded():
    importlib.reload(numba.cuda)

@pytest.fixture
def cudasim(monkeypatch):
    monkeypatch.setattr(numba.cuda.core.config, "ENABLE_CUDASIM", 1)
    importlib.reload(numba.cuda)
    yield
    monkeypatch.undo()
    importlib.reload(numba.cuda)

def test_clean(): assert run(double)[0] == 2
def test_wrong(): run(past_the_end)

@pytest.mark.cuda_findings(expect=["deadlock"])
def test_unchecked(): run(double)

def test_reloaded(reloaded): assert run(double)[0] == 2
def test_cudasim(cudasim): run(double)
def test_restored(): assert run(double)[0] == 2

def test_environment(monkeypatch):
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    assert run(double)[0] == 2

def test_removed(): del sys.modules["numba.cuda"]
def test_after(): run(double)
"""
)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, tuple[str, str]], str]:
    folder = tmp_path_factory.mktemp("plain")
    (folder / "test_it.py").write_text(PLAIN, encoding="utf-8")
    said = pytest_in(folder, "--cuda-simulator", ".").stdout  # the path is a path, not the option's value
    return outcomes(folder), said


def test_without_check_launches_run_and_errors_are_raised(plain: tuple[dict[str, tuple[str, str]], str]) -> None:
    found, said = plain
    assert [found[name][0] for name in ("test_clean", "test_wrong", "test_unchecked")] == [
        "passed",
        "failure",
        "passed",
    ]
    assert "OutOfBounds" in found["test_wrong"][1]
    assert re.findall(r"^(\S+\.py):\d+: ", found["test_wrong"][1], re.MULTILINE) == ["test_it.py"] * 2  # no insides
    assert "\n6 launches\n" in said


def test_what_brings_in_cudasim_is_survived_or_refused_by_name(plain: tuple[dict[str, tuple[str, str]], str]) -> None:
    found, said = plain
    for name in ("test_reloaded", "test_restored", "test_environment"):
        assert found[name][0] == "passed", said
    for name, outcome, culprit in (
        ("test_cudasim", "error", "the fixture 'cudasim'"),
        ("test_removed", "failure", "the test test_it.py::test_removed"),
        ("test_after", "error", "the test test_it.py::test_removed"),
    ):
        assert found[name][0] == outcome
        assert f"{culprit} has replaced numba.cuda" in found[name][1]


def test_marks_are_known_and_cost_nothing_without_the_option(tmp_path: Path) -> None:
    source = """
import sys, pytest

@pytest.mark.cuda_findings(expect=["deadlock"])
def test_it(): assert not {"numba", "numpy", "simulator.findings"} & set(sys.modules)
"""
    (tmp_path / "test_it.py").write_text(source, encoding="utf-8")
    done = pytest_in(tmp_path, "--strict-markers", "-p", "no:hypothesispytest")
    assert done.returncode == 0, done.stdout
    assert "CUDA simulator" not in done.stdout


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "environment", "told"),
    [
        ("", {"NUMBA_ENABLE_CUDASIM": "1"}, "NUMBA_ENABLE_CUDASIM is set"),
        ("[tool.numba-sim]\nsead = 1\n", {}, "pyproject.toml: [tool.numba-sim] sead: there is no such setting"),
    ],
)
def test_a_run_that_cannot_be_meant_stops_at_once(
    tmp_path: Path, settings: str, environment: dict[str, str], told: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(settings, encoding="utf-8")
    done = pytest_in(tmp_path, "--cuda-simulator", **environment)
    assert done.returncode == 4
    assert done.stderr.startswith("ERROR: ")
    assert told in done.stderr


MARKS = """
import pytest

@pytest.mark.cuda_findings(expect=["dead-lock"])
def test_unknown(): pass

@pytest.mark.cuda_findings(["deadlock"])
def test_position(): pass

@pytest.mark.cuda_findings(except_=["deadlock"])
def test_name(): pass
"""


def test_marks_that_mean_nothing_stop_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(MARKS, encoding="utf-8")
    done = pytest_in(tmp_path, "--cuda-simulator")
    assert done.returncode == 4
    for told in (
        "test_it.py::test_unknown: mark cuda_findings: there is no 'dead-lock'; did you mean",
        "test_it.py::test_position: mark cuda_findings: it takes expect=[...] and ignore=[...], not ['deadlock']",
        "test_it.py::test_name: mark cuda_findings: it takes expect=[...] and ignore=[...], not except_=",
    ):
        assert f"ERROR: {told}" in done.stderr


# -- the tally ---------------------------------------------------------------------------------------------------------


def test_tallies_add_up_and_stay_short() -> None:
    def tally(test: str) -> Tally:
        made = Tally(launches=2)
        made.kernels["k"] += 2
        made.orders["waves"] += 2
        for line in range(MOST + 5):
            finding = Finding("overflow", f"line {line}", sites=(Site("k.py", line),))
            made.judged([Judged(finding), Judged(finding)], test)
        return made

    one = tally("test_one")
    for other in ("test_two", "test_one"):
        one.add(tally(other).as_dict())
    said = one.lines()
    assert said[:3] == [
        "6 launches of 1 kernel; orders: waves",
        f"findings: {MOST + 5} overflow",
        "  warning: overflow (2 tests): line 0",
    ]
    assert said[-1] == "  and 5 more that failed no test"
    assert len(said) == MOST + 3


def test_a_tally_of_nothing() -> None:
    assert Tally().lines() == ["no kernel was launched"]
