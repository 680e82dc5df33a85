"""Streams and graphs on a card: launches go where the caller's work goes, wait for nothing, and can be captured."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import numba_norms
from numba_norms import add_layer_norm, add_rms_norm, batch_norm, layer_norm, plan, reference, rms_norm
from tests.gpu.card import get, put
from tests.tolerances import FLOAT16, FLOAT32, RESULT, assert_close, same_bits

ROWS, COLUMNS = 512, 4096


def numbers(seed: int, dtype: Any = np.float16, shape: tuple[int, ...] = (ROWS, COLUMNS)) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.fixture
def stream() -> Iterator[Any]:
    """A stream that waits for no other, CuPy's current one."""
    import cupy

    with cupy.cuda.Stream(non_blocking=True) as current:
        yield current
        current.synchronize()


def busy(stream: Any) -> Any:
    """Give the stream tens of milliseconds of work; gives what keeps its memory alive."""
    import cupy

    source, target = (cupy.ndarray(1 << 28, np.uint8) for _ in range(2))
    for _ in range(100):
        target.data.copy_from_device_async(source.data, target.nbytes, stream)
    return source, target


# -- streams ---------------------------------------------------------------------------------------------------------


def test_a_norm_waits_for_what_comes_before_it_on_its_stream(stream: Any) -> None:
    """x arrives late: copied in behind a long queue.  A launch elsewhere would have read what was there before."""
    late, x = put(numbers(1)), put(np.full((ROWS, COLUMNS), 7, np.float16))
    expected = get(rms_norm(late))
    bound = plan(rms_norm, x)
    rms_norm(x)
    stream.synchronize()
    for call in (rms_norm, bound):
        x.set(np.full((ROWS, COLUMNS), 7, np.float16))
        keep = busy(stream)
        x.data.copy_from_device_async(late.data, x.nbytes)
        y = call(x)
        x.data.memset_async(0, x.nbytes)  # and what comes after waits for the norm
        assert same_bits(get(y), expected)
        del keep


def test_a_call_does_not_wait_for_the_device(stream: Any) -> None:
    x = put(numbers(2))
    bound = plan(layer_norm, x)
    bound(x), layer_norm(x)  # compiled, loaded, and memory to be had
    stream.synchronize()
    keep = busy(stream)
    results = [bound(x), layer_norm(x)]
    assert not stream.done, "the calls came back only after all the work before them"
    stream.synchronize()
    assert same_bits(get(results[0]), get(results[1]))
    del keep


@pytest.mark.parametrize("name", ["null", "ptds"])
def test_the_default_streams(name: str) -> None:
    import cupy

    x = numbers(3)
    with getattr(cupy.cuda.Stream, name):
        y = get(rms_norm(put(x)))
    assert_close(y, reference.rms_norm(x), RESULT[FLOAT16])


def test_threads_with_streams_of_their_own_share_a_plan() -> None:
    import cupy

    inputs = [numbers(seed) for seed in range(8)]
    bound, found = plan(rms_norm, put(inputs[0])), [np.empty(0)] * 8

    def work(number: int) -> None:
        with cupy.cuda.Stream(non_blocking=True):
            x = put(inputs[number])
            for _ in range(50):
                y = bound(x)
            found[number] = get(y)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, y in zip(inputs, found, strict=True):
        assert_close(y, reference.rms_norm(x), RESULT[FLOAT16])


# -- graphs ----------------------------------------------------------------------------------------------------------


def captured(stream: Any, call: Callable[[], Any]) -> tuple[Any, Any]:
    """A graph of a call, and what the call returned."""
    stream.begin_capture()
    try:
        result = call()
    finally:
        graph = stream.end_capture()
    return graph, result


def replays_follow_the_input(stream: Any, graph: Any, x: Any, y: Any, oracle: Callable[[np.ndarray], Any]) -> None:
    for seed in (10, 11, 12):
        new = numbers(seed, x.dtype)
        x.set(new)
        graph.launch(stream)
        stream.synchronize()
        assert_close(get(y), oracle(new), RESULT[x.dtype])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("norm", [rms_norm, layer_norm], ids=lambda norm: norm.__name__)
