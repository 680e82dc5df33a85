"""What numba-cuda writes in Python itself runs as it is: random numbers, reductions, vectorised functions."""

import numpy as np
import pytest
from numba import cuda, float32, guvectorize, int32, vectorize
from numba.cuda.random import (
    create_xoroshiro128p_states,
    init_xoroshiro128p_states_cpu,
    xoroshiro128p_dtype,
    xoroshiro128p_normal_float32,
    xoroshiro128p_uniform_float32,
    xoroshiro128p_uniform_float64,
)

import simulator
from simulator import simulate

MASK = 2**64 - 1


def rotated(x, k):
    return (x << k | x >> 64 - k) & MASK


def draws(state, count):
    """The 64-bit numbers of one xoroshiro128+ generator (Blackman and Vigna, 2016), with its final state."""
    s0, s1 = map(int, state)
    found = []
    for _ in range(count):
        found.append((s0 + s1) & MASK)
        s1 ^= s0
        s0, s1 = rotated(s0, 55) ^ s1 ^ (s1 << 14 & MASK), rotated(s1, 36)
    return found, (s0, s1)


@pytest.fixture
def states():
    made = np.zeros(40, xoroshiro128p_dtype)
    init_xoroshiro128p_states_cpu(made, 7, 0)
    return made


def test_uniform_numbers_are_those_of_the_generator(states):
    @cuda.jit
    def kernel(states, single, double):
        i = cuda.grid(1)
        if i < single.size:
            single[i] = xoroshiro128p_uniform_float32(states, i)
            double[i] = xoroshiro128p_uniform_float64(states, i)

    before = states.copy()
    single, double = np.zeros(40, "f4"), np.zeros(40)
    trace = simulate(kernel)[2, 32](states, single, double)
    for i in range(40):
        (first, second), last = draws(before[i], 2)
        assert single[i] == np.float32((first >> 11) * (1.0 / (1 << 53)))
        assert double[i] == (second >> 11) * (1.0 / (1 << 53))
        assert tuple(states[i]) == last
    lines = {row.line for row in trace.lines}
    assert lines <= set(range(kernel.py_func.__code__.co_firstlineno, kernel.py_func.__code__.co_firstlineno + 6))


def test_normal_numbers_are_box_and_mullers(states):
    @cuda.jit
    def kernel(states, y):
        i = cuda.grid(1)
        y[i] = xoroshiro128p_normal_float32(states, i)

    before, y = states.copy(), np.zeros(40, "f4")
    simulate(kernel)[1, 40](states, y)
    for i in range(40):
        u, v = (np.float32((n >> 11) / (1 << 53)) for n in draws(before[i], 2)[0])
        expected = np.sqrt(-2 * np.log(np.float64(u))) * np.cos(2 * np.pi * np.float64(v))
        assert y[i] == pytest.approx(expected, rel=1e-5)


@pytest.mark.filterwarnings("ignore:Host array used in CUDA kernel", "ignore:Grid size")
def test_on_the_stand_in_device():
    """The host's side (states, reductions, vectorised functions) launches kernels of Numba's own."""
    generator = np.random.default_rng(3)
    x = generator.integers(-50, 50, 1003)
    with simulator.device():
        states = create_xoroshiro128p_states(5, seed=1, subsequence_start=3)
        assert states.copy_to_host().dtype == xoroshiro128p_dtype

        total = cuda.reduce(lambda a, b: a + b)
        assert total(x) == x.sum()
        largest = cuda.Reduce(lambda a, b: max(a, b))
        assert largest(x, init=-1000) == x.max()

        @vectorize([float32(float32, float32), int32(int32, int32)], target="cuda")
        def blend(a, b):
            return a * 2 + b

        a, b = x.astype("f4"), x[::-1].astype("f4")
        np.testing.assert_array_equal(blend(a, b), a * 2 + b)
        np.testing.assert_array_equal(blend(x.astype("i4"), np.int32(3)), x * 2 + 3)

        @guvectorize(["void(float32[:, :], float32[:], float32[:])"], "(m,n),(n)->(m)", target="cuda")
        def times(matrix, vector, result):
            for row in range(matrix.shape[0]):
                result[row] = 0
                for column in range(matrix.shape[1]):
                    result[row] += matrix[row, column] * vector[column]

        matrices, vectors = generator.normal(size=(4, 3, 5)).astype("f4"), generator.normal(size=(4, 5)).astype("f4")
        expected = np.einsum("bmn,bn->bm", matrices, vectors)
        np.testing.assert_allclose(times(matrices, vectors), expected, rtol=1e-4, atol=1e-5)
