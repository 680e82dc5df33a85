"""The kernels on every schedule: one result, and not one barrier too many."""

import numpy as np
import pytest

from numba_norms import builtin
from numba_norms.moments import launch as launch_moments
from simulator.frontend import lower_kernel
from tests.numba_norms.schedules import ORDERS, results, without_barrier
from tests.tolerances import same_bits


def moments(shape, dtype, threads):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    return launch_moments(x, np.empty(shape[0], np.float32), np.empty(shape[0], np.float32), threads)


BUILTIN = (
    builtin.rms_norm,
    builtin.layer_norm,
    builtin.layer_norm_welford,
    builtin.add_rms_norm,
    builtin.add_layer_norm,
)
KERNELS = (*BUILTIN, moments)
every_kernel = pytest.mark.parametrize("build", KERNELS, ids=lambda build: build.__name__)


@pytest.mark.parametrize(("columns", "threads"), [(1, 32), (37, 4), (100, 32), (129, 64), (1000, 256)])
@every_kernel
def test_every_order_gives_the_same_bits(build, columns, threads):
    launch = build((2, columns), "float16", threads)
    program = lower_kernel(launch.kernel, launch.args)
    expected = results(program, launch)
    assert all(map(same_bits, expected, results(program, launch, values="vector")))
    for order, seed in ORDERS:
        found = results(program, launch, schedule="splits", order=order, seed=seed)
        assert all(map(same_bits, expected, found)), (order, seed)


@pytest.mark.parametrize(
    ("build", "barriers"), list(zip(KERNELS, (2, 4, 2, 2, 4, 2), strict=True)), ids=lambda v: getattr(v, "__name__", "")
)
@pytest.mark.parametrize("threads", [64, 256])
def test_every_barrier_is_needed(build, barriers, threads):
    launch = build((1, 1000), "float32", threads)
    program = lower_kernel(launch.kernel, launch.args)
    assert sum(op.kind == "bar" for op in program.ops()) == barriers
    expected = results(program, launch)
    # moments has thread 0 write what thread 0 computed: the barrier before it is there for kernels in which all read
    needed = range(1) if build is moments else range(barriers)
    for number in needed:
        cut = without_barrier(program, number)
        found = (results(cut, launch, schedule="splits", order=order, seed=seed) for order, seed in ORDERS)
        assert any(not all(map(same_bits, expected, arrays)) for arrays in found), f"barrier {number} is idle"


@pytest.mark.parametrize("threads", [1, 2, 4, 8, 32])
@every_kernel
def test_one_warp_needs_no_barrier(build, threads):
    launch = build((1, 16), "float32", threads)
    assert not any(op.kind == "bar" for op in lower_kernel(launch.kernel, launch.args).ops())