def test_a_plan_in_a_graph(stream: Any, norm: Any, dtype: Any) -> None:
    x = put(numbers(5, dtype))
    bound = plan(norm, x)  # the kernel has not run yet
    graph, y = captured(stream, lambda: bound(x))
    replays_follow_the_input(stream, graph, x, y, getattr(reference, norm.__name__))


@pytest.mark.parametrize("norm", [rms_norm, layer_norm], ids=lambda norm: norm.__name__)
def test_a_function_in_a_graph(stream: Any, norm: Any) -> None:
    x = put(numbers(6))
    y = norm(x)  # compiled, and bound
    graph, _ = captured(stream, lambda: norm(x, out=y))
    replays_follow_the_input(stream, graph, x, y, getattr(reference, norm.__name__))


def test_fused_and_batch_norms_in_a_graph(stream: Any) -> None:
    x, update = put(numbers(7)), put(numbers(8))
    mean, var = put(np.zeros(COLUMNS, np.float32)), put(np.ones(COLUMNS, np.float32))

    def call() -> tuple[Any, ...]:
        return (*add_rms_norm(x, update), *add_layer_norm(x, update), batch_norm(x, mean, var, training=True))

    call()
    stream.synchronize()
    before = get(mean)
    graph, (h, z, h2, z2, y) = captured(stream, call)
    assert same_bits(get(mean), before), "capturing ran it"
    new = numbers(9)
    x.set(new)
    graph.launch(stream)
    stream.synchronize()
    added = new.astype(np.float32) + get(update).astype(np.float32)
    assert same_bits(get(h), added.astype(np.float16)) and same_bits(get(h2), get(h))
    assert_close(get(z), reference.rms_norm(added), RESULT[FLOAT16])
    assert_close(get(z2), reference.layer_norm(added), RESULT[FLOAT16], 4.0)
    wide = new.astype(np.float64)
    assert_close(get(y), (wide - wide.mean(0)) / np.sqrt(wide.var(0) + 1e-5), RESULT[FLOAT16], 4.0)
    assert not same_bits(get(mean), before)


def test_a_replay_writes_nothing_but_results(stream: Any) -> None:
    """What a call allocates for itself and frees again belongs to others by the time of the replay."""
    import cupy

    x, y = put(numbers(13)), put(numbers(14))
    rms_norm(x, out=y)
    graph, _ = captured(stream, lambda: rms_norm(x, out=y))
    others = [cupy.ndarray(size, np.uint8) for size in (512, 1024, 2048, 4096) for _ in range(64)]  # from the same pool
    for other in others:
        other.data.memset_async(0x5A, other.nbytes)
    graph.launch(stream)
    stream.synchronize()
    touched = [other.nbytes for other in others if not (get(other) == 0x5A).all()]
    assert not touched, f"memory of others was written: arrays of {touched} bytes"


def test_a_norm_in_a_graph_of_torch() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    x = torch.from_numpy(numbers(15)).cuda()
    bound = plan(rms_norm, x)
    bound(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y, z = bound(x), rms_norm(x)
    for seed in (16, 17):
        new = numbers(seed)
        x.copy_(torch.from_numpy(new))
        graph.replay()
        torch.cuda.synchronize()
        assert_close(y.cpu().numpy(), reference.rms_norm(new), RESULT[FLOAT16])
        assert torch.equal(y, z)


def test_a_norm_among_other_work_of_a_stream(stream: Any) -> None:
    """A chain that depends on itself, link by link: one that ran out of turn would show."""
    x = put(numbers(18, np.float32))
    y, other = x.copy(), x.copy()
    for _ in range(50):
        numba_norms.rms_norm(y, out=y)
        other.data.copy_from_device_async(y.data, y.nbytes)
        numba_norms.layer_norm(other, out=y)
    found = get(y)
    expected = numbers(18, np.float32).astype(np.float64)
    for _ in range(50):
        expected = reference.layer_norm(reference.rms_norm(expected))
    tolerance = RESULT[FLOAT32]
    np.testing.assert_allclose(found, expected, rtol=100 * tolerance.rtol, atol=100 * tolerance.atol)
