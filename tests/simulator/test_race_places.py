"""Where a missing barrier belongs: each mend is applied by hand in a twin, and the twin is clean."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import cuda, float32

from simulator import simulate
from tests.simulator.running import line_of

THREADS = 64


@cuda.jit
def tree(x):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s[t], s[t + 64] = x[t], x[t]
    cuda.syncthreads()
    half = 64
    while half > 0:
        if t < half:  # branch
            v = s[t] + s[t + half]  # reads
            s[t] = v  # writes
        half //= 2
    x[t] = 0 if t else s[0]


@cuda.jit
def tree_mended(x):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s[t], s[t + 64] = x[t], x[t]
    cuda.syncthreads()
    half = 64
    while half > 0:
        if t < half:
            v = s[t] + s[t + half]
            s[t] = v
        cuda.syncthreads()
        half //= 2
    x[t] = 0 if t else s[0]


@cuda.jit
def up_sweep(x):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s[t], s[t + 64] = x[t], x[t]
    cuda.syncthreads()
    step, left = 1, 64
    while left > 0:
        if t < left:  # branch
            s[step * (2 * t + 2) - 1] += s[step * (2 * t + 1) - 1]  # reads  # writes
        step *= 2
        left >>= 1
    cuda.syncthreads()
    x[t] = s[2 * t + 1]


@cuda.jit
def up_sweep_mended(x):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s[t], s[t + 64] = x[t], x[t]
    cuda.syncthreads()
    step, left = 1, 64
    while left > 0:
        if t < left:
            s[step * (2 * t + 2) - 1] += s[step * (2 * t + 1) - 1]
        cuda.syncthreads()
        step *= 2
        left >>= 1
    cuda.syncthreads()
    x[t] = s[2 * t + 1]


@cuda.jit
def scan(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    for k in range(6):
        if t >= 1 << k:  # branch
            s[t] += s[t - (1 << k)]  # reads  # writes
    cuda.syncthreads()
    x[t] = s[t]


@cuda.jit
def scan_mended(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    for k in range(6):
        more = float32(0)
        if t >= 1 << k:
            more = s[t - (1 << k)]
        cuda.syncthreads()
        if t >= 1 << k:
            s[t] += more
        cuda.syncthreads()
    cuda.syncthreads()
    x[t] = s[t]


@cuda.jit
def arms(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t < 32:  # branch
        s[t] = x[t]  # writes
    else:
        x[t] = s[t - 32]  # reads


@cuda.jit
def arms_mended(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t < 32:
        s[t] = x[t]
    cuda.syncthreads()
    if t >= 32:
        x[t] = s[t - 32]


@cuda.jit
def one_arm(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t < 48:  # branch
        s[t] = x[t]  # writes
        x[t] = s[47 - t]  # reads


@cuda.jit
def one_arm_mended(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t < 48:
        s[t] = x[t]
    cuda.syncthreads()
    if t < 48:
        x[t] = s[47 - t]


@cuda.jit
def behind_a_guard(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t >= x.size:
        return
    s[t] = x[t]  # writes
    x[t] = s[63 - t]  # reads


@cuda.jit
def behind_a_guard_mended(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t >= x.size:
        return
    s[t] = x[t]
    cuda.syncthreads()
    x[t] = s[63 - t]


@cuda.jit
def after_two_branches(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t < 32:  # branch
        s[t] = x[t]  # writes
    if t > 40:  # other
        x[t] = s[t - 40]  # reads


@cuda.jit
def after_two_branches_mended(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t < 32:
        s[t] = x[t]
    cuda.syncthreads()
    if t > 40:
        x[t] = s[t - 40]


@cuda.jit
def loop_in_a_branch(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    if t < 48:  # branch
        for k in range(5):
            if (t + k) % 2:  # inner
                s[t] = s[(t + 1) % 48]  # reads  # writes
    cuda.syncthreads()
    x[t] = s[t]


@cuda.jit
def loop_in_a_branch_mended(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    for k in range(5):
        if t < 48:
            if (t + k) % 2:
                s[t] = s[(t + 1) % 48]
        cuda.syncthreads()
    cuda.syncthreads()
    x[t] = s[t]


@cuda.jit
def uneven_rounds(x):
    s = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    for k in range(t, 100, 64):  # rounds
        s[k] = x[t]  # writes
        x[t] = s[(k + 1) % 64]  # reads


@cuda.jit
def even_rounds(x):
    s = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    for k in range(t, 128, 64):
        if k < 100:
            s[k] = x[t]
        cuda.syncthreads()
        if k < 100:
            x[t] = s[(k + 1) % 64]


@cuda.jit
def two_loops(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    for k in range(t, 64, 7):  # rounds
        s[k] = 2 * k  # writes
    x[t] = s[63 - t]  # reads


@cuda.jit
def two_loops_mended(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    for k in range(t, 64, 7):
        s[k] = 2 * k
    cuda.syncthreads()
    x[t] = s[63 - t]


@cuda.jit
def warps_apart(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t < 32:
        s[t] = x[t]  # writes
        x[t] = s[31 - t]  # reads


@cuda.jit
def warps_apart_mended(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t < 32:
        s[t] = x[t]
        cuda.syncwarp()
        x[t] = s[31 - t]


@cuda.jit
def rows(x):
    s = cuda.shared.array((4, 64), float32)
    t = cuda.threadIdx.x
    for k in range(4):
        s[k, t] = x[t]
    cuda.syncthreads()
    for k in range(4):
        v = s[k, (t + 1) % 64]  # reads
        s[k, t] = v  # writes
    x[t] = s[0, t]


@cuda.jit
def rows_mended(x):
    s = cuda.shared.array((4, 64), float32)
    t = cuda.threadIdx.x
    for k in range(4):
        s[k, t] = x[t]
    cuda.syncthreads()
    for k in range(4):
        v = s[k, (t + 1) % 64]
        cuda.syncthreads()
        s[k, t] = v
    x[t] = s[0, t]


class Case(NamedTuple):
    """A kernel, its twin, and the mend, with the names of lines in braces."""

    faulty: Any
    mended: Any
    mend: str


BARRIER = "put cuda.syncthreads()"
BETWEEN = f"{BARRIER} between line {{writes}} and line {{reads}}"
AGAIN = "after line {writes}, before it runs again, outside the branch of line"
SPLIT = "with the branch of line {branch} ended before it and begun again behind it"
EVEN = "where all threads go round the loop of line {rounds} equally often"
INTO = "with the branch of line {branch} moved into the loop"
CASES = [
    Case(
        tree,
        tree_mended,
        f"{BARRIER} after line {{writes}}, before line {{reads}} runs again, outside the branch of line {{branch}}",
    ),
    Case(up_sweep, up_sweep_mended, f"{BARRIER} {AGAIN} {{branch}}"),
    Case(scan, scan_mended, f"{BARRIER} between the read and the write, {SPLIT}, and again {AGAIN} {{branch}}"),
    Case(arms, arms_mended, f"{BETWEEN}, {SPLIT}"),
    Case(one_arm, one_arm_mended, f"{BETWEEN}, {SPLIT}"),
    Case(behind_a_guard, behind_a_guard_mended, BETWEEN),
    Case(
        after_two_branches,
        after_two_branches_mended,
        f"{BETWEEN}, outside the branches of lines {{branch}} and {{other}}",
    ),
    Case(loop_in_a_branch, loop_in_a_branch_mended, f"{BARRIER} {AGAIN} {{inner}}, {INTO}"),
    Case(uneven_rounds, even_rounds, f"{BETWEEN}, {EVEN}"),
    Case(two_loops, two_loops_mended, f"{BETWEEN}, outside the loop of line {{rounds}}"),
    Case(warps_apart, warps_apart_mended, "put cuda.syncwarp() between line {writes} and line {reads}"),
    Case(rows, rows_mended, f"{BARRIER} between line {{reads}} and line {{writes}}"),
]


def data() -> np.ndarray:
    return np.arange(1, THREADS + 1, dtype=np.float32)


@pytest.mark.parametrize("case", CASES, ids=[one.faulty.py_func.__name__ for one in CASES])
@pytest.mark.parametrize("values", ["affine", "vector"])
def test_a_barrier_has_a_place_where_all_threads_come(case: Case, values: Any) -> None:
    findings = simulate(case.faulty, check=True, values=values)[1, THREADS](data()).findings
    names = [name for name in ("reads", "writes", "branch", "inner", "other", "rounds") if f"{{{name}}}" in case.mend]
    lines = {name: line_of(case.faulty, f"# {name}") for name in names}
    (race,) = [one for one in findings if one.array == "s" and one.kind == "race-shared"]
    assert race.mend == case.mend.format(**lines)


@pytest.mark.parametrize("case", CASES, ids=[one.mended.py_func.__name__ for one in CASES])
def test_a_kernel_with_its_barrier_in_that_place_is_clean(case: Case) -> None:
    findings = simulate(case.mended, check=True)[1, THREADS](data()).findings
    assert not findings, "\n".join(map(str, findings))
