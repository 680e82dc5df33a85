"""Settings that all tests share.  Fixtures belong to the tests that use them."""

from __future__ import annotations

import importlib
import os
from typing import Any

import matplotlib
import pytest
from hypothesis import settings

matplotlib.use("agg")

# In CI the same examples every time, so that a red run can be repeated; elsewhere new ones.  No deadline: a shared
# machine is now and then ten times slower, and the first example of a kernel compiles it.
settings.register_profile("house", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--values",
        choices=("affine", "vector"),
        default="affine",
        help="vector: every launch of the simulator runs without affine values, whatever it asks for; all must hold",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--values") != "vector":
        return
    run = importlib.import_module("simulator.machine.launch")._Run
    original = run.__init__

    def in_vectors(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.values = "vector"

    run.__init__ = in_vectors
