"""Findings of a run, judged: as text, as annotations for GitHub, and as JSON (schema ``numba-sim/check``, version 1).

The JSON document::

    schema, version   "numba-sim/check", 1; a reader refuses a version that it does not know
    target            what was checked
    launches          kernels launched, by name: a number each
    status            the exit status
    findings          list of {kind, severity, message, mend, kernel, array, element, count, sites, replay, tolerated,
                      fails}; tolerated is the reason, "" where it counts

Rules of this file: functions give text and print nothing; what is added to the document later leaves it as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.findings import Finding, Site
    from simulator.judgement import Judged

SCHEMA, VERSION = "numba-sim/check", 1
LEVELS = {"error": "error", "warning": "warning", "note": "notice"}
"""Severities in GitHub's words."""


def text(judged: Sequence[Judged], launches: Counter[str]) -> str:
    """Every finding that counts, the tolerated ones in a line each, and a summary.

    >>> text([], Counter({"scale": 2}))
    '2 launches of scale: no findings\\n'
    """
    told = [f"{each}\n" for each in judged if not each.tolerated]
    told += [f"tolerated: {each.finding.kind}: {_where(each)}: {each.tolerated}" for each in judged if each.tolerated]
    return "\n".join([*told, summary(judged, launches)]) + "\n"


def summary(judged: Sequence[Judged], launches: Counter[str]) -> str:
    """What was launched, and how many findings of each severity there are."""
    number = launches.total()
    said = f"{number} launch{'' if number == 1 else 'es'} of {', '.join(launches)}" if number else "no launch"
    counts = Counter("tolerated" if each.tolerated else each.finding.severity for each in judged)
    words = [_many(counts[name], name) for name in ("error", "warning", "note") if counts[name]]
    words += [f"{counts['tolerated']} tolerated"] if counts["tolerated"] else []
    return f"{said}: {', '.join(words) or 'no findings'}"


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _where(judged: Judged) -> str:
    return " and ".join(map(str, judged.finding.sites)) or judged.finding.kernel


def github(judged: Iterable[Judged]) -> str:
    """Workflow commands that put each finding that counts next to its line in a pull request."""
    lines = []
    for each in judged:
        if each.tolerated:
            continue
        finding = each.finding
        place = f"file={_property(_relative(site.file))},line={site.line}," if (site := _first(finding)) else ""
        mend = f"\nlikely mend: {finding.mend}" if finding.mend else ""
        title = f"title={_property(f'numba-sim: {finding.kind}')}"
        lines.append(f"::{LEVELS[finding.severity]} {place}{title}::{_data(finding.message + mend)}\n")
    return "".join(lines)


def _first(finding: Finding) -> Site | None:
    return finding.sites[0] if finding.sites else None


def _relative(file: str) -> str:
    """A file by its path in the repository, which is where workflows run."""
    path = Path(file).absolute()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _data(words: str) -> str:
    """Escaped as GitHub's runner reads the text of a command ..."""
    return words.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(words: str) -> str:
    """... and a property of one."""
    return _data(words).replace(":", "%3A").replace(",", "%2C")


def document(judged: Iterable[Judged], launches: Counter[str], target: str, status: int) -> dict[str, Any]:
    """The whole check as one object that ``json.dumps`` takes."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "target": target,
        "launches": dict(launches),
        "status": status,
        "findings": [_finding(each) for each in judged],
    }


def _finding(judged: Judged) -> dict[str, Any]:
    return {**asdict(judged.finding), "tolerated": judged.tolerated, "fails": judged.fails}
