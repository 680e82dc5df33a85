"""Scoring simulators by numba-cuda's own suite: the list of exclusions holds, and the script can say "failed"."""

from __future__ import annotations

import json
import os
import time
import tomllib

import pytest

from simulator.findings import KINDS
from tests.peers import numba_cuda_suite as suite
from tests.peers.numba_cuda_suite import (
    EXCLUDED,
    MOST_EXCLUDED,
    Result,
    Way,
    exclusions,
    expected,
    judged,
    run_module,
    score,
    table,
)

TEST = "numba.cuda.tests.cudapy.test_idiv::TestCudaIDiv::test_inplace_div"


def test_every_exclusion_names_tests_and_a_reason_of_its_own() -> None:
    ids = suite.tests()
    assert len(ids) == len(set(ids)) == 943
    assert len(exclusions(ids)) <= MOST_EXCLUDED
    reasons = [entry["reason"] for entry in tomllib.loads(EXCLUDED.read_text(encoding="utf-8"))["excluded"]]
    assert len(reasons) == len(set(reasons))


def test_a_pattern_that_fits_nothing_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="no test is called"):
        exclusions([TEST])


def test_every_expected_finding_names_kinds_and_a_reason() -> None:
    kinds = expected(suite.tests())
    assert kinds and all(set(each) <= set(KINDS) and each for each in kinds.values())


RACE = ("race-global",)


@pytest.mark.parametrize(
    ("outcome", "kinds", "expects", "becomes"),
    [
        ("failed", RACE, RACE, "found"),
        ("failed", RACE, (), "failed"),
        ("failed", ("deadlock", *RACE), RACE, "failed"),
        ("failed", (), RACE, "failed"),
        ("passed", (), RACE, "failed"),
        ("passed", (), (), "passed"),
    ],
)
def test_only_the_errors_that_are_listed_may_be_found(
    outcome: str, kinds: tuple[str, ...], expects: tuple[str, ...], becomes: str
) -> None:
    assert judged(Result(TEST, outcome, kinds=kinds), expects).outcome == becomes


RACES = "numba.cuda.tests.cudapy.test_warp_ops::TestCudaWarpOperations::test_useful_syncwarp"


def test_a_check_of_the_suite_tells_what_it_finds() -> None:
    (result,) = run_module([RACES], Way("ours", ("--cuda-simulator=check",)))
    assert (result.outcome, result.kinds) == ("failed", RACE)
    assert judged(result, expected(suite.tests())[RACES]).outcome == "found"


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ([{"start": "a"}, {"end": "a", "outcome": "passed", "reason": ""}], [("a", "passed", "")]),
        ([{"start": "a"}], [("a", "failed", "the process died")]),
        ([{"module": "m", "outcome": "skipped", "reason": "no"}], [("a", "skipped", "no"), ("b", "skipped", "no")]),
        ([], []),
    ],
)
def test_what_a_worker_says_becomes_results(messages: list[dict[str, str]], found: list[tuple[str, str, str]]) -> None:
    read, write = os.pipe()
    os.write(write, "".join(json.dumps(message) + "\n" for message in messages).encode())
    os.close(write)
    results = list(suite.watched(read, ["a", "b"], limit=60))
    os.close(read)
    assert [(result.test, result.outcome, result.reason) for result in results] == found


def test_a_hang_costs_the_test_that_hangs() -> None:
    read, write = os.pipe()
    os.write(write, b'{"start": "b"}\n')
    before = time.monotonic()
    (result,) = suite.watched(read, ["a", "b"], limit=0.2)
    assert time.monotonic() - before < 30
    os.close(write)
    os.close(read)
    assert (result.test, result.outcome) == ("b", "failed")
    assert "longer than 0.2 s" in result.reason


def test_a_worker_that_cannot_run_fails_its_tests() -> None:
    (result,) = run_module([TEST], Way("ours", ("--no-such-option",)))
    assert result.outcome == "failed"


def test_ours_passes_a_test_of_the_suite() -> None:
    (result,) = run_module([TEST], Way("ours"))
    assert (result.test, result.outcome, result.reason) == (TEST, "passed", "")


def test_the_score_counts_what_ends_as_on_a_gpu() -> None:
    results = [
        Result(f"numba.cuda.tests.m.t::T::{number}", outcome)
        for number, outcome in enumerate(["passed", "xfailed", "found", "failed", "skipped", "excluded"])
    ]
    assert score(results) == "3 of 5 (60.0 %), 1 of 6 excluded"
    assert table(results).splitlines()[-1].split() == ["all", *"111111"]
