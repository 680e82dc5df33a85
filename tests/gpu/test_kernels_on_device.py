"""The public functions on a card, against float64 and against the simulator, with the one table of tolerances.

The card may fuse a multiply and an add into one rounding, and its reciprocal square root is within 2 units in the last
place of float32 instead of half a unit: both are inside what the table allows for statistics.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import numba_norms
from numba_norms import reference
from tests.gpu.card import get, put
from tests.gpu.cases import PUBLIC_COLUMNS
from tests.tolerances import DTYPES, FLOAT32, NAMES, RESULT, assert_close, same_bits

Measurements = list[dict[str, Any]]

NORMS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "rms_norm": (numba_norms.rms_norm, reference.rms_norm),
    "layer_norm": (numba_norms.layer_norm, reference.layer_norm),
    "layer_norm_welford": (
        lambda x, *parameters, **options: numba_norms.layer_norm(x, *parameters, variance="welford", **options),
        reference.layer_norm,
    ),
}


def parameters(norm: str, columns: int, numbers: np.random.Generator) -> list[Any]:
    """Weight, and for LayerNorm a bias, in float32: about 1, as the table of tolerances asks."""
    count = 1 if norm == "rms_norm" else 2
    return [numbers.standard_normal(columns).astype(np.float32) for _ in range(count)]


@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
@pytest.mark.parametrize("norm", NORMS)
def test_against_float64(norm: str, dtype: np.dtype[Any], measurements: Measurements) -> None:
    function, oracle = NORMS[norm]
    for columns, rows in itertools.product(PUBLIC_COLUMNS, (1, 33, 600)):
        numbers = np.random.default_rng(columns * 5000 + rows)
        x = numbers.standard_normal((rows, columns)).astype(dtype)
        extra = parameters(norm, columns, numbers)
        y = get(function(put(x), *map(put, extra)))
        expected = oracle(x, *extra, eps=1e-6 if norm == "rms_norm" else 1e-5)
        error = float(np.max(np.abs(y.astype(np.float64) - expected) / (1 + np.abs(expected))))
        measurements.append(
            {"test": "float64", "norm": norm, "dtype": dtype.name, "rows": rows, "columns": columns, "error": error}
        )
        assert y.dtype == x.dtype
        assert_close(y, expected, RESULT[dtype])


@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
@pytest.mark.parametrize("norm", NORMS)
def test_against_the_simulator(norm: str, dtype: np.dtype[Any], measurements: Measurements) -> None:
    """The same kernel object on both: how many results differ at all is measured, how far they differ is bounded."""
    function, _ = NORMS[norm]
    numbers = np.random.default_rng(7)
    x = numbers.standard_normal((16, 1000)).astype(dtype)
    extra = parameters(norm, 1000, numbers)
    on_card = get(function(put(x), *map(put, extra))).astype(np.float64)
    simulated = function(x, *extra).astype(np.float64)
    measurements.append(
        {
            "test": "simulator", "norm": norm, "dtype": dtype.name, "elements": x.size,
            "differ": int(np.count_nonzero(on_card != simulated)),
            "error": float(np.max(np.abs(on_card - simulated))),
        }
    )  # fmt: skip
    both = RESULT[dtype]  # each is within it of the truth
    np.testing.assert_allclose(on_card, simulated, rtol=2 * both.rtol, atol=2 * both.atol)


@pytest.mark.parametrize("norm", NORMS)
def test_two_runs_are_equal_and_rows_independent(norm: str) -> None:
    function, _ = NORMS[norm]
    x = put(np.random.default_rng(3).standard_normal((512, 4097)).astype(np.float32))
    first, second, alone = (get(function(rows)) for rows in (x, x, x[100:101]))
    assert same_bits(first, second)
    assert same_bits(first[100:101], alone)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("view", ["x[:, ::8]", "x[1:]", "x.T", "broadcast"])
def test_views(norm: str, view: str) -> None:
    import cupy

    function, oracle = NORMS[norm]
    full = np.random.default_rng(5).standard_normal((136, 136)).astype(np.float32)
    views: dict[str, Callable[[Any, Any], Any]] = {
        "x[:, ::8]": lambda x, xp: x[:, ::8],
        "x[1:]": lambda x, xp: x[1:],
        "x.T": lambda x, xp: x.T,
        "broadcast": lambda x, xp: xp.broadcast_to(x[0], (40, 136)),
    }
    y = cupy.asnumpy(function(views[view](cupy.asarray(full), cupy)))
    expected = oracle(views[view](full, np))
    assert_close(y, expected, RESULT[FLOAT32])


def test_runs_on_the_current_stream() -> None:
    """Between two slow operations of a stream that does not wait for the default one: order is all that helps."""
    import cupy

    x = cupy.ones((4096, 4096), dtype=cupy.float32)
    expected = cupy.asnumpy(numba_norms.rms_norm(x * 0 + 3))  # compiled and warm
    with cupy.cuda.Stream(non_blocking=True) as stream:
        y = cupy.zeros_like(x)
        for _ in range(20):
            y += x
        y[:] = 3
        numba_norms.rms_norm(y, out=y)
        z = y + 0
        stream.synchronize()
    np.testing.assert_array_equal(cupy.asnumpy(z), expected)


def test_zero_rows_and_poisoned_rows() -> None:
    import cupy

    assert numba_norms.layer_norm(cupy.empty((0, 8), dtype=cupy.float16)).shape == (0, 8)
    x = cupy.ones((3, 8), dtype=cupy.float32)
    x[1, 3] = cupy.nan
    y = cupy.asnumpy(numba_norms.rms_norm(x))
    assert np.isnan(y[1]).all()
    assert np.isfinite(y[[0, 2]]).all()
