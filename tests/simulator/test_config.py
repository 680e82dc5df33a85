"""``[tool.numba-sim]``: what it sets, what it refuses, and which findings fail a run by it."""

from __future__ import annotations

import linecache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.config import KEYS, Config, ConfigError, find, read, words
from simulator.findings import KINDS, SEVERITIES, Finding, Site
from simulator.judgement import judge

FILE = Path("pyproject.toml")


def settings(folder: Path, text: str) -> Config:
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return find(folder)


# -- reading -----------------------------------------------------------------------------------------------------------


def test_the_whole_table(tmp_path: Path) -> None:
    text = """
        [tool.numba-sim]
        fail-on = ["warning", "unwritten-output"]
        ignore = ["float64"]
        orders = ["first", 7]
        seed = 3
        card = "t4"
    """
    assert settings(tmp_path, text) == Config(
        ("warning", "unwritten-output"), ("float64",), ("first", 7), 3, "t4", tmp_path.resolve() / "pyproject.toml"
    )


def test_a_word_may_stand_without_its_list() -> None:
    assert read({"fail-on": "note", "ignore": "overflow", "orders": "last"}, FILE) == Config(
        ("note",), ("overflow",), ("last",), file=FILE
    )


def test_words_are_texts() -> None:
    for word in (np.zeros(2, np.float16), 3, None, ["deadlock"]):
        with pytest.raises(ValueError, match="there is no "):
            words([word], KINDS)


def test_the_nearest_file_with_the_table_counts(tmp_path: Path) -> None:
    settings(tmp_path, "[tool.numba-sim]\nseed = 1\n")
    (below := tmp_path / "a").mkdir()
    assert settings(below, "[tool.other]\nseed = 2\n").seed == 1
    assert settings(below, "[tool.numba-sim]\nseed = 3\n").seed == 3
    assert find(below / "not there").seed == 3


def test_without_a_table_the_simulator_chooses(tmp_path: Path) -> None:
    assert settings(tmp_path, "") == find(tmp_path) == Config()
    assert Config().device_options == {"seed": 0}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"fail_on": "error"}, ["fail_on", "no such setting", "fail-on"]),
        ({"fail-on": "errors"}, ["fail-on", "'errors'", "did you mean 'error'?"]),
        ({"fail-on": 1}, ["fail-on", "a list of words, not 1"]),
        ({"ignore": ["bank-conflicts"]}, ["ignore", "did you mean 'bank-conflict'?"]),
        ({"ignore": ["error"]}, ["ignore", "no 'error'"]),
        ({"ignore": [3]}, ["ignore", "no 3"]),
        ({"orders": []}, ["orders", "at least one"]),
        ({"orders": ["backwards"]}, ["orders", "'backwards'"]),
        ({"orders": [True]}, ["orders", "True"]),
        ({"seed": -1}, ["seed", "-1"]),
        ({"seed": "1"}, ["seed", "'1'"]),
        ({"card": "h1000"}, ["card", "h1000"]),
        ({"card": 4}, ["card", "4"]),
        ("error", ["a table, not 'error'"]),
    ],
)
def test_what_means_nothing_is_refused_by_file_and_key(table: Any, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        read(table, FILE)
    for word in ["pyproject.toml: [tool.numba-sim]", *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize("text", [b"[tool.numba-sim\n", b"\xff"])
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "pyproject.toml").write_bytes(text)
    with pytest.raises(ConfigError, match=r"pyproject\.toml: "):
        find(tmp_path)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(KINDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*KEYS, "else"]), JUNK, max_size=3) | JUNK)
def test_any_table_is_settings_or_our_error(table: Any) -> None:
    try:
        made = read(table, FILE)
    except ConfigError:
        return
    assert set(made.ignore) <= set(KINDS)
    assert made.seed >= 0


# -- judging -----------------------------------------------------------------------------------------------------------


def found(kind: str, source: str = "", *, name: str = "k.py") -> Finding:
    """A finding on the one line of a source file that exists in memory alone."""
    linecache.cache[name] = (len(source), None, [source + "\n"], name)
    return Finding(kind, "something", sites=(Site("elsewhere.py", 1), Site(name, 1)))


@given(st.sampled_from(KINDS), st.sampled_from([("error",), ("warning",), ("note",), ("float64", "error"), ()]))
def test_severities_fail_with_all_that_is_graver(kind: str, fail_on: tuple[str, ...]) -> None:
    fails = {"error": {"error"}, "warning": {"error", "warning"}, "note": {"error", "warning", "note"}}
    expected = any(word == kind or SEVERITIES[kind] in fails.get(word, ()) for word in fail_on)
    (judged,) = judge([found(kind)], Config(fail_on=fail_on))
    assert judged.fails == expected
    assert not judged.tolerated


def test_projects_and_tests_tolerate_kinds() -> None:
    config = Config(fail_on=("note",), ignore=("float64",), file=FILE)
    judged = judge([found("float64"), found("overflow"), found("deadlock")], config, ["overflow"], "by the test")
    assert [(each.tolerated, each.fails) for each in judged] == [
        ("ignored in pyproject.toml", False),
        ("by the test", False),
        ("", True),
    ]


@pytest.mark.parametrize(
    "source",
    [
        "y[i] = x[j]  # sim: ignore[race-global] all threads store the same value",
        "y[i] = x[j]  #sim:ignore[ overflow , race-global ]all threads store the same value",
        "y[i] = x[j]  # noqa  # sim: ignore[race-global] all threads store the same value",
    ],
)
def test_a_comment_tolerates_on_its_line(source: str) -> None:
    (judged,) = judge([found("race-global", source)], Config())
    assert (judged.tolerated, judged.fails, judged.remark) == ("all threads store the same value", False, "")


@pytest.mark.parametrize(
    ("source", "remark"),
    [
        ("y[i] = x[j]", ""),
        ("y[i] = x[j]  # sim: ignore[overflow] not this kind", ""),
        ("y[i] = x[j]  # sim: ignore[race-global]", "gives no reason"),
        ("y[i] = x[j]  # sim: ignore[race-globl] a reason", "'race-globl', which is no kind"),
        ("y[i] = x[j]  # sim: ignore all of it", "names no kind"),
        ("y[i] = x[j]  # sim: ignore[] a reason", "names no kind"),
    ],
)
def test_other_comments_tolerate_nothing_and_are_told(source: str, remark: str) -> None:
    (judged,) = judge([found("race-global", source)], Config())
    assert judged.fails
    assert not judged.tolerated
    assert remark in judged.remark
    assert bool(judged.remark) == bool(remark)
    assert judged.remark in str(judged)


def test_a_finding_without_a_source_fails_as_ever() -> None:
    (judged,) = judge([Finding("launch-limit", "too many threads")], Config())
    assert judged.fails
