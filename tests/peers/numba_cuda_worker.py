"""One worker of ``numba_cuda_suite``: runs tests of numba-cuda's installed suite and reports each as it ends.

Rules of this file: it is a process of its own, so that what crashes or hangs costs its test alone; the parent watches
the lines (JSON) that it writes to the file descriptor it was given.  Processes that the tests start are on the same
simulator: CUDASIM's environment variable reaches them by itself, our device by the folder ``children``.  Called by
``numba_cuda_suite`` only.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

PACKAGE = "numba.cuda.tests"


class Installed(pytest.Module):
    """A test module under the name it is installed by; its folder has no ``__init__`` chain that would give it."""

    def _getobj(self) -> Any:
        parts = self.path.with_suffix("").parts
        return importlib.import_module(".".join(parts[len(parts) - 1 - parts[::-1].index("numba") :]))


class Reporter:
    """Sends the start and the outcome of each test up the pipe."""

    def __init__(self, pipe: int, package: Path) -> None:
        self.pipe = pipe
        self.package = package
        self.outcomes: dict[str, tuple[str, str]] = {}
        self.kinds: dict[str, list[str]] = {}

    def send(self, **message: Any) -> None:
        os.write(self.pipe, (json.dumps(message) + "\n").encode())

    def pytest_pycollect_makemodule(self, module_path: Path, parent: pytest.Collector) -> pytest.Module:
        return Installed.from_parent(parent, path=module_path)

    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector:
        return pytest.Dir.from_parent(parent, path=path)  # no pytest.Package, which would import it under a wrong name

    @pytest.fixture
    def initialize_from_pytest_config(self, request: pytest.FixtureRequest) -> None:
        """What the suite's own conftest, which is not installed, gives its classes."""
        request.cls._dump_failed_filechecks = False

    def identity(self, nodeid: str) -> str:
        """``numba.cuda.tests.cudapy.test_x::Class::test`` from a node id of pytest's."""
        path, _, rest = nodeid.partition("::")
        tail = Path(path).with_suffix("").parts
        return ".".join((PACKAGE, *tail[-2:])) + "::" + rest

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.outcomes[nodeid] = ("passed", "")
        self.send(start=self.identity(nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.outcomes[report.nodeid][0] in ("passed", "xfailed"):
            if hasattr(report, "wasxfail"):
                self.outcomes[report.nodeid] = ("xfailed" if report.skipped else "failed", str(report.wasxfail))
            elif report.outcome != "passed":
                self.outcomes[report.nodeid] = (report.outcome, reason(report))
                self.kinds[report.nodeid] = error_kinds(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        outcome, why = self.outcomes[nodeid]
        self.send(end=self.identity(nodeid), outcome=outcome, reason=why, kinds=self.kinds.get(nodeid, []))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.outcome != "passed" and report.nodeid:
            outcome = "skipped" if report.skipped else "failed"
            self.send(module=self.identity(report.nodeid).rstrip(":"), outcome=outcome, reason=reason(report))


def reason(report: Any) -> str:
    """The last line of an error, or why a test was skipped."""
    text = report.longrepr
    if isinstance(text, tuple):
        return str(text[2])
    crash = getattr(text, "reprcrash", None)
    lines = str(crash.message if crash is not None else text).strip().splitlines() or [""]
    where = "" if crash is None else f" ({Path(crash.path).name}:{crash.lineno})"
    return " / ".join(line.strip() for line in lines[:3])[:400] + where


def error_kinds(report: Any) -> list[str]:
    """The kinds of the error findings, of a test that fails for these and not by itself."""
    text = str(report.longrepr).removeprefix("Failed: ")
    return sorted(set(re.findall(r"(?m)^error: ([a-z-]+): ", text))) if text.startswith("error: ") else []


def main() -> None:
    """Run the tests named on standard input, one id a line; ``sys.argv``: the pipe, then options for pytest."""
    pipe, options = int(sys.argv[1]), sys.argv[2:]
    if any(option.startswith("--cuda-simulator") for option in options):
        os.environ["PYTHONPATH"] = os.pathsep.join((str(Path(__file__).parent / "children"), os.environ["PYTHONPATH"]))
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None and spec.origin is not None
    package = Path(spec.origin).parent
    nodes = []
    for line in sys.stdin:
        module, _, rest = line.strip().partition("::")
        nodes.append(str(package / module.removeprefix(PACKAGE + ".").replace(".", "/")) + ".py::" + rest)
    plain = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(package)]
    pytest.main([*plain, *options, *nodes], plugins=[Reporter(pipe, package)])


if __name__ == "__main__":
    main()
