"""Anything at all for the functions of ``numba_norms``: our own answer, and outputs that are whole or as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

import numba_norms
from tests.fuzz.junk import answer, anything, arrays, fuzz, numbers, refused, texts

ROWS = st.sampled_from(("f2", "f4", "f8")).map(lambda code: np.arange(12, dtype=code).reshape(3, 4))
mostly_rows = st.one_of(ROWS, ROWS, arrays(), anything)
maybe = st.one_of(st.none(), numbers, arrays(), anything, texts)
NAMES = {
    "rms_norm": (1, ("weight", "eps", "axis", "weight_offset", "rounding", "out", "return_stats")),
    "layer_norm": (1, ("weight", "bias", "eps", "axis", "variance", "out", "return_stats")),
    "add_rms_norm": (
        2,
        ("weight", "eps", "axis", "weight_offset", "rounding", "out", "residual_dtype", "return_stats"),
    ),
    "add_layer_norm": (2, ("weight", "bias", "eps", "axis", "variance", "out", "residual_dtype", "return_stats")),
    "batch_norm": (3, ("weight", "bias", "training", "momentum", "eps", "channel_axis", "out", "return_stats")),
    "moments": (1, ("axis",)),
}
"""Function -> how many arrays it takes, and the names of what else it takes."""


@fuzz(150, st.sampled_from(sorted(NAMES)), st.data())
def test_norms(name: str, data: Any) -> None:
    count, options = NAMES[name]
    args = [data.draw(mostly_rows) for _ in range(count)]
    named = data.draw(st.dictionaries(st.sampled_from(options), maybe, max_size=2))
    if name == "batch_norm":
        named.setdefault("training", True)
    answer(lambda: getattr(numba_norms, name)(*args, **named))


@fuzz(60, st.sampled_from(("rms_norm", "layer_norm")), st.data())
def test_an_output_is_written_whole_or_not_at_all(name: str, data: Any) -> None:
    out = np.full((3, 4), 77, data.draw(st.sampled_from(("f2", "f4", "f8", "i4"))))
    _, options = NAMES[name]
    options = [option for option in options if option != "out"]
    named = data.draw(st.dictionaries(st.sampled_from(options), maybe, max_size=2))
    x = data.draw(mostly_rows)
    found = answer(lambda: getattr(numba_norms, name)(x, out=out, **named))
    assert (out == 77).all() if refused(found) else not (out == 77).any()


@fuzz(
    60, st.one_of(anything, st.lists(numbers, max_size=3)), maybe, st.one_of(anything, st.lists(arrays(), max_size=3))
)
def test_merged_moments(counts: Any, means: Any, m2s: Any) -> None:
    answer(lambda: numba_norms.merge_moments(counts, means, m2s))
    answer(lambda: numba_norms.merge_moments([3, 4], means, m2s))
    answer(lambda: numba_norms.merge_moments([3, 4], [np.float32(1), np.float32(2)], m2s))


operations = st.one_of(st.sampled_from([getattr(numba_norms, name) for name in sorted(NAMES)]), anything)


@fuzz(60, operations, st.lists(mostly_rows, max_size=3), maybe, maybe)
def test_plans_and_explanations(operation: Any, args: list[Any], axis: Any, capability: Any) -> None:
    answer(lambda: numba_norms.plan(operation, *args))
    answer(lambda: numba_norms.plan(operation, *args, axis=axis))
    answer(lambda: numba_norms.explain(operation, *args, axis=axis))
    answer(lambda: numba_norms.explain(operation, *args, capability=capability))


@fuzz(80, mostly_rows, st.one_of(texts, anything))
def test_the_reference(x: Any, kind: Any) -> None:
    """What is no array and no kind of norm; shapes and axes are NumPy's own business there."""
    answer(lambda: numba_norms.reference.widen(x))
    answer(lambda: numba_norms.reference.steps(np.ones((3, 4)), kind))
