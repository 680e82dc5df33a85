"""Fails when a test was skipped for a reason that is not on the list: `python .ci/check_skips.py REPORT.xml`.

A skipped test proves nothing, so each reason is either "no GPU" or an optional package that is not installed.  Reads
pytest's JUnit report.  An expected failure (xfail) is not a skip; pytest itself fails when one passes.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

XFAIL = "pytest.xfail"

OPTIONAL = ("cupy", "torch")
"""Packages that the test environment may lack: CuPy has no wheels for macOS, and torch is too large."""

ALLOWED = re.compile("no GPU" + "".join(f"|could not import '{package}(\\..*)?': .*" for package in OPTIONAL))


def skips(report: Path) -> tuple[int, Counter[str]]:
    """The number of tests in a report, and how many were skipped for which reason."""
    cases = list(ET.parse(report).iter("testcase"))
    skipped = [case.find("skipped") for case in cases]
    return len(cases), Counter(reason(node) for node in skipped if node is not None and node.get("type") != XFAIL)


def reason(skipped: ET.Element) -> str:
    """Why a test was skipped; a module that skips itself keeps the reason at the end of the element's text."""
    message = skipped.get("message", "")
    if message == "collection skipped":
        message = (skipped.text or "").strip().removesuffix("')").rpartition("Skipped: ")[2]
    return message.removeprefix("Skipped: ")


def main(report: Path) -> int:
    """Prints the reasons of all skips; exit status 1 if one is not allowed, or if no test ran."""
    tests, reasons = skips(report)
    wrong = [reason for reason in reasons if not ALLOWED.fullmatch(reason)]
    for reason, count in sorted(reasons.items()):
        print(f"{count} skipped: {reason}" + ("   <- not an allowed reason" if reason in wrong else ""))
    if tests == 0:
        print("no test ran")
    return int(bool(wrong) or tests == 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
