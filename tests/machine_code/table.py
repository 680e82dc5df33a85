"""The table of docs/machine-code.md: measures everything and writes it, `python -m tests.machine_code.table`.

A test reads the page back and compares.  Figures repeat exactly where all compilers have the versions that the page
names; other versions may make slightly other code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.machine_code.cases import CAPABILITIES, Case, cases, measure
from tests.machine_code.sass import Figures
from tests.machine_code.toolchain import versions
from tests.machine_code.twins import measure_twins

PAGE = Path(__file__).parents[2] / "docs" / "machine-code.md"

BEGIN, END = "<!-- python -m tests.machine_code.table writes from here -->", "<!-- to here -->"

COLUMNS = (
    "instructions", "nvcc", "ratio", "registers", "nvcc", "loads", "stores", "narrow", "shuffles", "barriers",
    "stack", "spills", "float64", "calls",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A kernel on one architecture; without a twin, nothing stands under nvcc."""

    case: str
    capability: tuple[int, int]
    ours: Figures
    twin: Figures | None

    @property
    def ratio(self) -> float | None:
        """Our instructions to nvcc's: of the loops over a row, per access, where there are any."""
        if self.twin is None:
            return None
        return self.ours.loop / self.twin.loop if self.twin.loop else self.ours.instructions / self.twin.instructions

    def cells(self) -> list[str]:
        """As the table shows it."""
        ours, twin = self.ours, self.twin
        figures = (
            ours.instructions, twin and twin.instructions, self.ratio, ours.registers, twin and twin.registers,
            ours.loads, ours.stores, ours.narrow, ours.shuffles, ours.barriers, ours.stack, ours.spills, ours.float64,
            ours.calls,
        )  # fmt: skip
        return [self.case, *("" if f is None else f"{f:.2f}" if isinstance(f, float) else str(f) for f in figures)]


def measured(capability: tuple[int, int], wanted: list[Case]) -> list[Row]:
    """The rows of some cases on one architecture."""
    twins = measure_twins([case.twin for case in wanted if case.twin], capability)
    return [
        Row(case.name, capability, measure(case, capability), twins[case.twin] if case.twin else None)
        for case in wanted
    ]  # fmt: skip


# -- the page --------------------------------------------------------------------------------------------------------


def written(rows: list[Row]) -> str:
    """What stands between the marks: versions, then a table for each architecture."""
    lines = ["Compiled with " + ", ".join(f"{name} {version}" for name, version in versions().items()) + "."]
    for capability in sorted({row.capability for row in rows}):
        lines += ["", "### Compute capability {}.{}".format(*capability), ""]
        lines += [_line(["kernel", *COLUMNS]), _line(["---", *("--:" for _ in COLUMNS)])]
        lines += [_line(row.cells()) for row in rows if row.capability == capability]
    return "\n".join(lines)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def committed() -> tuple[dict[str, str], dict[tuple[str, tuple[int, int]], list[str]]]:
    """The versions that the page names, and its cells by kernel and architecture."""
    text = _parts()[1]
    found = re.search(r"Compiled with (.*)\.$", text, re.MULTILINE)
    named = dict(part.split(" ") for part in found[1].split(", ")) if found else {}
    return named, dict(_rows(text))


def _rows(text: str) -> Iterator[tuple[tuple[str, tuple[int, int]], list[str]]]:
    for section in text.split("### Compute capability ")[1:]:
        heading, *lines = section.splitlines()
        major, minor = map(int, heading.split("."))
        for line in lines:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) == len(COLUMNS) + 1 and cells[0] not in ("kernel", "---"):
                yield (cells[0], (major, minor)), cells


def _parts() -> tuple[str, str, str]:
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    inside, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} has no place for the table: {BEGIN}, {END}")
    return before, inside, after


def main() -> None:
    """Measures everything and writes the table."""
    before, _, after = _parts()
    rows = [row for capability in CAPABILITIES for row in measured(capability, cases())]
    PAGE.write_text(f"{before}{BEGIN}\n\n{written(rows)}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
