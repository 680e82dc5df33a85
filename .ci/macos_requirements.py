"""Prints the project's dependencies as macOS gets them, one a line, for `pip install -r`."""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

for requirement in map(Requirement, PROJECT["dependencies"]):
    if requirement.marker is None or requirement.marker.evaluate({"sys_platform": "darwin"}):
        print(f"{requirement.name}{requirement.specifier}")
