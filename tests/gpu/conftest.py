"""Tests on a real card.  Without CuPy or without a device every one of them is skipped: "no GPU"."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def device_name() -> str:
    """The name of the first CUDA device, or "" where there is none."""
    try:
        import cupy

        return str(cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())
    except ImportError:
        return ""
    except cupy.cuda.runtime.CUDARuntimeError:
        return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of this folder needs a GPU."""
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    found = bool(here) and bool(device_name())
    for item in here:
        item.add_marker(pytest.mark.gpu)
        if not found:
            item.add_marker(pytest.mark.skip(reason="no GPU"))


@pytest.fixture(scope="session")
def measurements() -> Iterator[list[dict[str, Any]]]:
    """What the tests measured.  Written to $OUT/gpu.json at the end, where OUT names a folder."""
    rows: list[dict[str, Any]] = []
    yield rows
    if out := os.environ.get("OUT"):
        record = {"device": device_name(), "rows": rows}
        (Path(out) / "gpu.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
