"""Warm calls and plans: the bits of a full call, without its checks, and never for arrays that the checks would refuse.

CuPy is CuPy itself over the CPU's memory and kernels run on the simulator, which is handed the driver's parameters.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import numba_norms
from numba_norms import Plan, add_layer_norm, add_rms_norm, batch_norm, layer_norm, moments, plan, rms_norm
from numba_norms.binding import bound as bound_module
from tests.numba_norms.host_cupy import HostCuPy, Launches, memory_of, simulate_launches
from tests.tolerances import BFLOAT16, same_bits


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Launches:
    return simulate_launches(monkeypatch)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch, launches: Launches) -> Iterator[HostCuPy]:
    host = HostCuPy(monkeypatch)
    with host.allocator():
        yield host


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operations that have run with all their checks so far."""
    done: list[str] = []
    for name, function in vars(numba_norms).items():
        operation = getattr(function, "operation", None)
        if operation is not None:

            def noting(*args: Any, name: str = name, original: Any = operation.function, **named: Any) -> Any:
                done.append(name)
                return original(*args, **named)

            noting.__name__ = name
            monkeypatch.setattr(operation, "function", noting)
    return done


def numbers(seed: int, *shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Random numbers, 16-byte aligned as results on a device are."""
    room = np.empty(int(np.prod(shape)) * np.dtype(dtype).itemsize + 64, np.uint8)
    start = -room.ctypes.data % 16
    array = room[start : start + room.size - 64].view(dtype).reshape(shape)
    array[...] = np.random.default_rng(seed).standard_normal(shape)
    return array


Call = Callable[..., Any]
CALLS: dict[str, tuple[Call, int]] = {
    "rms_norm": (lambda x, w: rms_norm(x, w, eps=1e-5), 1),
    "rms_norm with rstd": (lambda x, w: rms_norm(x, w, return_stats=True), 1),
    "without weight": (lambda x: rms_norm(x), 0),
    "layer_norm": (lambda x, w, b: layer_norm(x, w, b, return_stats=True), 2),
    "welford": (lambda x, w: layer_norm(x, bias=w, variance="welford"), 1),
    "first axis": (lambda x: layer_norm(x, axis=0, return_stats=True), 0),
    "both axes": (lambda x: rms_norm(x, axis=(0, 1)), 0),
    "add_rms_norm": (lambda x, w: add_rms_norm(x, x[::-1], w, return_stats=True), 1),
    "add_layer_norm": (lambda x, w, b: add_layer_norm(x, x[::-1], w, b, residual_dtype=np.float16), 2),
    "batch_norm": (lambda x, w, b: batch_norm(x, None, None, w, b, training=True, return_stats=True), 2),
    "moments": (lambda x: moments(x), 0),
}


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.float32], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("name", CALLS)
def test_warm_calls_give_the_bits_of_a_full_call(name: str, dtype: Any, cupy: HostCuPy, checked: list[str]) -> None:
    call, parameters = CALLS[name]
    for seed in range(3):
        host = [
            numbers(seed, 6, 40, dtype=dtype),
            *(numbers(seed + k, 40, dtype=dtype) for k in range(1, parameters + 1)),
        ]
        expected = call(*host)
        del checked[:]
        found = call(*map(cupy.array, host))
        assert len(checked) == (seed == 0)
        assert not isinstance(expected, tuple) or type(found) is type(expected)
        for mine, theirs in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, expected)), strict=True):
            if isinstance(theirs, np.ndarray):
                assert isinstance(mine, cupy.cupy.ndarray) and mine.strides == theirs.strides
                assert same_bits(memory_of(mine), theirs)
            else:
                assert mine == theirs


def test_layouts(cupy: HostCuPy, checked: list[str]) -> None:
    """Each layout has a binding of its own, and results keep the layout that a full call gives them."""
    image = numbers(0, 2, 5, 6, 8)
    layouts = [image, image.transpose(0, 3, 1, 2), image[:, ::-1], image[..., ::2], image[:, 1:]]
    for warm in (False, True):
        for x in layouts:
            mean, var = np.zeros(x.shape[1], np.float32), np.ones(x.shape[1], np.float32)
            y = batch_norm(cupy.array(x), cupy.array(mean), cupy.array(var), training=True)
            after, after_var = np.zeros(x.shape[1], np.float32), np.ones(x.shape[1], np.float32)
            expected = batch_norm(x, after, after_var, training=True)
            assert y.strides == expected.strides
            assert same_bits(memory_of(y), expected)
            assert same_bits(mean, after)
            assert same_bits(var, after_var)
        assert checked.count("batch_norm") == 5 * 2 + 5 * warm  # NumPy's arrays take the full way always


def test_alignment_makes_a_difference(cupy: HostCuPy, checked: list[str]) -> None:
    """Same shape and strides, another address: the kernel that reads 16 bytes at once must not be launched."""
    room = numbers(0, 8 * 64 + 8, dtype=np.float16)
    for start in (0, 1, 0, 1, 8, 5, 2):
        x = room[start : start + 8 * 64].reshape(8, 64)
        assert same_bits(memory_of(rms_norm(cupy.array(x))), rms_norm(x))
    operation = rms_norm.operation
    assert len(operation._bindings) == 3  # aligned to 16, 2 and 4 bytes; 8 elements on it is 16 again


def test_in_place_and_not(cupy: HostCuPy, checked: list[str]) -> None:
    weight = numbers(9, 40)
    for seed, in_place in enumerate([True, False, False, True, True, False]):
        x = numbers(seed, 6, 40)
        expected, before = rms_norm(x, weight), x.copy()
        given = cupy.array(x)
        out = given if in_place else cupy.array(numbers(seed + 1, 6, 40))
        assert rms_norm(given, cupy.array(weight), out=out) is out
        assert same_bits(memory_of(out), expected)
        assert in_place or np.array_equal(x, before)
    assert checked.count("rms_norm") == 6 + 2


def test_what_overlaps_is_checked_in_every_call(cupy: HostCuPy) -> None:
    room, weight = cupy.array(numbers(0, 20, 40)), cupy.array(numbers(1, 40))
    x, out = room[:6], room[6:12]
    for _ in range(3):
        assert rms_norm(x, weight, out=out) is out
    for partly in (room[1:7], room[5:11]):
        with pytest.raises(ValueError, match="overlaps x in part"):
            rms_norm(x, weight, out=partly)
    with pytest.raises(ValueError, match="shares memory with weight"):
        rms_norm(x, room[8], out=out)
    wide = numbers(2, 6, 80)  # halves of one buffer: the ranges overlap, the elements do not
    halves = [cupy.array(wide)[:, :40], cupy.array(wide)[:, 40:]]
    for _ in range(2):
        rms_norm(halves[0], weight, out=halves[1])
    with pytest.raises(ValueError, match="overlaps x in part"):
        rms_norm(halves[0], weight, out=cupy.array(wide)[:, 20:60])


def test_one_array_under_two_names(cupy: HostCuPy) -> None:
    x, weight = numbers(0, 40), numbers(1, 40)
    given, other = cupy.array(x), cupy.array(weight)
    assert same_bits(memory_of(rms_norm(given, given)), rms_norm(x, x))
    for first, second, host in ((given, other, (x, weight)), (other, given, (weight, x)), (given, given, (x, x))):
        assert same_bits(memory_of(rms_norm(first, second)), rms_norm(*host))


def test_options_are_told_apart(cupy: HostCuPy) -> None:
    x = cupy.array(numbers(0, 6, 40))
    assert not np.array_equal(memory_of(rms_norm(x, eps=1)), memory_of(rms_norm(x, eps=2)))
    with pytest.raises(TypeError, match="eps is True"):
        rms_norm(x, eps=True)
    for wrong in ({"eps": [1]}, {"axis": [0]}, {"axis": 5}, {"rounding": "up"}, {"epsilon": 1}):
        for _ in range(2):
            with pytest.raises((TypeError, ValueError)):
                rms_norm(x, **wrong)
    with pytest.raises(TypeError, match="NumPy array"):
        rms_norm(x, np.ones(40, np.float32))
    with pytest.raises(TypeError, match="x is a list"):
        rms_norm([1.0])


def test_a_call_that_copies_has_no_binding(cupy: HostCuPy, checked: list[str]) -> None:
    for seed in range(3):
        x = numbers(seed, 4, 5, 6)
        y = rms_norm(cupy.array(x.transpose(2, 0, 1)), axis=(0, 2))
        assert same_bits(memory_of(y), rms_norm(x.transpose(2, 0, 1), axis=(0, 2)))
    assert checked.count("rms_norm") == 6
    assert set(rms_norm.operation._bindings.values()) == {None}


def test_no_rows(cupy: HostCuPy, launches: Launches) -> None:
    for _ in range(3):
        y, rstd = rms_norm(cupy.cupy.empty((0, 8), np.float16), return_stats=True)
        assert y.shape == (0, 8) and rstd.shape == (0, 1) and y.dtype == np.float16 and rstd.dtype == np.float32
    assert not launches


def test_stream_and_device_are_those_of_the_call(cupy: HostCuPy, launches: Launches) -> None:
    x = numbers(0, 6, 40)
    for device in (0, 1, 0, 1):
        for stream in (0, 77, 0):
            with cupy.current(stream, device):
                y = rms_norm(cupy.array(x, device))
            assert launches[-1] == (device, stream)
            assert y.data.device_id == device and cupy.allocated[-1][0] == device


def test_bindings_keep_no_array_alive(cupy: HostCuPy) -> None:
    x, weight, out = (cupy.array(numbers(0, *shape)) for shape in ((6, 40), (40,), (6, 40)))
    bound = plan(rms_norm, x, weight)
    results = [rms_norm(x, weight), rms_norm(x, weight), rms_norm(x, weight, out=out), bound(x, weight)]
    gone = [weakref.ref(array) for array in (x, weight, out, results[0], results[1], results[3])]
    del x, weight, out, results
    gc.collect()
    assert [reference() for reference in gone] == [None] * 6


def test_there_is_an_end_to_bindings(cupy: HostCuPy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bound_module, "MAX_BINDINGS", 4)
    for rows in range(1, 12):
        rms_norm(cupy.array(numbers(0, rows, 40)))
        assert 1 <= len(rms_norm.operation._bindings) <= 4


def test_results_at_odd_addresses_take_the_full_way(cupy: HostCuPy, checked: list[str]) -> None:
    x = numbers(0, 6, 40, dtype=np.float16)
    expected = rms_norm(x)
    rms_norm(cupy.array(x))
    allocate = cupy._allocate
    cupy.cupy.cuda.set_allocator(lambda size: allocate(size + 16) + 4)  # an allocator that knows no alignment
    assert same_bits(memory_of(rms_norm(cupy.array(x))), expected)
    assert checked == ["rms_norm"] * 3


def test_threads_share_bindings(cupy: HostCuPy) -> None:
    weight, right = numbers(0, 40), []
    given, bound = cupy.array(weight), plan(rms_norm, cupy.array(numbers(0, 6, 40)), cupy.array(weight))

    def work(seed: int) -> None:
        for k in range(10):
            x = numbers(100 * seed + k, 6, 40)
            results = [memory_of(call(cupy.array(x), given)) for call in (bound, rms_norm)]
            right.extend(same_bits(result, rms_norm(x, weight)) for result in results)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 80


# -- plans -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["NumPy", "CuPy"])
def test_a_plan(kind: str, cupy: HostCuPy, launches: Launches) -> None:
    make: Callable[[np.ndarray], Any] = cupy.array if kind == "CuPy" else np.asarray
    x, weight, out = numbers(0, 6, 40), numbers(1, 40), numbers(2, 6, 40)
    before = x.copy(), out.copy()
    bound = plan(rms_norm, make(x), make(weight), eps=1e-3, out=make(out))
    assert isinstance(bound, Plan) and not launches
    assert np.array_equal(x, before[0]) and np.array_equal(out, before[1])  # only rehearsed
    for seed in range(3):
        x, weight, out = numbers(seed, 6, 40), numbers(seed + 1, 40), numbers(0, 6, 40)
        expected = rms_norm(x, weight, eps=1e-3)
        given = make(out)
        assert bound(make(x), make(weight), out=given) is given
        assert same_bits(out, expected)
        assert same_bits(memory_of(bound(make(x), make(weight))), expected)
        in_place = make(x)
        assert bound(in_place, make(weight), out=in_place) is in_place
        assert same_bits(x, expected)


def test_a_plan_for_named_arrays_and_pairs(cupy: HostCuPy) -> None:
    x, update, weight = numbers(0, 6, 40), numbers(1, 6, 40), numbers(2, 40)
    expected = add_rms_norm(x, update, weight, return_stats=True)
    given = [cupy.array(array) for array in (x, update, weight)]
    bound = plan(add_rms_norm, given[0], given[1], weight=given[2], return_stats=True)
    for _ in range(2):
        found = bound(given[0], given[1], weight=given[2])
        assert type(found) is type(expected) and found._fields == expected._fields
        for mine, theirs in zip(found, expected, strict=True):
            assert same_bits(memory_of(mine), theirs)
    pair = (given[0], given[1])
    found = bound(*pair, weight=given[2], out=pair)
    assert found.h is given[0] and found.z is given[1]
    assert same_bits(x, expected.h)
    assert same_bits(update, expected.z)
    again = bound(given[0], given[1], out=(None, given[1]), weight=given[2])  # named in another order
    assert again.z is given[1] and again.h is not given[0]
    with pytest.raises(ValueError, match="weight of dtype float32, not float16"):
        bound(given[0], given[1], out=pair, weight=cupy.array(weight.astype(np.float16)))
    with pytest.raises(TypeError, match=r"takes 2 positional arguments, weight= and perhaps out=, no others"):
        bound(*pair)
    for wrong in ((given[0],), given[0], (given[0], given[1], given[2])):
        with pytest.raises((TypeError, ValueError), match=r"must be a pair|is for "):
            bound(*pair, weight=given[2], out=wrong)


@pytest.mark.parametrize("kind", ["NumPy", "CuPy"])
def test_what_does_not_fit_a_plan(kind: str, cupy: HostCuPy, launches: Launches) -> None:
    make: Callable[[np.ndarray], Any] = cupy.array if kind == "CuPy" else np.asarray
    room = make(numbers(0, 20, 48))
    x, weight = room[:6, :40], make(numbers(1, 40))
    bound = plan(rms_norm, x, weight)
    for args, message in [
        ((room[:5, :40], weight), r"x of shape \(6, 40\), not \(5, 40\)"),
        ((make(numbers(0, 6, 40)), weight), r"x of strides \(192, 4\), not \(160, 4\)"),
        ((room[:6, 1:41], weight), "x of alignment 0, not 4"),
        ((x, make(numbers(1, 40, dtype=np.float16))), "weight of dtype float32, not float16"),
        ((x, None), f"a {kind} array as weight, not a NoneType"),
        (
            (cupy.array(numbers(0, 6, 48), 1)[:, :40], weight),
            "x of device 0, not 1|a NumPy array as x, not a CuPy array",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            bound(*args)
    for args, named in (((x,), {}), ((x, weight, x), {}), ((x, weight), {"eps": 1e-5}), ((x,), {"weight": weight})):
        with pytest.raises(TypeError, match="takes 2 positional arguments and perhaps out=, no others"):
            bound(*args, **named)
    with pytest.raises(ValueError, match="overlaps x in part"):
        bound(x, weight, out=room[1:7, :40])
    bound(x, weight, out=room[6:12, :40])
    with pytest.raises(ValueError, match="overlap"):
        bound(x, weight, out=room[5:11, :40])
    count = len(launches)
    with pytest.raises(ValueError, match="overlap"):
        bound(room[1:7, :40], weight, out=room[6:12, :40])
    assert len(launches) == count


def test_what_cannot_be_planned(cupy: HostCuPy, launches: Launches) -> None:
    x = cupy.array(numbers(0, 4, 5, 6).transpose(2, 0, 1))
    out = numbers(1, 6, 4, 5)
    with pytest.raises(ValueError, match="an array is copied"):
        plan(rms_norm, x, axis=(0, 2), out=cupy.array(out))
    assert np.array_equal(out, numbers(1, 6, 4, 5)) and not launches
    row = x[0, 0]
    with pytest.raises(ValueError, match="one array stands for two"):
        plan(rms_norm, row, row)
    with pytest.raises(TypeError, match="cannot be looked at"):
        plan(rms_norm, [1.0])
    with pytest.raises(TypeError, match="plan binds operations"):
        plan(np.sum, x)
    with pytest.raises(ValueError, match="eps is -1"):  # what the operation itself says
        plan(rms_norm, x, eps=-1)


def test_operations_are_functions_still() -> None:
    assert rms_norm.__name__ == "rms_norm" and rms_norm.__module__ == "numba_norms.rms_norm"
    assert "root mean square" in (rms_norm.__doc__ or "")
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        rms_norm()


def test_a_number_in_an_array_is_looked_at_in_every_call(cupy: HostCuPy) -> None:
    x, weight = cupy.array(numbers(3, 3, 8)), cupy.array(np.ones(8, np.float32))
    small, large = (rms_norm(x, weight, eps=np.array(eps)) for eps in (1e-5, 10.0))
    assert not same_bits(memory_of(small), memory_of(large))
    assert same_bits(memory_of(large), rms_norm(numbers(3, 3, 8), eps=10.0))
    with pytest.raises(TypeError, match="cannot be looked at"):
        plan(rms_norm, x, weight, eps=np.array(1e-5))
