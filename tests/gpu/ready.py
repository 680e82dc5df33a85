"""What this interpreter lacks for the checks: `python tests/gpu/ready.py`.  Prints one requirement a line.

Reads pyproject.toml: the dependencies, an extra with CuPy, and what runs the tests.  CuPy may be of either CUDA.
Exit status 1 if something is lacking, or of a version that the project does not allow.
"""

from __future__ import annotations

import importlib.metadata
import sys
import tomllib
from pathlib import Path
from typing import Any

TESTS = ("pytest", "hypothesis")
"""Of the extra `test`, what the tests on a card need."""


def lacking(project: dict[str, Any], version_of: Any = importlib.metadata.version) -> list[str]:
    """The requirements that are not met; ``version_of`` raises PackageNotFoundError for what is not installed."""
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(line for line in extras["test"] if _name(line) in TESTS)]
    missing = [line for line in wanted if not _met(line, version_of)]
    cupy = [line for extra in ("cuda12", "cuda13") for line in extras[extra] if _name(line).startswith("cupy")]
    if not any(_met(line, version_of) for line in cupy):
        missing.append(" or ".join(cupy))
    return missing


def _requirement(line: str) -> Any:
    try:
        from packaging.requirements import Requirement
    except ImportError:  # pip brings its own
        from pip._vendor.packaging.requirements import Requirement  # type: ignore[assignment]
    return Requirement(line)


def _name(line: str) -> str:
    return str(_requirement(line).name)


def _met(line: str, version_of: Any) -> bool:
    requirement = _requirement(line)
    if requirement.marker is not None and not requirement.marker.evaluate():
        return True
    try:
        return bool(requirement.specifier.contains(version_of(requirement.name), prereleases=True))
    except importlib.metadata.PackageNotFoundError:
        return False


if __name__ == "__main__":
    file = Path(__file__).parents[2] / "pyproject.toml"
    found = lacking(tomllib.loads(file.read_text(encoding="utf-8"))["project"])
    for line in found:
        print(line)
    sys.exit(bool(found))
