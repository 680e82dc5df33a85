"""Wavefronts of shared memory: counts worked out by hand, and every way of counting against plain sets of words."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda, float32, float64, int32

from simulator import simulate
from simulator.machine.values import Lanes, expand
from simulator.observers.banks import Banks

BASE = 0x7E00_0000_0000
WARP = Lanes(1, 32)


def brute(addresses: np.ndarray, mask: np.ndarray, nbytes: int, atomic: bool = False) -> tuple[int, int]:
    """(wavefronts, ideal): for each part of each warp, the most words that it wants of one bank."""
    lanes = 32 // max(1, nbytes // 4)  # a wavefront gives 128 bytes
    wavefronts = ideal = 0
    parts = zip(addresses.reshape(-1, lanes).tolist(), mask.reshape(-1, lanes).tolist(), strict=True)
    for places, on in parts:
        banks: dict[int, list[int]] = defaultdict(list)
        for place, active in zip(places, on, strict=True):
            for word in range(place // 4, -(-(place + nbytes) // 4)) if active else ():
                banks[word % 32].append(word)
        wavefronts += max((len(words) if atomic else len(set(words)) for words in banks.values()), default=0)
        ideal += any(on)
    return wavefronts, ideal


def count(addresses: list[int], nbytes: int = 4, mask: Any = None, *, atomic: bool = False) -> tuple[int, int]:
    return Banks().count(WARP, mask, np.array([addresses]) + BASE, nbytes, atomic)


@pytest.mark.parametrize(
    ("stride", "wavefronts"),
    [(0, 1), (1, 1), (2, 2), (3, 1), (4, 4), (5, 1), (8, 8), (16, 16), (31, 1), (32, 32), (33, 1), (-1, 1), (-32, 32)],
)
def test_a_stride_of_words_takes_as_many_wavefronts_as_lanes_share_a_bank(stride: int, wavefronts: int) -> None:
    affine = WARP.affine(BASE + 4096, 0, 4 * stride, "i8")
    assert Banks().count(WARP, None, affine, 4, False) == (wavefronts, 1)
    assert count([4096 + 4 * stride * lane for lane in range(32)]) == (wavefronts, 1)


@pytest.mark.parametrize(
    ("what", "addresses", "nbytes", "expected"),
    [
        ("float64, neighbours: two halves, each in all banks", [8 * k for k in range(32)], 8, (2, 2)),
        ("float64, every second: 16 lanes in 16 banks twice", [16 * k for k in range(32)], 8, (4, 2)),
        ("float64 in a column of 32: 16 lanes in one pair of banks", [256 * k for k in range(32)], 8, (32, 2)),
        ("float64 in a column of a tile of 33", [8 * 33 * k for k in range(32)], 8, (2, 2)),
        ("16 bytes, neighbours: four quarters", [16 * k for k in range(32)], 16, (4, 4)),
        ("16 bytes, every second: 8 lanes in 4 places twice", [32 * k for k in range(32)], 16, (8, 4)),
        ("float16, neighbours: two lanes share a word", [2 * k for k in range(32)], 2, (1, 1)),
        ("float16, every second", [4 * k for k in range(32)], 2, (1, 1)),
        ("float16 in a column of 32: half a row apart", [64 * k for k in range(32)], 2, (16, 1)),
        ("bytes of one word", [k % 4 for k in range(32)], 1, (1, 1)),
        ("two words of one bank, each wanted by half of the lanes", [128 * (k % 2) for k in range(32)], 4, (2, 1)),
        ("three words of a bank and one of each other", [0, 128, 256, *(4 * k for k in range(3, 32))], 4, (3, 1)),
    ],
)
def test_counts_worked_out_by_hand(what: str, addresses: list[int], nbytes: int, expected: tuple[int, int]) -> None:
    assert count(addresses, nbytes) == expected, what


def test_lanes_that_are_off_want_nothing() -> None:
    mask = np.arange(32)[None] < 4
    assert count([128 * k for k in range(32)], mask=mask) == (4, 1)
    assert count([8 * k for k in range(32)], 8, mask) == (1, 1), "the second half has no active lane"


def test_an_atomic_takes_turns_at_one_word() -> None:
    assert count([0] * 32, atomic=True) == (32, 1)
    assert count([4 * k for k in range(32)], atomic=True) == (1, 1)
    assert count([4 * (k // 2) for k in range(32)], atomic=True) == (2, 1)


@settings(max_examples=150, deadline=None)
@given(
    shape=st.sampled_from([(1, 32, None), (2, 64, None), (3, 64, 8), (2, 128, 64), (1, 64, 16), (2, 96, 24)]),
    strides=st.tuples(*[st.integers(-40, 40)] * 3),
    nbytes=st.sampled_from([1, 2, 4, 8, 16]),
    atomic=st.booleans(),
    off=st.sampled_from([0, 0, 0, 1, 2]),
    seed=st.none() | st.integers(0, 99),
)
def test_every_way_of_counting_agrees(
    shape: tuple[int, int, int | None],
    strides: tuple[int, int, int],
    nbytes: int,
    atomic: bool,
    off: int,
    seed: int | None,
) -> None:
    nb, threads, row = shape
    lanes = Lanes(nb, threads, row=row)
    by_block, by_column, by_row = (nbytes * stride for stride in strides)
    address = lanes.affine(BASE + 65536 + off, by_block, by_column, "i8", by_row)
    mask = None
    if seed is not None:
        mask = np.random.default_rng(seed).random((nb, threads)) < 0.4
    places = expand(address, lanes, "i8")
    expected = brute(places, np.ones(places.shape, bool) if mask is None else mask, nbytes, atomic)
    assert Banks().count(lanes, mask, address, nbytes, atomic) == expected
    assert Banks().count(lanes, mask, np.array(places), nbytes, atomic) == expected


# -- in a trace -----------------------------------------------------------------------------------------------------


def transpose(pad: int, dtype: Any) -> Any:
    shape = 32, 32 + pad

    @cuda.jit
    def kernel(a, b):
        tile = cuda.shared.array(shape, dtype)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        tile[y, x] = a[y, x]
        cuda.syncthreads()
        b[y, x] = tile[x, y]

    return kernel


@pytest.mark.parametrize("values", ["affine", "vector"])
@pytest.mark.parametrize(
    ("pad", "dtype", "column"),
    [(0, float32, 32), (1, float32, 1), (0, float64, 32), (1, float64, 2), (0, np.float16, 16), (2, np.float16, 1)],
)
def test_a_transpose_through_a_tile(pad: int, dtype: Any, column: int, values: str) -> None:
    a = np.zeros((32, 32), getattr(dtype, "name", np.float16))
    trace = simulate(transpose(pad, dtype), values=values)[3, (32, 32)](a, a.copy())
    store, load = (trace.total("tile", operation=operation) for operation in ("store", "load"))
    halves = 2 if dtype is float64 else 1
    assert (store.requests, store.wavefronts, store.ideal_wavefronts) == (96, 96 * halves, 96 * halves)
    assert (load.requests, load.wavefronts, load.ideal_wavefronts) == (96, 96 * column, 96 * halves)


def test_only_shared_memory_has_wavefronts() -> None:
    @cuda.jit
    def kernel(a):
        s = cuda.shared.array(32, int32)
        t = cuda.threadIdx.x
        s[t] = a[t]
        cuda.atomic.add(s, 0, t)
        a[t] = s[t]

    trace = simulate(kernel)[1, 32](np.zeros(32, np.int32))
    assert trace.total("a").wavefronts is trace.total("a").ideal_wavefronts is None
    assert trace.total("s", operation="atomic").wavefronts == 32
    assert trace.total("s").wavefronts == trace.total().wavefronts == 34
    assert trace.total("s").ideal_wavefronts == 3
