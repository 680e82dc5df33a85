"""Which kernels are measured: launches that the library makes, and the CUDA C++ that does the same work.

A case is a launch for arrays of one shape and dtype, built by the library's own functions, so that what is compiled is
the kernel as it would be specialised.  Kernels that keep rows in registers have a twin, which gets the tile that the
plan chose; the textbook's kernels are there to be read, and have none.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from unittest import mock

import numpy as np

from numba_norms import builtin
from numba_norms.across import launch_layer_norm_across, launch_rms_norm_across
from numba_norms.arrays.dtypes import NAMED
from numba_norms.arrays.layouts import Channels
from numba_norms.batch_norm import normalising_launch
from numba_norms.gpu import compiled
from numba_norms.launch import Launch
from tests.machine_code.sass import Figures, read
from tests.machine_code.twins import Twin

CAPABILITIES = ((8, 0), (9, 0), (10, 0))
"""A100; H100 and H200; B200."""

ROWS = 2


@dataclass(frozen=True)
class Case:
    """A kernel to measure."""

    name: str
    """As in the table"""
    launch: Callable[[], Launch]
    twin: Twin | None = None
    full: bool = False
    """Measured by the long tests and for the table only"""


def measure(case: Case, capability: tuple[int, int]) -> Figures:
    """The figures of our kernel on one architecture."""
    launch = case.launch()
    types = tuple(map(compiled.type_of, launch.args))
    with mock.patch.dict(os.environ, NUMBA_NORMS_CACHE_DIR=""):  # not what an earlier process has kept
        (figures,) = read(compiled.kernel(launch.kernel, types, capability).cubin).values()
    return figures


# -- norms of rows ---------------------------------------------------------------------------------------------------


def norm(
    operation: str, columns: int, dtype: str = "float16", *, parameter: str = "", path: str = "auto", full: bool = False
) -> Case:
    """A launch of ``numba_norms.builtin`` for rows of so many columns.

    ``parameter`` is the dtype of weight and bias, if it is not that of x.
    """
    launch = partial(_norm_launch, operation, columns, dtype, parameter or dtype, path)
    form = launch().form
    name = f"{operation}, {columns} × {dtype}" + (f", parameters {parameter}" if parameter else "")
    if form is None or form.tile is None:
        return Case(f"{name}, {path}", launch, full=full)
    template = operation.removeprefix("add_").removesuffix("_welford") + ("_stream" if form.path == "stream" else "")
    twin = Twin(template, form.tile, dtype, parameter or dtype, operation.startswith("add_"), columns)
    return Case(f"{name}, {form.path}", launch, twin, full)


def _norm_launch(operation: str, columns: int, dtype: str, parameter: str, path: str) -> Launch:
    launch: Launch = getattr(builtin, operation)((ROWS, columns), dtype, path=path)
    args = (
        arg.astype(NAMED[parameter]) if name in ("weight", "bias") else arg
        for name, arg in zip(launch.names, launch.args, strict=True)
    )
    return replace(launch, args=tuple(args))


# -- other kernels ---------------------------------------------------------------------------------------------------


def _across(operation: str, columns: int, variance: str = "two-pass") -> Launch:
    """Rows that lie side by side in memory: [1, D, inner]."""
    x = np.zeros((1, columns, 64), np.float16)
    parameter, statistic = np.zeros(columns, np.float16), np.zeros((1, 64), np.float32)
    if operation == "rms_norm":
        return launch_rms_norm_across(x, parameter, x, statistic, 1e-6)
    return launch_layer_norm_across(x, parameter, parameter, x, statistic, statistic, 1e-5, variance=variance)


def _normalising(shape: tuple[int, ...], training: bool) -> Launch:
    """The second launch of BatchNorm in training, or the only one in inference."""
    channels = Channels.of(x := np.zeros(shape, np.float16), 1)
    blocks, vector = channels.blocks(x), np.zeros(channels.count, np.float32)
    return normalising_launch(blocks, vector, vector, vector, vector, y=blocks, eps=1e-5, training=training)


# -- the list --------------------------------------------------------------------------------------------------------


def cases() -> list[Case]:
    """All that is measured."""
    images, table = (8, 16, 32, 32), (256, 64)
    return [
        norm("rms_norm", 128),
        norm("rms_norm", 768),
        norm("rms_norm", 1024, full=True),
        norm("rms_norm", 4096),
        norm("rms_norm", 4096, "bfloat16"),
        norm("rms_norm", 4096, "float32", full=True),
        norm("rms_norm", 4096, parameter="float32", full=True),
        norm("rms_norm", 5120),
        norm("rms_norm", 8192, full=True),
        norm("rms_norm", 16384),
        norm("rms_norm", 131072),
        norm("layer_norm", 128, full=True),
        norm("layer_norm", 768),
        norm("layer_norm", 4096),
        norm("layer_norm", 4096, "bfloat16", full=True),
        norm("layer_norm", 4096, "float32", full=True),
        norm("layer_norm", 4096, parameter="float32", full=True),
        norm("layer_norm", 5120, full=True),
        norm("layer_norm", 16384, full=True),
        norm("layer_norm", 131072),
        norm("add_rms_norm", 4096),
        norm("add_rms_norm", 131072, full=True),
        norm("add_layer_norm", 4096),
        norm("add_layer_norm", 131072, full=True),
        norm("rms_norm", 4096, path="strided"),
        norm("layer_norm", 4096, path="strided", full=True),
        norm("layer_norm_welford", 4096, path="strided", full=True),
        norm("add_rms_norm", 4096, path="strided", full=True),
        norm("add_layer_norm", 4096, path="strided", full=True),
        Case("rms_norm, 128 × float16, across", partial(_across, "rms_norm", 128)),
        Case("rms_norm, 4096 × float16, across", partial(_across, "rms_norm", 4096), full=True),
        Case("layer_norm, 128 × float16, across", partial(_across, "layer_norm", 128), full=True),
        Case("layer_norm, 4096 × float16, across", partial(_across, "layer_norm", 4096), full=True),
        Case("batch_norm statistics, float16, planes", partial(builtin.batch_norm, images, "float16"), full=True),
        Case("batch_norm statistics, float16, tiles", partial(builtin.batch_norm, table, "float16"), full=True),
        Case("batch_norm training, float16, planes", partial(_normalising, images, True), full=True),
        Case("batch_norm inference, float16, planes", partial(_normalising, images, False), full=True),
        Case("batch_norm training, float16, tiles", partial(_normalising, table, True), full=True),
    ]
