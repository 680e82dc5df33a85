"""Random settings: pyproject.toml as bytes and as tables, comments that tolerate, marks of the pytest plug-in."""

from __future__ import annotations

import linecache
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st

from simulator.config import KEYS, LEVELS, Config, find, read
from simulator.findings import KINDS, Finding, Site
from simulator.judgement import comment, judge
from simulator.pytest_plugin.session import MARK, Wishes
from tests.fuzz.junk import answer, anything, fuzz, refused, texts

scalars = st.one_of(
    st.text(max_size=8), st.integers(), st.floats(), st.booleans(), st.sampled_from((*LEVELS, *KINDS, "first", "t4"))
)
values = st.one_of(
    scalars, st.lists(scalars, max_size=3), st.dictionaries(st.text(max_size=3), scalars, max_size=1), anything
)
tables = st.dictionaries(st.one_of(st.sampled_from(sorted(KEYS)), st.text(max_size=6)), values, max_size=3)
FILE = Path("pyproject.toml")


def settings_of(call: Any) -> Config | None:
    """The settings, or None where they are refused, by one line that names the file."""
    found = answer(call)
    assert isinstance(found, Config) or "pyproject.toml" in str(found)
    return found if isinstance(found, Config) else None


@contextmanager
def file(content: bytes) -> Iterator[Path]:
    """A folder with that pyproject.toml."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / FILE).write_bytes(content)
        yield Path(name)


@fuzz(200, st.one_of(tables, anything))
def test_tables(table: Any) -> None:
    found = settings_of(lambda: read(table, FILE))
    if found is not None:
        assert set(found.ignore) <= set(KINDS) and set(found.fail_on) <= {*LEVELS, *KINDS} and found.seed >= 0


@fuzz(200, st.one_of(st.binary(max_size=40), st.binary(max_size=20).map(lambda rest: b"[tool.numba-sim]\n" + rest)))
def test_files_of_bytes(content: bytes) -> None:
    with file(content) as folder:
        settings_of(lambda: find(folder))


@fuzz(
    100,
    st.sampled_from(sorted(KEYS)),
    st.text(max_size=20),
    st.sampled_from(("tool = 3", "[tool]\nnumba-sim = 1", "[tool.numba-sim]")),
)
def test_files_of_text(key: str, value: str, head: str) -> None:
    with file(f"{head}\n{key} = {value}\n".encode("utf-8", "replace")) as folder:
        settings_of(lambda: find(folder))


pieces = st.sampled_from(
    ("#", " ", "sim:", "ignore", "[", "]", ",", "overflow", "float64", "nothing", "because", "\t", "x[i] = 1")
)


@fuzz(200, st.one_of(st.lists(pieces, max_size=12).map("".join), st.text(max_size=30)), st.sampled_from(KINDS))
def test_comments(line: str, kind: str) -> None:
    text = line.replace("\n", " ") + "\n"
    linecache.cache["<fuzz>"] = (len(text), None, [text], "<fuzz>")
    kinds, reason, remark = comment("<fuzz>", 1)
    assert set(kinds) <= set(KINDS) and not (kinds and remark) and (not kinds or reason)
    (judged,) = judge([Finding(kind, "", (Site("<fuzz>", 1),))], Config())
    assert bool(judged.tolerated) == (kind in kinds)


marks = st.dictionaries(st.one_of(st.sampled_from(("expect", "ignore")), st.text(max_size=3)), values, max_size=2)


@fuzz(150, st.lists(st.one_of(texts, anything), max_size=1), marks)
def test_marks(args: list[Any], named: dict[str, Any]) -> None:
    mark = SimpleNamespace(name=MARK, args=tuple(args), kwargs=named)
    item: Any = SimpleNamespace(iter_markers=lambda name: iter([mark]))
    wishes = answer(lambda: Wishes.of(item))
    assert refused(wishes) or set(wishes.expect) | set(wishes.ignore) <= set(KINDS)
