"""Every specimen of the zoo: the faulty kernel is found on its labelled lines, the twin is clean and right.

The messages are golden: ``GOLDEN=write pytest tests/zoo`` writes them anew, to be read before they are committed.
"""

import importlib
import os
from pathlib import Path

import pytest

from simulator.findings import KINDS, Finding
from tests.zoo.specimen import Specimen, labels, named

FOLDER = Path(__file__).parent
GOLDEN = FOLDER / "golden"


def _zoo(kind: str) -> list[Specimen]:
    return importlib.import_module(f"tests.zoo.{kind.replace('-', '_')}").ZOO


ALL = [pytest.param(kind, one, id=f"{kind}-{one.name}") for kind in KINDS for one in _zoo(kind)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_three(kind):
    assert len(_zoo(kind)) >= 3
    assert all(kind in {found for found, _ in labels(one.faulty)} for one in _zoo(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_faults_are_found_on_their_lines_in_these_words(kind):
    text, off = "", {}
    for one in _zoo(kind):
        findings, _ = one.run(one.faulty)
        said = [str(finding).replace(f"{FOLDER}{os.sep}", "") for finding in findings]
        text += "\n".join([f"== {one.name}", *said, "", ""])
        if wrong := _off_label(one, findings):
            off[one.name] = wrong
    golden = GOLDEN / f"{kind}.txt"
    if os.environ.get("GOLDEN") == "write":
        GOLDEN.mkdir(exist_ok=True)
        golden.write_text(text)
    assert not off
    assert text == golden.read_text()


def _off_label(one: Specimen, findings: tuple[Finding, ...]) -> set[tuple[str, int]]:
    """Labels without a finding, and errors and warnings without a label."""
    wanted = labels(one.faulty)
    got = named(findings, ("error", "warning"))
    if any(found.startswith("race-") for found, _ in wanted):
        got = {pair for pair in got if pair[0] != "order-dependent" or pair in wanted}
    return (got | (wanted & named(findings, ("note",)))) ^ wanted


@pytest.mark.parametrize(("kind", "one"), ALL)
def test_twins_are_clean_and_right(kind, one):
    findings, args = one.run(one.mended)
    bad = [str(found) for found in findings if found.severity != "note" or found.kind == kind]
    assert not bad, "\n".join(bad)
    assert one.right(args)
