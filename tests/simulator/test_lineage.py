"""The lineage domain: which input elements are in a value, through registers, shuffles and memory."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numba import cuda, float32

from numba_norms import builtin
from simulator import Trace, simulate
from simulator.draw.reduction import reductions


@cuda.jit
def shuffle_tree(x, out):
    lane = cuda.threadIdx.x
    value = x[lane]
    offset = 16
    while offset > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
        offset //= 2
    if lane == 0:
        out[0] = value


@cuda.jit
def wrong_shuffle(x, out):
    lane = cuda.threadIdx.x
    value = x[lane]
    value += cuda.shfl_down_sync(0xFFFFFFFF, value, 16)
    value += cuda.shfl_down_sync(0xFFFFFFFF, value, 8)
    value += cuda.shfl_down_sync(0xFFFFFFFF, value, 4)
    value += cuda.shfl_down_sync(0xFFFFFFFF, value, 1)  # 2 was meant
    value += cuda.shfl_down_sync(0xFFFFFFFF, value, 1)
    if lane == 0:
        out[0] = value


@cuda.jit
def shared_tree(x, out):
    tile = cuda.shared.array(64, float32)
    thread = cuda.threadIdx.x
    tile[thread] = x[thread]
    cuda.syncthreads()
    step = 32
    while step > 0:
        if thread < step:
            tile[thread] += tile[thread + step]
        cuda.syncthreads()
        step //= 2
    if thread == 0:
        out[0] = tile[0]


@cuda.jit
def welford(x, out):
    """One element or more per lane, streamed; then Chan's merge by shuffles: (count, mean, M2)."""
    lane = cuda.threadIdx.x
    count, mean, m2 = float32(0), float32(0), float32(0)
    for j in range(lane, x.size, cuda.blockDim.x):
        count += float32(1)
        delta = x[j] - mean
        mean += delta / count
        m2 += delta * (x[j] - mean)
    offset = 16
    while offset > 0:
        other_count = cuda.shfl_xor_sync(0xFFFFFFFF, count, offset)
        other_mean = cuda.shfl_xor_sync(0xFFFFFFFF, mean, offset)
        other_m2 = cuda.shfl_xor_sync(0xFFFFFFFF, m2, offset)
        total = count + other_count
        delta = other_mean - mean
        mean += delta * other_count / total
        m2 += other_m2 + delta * delta * count * other_count / total
        count = total
        offset //= 2
    if lane == 0:
        out[0] = mean
        out[1] = m2 / count


@cuda.jit
def histogram(x, bins, out):
    tally = cuda.shared.array(4, float32)
    thread = cuda.threadIdx.x
    if thread < 4:
        tally[thread] = float32(0)
    cuda.syncthreads()
    cuda.atomic.add(tally, bins[thread], x[thread])
    cuda.syncthreads()
    if thread < 4:
        out[thread] = tally[thread]


def run(kernel, n: int, threads: int, outputs: int = 1, orders=None, extra=()) -> Trace:
    x = np.arange(1, n + 1, dtype=np.float32)
    return simulate(kernel, lineage=True, orders=orders)[1, threads](x, *extra, np.zeros(outputs, np.float32))


def counts(trace: Trace, element: int = 0) -> Counter[int]:
    """How often each element of x is in an output's first reduction."""
    return reductions(trace.lineage.nodes, trace.lineage.output("out", element), "x")[0].elements


once = dict.fromkeys(range(32), 1)


@pytest.mark.parametrize("orders", [None, ("first",), ("last",), (3,)])
def test_a_shuffle_tree_holds_each_element_once(orders) -> None:
    assert counts(run(shuffle_tree, 32, 32, orders=orders)) == once


@pytest.mark.parametrize("orders", [None, ("first",), ("last",), (3,)])
def test_a_shared_memory_tree_holds_each_element_once(orders) -> None:
    assert counts(run(shared_tree, 64, 64, orders=orders)) == dict.fromkeys(range(64), 1)


@pytest.mark.parametrize("n", [32, 100])
@pytest.mark.parametrize("element", [0, 1])
def test_welfords_merge_holds_each_element_once(n: int, element: int) -> None:
    assert counts(run(welford, n, 32, 2), element) == dict.fromkeys(range(n), 1)


def test_a_wrong_offset_shows_missing_and_doubled_elements() -> None:
    found = counts(run(wrong_shuffle, 32, 32))
    # lanes 0, 1, 1, 2 instead of 0, 1, 2, 3 of every four
    assert found == {k: {0: 1, 1: 2, 2: 1}[k % 4] for k in range(32) if k % 4 != 3}


def test_sources_are_the_elements_that_reached_an_output() -> None:
    x, bins = np.ones((32,), np.float32), np.arange(32) % 4
    trace = simulate(histogram, lineage=True)[1, 32](x, bins, np.zeros(4, np.float32))
    # the bin numbers only steer where a value goes: they are no part of it
    assert trace.sources("out", 1) == {("x", k) for k in range(1, 32, 4)}


