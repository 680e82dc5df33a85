"""The house stands as designed: what lies where, how large it is, and what it promises to the outside."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from matplotlib.testing.compare import compare_images

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TOP = {"pyproject.toml", "README.md", "LICENSE", "numba_norms", "simulator", "tests", "docs"}
PACKAGES = ("numba_norms", "simulator")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
SOURCES = MODULES + sorted(path for folder in ("tests", "docs", ".ci") for path in (ROOT / folder).rglob("*.py"))
MAX_LINES = 400
MAX_TEST_LINES = 600
MAX_FUNCTION = 70
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "core", "base"}
COMMANDS = (
    "pip install -e . && numba-sim trace rms_norm --shape 1x4096 --threads 256 --thread 0",
    "pip install -e '.[test]' && pytest",
)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def script(path: str) -> ModuleType:
    """A file of .ci, imported."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- what lies where -------------------------------------------------------------------------------------------------


def test_top_level_holds_what_the_design_names_and_nothing_else() -> None:
    git = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = {line.partition("/")[0] for line in git.stdout.splitlines()}
    assert {entry for entry in found if not entry.startswith(".")} == TOP


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_file_says_what_it_is_for_and_stays_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(text)) or ""
    assert docstring.strip(), f"{name(path)} has no docstring"
    most = MAX_LINES if path in MODULES else MAX_TEST_LINES
    assert len(text.splitlines()) <= most, f"{name(path)} is too long: split it by noun"
    assert path.stem not in VAGUE, f"{name(path)} does not say what is in it"


def lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without its docstring."""
    first = function.body[0]
    docstring = (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(function) else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def is_overload(function: ast.FunctionDef | ast.ClassDef) -> bool:
    return any(ast.unparse(decorator).endswith("overload") for decorator in function.decorator_list)


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_functions_are_short_and_public_names_documented(path: Path) -> None:
    module = tree(path)
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert lines(node) <= MAX_FUNCTION, f"{name(path)}:{node.lineno} {node.name} has {lines(node)} lines"
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_") and not is_overload(node):
            assert ast.get_docstring(node), f"{name(path)}:{node.lineno} {node.name} has no docstring"


# -- what it promises ------------------------------------------------------------------------------------------------


def test_version_is_the_installed_one() -> None:
    assert importlib.metadata.version("numba-norms") == PROJECT["version"]
    done = subprocess.run([sys.executable, "-m", "simulator", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == PROJECT["version"]


@pytest.mark.parametrize(
    ("group", "entry"),
    [
        *(("console_scripts", entry) for entry in PROJECT["scripts"]),
        *((group, entry) for group, entries in PROJECT["entry-points"].items() for entry in entries),
    ],
)
def test_entry_points_resolve(group: str, entry: str) -> None:
    (found,) = importlib.metadata.entry_points(group=group, name=entry)
    assert callable(found.load()) or group == "pytest11"  # a plug-in is a module


def test_readme_has_the_two_commands_as_ci_runs_them() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for command in COMMANDS:
        assert command in readme
        assert f'"{command}"' in run


def test_readme_links_and_pictures_exist() -> None:
    readme = re.sub(r"```.*?```|`[^`]*`", "", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#]+)\)", readme)
    assert any(target.endswith(".png") for target in targets)
    for target in targets:
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_readme_python_runs_without_a_gpu() -> None:
    """The first Python block, in an interpreter of its own; the CuPy lines are the second."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert "cupy" not in blocks[0]
    assert "cupy" in blocks[1]
    done = subprocess.run([sys.executable, "-c", blocks[0]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    promised = re.findall(r"# (\[.*\])$", blocks[0], re.MULTILINE)
    assert promised
    assert done.stdout.splitlines()[: len(promised)] == promised


@pytest.mark.parametrize("module", ["simulator", "numba_norms"])
def test_import_is_light(module: str) -> None:
    """Nothing is drawn or compiled by an import: no matplotlib, no command line, no CuPy."""
    code = f"import sys, {module}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"matplotlib", "cyclopts", "cupy", "pytest"} & set(done.stdout.split())


# -- the checks check ------------------------------------------------------------------------------------------------

REPORT = "<testsuites><testsuite>{}</testsuite></testsuites>"
SKIPPED = '<testcase name="t"><skipped type="{}" message="{}">{}</skipped></testcase>'


@pytest.mark.parametrize(
    ("cases", "status"),
    [
        ("", 1),
        ('<testcase name="t"/>', 0),
        (SKIPPED.format("pytest.skip", "no GPU", ""), 0),
        (SKIPPED.format("pytest.skip", "no GPU today", ""), 1),
        (SKIPPED.format("pytest.skip", "collection skipped", "('tests/gpu/t.py', 3, 'Skipped: no GPU')"), 0),
        (SKIPPED.format("pytest.skip", "collection skipped", "('t.py', 3, 'Skipped: slow')"), 1),
        (SKIPPED.format("pytest.skip", "could not import 'cupy': No module named 'cupy'", ""), 0),
        (SKIPPED.format("pytest.skip", "could not import 'numba': No module named 'numba'", ""), 1),
        (SKIPPED.format("pytest.xfail", "known", ""), 0),
    ],
)  # fmt: skip
def test_a_skip_needs_an_allowed_reason(tmp_path: Path, cases: str, status: int) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT.format(cases), encoding="utf-8")
    assert script(".ci/check_skips.py").main(report) == status


def test_macos_gets_numba_without_numba_cuda() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "macos_requirements.py")], capture_output=True, text=True, check=True
    )
    names = {re.split("[<>=]", line)[0] for line in done.stdout.splitlines()}
    assert {"numba", "numpy"} <= names
    assert not any("cuda" in package for package in names)


def test_committed_figures_are_what_the_runs_draw(tmp_path: Path) -> None:
    """Within what fonts and versions of matplotlib make of it; a changed kernel or count moves far more."""
    figures = script("docs/figures.py")
    figures.main(tmp_path)
    for figure in figures.FIGURES:
        assert compare_images(str(figures.STATIC / figure), str(tmp_path / figure), tol=3) is None
