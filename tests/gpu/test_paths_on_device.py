"""Every path on a card, across and BatchNorm too, against float64; memory around the results stays as it is."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import numba_norms
from numba_norms import across, reference
from numba_norms.arrays import Array
from numba_norms.arrays.places import cupy_place
from tests.gpu import cases
from tests.gpu.card import get, put, run
from tests.gpu.cases import Shape
from tests.numba_norms.paths import NORMS, Case
from tests.numba_norms.test_paths import check
from tests.tolerances import (
    COMPUTE,
    DTYPES,
    FLOAT16,
    FLOAT32,
    NAMES,
    RESULT,
    assert_close,
    between,
    condition,
    same_bits,
)

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)


@pytest.mark.parametrize("shape", cases.shapes(), ids=str)
def test_a_path_against_float64(shape: Shape) -> None:
    case = shape.case
    launch = run(case, shape.path, threads=shape.threads)
    assert launch.form is not None and launch.form.path == shape.path
    check(case)


@pytest.mark.parametrize("shape", [s for s in cases.shapes() if s.columns in (129, 64, 1032, 1030)], ids=str)
def test_the_simulator_foretells_the_card(shape: Shape, measurements: list[dict[str, Any]]) -> None:
    """How many results differ at all is measured, how far they differ is bounded."""
    on_card, simulated = shape.case, shape.case
    run(on_card, shape.path, threads=shape.threads)
    simulated.run(shape.path, threads=shape.threads)
    differ = np.count_nonzero(on_card.y.astype(np.float64) != simulated.y.astype(np.float64))
    measurements.append({"test": "simulator", "shape": str(shape), "elements": on_card.y.size, "differ": int(differ)})
    both = between(RESULT[on_card.y.dtype])
    assert_close(on_card.y, simulated.y.astype(np.float64), both, condition(on_card.summed, on_card.eps))
    if shape.norm.startswith("add_"):
        assert same_bits(on_card.h, simulated.h)


GUARD = 64
"""Elements around an array that nobody may touch."""


@pytest.mark.parametrize(("path", "rows", "columns"), [("strided", 3, 31), ("vector", 19, 72), ("stream", 3, 1032)])
@pytest.mark.parametrize("norm", NORMS)
def test_nothing_is_written_beside_the_results(norm: str, path: str, rows: int, columns: int) -> None:
    case = Case.random(norm, rows, columns, FLOAT16)
    around: dict[str, Any] = {}

    def guarded(name: str) -> np.ndarray:
        host = getattr(case, name)
        around[name] = put(np.full(2 * GUARD + host.size, -3, host.dtype))
        return Array.of(around[name][GUARD:-GUARD].reshape(host.shape)).memory

    inputs = {name: put(getattr(case, name)) for name in ("x", "update", "weight", "bias")}
    memory = {name: Array.of(array).memory for name, array in inputs.items()}
    results = {name: guarded(name) for name in ("h", "y", "mean", "rstd")}
    dataclasses.replace(case, **memory, **results).launch(path).run(cupy_place(0))
    for name, array in around.items():
        host = get(array)
        assert (host[:GUARD] == -3).all() and (host[-GUARD:] == -3).all(), name
        getattr(case, name)[...] = host[GUARD:-GUARD].reshape(getattr(case, name).shape)
    check(case)


@pytest.mark.parametrize(("path", "columns"), [("strided", 129), ("vector", 64), ("vector", 4096), ("stream", 16384)])
@pytest.mark.parametrize("norm", NORMS)
def test_runs_repeat_and_rows_do_not_depend_on_each_other(norm: str, path: str, columns: int) -> None:
    many = Case.random(norm, 999, columns, FLOAT16)
    names = [field.name for field in dataclasses.fields(many) if field.name != "norm"]
    again = dataclasses.replace(many, **{name: getattr(many, name).copy() for name in names})
    rows = [name for name in names if name not in ("weight", "bias")]
    alone = dataclasses.replace(many, **{name: getattr(many, name)[500:501].copy() for name in rows})
    for case in (many, again, alone):
        run(case, path)
    assert same_bits(many.y, again.y)
    assert same_bits(many.y[500:501], alone.y)


@pytest.mark.parametrize("path", ["strided", "vector", "stream"])
@pytest.mark.parametrize("norm", NORMS)
def test_a_bad_value_stays_in_its_row(norm: str, path: str) -> None:
    case = Case.random(norm, 9, 72, FLOAT16)
    case.x[4, 3] = np.nan
    run(case, path)
    assert np.isnan(case.y[4]).all()
    assert np.isfinite(np.delete(case.y, 4, 0)).all()


@pytest.mark.parametrize("columns", [64, 4096, 16384])
@pytest.mark.parametrize("in_place", [False, True])
def test_slices_of_a_fused_projection(columns: int, in_place: bool) -> None:
    """Rows that lie apart are read and written where they are; what lies between them is not touched."""
    qkv = np.random.default_rng(columns).standard_normal((37, 3 * columns)).astype(np.float16)
    there = put(qkv)
    k = there[:, columns : 2 * columns]
    y = numba_norms.rms_norm(k, out=k if in_place else None)
    expected = reference.rms_norm(qkv[:, columns : 2 * columns])
    assert_close(get(y), expected, RESULT[FLOAT16])
    back = get(there)
    assert same_bits(back[:, :columns], qkv[:, :columns]) and same_bits(back[:, 2 * columns :], qkv[:, 2 * columns :])


# -- across ----------------------------------------------------------------------------------------------------------

ACROSS = ((1, 5, 1000), (3, 64, 31), (2, 256, 64), (1, 1000, 129), (2, 4096, 40))


@pytest.mark.parametrize("sizes", ACROSS, ids=str)
@every_dtype
def test_across_against_float64(dtype: np.dtype[Any], sizes: tuple[int, int, int]) -> None:
    outer, columns, inner = sizes
    draw = np.random.default_rng(columns).standard_normal
    x, weight, bias = (draw(shape).astype(dtype) for shape in (sizes, columns, columns))
    native = [put(array) for array in (x, weight, bias, np.full_like(x, -7), np.full_like(x, -7))]
    statistics = [put(np.full((outer, inner), -7, COMPUTE[dtype])) for _ in range(3)]
    seen = [Array.of(array).memory for array in (*native, *statistics)]
    place = cupy_place(0)
    across.launch_rms_norm_across(seen[0], seen[1], seen[3], seen[5], 1e-6).run(place)
    across.launch_layer_norm_across(*seen[:3], seen[4], *seen[6:], 1e-5).run(place)
    rms, layer = reference.rms_norm(x, weight, axis=1), reference.layer_norm(x, weight, bias, axis=1)
    tolerance = between(RESULT[dtype])  # few threads share a token: a chain of additions is longer than in rows
    assert_close(get(native[3]), rms, tolerance, condition(x, 1e-6, 1))
    assert_close(get(native[4]), layer, tolerance, condition(x, 1e-5, 1))


@pytest.mark.parametrize(("shape", "axis"), [((768, 100), 0), ((4, 64, 10, 15), 1), ((4, 6, 8, 10), (1, 2))])
def test_public_functions_along_any_axis(shape: tuple[int, ...], axis: Any) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float16)
    assert_close(get(numba_norms.rms_norm(put(x), axis=axis)), reference.rms_norm(x, axis=axis), RESULT[FLOAT16])
    y, mean, rstd = numba_norms.layer_norm(put(x), axis=axis, return_stats=True)
    assert_close(get(y), reference.layer_norm(x, axis=axis), RESULT[FLOAT16])
    assert mean.shape == rstd.shape == x.astype(np.float32).mean(axis=axis, keepdims=True).shape


# -- BatchNorm and moments -------------------------------------------------------------------------------------------

IMAGES = np.random.default_rng(2).standard_normal((8, 20, 9, 11))


@pytest.mark.parametrize("layout", ["[N, C]", "[N, C, H, W]", "channels last", "one channel"])
@every_dtype
def test_batch_norm(dtype: np.dtype[Any], layout: str) -> None:
    made = {"[N, C]": IMAGES[:, :, 0, 0], "channels last": IMAGES.transpose(0, 2, 3, 1), "one channel": IMAGES[:, :1]}
    x = np.ascontiguousarray(made.get(layout, IMAGES)).astype(dtype)
    axis = x.ndim - 1 if layout == "channels last" else 1
    others = tuple(a for a in range(x.ndim) if a != axis)
    channels, wide = x.shape[axis], x.astype(np.float64)
    compute = COMPUTE[dtype]
    draw = np.random.default_rng(3).standard_normal
    weight, bias = (draw(channels).astype(compute) for _ in range(2))
    running = [put(np.zeros(channels, compute)), put(np.ones(channels, compute))]
    options = {"channel_axis": axis}
    y, _, _ = numba_norms.batch_norm(
        put(x), *running, put(weight), put(bias), training=True, momentum=0.5, return_stats=True, **options
    )
    shape = [channels if a == axis else 1 for a in range(x.ndim)]
    mean, var = wide.mean(others, keepdims=True), wide.var(others, keepdims=True)
    expected = (wide - mean) / np.sqrt(var + 1e-5) * weight.reshape(shape) + bias.reshape(shape)
    assert_close(get(y), expected, RESULT[dtype], 4.0)
    count = x.size // channels
    np.testing.assert_allclose(get(running[0]), mean.ravel() / 2, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(get(running[1]), 0.5 + var.ravel() * count / (count - 1) / 2, rtol=1e-5)
    inferred = numba_norms.batch_norm(put(x), *running, training=False, **options)
    centre, spread = (get(array).astype(np.float64).reshape(shape) for array in running)
    assert_close(get(inferred), (wide - centre) / np.sqrt(spread + 1e-5), RESULT[dtype], 4.0)


def test_moments_of_rows_and_their_merge() -> None:
    x = (np.random.default_rng(4).standard_normal((7, 5000)) + 100).astype(np.float32)
    found = numba_norms.moments(put(x))
    assert found.count == 5000
    np.testing.assert_allclose(get(found.mean)[:, 0], x.astype(np.float64).mean(1), rtol=1e-6)
    np.testing.assert_allclose(get(found.m2)[:, 0], x.astype(np.float64).var(1) * 5000, rtol=1e-4)


def test_a_large_mean_costs_no_precision() -> None:
    for path in ("strided", "vector", "stream"):
        case = Case.random("layer_norm", 2, 4096, FLOAT32)
        case.x += 10_000
        run(case, path)
        check(case)
