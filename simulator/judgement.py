"""Which findings fail a run: by what the project fails on, what it ignores, and what a source line tolerates.

A comment on the line of a finding tolerates kinds there, and says why:

    y[i] = x[32 * i]    # sim: ignore[uncoalesced, bank-conflict] the transposed copy is timed on purpose

Rules of this file: a trace's findings stay complete; whoever judges a run (the pytest plug-in, ``numba-sim check``)
asks here.  A comment that gives no reason, or names no kind that there is, tolerates nothing and is told.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable
from dataclasses import dataclass

from simulator.config import LEVELS, Config
from simulator.findings import KINDS, Finding, Site

COMMENT = re.compile(r"#\s*sim:\s*ignore\b\s*(?:\[(?P<kinds>[^]]*)\])?\s*(?P<reason>.*)")


@dataclass(frozen=True, slots=True)
class Judged:
    """A finding and what became of it.

    ``tolerated`` says why it does not count ("" if it does); ``fails`` whether it fails the run; ``remark`` is what
    is wrong with a comment that was meant to tolerate it.
    """

    finding: Finding
    tolerated: str = ""
    fails: bool = False
    remark: str = ""

    def __str__(self) -> str:
        replay = "" if self.finding.replay is None else f"\n  seen with {self.finding.replay}"
        return f"{self.finding}{replay}" + (f"\n  {self.remark}" if self.remark else "")


def judge(
    findings: Iterable[Finding], config: Config, ignore: Iterable[str] = (), why: str = "ignored by the test"
) -> list[Judged]:
    """Judge findings by a project's settings; kinds in ``ignore`` are tolerated too, for the reason ``why``."""
    here = set(ignore)
    return [_judged(finding, config, why if finding.kind in here else "") for finding in findings]


def _judged(finding: Finding, config: Config, tolerated: str) -> Judged:
    if not tolerated and finding.kind in config.ignore:
        tolerated = f"ignored in {config.file}"
    remark = ""
    if not tolerated:
        tolerated, remark = tolerance(finding)
    fails = not tolerated and covers(config.fail_on, finding)
    return Judged(finding, tolerated, fails, "" if tolerated else remark)


def covers(fail_on: tuple[str, ...], finding: Finding) -> bool:
    """Does a run that fails on these severities (those and graver ones) and kinds fail for this finding?

    >>> covers(("warning",), Finding("deadlock", "")), covers(("error", "overflow"), Finding("float64", ""))
    (True, False)
    """
    graver = LEVELS[: LEVELS.index(finding.severity) + 1]
    return finding.kind in fail_on or any(word in graver for word in fail_on)


def tolerance(finding: Finding) -> tuple[str, str]:
    """The reason that a comment on one of the finding's lines gives, and what is wrong with one that gives none."""
    remarks = []
    for site in dict.fromkeys((site.file, site.line) for site in finding.sites):
        kinds, reason, remark = comment(*site)
        if remark:
            remarks.append(f"{Site(*site)}: {remark}")
        elif finding.kind in kinds:
            return reason, ""
    return "", "; ".join(remarks)


def comment(file: str, line: int) -> tuple[tuple[str, ...], str, str]:
    """What a source line tolerates: kinds and the reason; or what is wrong with its comment."""
    found = COMMENT.search(linecache.getline(file, line))
    if found is None:
        return (), "", ""
    kinds = tuple(word.strip() for word in (found["kinds"] or "").split(",") if word.strip())
    if not kinds:
        return (), "", "the comment names no kind: write # sim: ignore[kind] and the reason"
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        return (), "", f"the comment names {unknown[0]!r}, which is no kind of finding"
    if not found["reason"].strip():
        return (), "", f"the comment gives no reason: write # sim: ignore[{', '.join(kinds)}] and why"
    return kinds, found["reason"].strip(), ""
