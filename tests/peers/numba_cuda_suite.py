"""Scores a CUDA simulator by the tests of numba-cuda's own suite that launch a kernel: ours, or the one it ships.

    python -m tests.peers.numba_cuda_suite [--simulator ours|cudasim] [--check] [--only WORD] [--jobs N] [--json FILE]

``numba_cuda_launching.txt`` lists the tests of numba-cuda 0.30.4, where they are installed; nothing of them is here.
``excluded.toml`` names those that no simulator of kernels can be asked, each with its reason.  With ``--check`` ours
judges every launch; ``findings.toml`` names the tests in whose kernels it finds an error, each with the reason why the
finding is right, and any other finding of that severity fails.  Rules of this file: both simulators are run and scored
the same way; a module is a process, and a test that crashes or outlasts its time costs itself alone: the rest of its
module goes on in a new process.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import json
import os
import select
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TESTS = HERE / "numba_cuda_launching.txt"
EXCLUDED = HERE / "excluded.toml"
FINDINGS = HERE / "findings.toml"
MOST_EXCLUDED = 200
LIMIT = 120.0
"""Seconds that a test may take."""
OUTCOMES = ("passed", "xfailed", "found", "failed", "skipped", "excluded")
GOOD = ("passed", "xfailed", "found")
PREFIX = "numba.cuda.tests."


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one test; ``seconds`` is 0 where it was not run.

    ``kinds`` are those of the error findings for which alone a check failed it.
    """

    test: str
    outcome: str
    reason: str = ""
    seconds: float = 0.0
    kinds: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        return self.test.partition("::")[0].removeprefix(PREFIX)


# -- what is asked ---------------------------------------------------------------------------------------------------


def tests() -> list[str]:
    """The ids of all tests that launch a kernel."""
    return TESTS.read_text(encoding="utf-8").split()


def exclusions(ids: Sequence[str]) -> dict[str, str]:
    """The reason of each excluded test."""
    return {test: entry["reason"] for test, entry in _entries(EXCLUDED, "excluded", ids)}


def expected(ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The kinds of error that a check finds in a test, and rightly so."""
    return {test: tuple(entry["kinds"]) for test, entry in _entries(FINDINGS, "findings", ids)}


def _entries(file: Path, heading: str, ids: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Tests and their entries.  A pattern without a reason, or that fits no test, is a mistake in the file."""
    for entry in tomllib.loads(file.read_text(encoding="utf-8"))[heading]:
        if not entry["reason"].strip():
            raise ValueError(f"{file}: no reason is given for {entry['tests']}")
        for pattern in entry["tests"]:
            fitting = fnmatch.filter(ids, PREFIX + pattern)
            if not fitting:
                raise ValueError(f"{file}: no test is called {pattern!r}")
            yield from ((test, entry) for test in fitting)


def judged(result: Result, kinds: tuple[str, ...]) -> Result:
    """A result of a check where errors of these kinds, and no others, are expected."""
    if result.kinds and set(result.kinds) <= set(kinds):
        return replace(result, outcome="found")
    if kinds and not result.kinds and result.outcome in ("passed", "xfailed"):
        return replace(result, outcome="failed", reason=f"the check no longer finds {', '.join(kinds)}")
    return result


# -- running ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """How tests are run: on which simulator, with which options of pytest, and for how many seconds each at most."""

    simulator: str = "ours"
    options: tuple[str, ...] = ()
    limit: float = LIMIT

    def command(self, pipe: int) -> list[str]:
        """What starts a worker."""
        ours = ["-p", "simulator.pytest_plugin", "--cuda-simulator"] if self.simulator == "ours" else []
        return [sys.executable, "-m", "tests.peers.numba_cuda_worker", str(pipe), *ours, *self.options]

    def environment(self) -> dict[str, str]:
        """Its environment: Numba's own simulator on or off, and no plug-in of pytest that happens to be installed."""
        env = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
        if self.simulator == "cudasim":
            env["NUMBA_ENABLE_CUDASIM"] = "1"
        return env | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}


def run_module(ids: Sequence[str], way: Way) -> list[Result]:
    """Run tests of one module, in as many processes as its crashes and hangs ask for."""
    left, results = dict.fromkeys(ids), []
    while left:
        found = list(run_worker(list(left), way))
        for result in found:
            left.pop(result.test, None)
        results += found
        if not found:
            results += [Result(test, "failed", "the process ended before it") for test in left]
            break
    return results


def run_worker(ids: Sequence[str], way: Way) -> Iterator[Result]:
    """Results of one process until it ends, or until the test that it is at has used up its time."""
    read, write = os.pipe()
    with tempfile.TemporaryFile("w+") as named, tempfile.TemporaryFile("w+") as said:
        named.write("\n".join(ids))
        named.seek(0)
        process = subprocess.Popen(
            way.command(write), cwd=ROOT, env=way.environment(), pass_fds=[write], stdin=named, stdout=said, stderr=said
        )
        os.close(write)
        try:
            yield from watched(read, ids, way.limit)
        finally:
            process.kill()
            process.wait()
            os.close(read)


