"""What would mend a race: the sentence fits what the two accesses are for, and a kernel mended by its word is clean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import cuda, float32, int32

from simulator import simulate
from simulator.findings import Finding
from tests.simulator.running import line_of


@cuda.jit
def plain_flag(flag, data, out):
    t = cuda.threadIdx.x
    if t == 0:
        data[0] = 7.0
        cuda.threadfence_block()
        flag[0] = 1
    elif t == 32:
        while flag[0] == 0:
            pass
        out[0] = data[0]


@cuda.jit
def look_back(flag, x):
    block = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        if block > 0:
            while True:
                seen = flag[block - 1]
                if seen != 0:
                    break
        x[block] = 1.0
        cuda.threadfence()
        flag[block] = 1


@cuda.jit
def scan_without_barrier(x):
    tile = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    step = 1
    while step < 64:
        if t >= step:
            tile[t] += tile[t - step]
        cuda.syncthreads()
        step *= 2
    x[t] = tile[t]


@cuda.jit
def histogram(bins, values):
    i = cuda.grid(1)
    if i < values.size:
        bins[values[i]] += 1


@cuda.jit
def histogram_by_two_names(bins, values):
    i = cuda.grid(1)
    if i < values.size:
        j = values[i]
        bins[j] = bins[j] + 1


@cuda.jit
def neighbours(x):
    i = cuda.grid(1)
    if i > 0:
        x[i] = 0.5 * (x[i] + x[i - 1])


@cuda.jit
def last_wins(out):
    out[0] = cuda.grid(1)


@cuda.jit
def waits_at_a_barrier(done, x):
    t = cuda.threadIdx.x
    while done[0] == 0:
        x[t] += 1.0
        if t == 0 and x[0] > 3.0:
            done[0] = 1
        cuda.syncthreads()


def race_on(array: str, kernel: Any, grid: int, block: int, *args: Any) -> Finding:
    """The one race on an array, in waves."""
    trace = simulate(kernel, check=True, orders=("waves",))[grid, block](*args)
    found = [one for one in trace.findings if one.kind.startswith("race-") and one.array == array]
    assert len(found) == 1, found
    return found[0]


def zeros(count: int, dtype: str) -> np.ndarray:
    return np.zeros(count, dtype)


SPINS = "a loop waits for flag: read it by an atomic (as cuda.atomic.add(flag, i, 0)) and write it by one"


def test_a_flag_that_a_warp_waits_for() -> None:
    mend = race_on("flag", plain_flag, 1, 64, zeros(1, "i4"), zeros(1, "f4"), zeros(1, "f4")).mend
    assert mend.startswith(SPINS) and "cuda.threadfence_block()" in mend and "syncthreads" not in mend


def test_a_flag_that_a_block_waits_for() -> None:
    mend = race_on("flag", look_back, 4, 32, zeros(4, "i4"), zeros(4, "f4")).mend
    assert mend.startswith(SPINS) and "cuda.threadfence()" in mend and "launches" not in mend


def test_a_loop_with_a_barrier_does_not_spin() -> None:
    mend = race_on("done", waits_at_a_barrier, 1, 64, zeros(1, "i4"), zeros(64, "f4")).mend
    assert mend.startswith("put cuda.syncthreads()")


def test_a_read_of_a_neighbour_wants_a_barrier_and_no_atomic() -> None:
    mend = race_on("tile", scan_without_barrier, 1, 64, np.ones(64, "f4")).mend
    branch = f"the branch of line {line_of(scan_without_barrier, 'if t >=')} ended before it and begun again behind it"
    assert mend == f"put a barrier between the read and the write, with {branch}, or write to another array"


@pytest.mark.parametrize("kernel", [histogram, histogram_by_two_names])
def test_an_update_wants_an_atomic(kernel: Any) -> None:
    values = np.array([1, 2] * 50, "i4")
    mend = race_on("bins", kernel, 4, 32, zeros(4, "i4"), values).mend
    assert mend == "use an atomic such as cuda.atomic.add, or give each thread an element of its own"


def test_neighbours_of_another_block_want_another_array() -> None:
    assert race_on("x", neighbours, 2, 32, np.ones(64, "f4")).mend == "write to another array"


def test_threads_that_store_to_one_place() -> None:
    assert race_on("out", last_wins, 1, 64, zeros(1, "i4")).mend.startswith("let one thread write it")


# -- handed over by an atomic in shared memory ------------------------------------------------------------------------


@cuda.jit
def flag_without_fence(x, out):
    box = cuda.shared.array(1, float32)
    flag = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        flag[0] = 0
    cuda.syncthreads()
    if t == 0:
        box[0] = x[0]
        cuda.atomic.exch(flag, 0, 1)
    elif t == 32:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        out[0] = box[0]


@cuda.jit
def flag_with_fence(x, out):
    box = cuda.shared.array(1, float32)
    flag = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        flag[0] = 0
    cuda.syncthreads()
    if t == 0:
        box[0] = x[0]
        cuda.threadfence_block()
        cuda.atomic.exch(flag, 0, 1)
    elif t == 32:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        out[0] = box[0]


@cuda.jit
def lock_without_fence(x, out):
    box = cuda.shared.array(1, float32)
    lock = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        lock[0] = 0
        box[0] = 0
    cuda.syncthreads()
    if t % 32 == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        box[0] += x[t]
        cuda.atomic.exch(lock, 0, 0)
    cuda.syncthreads()
    if t == 0:
        out[0] = box[0]


@cuda.jit
def lock_with_fence(x, out):
    box = cuda.shared.array(1, float32)
    lock = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        lock[0] = 0
        box[0] = 0
    cuda.syncthreads()
    if t % 32 == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        box[0] += x[t]
        cuda.threadfence_block()
        cuda.atomic.exch(lock, 0, 0)
    cuda.syncthreads()
    if t == 0:
        out[0] = box[0]


@cuda.jit
def ticket_of_one_thread(x, out):
    part = cuda.shared.array(64, float32)
    done = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        done[0] = 0
    cuda.syncthreads()
    part[t] = x[t]
    if t == 0:
        if cuda.atomic.add(done, 0, 1) == 0:
            out[0] = part[63]


def clean(kernel: Any, grid: int, block: int, *args: Any) -> None:
    findings = simulate(kernel, check=True)[grid, block](*args).findings
    assert not findings, "\n".join(map(str, findings))


@pytest.mark.parametrize(
    ("faulty", "mended", "store", "tells"),
    [
        (flag_without_fence, flag_with_fence, "box[0] = x", "atomic.exch"),
        (lock_without_fence, lock_with_fence, "box[0] +=", "atomic.exch"),
    ],
)
def test_what_an_atomic_in_shared_memory_tells_of_wants_a_fence(
    faulty: Any, mended: Any, store: str, tells: str
) -> None:
    args = np.ones(64, "f4"), zeros(1, "f4")
    lines = f"after line {line_of(faulty, store)}, before the atomic on line {line_of(faulty, tells)} that tells of it"
    assert race_on("box", faulty, 1, 64, *args).mend == f"put cuda.threadfence_block() {lines}"
    clean(mended, 1, 64, *args)


def test_an_atomic_that_the_writer_does_not_run_tells_of_nothing() -> None:
    mend = race_on("part", ticket_of_one_thread, 1, 64, np.ones(64, "f4"), zeros(1, "f4")).mend
    store, load = (line_of(ticket_of_one_thread, part) for part in ("part[t] =", "= part[63]"))
    branch = line_of(ticket_of_one_thread, "if t == 0:", 1)
    assert mend == f"put cuda.syncthreads() between line {store} and line {load}, outside the branch of line {branch}"


# -- updates of one element ------------------------------------------------------------------------------------------


@cuda.jit
def greatest(h, x):
    i = cuda.grid(1)
    h[x[i] % 4] = max(h[x[i] % 4], x[i])


@cuda.jit
def greatest_by_a_test(h, x):
    i = cuda.grid(1)
    k = x[i] % 4
    if h[k] < x[i]:
        h[k] = x[i]


@cuda.jit
def greatest_by_an_expression(h, x):
    i = cuda.grid(1)
    k = x[i] % 4
    h[k] = x[i] if x[i] > h[k] else h[k]


@cuda.jit
def greatest_mended(h, x):
    i = cuda.grid(1)
    cuda.atomic.max(h, x[i] % 4, x[i])


@cuda.jit
def least(h, x):
    i = cuda.grid(1)
    k = x[i] % 4
    h[k] = min(x[i], h[k])


@cuda.jit
def least_by_a_test(h, x):
    i = cuda.grid(1)
    k = x[i] % 4
    if h[k] <= x[i]:
        pass
    else:
        h[k] = x[i]


@cuda.jit
def least_mended(h, x):
    i = cuda.grid(1)
    cuda.atomic.min(h, x[i] % 4, x[i])


@cuda.jit
def first_comes(h, x):
    i = cuda.grid(1)
    k = x[i] % 4
    if h[k] == 0:
        h[k] = i + 1


@cuda.jit
def first_comes_mended(h, x):
    i = cuda.grid(1)
    cuda.atomic.cas(h, x[i] % 4, 0, i + 1)


@cuda.jit
def taken_away(h, x):
    i = cuda.grid(1)
    h[x[i] % 4] -= x[i]


@cuda.jit
def taken_away_mended(h, x):
    i = cuda.grid(1)
    cuda.atomic.sub(h, x[i] % 4, x[i])


@cuda.jit
def bits(h, x):
    i = cuda.grid(1)
    h[x[i] % 4] |= x[i]


@cuda.jit
def bits_mended(h, x):
    i = cuda.grid(1)
    cuda.atomic.or_(h, x[i] % 4, x[i])


@cuda.jit
def product(h, x):
    i = cuda.grid(1)
    h[x[i] % 4] *= x[i]


@cuda.jit
def product_mended(h, x):
    i = cuda.grid(1)
    k = x[i] % 4
    seen = cuda.atomic.add(h, k, 0)
    while True:
        before = seen
        seen = cuda.atomic.cas(h, k, before, before * x[i])
        if seen == before:
            break


@cuda.jit
def bins_in_a_loop(h, x):
    for i in range(cuda.threadIdx.x, x.size, cuda.blockDim.x):
        h[x[i] % 4] += 1


@cuda.jit
def bins_in_a_loop_mended(h, x):
    for i in range(cuda.threadIdx.x, x.size, cuda.blockDim.x):
        cuda.atomic.add(h, x[i] % 4, 1)


UPDATES = [
    (greatest, greatest_mended, "max"),
    (greatest_by_a_test, greatest_mended, "max"),
    (greatest_by_an_expression, greatest_mended, "max"),
    (least, least_mended, "min"),
    (least_by_a_test, least_mended, "min"),
    (first_comes, first_comes_mended, "cas"),
    (taken_away, taken_away_mended, "sub"),
    (bits, bits_mended, "or_"),
    (product, product_mended, "cas in a loop"),
    (bins_in_a_loop, bins_in_a_loop_mended, "add"),
]


def keys(kernel: Any) -> tuple[Any, ...]:
    """Elements of four bins, and 60 numbers; one block of a loop, or two blocks."""
    start = 100 if kernel in (least, least_by_a_test) else 0
    return np.full(4, start, "i4"), np.arange(60, dtype="i4") * 7 % 23


@pytest.mark.parametrize(("faulty", "mended", "atomic"), UPDATES)
def test_an_update_wants_the_atomic_that_does_the_same(faulty: Any, mended: Any, atomic: str) -> None:
    grid, block = (1, 20) if faulty is bins_in_a_loop else (2, 30)
    trace = simulate(faulty, check=True)[grid, block](*keys(faulty))
    mends = {one.mend for one in trace.findings if one.kind == "race-global"}
    assert mends == {f"use an atomic such as cuda.atomic.{atomic}, or give each thread an element of its own"}
    findings = simulate(mended, check=True)[grid, block](*keys(faulty)).findings
    assert not [one for one in findings if one.kind != "order-dependent" or mended is not first_comes_mended]


def test_no_atomic_is_named_that_does_not_exist() -> None:
    mend = race_on("h", greatest, 2, 30, zeros(4, "i1"), np.arange(60, dtype="i1")).mend
    assert mend == "give each thread an element of its own: no atomic takes this type"


# -- one deadlock a launch -----------------------------------------------------------------------------------------


@cuda.jit
def crossed_locks(locks, out):
    t = cuda.threadIdx.x
    if t % 32 == 0:
        first = t // 32
        while cuda.atomic.cas(locks, first, 0, 1) != 0:
            pass
        cuda.atomic.add(out, 0, 1)
        while cuda.atomic.add(out, 0, 0) < 2:
            pass
        while cuda.atomic.cas(locks, 1 - first, 0, 1) != 0:
            pass
        out[1] = 1


@cuda.jit
def never_told(flag, x):
    t = cuda.threadIdx.x
    if t < 32:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        x[t] = 1
    else:
        while cuda.atomic.add(flag, 1, 0) == 0:
            pass
        x[t] = 2


@pytest.mark.parametrize(("kernel", "args"), [(crossed_locks, (2, 2)), (never_told, (2, 64))])
def test_a_deadlock_is_told_once_whichever_order_leaves_the_threads_where(kernel: Any, args: tuple[int, int]) -> None:
    trace = simulate(kernel, check=True, orders=("first", "last", "round-robin", "random"), max_steps=3000)
    found = trace[1, 64](*(zeros(count, "i4") for count in args)).findings
    assert [one.kind for one in found].count("deadlock") == 1
