"""Parts and other views of an array: slices, new axes, shapes, dtypes; and assigning to a part."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numba import cuda, float32, int32, uint8

from simulator import simulate
from simulator.errors import Unsupported
from simulator.frontend import DoesNotCompile, lower_kernel
from simulator.machine.launch import launch
from tests.simulator.frontend.conftest import run_kernel


def test_new_axes_and_an_ellipsis(run):
    @cuda.jit
    def kernel(x, y):
        a = x[None, 1, ..., np.newaxis]
        y[0], y[1], y[2] = a.shape
        y[3] = a[0, 2, 0]
        y[4] = x[..., 1][0]
        y[5] = x[..., -1, 0]
        y[6] = x[1, ...][2]
        y[7] = len(x[None])

    x = np.arange(10, 16.0).reshape(2, 3)
    assert run(kernel, 1, 1, x, np.zeros(8)).tolist() == [1, 3, 1, 15, 11, 13, 15, 1]


def test_an_array_without_axes(run):
    @cuda.jit
    def kernel(x, y):
        y[()] = x[()] + x.size + x.ndim
        y[...] = y[()] * 2

    assert run(kernel, 1, 1, np.array(3.0), np.array(0.0)).tolist() == 8.0


def test_assigning_to_a_part(run):
    @cuda.jit
    def kernel(x, y):
        y[0] = x[1]
        y[1, 1:3] = x[2]
        y[2:, ::2] = 7
        y[3, 1:4] = (x[0], 5.0, 6.0)
        y[:, -1][1::2] = -1

    y = np.zeros((5, 5))
    y[0] = 1
    y[1, 1:3] = 2
    y[2:, ::2] = 7
    y[3, 1:4] = (0, 5, 6)
    y[1::2, -1] = -1
    assert run(kernel, 1, 1, np.arange(3.0), np.zeros((5, 5))).tolist() == y.tolist()


def test_an_array_of_indices_picks_what_is_stored(run):
    picks = np.array([3, 0, -1])

    @cuda.jit
    def kernel(y):
        y[picks] = 1
        y[1, picks] = 2
        y[picks, 2:] = 3

    y = np.zeros((5, 5))
    y[picks] = 1
    y[1, picks] = 2
    y[picks, 2:] = 3
    assert run(kernel, 1, 1, np.zeros((5, 5))).tolist() == y.tolist()


def test_each_thread_fills_its_row(run):
    @cuda.jit
    def kernel(y):
        y[cuda.threadIdx.x, : cuda.threadIdx.x] = cuda.threadIdx.x

    expected = np.tril(np.arange(37)[:, None] * np.ones(40), -1)
    assert (run(kernel, 1, 37, np.zeros((37, 40))) == expected).all()


def test_a_tuple_of_another_length_raises():
    @cuda.jit(debug=True, opt=False)
    def kernel(y):
        y[1:] = (1, 2)

    y = np.zeros(3)
    simulate(kernel)[1, 1](y)
    assert y.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="cannot assign slice"):
        simulate(kernel)[1, 1](np.zeros(5))


def test_assigning_an_array_needs_memory_that_a_kernel_does_not_have():
    def kernel(x, y):
        y[:] = x

    with pytest.raises(DoesNotCompile, match="assigning an array to a slice") as caught:
        lower_kernel(kernel, (np.zeros(3), np.zeros(3)))
    assert caught.value.pos.line == kernel.__code__.co_firstlineno + 1


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.sampled_from([-1, 1, 2, 3, 4, 6]), min_size=1, max_size=3),
)
def test_any_shape(shape, wanted):
    x = np.arange(np.prod(shape)).reshape(shape)
    assume(wanted.count(-1) <= 1)
    y = np.full(x.size, -1)
    launch(lower_kernel(_RESHAPED[len(wanted)], (x, tuple(wanted), y)), (1, 1, 1), (1, 1, 1), (x, tuple(wanted), y))
    try:
        expected = x.reshape(wanted)
    except ValueError:
        assert (y == -1).all()  # the thread has raised
    else:
        assert y.tolist() == [100 * expected[at] + sum(at) for at in np.ndindex(expected.shape)]


@cuda.jit
def _reshaped_1(x, shape, y):
    z = x.reshape(shape)
    for n, i in enumerate(range(z.shape[0])):
        y[n] = 100 * z[i] + i


@cuda.jit
def _reshaped_2(x, shape, y):
    z = x.reshape(shape)
    for n, (i, j) in enumerate(np.ndindex(z.shape)):
        y[n] = 100 * z[i, j] + i + j


@cuda.jit
def _reshaped_3(x, shape, y):
    z = x.reshape(shape[0], shape[1], shape[2])
    for n, (i, j, k) in enumerate(np.ndindex(z.shape)):
        y[n] = 100 * z[i, j, k] + i + j + k


_RESHAPED = {1: _reshaped_1, 2: _reshaped_2, 3: _reshaped_3}


def test_a_shape_with_a_known_minus_one(run):
    @cuda.jit
    def kernel(x, y):
        z = x.reshape(-1, 2)
        y[0], y[1] = z.shape
        y[2] = z[2, 1]
        y[3] = x.reshape(6)[-1]
        y[4] = x.reshape((3, 2)).T[1, 0]
        y[5] = x.transpose()[2, 1]

    assert run(kernel, 1, 1, np.arange(6.0).reshape(2, 3), np.zeros(6)).tolist() == [3, 2, 5, 5, 1, 5]


def test_only_arrays_in_c_order_get_another_shape():
    def kernel(x, y):
        y[0] = x.reshape(6)[0]

    with pytest.raises(Unsupported, match="reshape"):
        lower_kernel(kernel, (np.asfortranarray(np.zeros((2, 3))), np.zeros(1)))
    with pytest.raises(DoesNotCompile, match="contiguous"):
        lower_kernel(kernel, (np.zeros((2, 6))[:, ::2], np.zeros(1)))


def test_bytes_as_numbers_and_numbers_as_bytes(run):
    @cuda.jit
    def kernel(x, y):
        words = x[4:12].view(np.int32)
        y[0] = words[0]
        y[1] = words[1]
        y[2] = len(words)
        parts = words.view(uint8)
        y[3] = len(parts)
        y[4] = parts[3]
        words[1] = -2
        y[5] = x[11]
        y[6] = x[8:12].view(float32)[0] != x[8:12].view(float32)[0]

    x = np.arange(16, dtype=np.uint8)
    words = x[4:12].view(np.int32)
    assert run(kernel, 1, 1, x.copy(), np.zeros(7)).tolist() == [*words, 2, 8, 7, 255, 1]


@pytest.mark.parametrize(("length", "step"), [(7, 1), (8, 2)])
def test_bytes_that_make_no_number_raise(length, step):
    @cuda.jit(debug=True, opt=False)
    def kernel(x, y):
        y[0] = len(x[: y[1] : y[2]].view(np.int32))

    with pytest.raises((ValueError, Unsupported)):
        simulate(kernel)[1, 1](np.zeros(16, np.uint8), np.array([0, length, step]))


def test_views_of_shared_and_local_memory(run):
    @cuda.jit
    def kernel(y):
        t = cuda.threadIdx.x
        tile = cuda.shared.array((4, 32), float32)
        mine = cuda.local.array(4, float32)
        mine[:] = t
        for k, row in enumerate(tile):
            row[t] = mine[k] * k
        cuda.syncthreads()
        flat = tile.reshape(128)
        y[t] = flat[32 + (t + 1) % 32] + tile.T[t, 2]
        words = mine[1:].view(int32)
        words[0] = 0
        y[t] += mine[1]

    t = np.arange(32)
    assert run(kernel, 1, 32, np.zeros(32)).tolist() == ((t + 1) % 32 + 2.0 * t).tolist()


def test_parts_of_dynamic_shared_memory(run):
    @cuda.jit
    def kernel(y):
        t = cuda.threadIdx.x
        pool = cuda.shared.array(0, uint8)
        floats = pool[:128].view(float32)
        counts = cuda.shared.array(0, int32)[32:]
        floats[t] = t + 0.5
        counts[t] = t
        cuda.syncthreads()
        y[t] = floats[31 - t] + counts[t] + len(counts)

    y = run(kernel, 1, 32, np.zeros(32), dynamic_shared=256)
    assert y.tolist() == [31 - t + 0.5 + t + 32 for t in range(32)]


@settings(max_examples=30, deadline=None)
@given(*[st.none() | st.integers(-7, 7)] * 2, st.sampled_from([1, 2, -1, -3]), st.integers(0, 6))
def test_assigning_to_any_slice(start, stop, step, size):
    part = slice(start, stop, step)

    def kernel(y):
        y[part.start : part.stop : part.step] = 1

    expected = np.zeros(size)
    expected[part] = 1
    source = _slice_kernels.get((start, stop, step)) or _make(start, stop, step)
    assert run_kernel(source, 1, 1, np.zeros(size)).tolist() == expected.tolist()


_slice_kernels: dict[tuple[int | None, int | None, int], object] = {}


def _make(start, stop, step):
    """A kernel with these bounds in its source."""
    found = {}
    text = f"def kernel(y):\n    y[{'' if start is None else start}:{'' if stop is None else stop}:{step}] = 1\n"
    exec(text, found)
    _slice_kernels[start, stop, step] = found["kernel"]
    return found["kernel"]


def test_one_array_is_another(run):
    @cuda.jit
    def kernel(x, y):
        y[0] = y is y
        y[1] = y is x
        y[2] = y[1:] is y[1:]
        y[3] = y[1:] is y[:-1]
        y[4] = x.dtype == y.dtype

    assert run(kernel, 1, 1, np.zeros(5), np.zeros(5)).tolist() == [1, 0, 1, 0, 1]