def watched(pipe: int, ids: Sequence[str], limit: float) -> Iterator[Result]:
    """Turn a worker's lines into results."""
    running, since = "", time.monotonic()
    for message in lines(pipe, limit):
        if message is None:
            yield Result(running or ids[0], "failed", f"ran longer than {limit:g} s", limit)
            return
        now = time.monotonic()
        if "start" in message:
            running = message["start"]
        elif "end" in message:
            kinds = tuple(message.get("kinds", ()))
            yield Result(message["end"], message["outcome"], message["reason"], now - since, kinds)
            running = ""
        else:
            yield from (Result(test, message["outcome"], message["reason"]) for test in ids)
            return
        since = now
    if running:
        yield Result(running, "failed", "the process died", time.monotonic() - since)


def lines(pipe: int, limit: float) -> Iterator[dict[str, Any] | None]:
    """The messages in a pipe until its end; None, as the last, when none comes for ``limit`` seconds."""
    pending = b""
    while True:
        if not select.select([pipe], [], [], limit)[0]:
            yield None
            return
        if not (chunk := os.read(pipe, 65536)):
            return
        *whole, pending = (pending + chunk).split(b"\n")
        yield from (json.loads(line) for line in whole)


# -- telling ---------------------------------------------------------------------------------------------------------


def table(results: Iterable[Result]) -> str:
    """Outcomes by module, and their sum."""
    modules: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for result in results:
        for row in (result.module, "all"):
            modules[row][result.outcome] += 1
    rows = [("module", *OUTCOMES)]
    rows += [(name, *(str(counts[outcome] or "") for outcome in OUTCOMES)) for name, counts in sorted(modules.items())]
    rows.sort(key=lambda row: (row[0] != "module", row[0] == "all"))
    return "\n".join(f"{name:42}" + "".join(f"{cell:>10}" for cell in cells) for name, *cells in rows)


def score(results: Sequence[Result]) -> str:
    """The one number: of the tests that are not excluded, how many end as they do on a GPU."""
    counts = collections.Counter(result.outcome for result in results)
    asked = len(results) - counts["excluded"]
    good = sum(counts[outcome] for outcome in GOOD)
    return f"{good} of {asked} ({100 * good / max(1, asked):.1f} %), {counts['excluded']} of {len(results)} excluded"


def complaints(results: Iterable[Result]) -> str:
    """What did not pass, by module, with its reason."""
    return "\n".join(
        f"{result.outcome:8}{result.test.removeprefix(PREFIX)}\n        {result.reason}"
        for result in sorted(results, key=lambda result: result.test)
        if result.outcome in ("failed", "skipped")
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print the table, and return 0 if every test that was asked ended well."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.numba_cuda_suite", description=__doc__)
    parser.add_argument("--simulator", choices=("ours", "cudasim"), default="ours")
    parser.add_argument("--check", action="store_true", help="judge every launch (ours alone can)")
    parser.add_argument("--only", default="", help="tests whose id contains this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds that a test may take")
    parser.add_argument("--json", type=Path, help="a file for every result")
    parser.add_argument("--all", action="store_true", help="run the excluded tests as well")
    parser.add_argument("options", nargs="*", help="options for pytest, after --")
    given = parser.parse_args(argv)
    if given.check and given.simulator != "ours":
        parser.error("--check: CUDASIM judges nothing")

    everything = tests()
    reasons = exclusions(everything)
    if len(reasons) > MOST_EXCLUDED:
        raise ValueError(f"{len(reasons)} tests are excluded, more than {MOST_EXCLUDED}")
    chosen = [test for test in everything if given.only in test]
    modules: dict[str, list[str]] = collections.defaultdict(list)
    for test in chosen:
        if given.all or test not in reasons:
            modules[test.partition("::")[0]].append(test)
    check = ("--cuda-simulator=check",) if given.check else ()
    rightly = expected(everything) if given.check else {}
    way = Way(given.simulator, (*check, *given.options), given.limit)
    results = [] if given.all else [Result(test, "excluded", reasons[test]) for test in chosen if test in reasons]
    with ThreadPoolExecutor(given.jobs) as pool:
        jobs = [pool.submit(run_module, ids, way) for ids in sorted(modules.values(), key=len, reverse=True)]
        for job in as_completed(jobs):
            results += [judged(result, rightly.get(result.test, ())) for result in job.result()]
            if given.json:  # a long run that is stopped leaves what it has
                given.json.write_text(json.dumps([asdict(result) for result in results], indent=1), encoding="utf-8")
    print(complaints(results), table(results), score(results), sep="\n\n")
    return int(any(result.outcome in ("failed", "skipped") for result in results))


if __name__ == "__main__":
    sys.exit(main())
