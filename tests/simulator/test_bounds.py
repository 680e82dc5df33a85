"""Out of bounds and read-only, in every order: array, index, line and thread are told; idle lanes point anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import cuda, float32, int32

from simulator.frontend import lower_kernel
from simulator.machine import Fault, launch
from tests.simulator.running import every_way, fault_of, line_of, run, zeros

Way = dict[str, Any]


@cuda.jit
def one_too_far(x, out):
    t = cuda.grid(1)
    out[t] = x[t + 1, 2]


@every_way
def test_out_of_bounds(way: Way) -> None:
    fault = fault_of(one_too_far, 2, 40, np.zeros((80, 3)), np.zeros(80), **way)
    assert fault.kind == "out-of-bounds"
    facts = {key: fault.facts[key] for key in ("array", "axis", "index", "extent", "count")}
    assert facts == {"array": "x", "axis": 0, "index": 80, "extent": 80, "count": 1}
    place = fault.places[0]
    assert (place.pos.line, place.block, place.threads, place.access) == (
        line_of(one_too_far, "x[t + 1"),
        1,
        (39,),
        "ld",
    )


@cuda.jit
def guarded_by_hand(x, out):
    t = cuda.grid(1)
    out[t] = x[t + 1] if t + 1 < x.size else 0.0


@every_way
def test_lanes_that_are_off_may_point_anywhere(way: Way) -> None:
    x, out = np.arange(70.0), np.ones(70)
    run(guarded_by_hand, 2, 35, x, out, **way)
    np.testing.assert_array_equal(out, [*range(1, 70), 0])


@cuda.jit
def indexed(x, index, out):
    t = cuda.threadIdx.x
    out[t] = x[index[t]]


@every_way
@pytest.mark.parametrize(("bad", "thread"), [(8, 3), (-9, 31), (2**40, 0), (-(2**63), 17)])
def test_out_of_bounds_by_data(way: Way, bad: int, thread: int) -> None:
    index = np.arange(32) % 16 - 8  # negative ones wrap once
    out = zeros(32)
    run(indexed, 1, 32, np.arange(8), index, out, **way)
    np.testing.assert_array_equal(out, index % 8)
    index[thread] = bad
    fault = fault_of(indexed, 1, 32, np.arange(8), index, out, **way)
    assert (fault.facts["index"], fault.places[0].threads) == (bad, (thread,))


@cuda.jit
def unsigned_index(x, index, out):
    t = cuda.threadIdx.x
    out[t] = x[index[t]]


@every_way
def test_an_unsigned_index_never_wraps(way: Way) -> None:
    index = np.arange(32, dtype=np.uint64) % 8
    index[5] = 2**64 - 1
    fault = fault_of(unsigned_index, 1, 32, np.arange(8), index, zeros(32), **way)
    assert (fault.facts["index"], fault.places[0].threads) == (2**64 - 1, (5,))


@cuda.jit
def shared_too_far(out):
    tile = cuda.shared.array(32, float32)
    mine = cuda.local.array(4, int32)
    t = cuda.threadIdx.x
    mine[t % 4] = t
    tile[t] = mine[t % 4]
    out[t] = tile[t]


@every_way
def test_out_of_bounds_of_declared_arrays(way: Way) -> None:
    out = zeros(40, "f4")
    run(shared_too_far, 1, 32, out, **way)
    assert out[:32].tolist() == list(range(32))
    fault = fault_of(shared_too_far, 1, 40, out, **way)
    assert (fault.facts["array"], fault.facts["index"], fault.facts["extent"]) == ("tile", 32, 32)
    assert fault.places[0].threads == (32,)


@cuda.jit
def writes(x):
    x[cuda.threadIdx.x] = 1


@every_way
def test_read_only_arrays_are_not_written(way: Way) -> None:
    program = lower_kernel(writes, (zeros(32),))  # Numba itself refuses the kernel for a read-only type
    x = zeros(32)
    x.flags.writeable = False
    with pytest.raises(Fault) as caught:
        launch(program, (1, 1, 1), (32, 1, 1), (x,), **way)
    assert (caught.value.kind, caught.value.facts["array"]) == ("read-only", "x")
    assert not x.any()
