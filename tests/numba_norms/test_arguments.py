"""What is refused, and that the message names the mend."""

import itertools
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from numba_norms import layer_norm, moments, rms_norm
from numba_norms.arrays.addresses import overlaps_itself

X = np.ones((3, 4), np.float32)
W = np.ones(4, np.float32)


REFUSED = {
    "integers": (lambda: rms_norm(np.ones(4, int)), TypeError, "x has dtype int64.*astype"),
    "complex": (lambda: layer_norm(np.ones(4, complex)), TypeError, "complex128"),
    "other byte order": (lambda: rms_norm(np.ones(4, ">f4")), TypeError, "dtype >f4"),
    "a list": (lambda: rms_norm([1.0, 2.0]), TypeError, "x is a list"),
    "a masked array": (lambda: rms_norm(np.ma.masked_array(X)), TypeError, "masked"),
    "weight of integers": (lambda: rms_norm(X, np.ones(4, int)), TypeError, "weight has dtype int64"),
    "a tuple for weight": (lambda: layer_norm(X, (4,)), TypeError, r"weight is \(4,\).*`axis`"),
    "an int for weight": (lambda: rms_norm(X, 4), TypeError, "weight is 4.*`axis`"),
    "a list for weight": (lambda: rms_norm(X, [1.0] * 4), TypeError, "weight is a list"),
    "a tuple for bias": (lambda: layer_norm(X, W, (4,)), TypeError, "bias is .*`axis`"),
    "weight too long": (lambda: rms_norm(X, np.ones(5, np.float32)), ValueError, r"\(5,\).*\(3, 4\).*axis 1.*\(4,\)"),
    "weight of other axis": (lambda: rms_norm(X, W, axis=0), ValueError, r"needs \(3,\)"),
    "weight like x": (lambda: rms_norm(X, X), ValueError, r"needs \(4,\)"),
    "weight to broadcast": (lambda: rms_norm(X, np.ones(1, np.float32)), ValueError, r"needs \(4,\)"),
    "axis too large": (lambda: rms_norm(X, axis=2), ValueError, "axis 2 is out of bounds"),
    "axis too small": (lambda: moments(X, axis=-3), ValueError, "axis -3 is out of bounds"),
    "axis of a scalar": (lambda: rms_norm(np.ones((), np.float32)), ValueError, "out of bounds"),
    "axis twice": (lambda: layer_norm(X, axis=(1, -1)), ValueError, "twice"),
    "no axis": (lambda: layer_norm(X, axis=()), ValueError, "at least one"),
    "axis of floats": (lambda: layer_norm(X, axis=1.0), TypeError, "axis is 1.0"),
    "axis None": (lambda: layer_norm(X, axis=None), TypeError, "axis is None"),
    "empty axis": (lambda: rms_norm(np.ones((3, 0), np.float32)), ValueError, "empty"),
    "empty axis of moments": (lambda: moments(np.ones((0, 3), np.float32), axis=0), ValueError, "empty"),
    "negative eps": (lambda: rms_norm(X, eps=-1e-6), ValueError, "eps"),
    "infinite eps": (lambda: rms_norm(X, eps=float("inf")), ValueError, "eps"),
    "NaN eps": (lambda: layer_norm(X, eps=float("nan")), ValueError, "eps"),
    "no eps": (lambda: rms_norm(X, eps=None), TypeError, "eps is None"),
    "eps beyond float64": (lambda: rms_norm(X, eps=10**400), ValueError, "eps is an integer beyond float64"),
    "eps too long to print": (lambda: layer_norm(X, eps=-(10**5000)), ValueError, "eps is an integer beyond float64"),
    "eps beyond float32": (lambda: rms_norm(X, eps=1e300), ValueError, "eps is 1e.300; it must be finite in float32"),
    "eps beyond float32 for float16": (
        lambda: layer_norm(X.astype(np.float16), eps=1e39),
        ValueError,
        "finite in float32",
    ),
    "eps negative, 0 in float32": (lambda: rms_norm(X, eps=-1e-60), ValueError, "eps is -1e-60.*not negative"),
    "eps of digits": (lambda: rms_norm(X, eps="1e-5"), TypeError, "eps is '1e-5'; it must be a number"),
    "eps of bytes": (lambda: rms_norm(X, eps=b"1"), TypeError, "eps is b'1'"),
    "eps of NumPy's digits": (lambda: layer_norm(X, eps=np.str_("1")), TypeError, "eps is"),
    "eps True": (lambda: layer_norm(X, eps=True), TypeError, "eps is True"),
    "eps of NumPy's True": (lambda: layer_norm(X, eps=np.True_), TypeError, "eps is np.True_"),
    "eps complex": (lambda: rms_norm(X, eps=np.complex64(1)), TypeError, "eps is"),
    "eps with an axis": (lambda: rms_norm(X, eps=np.ones(1)), TypeError, "eps is"),
    "unknown variance": (lambda: layer_norm(X, variance="one-pass"), ValueError, "'two-pass', 'welford'"),
    "variance in a list": (lambda: layer_norm(X, variance=["two-pass"]), ValueError, r"is \['two-pass'\]; it must be"),
    "out of another shape": (lambda: rms_norm(X, out=np.ones((4, 3), np.float32)), ValueError, r"\(4, 3\)"),
    "out of another dtype": (lambda: rms_norm(X, out=np.ones((3, 4), np.float16)), TypeError, "float16.*float32"),
    "masked out": (lambda: layer_norm(X, out=np.ma.masked_array(X.copy())), TypeError, "out is a masked array"),
    "out no array": (lambda: rms_norm(X, out=(None,)), TypeError, "out is a tuple"),
}


