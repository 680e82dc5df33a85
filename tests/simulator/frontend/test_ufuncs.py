"""NumPy's ufuncs in kernels, against NumPy: every ufunc that Numba has code for, on numbers and on arrays."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda
from numba.cuda.ufuncs import ufunc_db

from simulator import simulate
from simulator.errors import Unsupported
from simulator.frontend import lower_kernel
from simulator.frontend.refusal import DoesNotCompile
from tests.simulator.frontend.conftest import run_kernel

UFUNCS = sorted(ufunc_db(), key=lambda ufunc: ufunc.__name__)
SPECIAL = [0.0, -0.0, 0.5, -0.5, 1.5, -3.25, 40.0, np.nan, np.inf, -np.inf]
INTEGERS = [0, 1, 2, 3, 5, 77, 100]
OPERANDS = {
    "f4": np.array(SPECIAL, "f4"),
    "f8": np.array(SPECIAL),
    "i4": np.array([*INTEGERS, -1, -2, -100], "i4"),
    "u8": np.array([*INTEGERS, 2**63, 2**64 - 1], "u8"),
    "b1": np.array([True, False, True]),
    "c8": np.array([0, 1, -1, 0.5 - 2j, 0.3 + 0.7j, -1.5 - 0.25j], "c8"),
    "c16": np.array([0, 1, -1, 0.5 - 2j, 0.3 + 0.7j, -1.5 - 0.25j]),
}


def kernel_of(ufuncs):
    """A kernel that gives the results of all ufuncs for one element a thread, one array for each."""
    calls = [f" y{k}[i] = np.{u.__name__}(x[i]{', w[i]' if u.nin == 2 else ''})" for k, u in enumerate(ufuncs)]
    outs = ", ".join(f"y{k}" for k in range(len(ufuncs)))
    scope = {"np": np, "cuda": cuda}
    exec("\n".join([f"def kernel(x, w, {outs}):", " i = cuda.grid(1)", *calls]), scope)
    return cuda.jit(scope["kernel"])


def operands(ufunc, code):
    x = OPERANDS[code]
    w = np.roll(x, 3)
    return (x, (w % 8).astype(x.dtype)) if "shift" in ufunc.__name__ and x.dtype.kind in "iu" else (x, w)


def numpys(ufunc, code):
    """What NumPy gives, None where it has no such loop."""
    with np.errstate(all="ignore"):
        try:
            return ufunc(*operands(ufunc, code)[: ufunc.nin])
        except TypeError:
            return None


@pytest.mark.parametrize("code", OPERANDS)
@pytest.mark.parametrize("shifts", [False, True], ids=["most", "shifts"])
def test_every_ufunc_on_numbers(code, shifts):
    ufuncs = [u for u in UFUNCS if ("shift" in u.__name__) == shifts and numpys(u, code) is not None]
    if not ufuncs:
        return
    x, w = operands(ufuncs[0], code)
    expected = [numpys(ufunc, code) for ufunc in ufuncs]
    outs = [np.zeros(len(x), "f4" if e.dtype == np.float16 else e.dtype) for e in expected]
    simulate(kernel_of(ufuncs))[1, len(x)](x, w, *outs)
    for ufunc, found, right in zip(ufuncs, outs, expected, strict=True):
        half, single = right.dtype == np.float16, x.dtype in (np.float32, np.complex64)
        rtol, atol = (3e-3, 1e-6) if half else (2e-6, 1e-6) if single else (1e-14, 1e-15)
        np.testing.assert_allclose(found, right, rtol=rtol, atol=atol, err_msg=ufunc.__name__)


@pytest.mark.parametrize("code", OPERANDS)
def test_what_numpy_has_no_loop_for_does_not_compile(code):
    x = OPERANDS[code]
    for ufunc in UFUNCS:
        if numpys(ufunc, code) is None:
            with pytest.raises(DoesNotCompile):
                lower_kernel(kernel_of([ufunc]), (x, x, np.zeros(len(x))))


def test_operands_of_different_types_meet_in_numpys_loop(run):
    @cuda.jit
    def kernel(x, w, y):
        i = cuda.grid(1)
        y[i, 0] = np.fmax(x[i], w[i])  # int32 and float32 meet in float64
        y[i, 1] = np.less(w[i], 0.1)
        y[i, 2] = np.bitwise_and(x[i], np.int8(-2))

    x, w = np.array([3, -4, 2**31 - 1], "i4"), np.array([0.1, -7.5, 2.0**31], "f4")
    found = run(kernel, 1, 3, x, w, np.zeros((3, 3)))
    np.testing.assert_array_equal(found, np.array([np.fmax(x, w), w < 0.1, x & -2], float).T)


def test_signed_and_unsigned_compare_by_value(run):
    @cuda.jit
    def kernel(x, w, y):
        i = cuda.grid(1)
        y[i, 0] = np.less(x[i], w[i])
        y[i, 1] = np.greater_equal(x[i], w[i])
        y[i, 2] = np.equal(w[i], x[i])

    x, w = np.array([-1, 5, 2**62]), np.array([2**64 - 1, 5, 2**63], "u8")
    found = run(kernel, 1, 3, x, w, np.zeros((3, 3), bool))
    np.testing.assert_array_equal(found, np.array([[1, 0, 0], [0, 1, 1], [1, 0, 0]], bool))


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_arrays_with_out_broadcast_like_numpy(data):
    """Every thread writes all elements of the last array."""
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    parts = []
    for _ in range(2):
        kept = shape[data.draw(st.integers(0, len(shape))) :]
        parts.append(tuple(1 if data.draw(st.booleans()) else extent for extent in kept))
    generator = np.random.default_rng(1)
    x, w = (generator.normal(size=part).astype("f4") if part else np.float32(0.25) for part in parts)
    out = np.zeros(shape, "f8")

    @cuda.jit
    def kernel(x, w, out):
        np.arctan2(x, w, out)

    found = run_kernel(kernel, 1, 3, x, w, out)
    np.testing.assert_allclose(found, np.broadcast_to(np.arctan2(x, w), shape), rtol=1e-6)


def test_an_array_may_be_the_result_of_itself_and_of_complex_numbers(run):
    @cuda.jit
    def kernel(x):
        np.conjugate(x, x)

    x = np.array([[1 + 2j, 3 - 1j, 5j]], "c8").T[:, ::-1]
    found = run(kernel, 1, 1, x.copy())
    np.testing.assert_array_equal(found, x.conj())


def test_isnan_of_times_is_nat(run):
    @cuda.jit
    def kernel(t, y):
        i = cuda.grid(1)
        y[i] = np.isnan(t[i])

    found = run(kernel, 1, 2, np.array(["NaT", "2024-02-29"], "M8[D]"), np.zeros(2, bool))
    assert found.tolist() == [True, False]


def test_what_the_cuda_target_has_no_code_for_does_not_compile(run):
    def exp(x, y):
        y[0] = np.exp(x[0])

    def add(x, y):
        y[0] = np.add(x[0], x[1])

    def no_result(x, y):
        y[0] = np.sin(x)[0]

    reasons = {exp: "no code for numpy.exp on float32", add: "no code for numpy.add", no_result: "needs an array"}
    for kernel, words in reasons.items():
        with pytest.raises(DoesNotCompile, match=words):
            run(cuda.jit(kernel), 1, 1, np.ones(4, "f4"), np.zeros(4, "f4"))


def test_arguments_by_name_are_refused(run):
    @cuda.jit
    def kernel(x, y):
        np.sin(x, out=y)

    with pytest.raises((Unsupported, DoesNotCompile)):
        run(kernel, 1, 1, np.ones(4), np.zeros(4))
