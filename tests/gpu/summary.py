"""What a run of check.sh came to: `python tests/gpu/summary.py RESULTS`, from the files there, however far it got.

Writes RESULTS/summary.md and prints it; merges the reports of pytest into RESULTS/gpu.xml.  Exit status 1 if anything
failed, or if there was no GPU.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.gpu.record import read

Row = dict[str, Any]


def merged(reports: list[Path]) -> ET.ElementTree:
    """One report of several; one that was cut short is left out."""
    root = ET.Element("testsuites")
    for report in sorted(reports):
        try:
            root.extend(ET.parse(report).getroot().iter("testsuite"))
        except ET.ParseError:
            continue
    return ET.ElementTree(root)


def failures(rows: list[Row]) -> list[str]:
    """What is wrong, a line each."""
    found = [f"step {row['step']}: {row['why']}" for row in rows if row["kind"] == "step" and row["status"]]
    found += [f"probe: {row['step']}" for row in rows if row["kind"] == "probe" and not row["ok"]]
    found += [f"test {row['test']}: {row['why']}" for row in rows if row.get("outcome") == "failed"]
    found += [f"sectors {row['case']}: {'; '.join(row['differ'])}" for row in rows if row.get("differ")]
    found += [f"wrong result: {row['point']}, {row['way']}: error {row['error']}" for row in rows if row.get("wrong")]
    return found


def summary(rows: list[Row]) -> str:
    """The page."""
    facts: Row = {}
    for row in rows:
        facts |= row if row["kind"] == "fact" else {}
    devices = facts.get("devices") or []
    if not devices:
        return f"# No GPU\n\n{facts.get('error', 'nothing was found out')}: nothing was checked.\n"
    parts = ["# " + "; ".join(f"{d['name']}, compute capability {d['capability']}" for d in devices)]
    versions = {name: version for name, version in facts.get("packages", {}).items() if version}
    parts.append(f"CUDA {facts['cuda']}, " + ", ".join(f"{name} {version}" for name, version in versions.items()))
    outcomes = Counter(row["outcome"] for row in rows if row["kind"] == "test")
    parts.append("Tests: " + (", ".join(f"{n} {outcome}" for outcome, n in outcomes.items()) or "none ran") + ".")
    parts += _list("Failed", failures(rows))
    parts += _list("Not done", [f"{row['what']}: {row['why']}" for row in rows if row["kind"] == "skipped"])
    parts += _list("Skipped tests", _counted(row["why"] for row in rows if row.get("outcome") == "skipped"))
    steps = [f"{row['step']}: {row['seconds']} s" for row in rows if row["kind"] == "step"]
    parts += _list("Time", steps)
    try:
        from tests.benchmarks.gpu_report import markdown
    except ImportError as error:
        return "\n\n".join([*parts, f"No tables: {error}"]) + "\n"
    return "\n\n".join([*parts, markdown(rows)]).rstrip() + "\n"


def _counted(reasons: Any) -> list[str]:
    return [f"{count} times {reason}" for reason, count in Counter(reasons).items()]


def _list(title: str, lines: list[str]) -> list[str]:
    """A heading and its lines, each cut to one line of text."""
    cut = ("- " + line.strip().partition("\n")[0][:300] for line in lines)
    return [f"## {title}\n\n" + "\n".join(cut)] if lines else []


def main(folder: Path) -> int:
    rows = read(folder)
    reports = list(folder.glob("parts/*.xml"))
    if reports:
        merged(reports).write(folder / "gpu.xml", encoding="utf-8", xml_declaration=True)
    page = summary(rows)
    (folder / "summary.md").write_text(page, encoding="utf-8")
    print(page)
    return int(page.startswith("# No GPU") or bool(failures(rows)))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
