"""docs/features.md and the table of bugs name tests that exist, and the script that checks this is able to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import features
from tests.features import NAME, Name, fault, names, outcomes, rows, tables, unsaid

FILE = "numba_norms/test_matrix.py"
CLASS = "tests.numba_norms.test_matrix"
REPORT = "<testsuites><testsuite>{}</testsuite></testsuites>"
CASE = '<testcase classname="{}" name="{}">{}</testcase>'
SKIPPED = '<skipped type="pytest.skip" message="{}"/>'


def test_every_cell_says_no_or_names_tests_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert features.main([]) == 0, capsys.readouterr().out


def test_both_tables_are_read_to_the_end() -> None:
    (_, _, of_features), (_, _, of_bugs) = tables()
    assert len(of_features) >= 38
    assert len(of_bugs) == 47
    text = features.FEATURES.read_text(encoding="utf-8")
    assert text.count("::test_") == sum(len(NAME.findall(cell)) for _, cell in of_features)
    assert text.count(f"| {features.OURS} |") == text.count("\n## ") - 1  # all but the table of commits


def test_rows_have_as_many_cells_as_their_heading() -> None:
    width = 0
    for line in features.FEATURES.read_text(encoding="utf-8").splitlines():
        width = (width or line.count("|")) if line.startswith("|") else 0
        assert line.count("|") == width, line


def test_names_are_taken_apart() -> None:
    found = names("yes: `test_a::test_b` `gpu/test_c::test_d[one, two]` ::test_e", Path("tests/numba_norms/test_x.py"))
    assert found == [
        Name("numba_norms/test_a.py", "test_b", ""),
        Name("gpu/test_c.py", "test_d", "one, two"),
        Name("numba_norms/test_x.py", "test_e", ""),
    ]
    assert str(found[1]) == "tests/gpu/test_c.py::test_d[one, two]"


def test_our_column_is_found_by_its_heading() -> None:
    page = "| what | others | numba-norms |\n|---|---|---|\n| a | yes | no |\n\n| x | y |\n|---|---|\n| a | b |\n"
    assert rows(page) == [("a", "no")]


@pytest.mark.parametrize("cell", ["", "yes", "later", "nothing yet", "`test_matrix.py`"])
def test_a_cell_without_a_test_is_a_fault(cell: str) -> None:
    assert unsaid(cell, "no")


@pytest.mark.parametrize("cell", ["no", "no, not yet", "`test_matrix::test_rms_norm`"])
def test_a_cell_that_says_no_or_names_a_test_is_none(cell: str) -> None:
    assert not unsaid(cell, "no")


@pytest.mark.parametrize(
    ("cases", "case", "problem"),
    [
        ([("test_rms_norm[1]", "")], "", ""),
        ([], "", "was not run"),
        ([("test_layer_norm", "")], "", "was not run"),
        ([("test_rms_norm[1]", ""), ("test_rms_norm[2]", SKIPPED.format("slow"))], "", "skipped: slow"),
        ([("test_rms_norm[1]", ""), ("test_rms_norm[2]", SKIPPED.format("slow"))], "1", ""),
        ([("test_rms_norm[1]", "")], "2", "was not run"),
        ([("test_rms_norm", SKIPPED.format("no GPU"))], "", "skipped: no GPU"),
        ([("test_rms_norm", '<failure message="wrong"/>')], "", "failure: wrong"),
        ([("test_rms_norm", '<error message="broken"/>')], "", "error: broken"),
        ([("test_rms_norm", "<system-out>words</system-out>")], "", ""),
    ],
)
def test_a_report_is_held_against_a_name(tmp_path: Path, cases: list[tuple[str, str]], case: str, problem: str) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT.format("".join(CASE.format(CLASS, *each) for each in cases)), encoding="utf-8")
    assert fault(Name(FILE, "test_rms_norm", case), outcomes([report])) == problem


@pytest.mark.parametrize(("reason", "problem"), [("no GPU", ""), ("no GPU today", "skipped: no GPU today")])
def test_what_needs_a_gpu_may_do_without_for_that_reason_alone(tmp_path: Path, reason: str, problem: str) -> None:
    report, classname, name = tmp_path / "report.xml", "tests.gpu.test_large_arrays", "test_past_31_bits[rms_norm]"
    report.write_text(REPORT.format(CASE.format(classname, name, SKIPPED.format(reason))), encoding="utf-8")
    assert fault(Name("gpu/test_large_arrays.py", "test_past_31_bits", ""), outcomes([report])) == problem


def test_a_run_elsewhere_makes_up_for_a_skip(tmp_path: Path) -> None:
    reports = [tmp_path / "here.xml", tmp_path / "there.xml"]
    for report, child in zip(reports, (SKIPPED.format("slow"), ""), strict=True):
        report.write_text(REPORT.format(CASE.format(CLASS, "test_rms_norm", child)), encoding="utf-8")
    for order in (reports, reports[::-1]):
        assert not fault(Name(FILE, "test_rms_norm", ""), outcomes(order))


@pytest.mark.parametrize(
    "name", [Name(FILE, "test_nothing", ""), Name("numba_norms/test_none.py", "test_rms_norm", "")]
)
def test_a_test_that_does_not_exist_is_a_fault(name: Name) -> None:
    assert fault(name, None) == "does not exist"
