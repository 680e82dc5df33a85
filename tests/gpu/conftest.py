"""Tests on a real card.  Without CuPy or without a device every one of them is skipped: "no GPU".

Where $OUT names a folder, each outcome is written there at once (record.py).  A test that leaves the device broken ends
the run: after an illegal access nothing in the process works, and only the first failure says anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.card import found
from tests.gpu.record import note


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All test files of this folder need a GPU; its other modules do not."""
    here = [item for item in items if Path(__file__).parent in item.path.parents and item.path.stem.startswith("test_")]
    there = bool(here) and bool(found())
    for item in here:
        item.add_marker(pytest.mark.gpu)
        if not there:
            item.add_marker(pytest.mark.skip(reason="no GPU"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Write down how a test ended, for those of this folder."""
    report = yield
    if item.get_closest_marker("gpu") and found() and (report.when == "call" or report.outcome != "passed"):
        why = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr or "")
        note("test", test=item.nodeid, outcome=report.outcome, seconds=round(report.duration, 3), why=_told(why))
    return report


def _told(text: str) -> str:
    """The error of a failure's text, or its end."""
    errors = [line.removeprefix("E").strip() for line in text.splitlines() if line.startswith("E ")]
    return " / ".join(errors)[:1500] or text[-1500:]


@pytest.fixture(autouse=True)
def device_is_well(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test the device still works."""
    yield
    if request.node.get_closest_marker("gpu") is None:
        return
    import cupy

    try:
        cupy.cuda.Device(0).synchronize()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        pytest.exit(f"{request.node.nodeid} left the device broken: {error}", returncode=3)


@pytest.fixture
def measurements() -> Iterator[list[dict[str, Any]]]:
    """What a test measured; written down when it ends."""
    rows: list[dict[str, Any]] = []
    yield rows
    for row in rows:
        note("measurement", **row)
