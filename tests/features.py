"""The tables that name tests, held to what they say: docs/features.md, and the bugs in test_peer_bugs.py.

    python tests/features.py                    every named test exists
    python tests/features.py REPORT.xml …       and, by pytest's JUnit reports, ran and passed

A name is `module::test`, where the module is a file of tests/numba_norms, or of the folder before it, as in
`gpu/test_large_arrays::test_past_31_bits`.  In square brackets stands the one case of a test that is meant; without
them, all of its cases are.  Tests of tests/gpu may be skipped for "no GPU"; no other test may be skipped.
"""

from __future__ import annotations

import ast
import re
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parent
FEATURES = TESTS.parent / "docs" / "features.md"
BUGS = TESTS / "numba_norms" / "test_peer_bugs.py"
OURS = "numba-norms"
"""The heading of our column."""

NAME = re.compile(r"((?:\w+/)*)(\w*)::(\w+)(?:\[([^\]]*)\])?")


class Name(NamedTuple):
    """A test as the tables name it: file below tests/, function, and the case in brackets ("" for all)."""

    file: str
    function: str
    case: str

    def __str__(self) -> str:
        return f"tests/{self.file}::{self.function}" + (f"[{self.case}]" if self.case else "")


def names(text: str, of: Path) -> list[Name]:
    """The tests that a text names; a name without a module belongs to the file ``of``."""
    found = []
    for folder, module, function, case in NAME.findall(text):
        path = f"{folder or 'numba_norms/'}{module or of.stem}.py"
        found.append(Name(path, function, case))
    return found


def rows(page: str) -> list[tuple[str, str]]:
    """Feature and our cell of each row of each table that has our column."""
    found, column = [], None
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            column = None
        elif OURS in cells:
            column = cells.index(OURS)
        elif column is not None and set(line) - set("|-: "):
            found.append((cells[0], cells[column]))
    return found


def bugs(source: str) -> list[tuple[str, str]]:
    """Where each bug was, and its tests, read off the calls of ``Bug``."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [
        (ast.literal_eval(call.args[0]), ast.literal_eval(call.args[2]))
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == "Bug"
    ]


def tables() -> list[tuple[Path, str, list[tuple[str, str]]]]:
    """Each table: its file, the word that a cell without a test begins with, and (row, cell)."""
    return [
        (FEATURES, "no", rows(FEATURES.read_text(encoding="utf-8"))),
        (BUGS, "backward", bugs(BUGS.read_text(encoding="utf-8"))),
    ]


def unsaid(cell: str, word: str) -> str:
    """What is wrong with a cell, or "": it begins with the word, or it names a test."""
    begins = cell == word or cell.startswith((f"{word} ", f"{word},"))
    return "" if begins or NAME.search(cell) else f"{cell!r} neither says {word!r} nor names a test"


def functions(file: str) -> set[str]:
    """The test functions of a file below tests/; none if there is no such file."""
    path = TESTS / file
    if not path.is_file():
        return set()
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def outcomes(reports: Iterable[Path]) -> dict[tuple[str, str], dict[str, str]]:
    """By file and function: each case that ran, and how it ended ("" is passed)."""
    found: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for report in reports:
        for case in ET.parse(report).iter("testcase"):
            function, _, identity = case.get("name", "").partition("[")
            file = case.get("classname", "").removeprefix("tests.").replace(".", "/") + ".py"
            ends = [f"{child.tag}: {child.get('message', '')}" for child in case if child.tag != "system-out"]
            end = "; ".join(end for end in ends if end.partition(":")[0] in ("skipped", "failure", "error"))
            cases = found[file, function]
            if cases.get(identity, "skipped").startswith("skipped"):  # a run elsewhere makes up for a skip
                cases[identity] = end
    return found


def fault(name: Name, ran: dict[tuple[str, str], dict[str, str]] | None) -> str:
    """Why a named test does not show what its row says, or ""."""
    if name.function not in functions(name.file):
        return "does not exist"
    if ran is None:
        return ""
    cases = ran.get((name.file, name.function), {})
    if name.case:
        cases = {key: end for key, end in cases.items() if key == f"{name.case}]"}
    if not cases:
        return "was not run"
    ends = {end for end in cases.values() if end}
    if name.file.startswith("gpu/"):
        ends -= {"skipped: no GPU"}
    return "; ".join(sorted(ends))


def main(reports: list[Path]) -> int:
    """Prints what is wrong; exit status 1 if something is."""
    ran = outcomes(reports) if reports else None
    wrong, named = [], set()
    for path, word, table in tables():
        for row, cell in table:
            found = names(cell, path)
            problems = [unsaid(cell, word), *(f"{name} {problem}" for name in found if (problem := fault(name, ran)))]
            wrong += [f"{row}: {problem}" for problem in problems if problem]
            named |= {*found}
    for line in wrong:
        print(line)
    on_a_card = sum(name.file.startswith("gpu/") for name in named)
    print(f"{len(named)} tests named, {on_a_card} of them for a GPU; {len(wrong)} faults")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main([Path(report) for report in sys.argv[1:]]))