@pytest.mark.parametrize(("call", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_read_only_out():
    out = np.ones((3, 4), np.float32)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        rms_norm(X, out=out)


@pytest.mark.parametrize("strides", [(0, 4), (4, 4), (4, -4), (12, 4), (8, 4), (2, 12)], ids=str)
def test_out_with_one_address_for_several_elements(strides):
    memory = np.full(32, 7, np.float32)
    out = as_strided(memory[4:], (3, 4), strides)
    with pytest.raises(ValueError, match="out overlaps itself"):
        rms_norm(X, out=out)
    with pytest.raises(ValueError, match="out overlaps itself"):
        layer_norm(out, out=out)
    assert (memory == 7).all()


def test_out_with_interleaved_rows_is_no_overlap():
    out = as_strided(np.zeros(16, np.float32), (2, 3), (12, 8))  # elements 0, 2, 4 and 3, 5, 7
    assert (rms_norm(np.ones((2, 3), np.float32), eps=0, out=out) == 1).all()


axes = st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9)), max_size=4)


@given(axes, st.sampled_from([1, 2, 4]))
def test_overlap_of_an_array_with_itself(axes, itemsize):
    shape, strides = [n for n, _ in axes], [stride for _, stride in axes]
    array = as_strided(np.zeros(1, f"u{itemsize}"), shape, strides)  # only its addresses are looked at
    starts = [sum(map(int.__mul__, at, strides)) for at in itertools.product(*map(range, shape))]
    taken = [start + byte for start in starts for byte in range(itemsize)]
    assert overlaps_itself(array) == (len(set(taken)) < len(taken))


@pytest.mark.parametrize("shape", [(0, 8), (2, 0, 8)])
def test_out_without_rows(shape):
    x, out = np.empty(shape, np.float32), np.empty(shape, np.float32)
    assert rms_norm(x, out=out) is out
    assert layer_norm(x, out=x) is x


@pytest.mark.parametrize(
    "eps",
    [1, 0.5, Fraction(1, 2), np.float16(0.5), np.array(0.5), np.int8(1), ml_dtypes.bfloat16(0.5), 1e38],
    ids=repr,
)
def test_any_real_number_is_an_eps(eps):
    assert np.array_equal(rms_norm(X, eps=eps), rms_norm(X, eps=float(eps)))


def test_large_eps_of_float64():
    assert rms_norm(np.ones(4), eps=1e300).tolist() == [1e-150] * 4


@pytest.mark.parametrize(
    ("of_x", "of_out"),
    [(np.s_[:3], np.s_[1:]), (np.s_[:3], np.s_[2::-1]), (np.s_[:0:-1], np.s_[:3])],
    ids=["shifted", "reversed", "reversed and shifted"],
)
def test_out_overlapping_x_in_part(of_x, of_out):
    memory = np.ones((4, 4), np.float32)
    with pytest.raises(ValueError, match="overlaps x in part"):
        layer_norm(memory[of_x], out=memory[of_out])
    assert memory.all()


def test_out_overlapping_a_weight():
    out = np.ones((3, 4), np.float32)
    with pytest.raises(ValueError, match="out shares memory with weight"):
        rms_norm(X, out[1], out=out)
    with pytest.raises(ValueError, match="out shares memory with bias"):
        layer_norm(X, W, out[0], out=out)


def test_nothing_is_written_when_something_is_refused():
    out = np.full((3, 4), 7, np.float32)
    with pytest.raises(ValueError, match="eps"):
        rms_norm(X, out=out, eps=-1)
    assert (out == 7).all()


def test_keywords_are_keywords():
    with pytest.raises(TypeError):
        rms_norm(X, W, 1e-6)
    with pytest.raises(TypeError):
        layer_norm(X, W, W, 1e-5)
