"""Arrays of addresses: they lie as NumPy's do, keep their owner alive, and nobody reads them."""

import copy
import gc
import operator
import pickle
import weakref

import ml_dtypes
import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from numba_norms.arrays import Array, place_of
from numba_norms.arrays.addresses import (
    DeviceLayout,
    address_of,
    device_layout,
    overlap,
    overlaps_itself,
    same_elements,
)
from numba_norms.arrays.places import NUMPY

FLOAT32 = np.dtype(np.float32)
NOWHERE = 0x7F00_0000_0000
"""An address that the CPU cannot read: a test that reads it does not live to tell."""


class Owner:
    """Something that can be watched."""


def layout(shape=(4, 6), strides=None, owner=None):
    return device_layout(NOWHERE, shape, FLOAT32, strides, owner)


def over(host):
    """The layout of an array in the CPU's memory."""
    return device_layout(address_of(host), host.shape, host.dtype, host.strides, host)


READS = {
    "==": lambda a: a == a,
    "!=": lambda a: a != 1,
    "<": lambda a: a < a,
    "1 + a": lambda a: 1 + a,
    "NumPy's number + a": lambda a: np.float32(1) + a,
    "array - a": lambda a: np.ones(6, np.float32) - a,
    "-a": operator.neg,
    "a += 1": lambda a: operator.iadd(a, 1),
    "a @ a": lambda a: a @ a.T,
    "bool": bool,
    "float": lambda a: float(a[0, 0]),
    "int": lambda a: int(a[0, 0]),
    "a complete index": lambda a: a[0, 0] + 1,
    "list of indices": lambda a: a[[0]],
    "mask": lambda a: a[np.ones((4, 6), bool)],
    "True for an index": lambda a: a[True],
    "iteration": list,
    "in": lambda a: 1 in a,
    "assignment": lambda a: operator.setitem(a, 0, 1),
    "np.sum": np.sum,
    "sum": lambda a: a.sum(),
    "np.add": lambda a: np.add(a, a),
    "out= of a ufunc": lambda a: np.add(1, 1, out=a),
    "np.copyto": lambda a: np.copyto(a, 1),
    "np.array_equal": lambda a: np.array_equal(a, a),
    "np.isnan": np.isnan,
    "astype": lambda a: a.astype(np.float64),
    "copy": lambda a: a.copy(),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "tolist": lambda a: a.tolist(),
    "tobytes": lambda a: a.tobytes(),
    "item": lambda a: a.item(0),
    "fill": lambda a: a.fill(0),
    "flat": lambda a: a.flat,
    "real": lambda a: a.real,
    "ravel": lambda a: a.ravel(),
    "sort": lambda a: a.sort(),
    "hash": hash,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_nothing_reads_or_writes_an_element(read):
    with pytest.raises(TypeError):
        read(layout())


def test_what_is_printed_is_where_it_lies():
    a = layout()[1:, ::2]
    words = "<float32 (3, 3) at 0x7f0000000018 on the device, strides (24, 8)>"
    assert repr(a) == str(a) == f"{a}" == words


def test_a_reshape_that_would_copy_is_refused():
    for reshape in (lambda a: a.reshape(24), lambda a: a.reshape(24, copy=True), lambda a: a.reshape((24,), copy=None)):
        assert reshape(layout()).shape == (24,)
        with pytest.raises(ValueError, match="copy"):
            reshape(layout().T)


@st.composite
def views(draw):
    """A NumPy array, and the same steps taken from the layout of its memory."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    dtype = draw(st.sampled_from([np.float16, ml_dtypes.bfloat16, np.float32, np.float64]))
    base = np.zeros(shape, dtype)
    a, b = base, over(base)
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            order = draw(st.permutations(range(a.ndim)))
            a, b = a.transpose(order), b.transpose(order)
        else:
            step = draw(st.sampled_from([1, 2, -1, -2]))
            cut = tuple(slice(None, None, step) if n > 1 and draw(st.booleans()) else slice(None) for n in a.shape)
            a, b = a[cut], b[cut]
    return base, a, b


@given(views())
def test_views_lie_as_those_of_numpy(case):
    base, a, b = case
    for found in (b, over(a)):
        assert type(found) is DeviceLayout
        assert same_elements(a, found)
        assert (a.flags.c_contiguous, a.flags.f_contiguous) == (found.flags.c_contiguous, found.flags.f_contiguous)
        assert found.flags.aligned
    assert overlaps_itself(b) == overlaps_itself(a) is False
    assert overlap(b, over(base[:1])) == overlap(a, base[:1])


def test_negative_strides_and_all_of_memory():
    host = np.arange(24, dtype=np.float32).reshape(4, 6)
    for view in (host[::-1, ::-1], host[::-2].T, host[:, ::-5], np.broadcast_to(host[1], (9, 6))[::-1]):
        assert np.array_equal(over(view).view(np.ndarray), view)
    large = device_layout(NOWHERE, (1 << 20, 1 << 25), FLOAT32, None, None)
    assert large.size == 1 << 45 and address_of(large[-1, -1]) == NOWHERE + 4 * (large.size - 1)
    assert address_of(device_layout(NOWHERE, (2,), FLOAT32, (-(1 << 40),), None)) == NOWHERE


def test_numba_sees_the_layout_that_is_there():
    """numba-cuda 0.30.4 compares byte strides of foreign arrays with bits: it takes x[::8] for contiguous."""
    eighth = layout((4,), strides=(32,))
    assert numba.typeof(eighth).layout == "A"
    assert numba.typeof(layout((4, 6), strides=(192, 32))).layout == "A"
    assert numba.typeof(layout((4,), strides=(4,))).layout == "C"
    assert numba.typeof(layout((1, 6), strides=(999, 4))).layout == "C"  # one row has no next one


@pytest.mark.parametrize("step", [lambda a: a, lambda a: a.T, lambda a: a[1:, ::2], lambda a: a.reshape(24)[3:]])
def test_a_view_keeps_the_owner_alive(step):
    owner = Owner()
    watched = weakref.ref(owner)
    view = step(layout(owner=owner))
    plain = view.view(np.ndarray)
    del owner, view
    gc.collect()
    assert watched() is not None
    del plain
    gc.collect()
    assert watched() is None


def test_an_array_without_elements_may_lie_at_0():
    empty = device_layout(0, (0, 3), FLOAT32, None, None)
    assert type(empty) is DeviceLayout and empty.shape == (0, 3)
    assert not overlap(empty, layout()) and not overlaps_itself(empty)
    assert device_layout(NOWHERE, (3, 0), FLOAT32, (-8, 4), None).size == 0
    with pytest.raises(ValueError, match="has no memory"):
        device_layout(0, (3,), FLOAT32, None, None)


def test_what_straddles_its_alignment_is_copied():
    records = np.zeros((3, 40), np.dtype([("tag", np.uint8), ("value", np.float32)]))
    records["value"] = np.arange(120).reshape(3, 40)
    array = Array.of(records["value"])
    dense = array.arranged((1, 0), (40, 3))
    assert dense.flags.aligned and np.array_equal(dense, records["value"].T)
    target = array.target((1, 0), (40, 3))
    target.memory[...] = np.arange(120).reshape(40, 3)
    assert records["value"][0, 1] == 1
    target.finish()
    assert np.array_equal(records["value"].T, np.arange(120).reshape(40, 3)) and not records["tag"].any()


def test_a_target_that_is_updated_starts_with_what_is_there():
    storage = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    target = Array.of(storage.transpose(2, 0, 1)).target((2, 1, 0), (6, 4), updated=True)
    assert target.memory.shape == (6, 4)
    target.memory[...] += 1
    target.finish()
    assert np.array_equal(storage, np.arange(1, 25).reshape(2, 3, 4))


def test_a_view_needs_no_copy_and_no_way_back():
    x = np.zeros((4, 6, 5), np.float32)
    array = Array.of(x)
    assert np.shares_memory(array.arranged((1, 0, 2), (6, 4, 5)), x)
    assert np.shares_memory(array.target((0, 1, 2), (24, 5)).memory, x)
    assert array.target((0, 1, 2), (24, 5)).copy_back is None
    assert array.target((1, 0, 2), (24, 5)).copy_back is not None


def test_the_place_of_numpy():
    assert place_of(np.zeros(3)) is NUMPY
    assert (NUMPY.name, NUMPY.device) == ("NumPy", None)
    assert Array.of(Array.of(np.zeros(3))).place is NUMPY
    assert type(Array.of(np.zeros(3).view(np.recarray)).memory) is np.ndarray
    with pytest.raises(TypeError, match="no streams"):
        NUMPY.stream()


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9)), max_size=4))
def test_overlap_of_a_layout_with_itself(axes):
    shape, strides = tuple(n for n, _ in axes), tuple(4 * step for _, step in axes)
    host = as_strided(np.zeros(1, np.float32), shape, strides)  # only its addresses are looked at
    assert overlaps_itself(device_layout(NOWHERE, shape, FLOAT32, strides, None)) == overlaps_itself(host)
