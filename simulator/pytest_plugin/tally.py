"""What a whole run of tests launched and found, for the summary at its end.

Rules of this file: a tally is plain data, so that the workers of pytest-xdist can send theirs; it knows no pytest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import Any

from simulator.config import LEVELS
from simulator.judgement import Judged
from simulator.trace import Trace

ORDER = re.compile(r"random \(seed \d+\)|[\w-]+")
"""An order in ``trace.orders``; what follows it tells which blocks ran, if not all did."""
MOST = 20
"""How many findings that failed no test the summary tells one by one."""


@dataclass(slots=True)
class Tally:
    """Launches, kernels and orders counted; ``found`` has one entry per finding, whatever the number of tests.

    ``sampled`` counts the launches of which some order ran a sample of the blocks.
    """

    launches: int = 0
    sampled: int = 0
    kernels: Counter[str] = field(default_factory=Counter)
    orders: Counter[str] = field(default_factory=Counter)
    found: dict[str, dict[str, Any]] = field(default_factory=dict)

    def launched(self, trace: Trace) -> None:
        """Count one launch."""
        self.launches += 1
        self.kernels[trace.kernel] += 1
        orders = [ORDER.match(order) for order in trace.orders]
        self.orders.update(order[0] for order in orders if order)
        self.sampled += any(order.end() < len(order.string) for order in orders if order)

    def judged(self, judged: Iterable[Judged], test: str) -> None:
        """Count what a test brought."""
        for each in judged:
            finding = each.finding
            sites = " and ".join(f"{PurePath(site.file).name}:{site.line}" for site in finding.sites)
            entry = self.found.setdefault(
                _key(each),
                {
                    "severity": finding.severity,
                    "kind": finding.kind,
                    "sites": sites,
                    "message": finding.message,
                    "tolerated": each.tolerated,
                    "failed": False,
                    "tests": [],
                },
            )
            if test not in entry["tests"]:
                entry["tests"].append(test)

    def failed(self, judged: Iterable[Judged]) -> None:
        """Note that these were told by the failure of a test."""
        for each in judged:
            if each.fails:
                self.found[_key(each)]["failed"] = True

    def as_dict(self) -> dict[str, Any]:
        """What another process can read back with ``add``."""
        return asdict(self) | {"kernels": dict(self.kernels), "orders": dict(self.orders)}

    def add(self, other: dict[str, Any]) -> None:
        """Add the tally of another process."""
        self.launches += other["launches"]
        self.sampled += other["sampled"]
        self.kernels.update(other["kernels"])
        self.orders.update(other["orders"])
        for key, entry in other["found"].items():
            mine = self.found.setdefault(key, {**entry, "tests": []})
            mine["failed"] |= entry["failed"]
            mine["tests"] += [test for test in entry["tests"] if test not in mine["tests"]]

    def lines(self) -> list[str]:
        """The summary."""
        if not self.launches:
            return ["no kernel was launched"]
        said = _many(self.launches, "launch", "launches")
        if not self.orders:  # launched for results alone
            return [said]
        said += f" of {_many(len(self.kernels), 'kernel', 'kernels')}; orders: {', '.join(self.orders)}"
        if self.sampled:
            said += f"; of {_many(self.sampled, 'large launch', 'large launches')} a sample of the blocks in some"
        return [said, *self._findings()]

    def _findings(self) -> list[str]:
        entries = sorted(self.found.values(), key=lambda entry: (-LEVELS.index(entry["severity"]), entry["kind"]))
        if not entries:
            return ["no findings"]
        counted = Counter(entry["kind"] for entry in entries if not entry["tolerated"])
        kinds = [f"{count} {kind}" for kind, count in counted.items()]
        tolerated = [entry for entry in entries if entry["tolerated"]]
        kinds += [f"{len(tolerated)} tolerated"] if tolerated else []
        lines = ["findings: " + ", ".join(kinds)]
        quiet = [entry for entry in entries if not entry["failed"]]
        lines += [_told(entry) for entry in quiet[:MOST]]
        return lines + ([f"  and {len(quiet) - MOST} more that failed no test"] if len(quiet) > MOST else [])


def _key(judged: Judged) -> str:
    """What is one finding for the summary, in every process."""
    return repr((judged.finding.key, judged.finding.severity, judged.tolerated))


def _told(entry: dict[str, Any]) -> str:
    """A finding that failed no test, in one line."""
    tests = _many(len(entry["tests"]), "test", "tests")
    if entry["tolerated"]:
        return f"  tolerated: {entry['kind']} at {entry['sites']} ({tests}): {entry['tolerated']}"
    return f"  {entry['severity']}: {entry['kind']} ({tests}): {entry['message']}"


def _many(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"