def test_atomics_chain_the_lanes_that_meet() -> None:
    x, bins = np.ones((32,), np.float32), np.arange(32) % 4
    trace = simulate(histogram, lineage=True)[1, 32](x, bins, np.zeros(4, np.float32))
    kinds = Counter(node.kind for node in trace.lineage.nodes)
    assert kinds["atom"] == 32 and kinds["input"] == 64  # x, and the bin numbers


def test_values_in_the_nodes_are_those_of_the_run() -> None:
    trace = run(shuffle_tree, 32, 32)
    node = trace.lineage.nodes[trace.lineage.output("out", 0)]
    assert node.kind == "store" and node.value == 528 and (node.block, node.thread) == (0, 0)


def test_the_plain_run_has_the_same_bits_and_counts() -> None:
    x = np.random.default_rng(5).normal(size=100).astype(np.float32)
    plain, shadowed = np.zeros(2, np.float32), np.zeros(2, np.float32)
    first = simulate(welford)[1, 32](x, plain)
    second = simulate(welford, lineage=True)[1, 32](x, shadowed)
    assert plain.tobytes() == shadowed.tobytes() and first.lines == second.lines


def test_a_question_about_lineage_needs_the_domain() -> None:
    trace = simulate(shuffle_tree)[1, 32](np.ones(32, np.float32), np.zeros(1, np.float32))
    with pytest.raises(ValueError, match="lineage=True"):
        trace.sources("out", 0)


def test_an_output_that_nothing_reached_is_an_error() -> None:
    trace = run(shuffle_tree, 32, 32, outputs=2)
    with pytest.raises(LookupError, match=r"out\[1\]"):
        trace.sources("out", 1)
    with pytest.raises(LookupError, match="no array 'nowhere'"):
        trace.sources("nowhere", 0)


@cuda.jit
def copies(x, out):
    tile = cuda.shared.array((2, 4), float32)
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    tile[i, j] = x[i, j]
    out[i, j] = tile[i, j]


def test_outputs_are_indexed_as_numpy_does_and_no_further() -> None:
    trace = simulate(copies, lineage=True)[1, (4, 2)](np.ones((2, 4), np.float32), np.zeros((2, 4), np.float32))
    assert trace.sources("out", (1, 2)) == trace.sources("out", (-1, -2)) == {("x", 6)}
    assert trace.sources("out", 6) == trace.sources("out", -2) == trace.sources("out", np.int64(6)) == {("x", 6)}
    for index in [(0, 4), (2, 0), (0, -5), (1,), (0, 0, 0), (), 8, -9]:
        with pytest.raises(IndexError, match="out"):
            trace.sources("out", index)
    for wrong in [1.5, True, (0, 1.5)]:
        with pytest.raises(TypeError, match="is an int, not"):
            trace.sources("out", wrong)


def test_outputs_are_asked_of_global_arrays() -> None:
    trace = simulate(copies, lineage=True)[1, (4, 2)](np.ones((2, 4), np.float32), np.zeros((2, 4), np.float32))
    with pytest.raises(LookupError, match=r"outputs are asked of global arrays, and 'tile' is none; .* x, out"):
        trace.sources("tile", (0, 0))


@cuda.jit
def through_half_words(x, out):
    """float32 goes into shared memory, int16 comes out."""
    thread = cuda.threadIdx.x
    wide = cuda.shared.array(0, np.float32)
    narrow = cuda.shared.array(0, np.int16)
    wide[thread] = x[thread]
    cuda.syncthreads()
    out[thread] = narrow[2 * thread + 1]


def test_lineage_follows_bytes_not_types() -> None:
    trace = simulate(through_half_words, lineage=True)[1, 32, 0, 128](np.ones(32, np.float32), np.zeros(32, np.int16))
    assert trace.sources("out", 3) == {("x", 3)}


@cuda.jit
def overwrites_an_input(x, out):
    thread = cuda.threadIdx.x
    x[thread] = float32(7)
    out[thread] = x[thread]


def test_a_constant_in_the_place_of_an_input_is_no_input() -> None:
    trace = simulate(overwrites_an_input, lineage=True)[1, 32](np.ones(32, np.float32), np.zeros(32, np.float32))
    with pytest.raises(LookupError, match=r"out\[3\]"):
        trace.sources("out", 3)


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "layer_norm_welford"])
@pytest.mark.parametrize("threads", [4, 32, 128])
def test_the_norms_reduce_each_element_of_a_row_once(name: str, threads: int) -> None:
    launch = getattr(builtin, name)(shape=(1, 150), dtype="float32", threads=threads)
    trace = simulate(launch.kernel, lineage=True)[launch.grid, launch.block](*launch.args)
    trees = reductions(trace.lineage.nodes, trace.lineage.output("y", (0, 7)), "x")
    assert len(trees) == (2 if name == "layer_norm" else 1)
    for tree in trees:
        assert tree.elements == dict.fromkeys(range(150), 1)
