"""Without any one of its barriers, a kernel of several warps has a race, and every order of execution tells it."""

import numpy as np
import pytest

from numba_norms import builtin
from numba_norms.across import launch_layer_norm_across, launch_rms_norm_across
from numba_norms.batch_norm import statistics_launch
from numba_norms.moments import launch as launch_moments
from simulator.frontend import lower_kernel
from simulator.machine import launch as run_on_machine
from simulator.observers.races import Races
from tests.numba_norms.paths import NORMS, Case
from tests.numba_norms.schedules import without_barrier

ORDERS = (
    {},
    {"values": "vector"},
    *({"schedule": "splits", "order": order} for order in ("first", "last", "round-robin", "random")),
)


def numbers(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def rows(norm, path, columns):
    return lambda: Case.random(norm, 2, columns, "float16").launch(path)


def rms_norm_across(columns):
    x = numbers(1, columns, 32)
    return launch_rms_norm_across(x, numbers(columns), np.empty_like(x), numbers(1, 32), 1e-6)


def layer_norm_across(columns, variance):
    x = numbers(1, columns, 32)
    arrays = np.empty_like(x), numbers(1, 32), numbers(1, 32)
    return launch_layer_norm_across(x, numbers(columns), numbers(columns), *arrays, 1e-5, variance=variance)


def batch_norm(*shape):
    mean, rstd, old_mean, old_var = (np.ones(shape[1], np.float32) for _ in range(4))
    return statistics_launch(numbers(*shape), mean, rstd, (old_mean, old_var), 0.1, 1e-5)


def moments():
    return launch_moments(numbers(2, 1000), *(np.empty(2, np.float32) for _ in range(2)), 128)


LAUNCHES = {
    **{
        f"{norm}-{path}-{columns}": rows(norm, path, columns)
        for norm in NORMS
        for path, columns in (("strided", 1000), ("vector", 4096), ("stream", 1000))
    },
    "layer_norm_welford": lambda: builtin.layer_norm_welford((2, 1000), "float16", 128),
    "rms_norm-across": lambda: rms_norm_across(300),
    "layer_norm-across": lambda: layer_norm_across(48, "two-pass"),
    "layer_norm_welford-across": lambda: layer_norm_across(300, "welford"),
    "batch_norm-planes": lambda: batch_norm(4, 3, 500),
    "batch_norm-tiles": lambda: batch_norm(64, 96, 1),
    "moments": moments,
}


def races(program, launch, **way):
    """The racing pairs of one run."""
    args = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in launch.args]
    detector = Races()
    run_on_machine(program, (launch.grid, 1, 1), (launch.block, 1, 1), args, observers=(detector,), **way)
    return detector.faults()


@pytest.mark.parametrize("build", LAUNCHES.values(), ids=LAUNCHES)
def test_a_dropped_barrier_is_a_race(build):
    launch = build()
    assert launch.block > 32
    program = lower_kernel(launch.kernel, launch.args)
    barriers = [op for op in program.ops() if op.kind == "bar"]
    assert barriers
    for way in ORDERS:
        assert not races(program, launch, **way)
        for number, barrier in enumerate(barriers):
            found = races(without_barrier(program, number), launch, **way)
            assert found, f"without the barrier on line {barrier.pos.line} nothing is told, {way}"
            assert {fault.kind for fault in found} == {"race-shared"}
