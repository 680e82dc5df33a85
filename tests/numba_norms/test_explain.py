"""explain: says what would be launched, and launches nothing."""

import numpy as np
import pytest

from numba_norms import add_rms_norm, batch_norm, explain, layer_norm, plan, rms_norm
from simulator import record


def test_nothing_is_computed():
    x, out = np.ones((4, 64), np.float16), np.full((4, 64), 7, np.float16)
    with record() as traces:
        explain(x, out=out)
        explain(rms_norm, x[:, ::2].reshape(2, 2, 32)[:, :, ::-1], axis=(0, 2), out=np.ones((2, 2, 32), np.float16))
    assert not traces
    assert (out == 7).all()


def test_nothing_is_copied_into_out():
    storage = np.full((4, 3, 40), 7, np.float32)
    out = storage[:, ::2, ::4].transpose(1, 0, 2)[:, ::-1]
    found = explain(layer_norm, np.ones(out.shape, np.float32), axis=(0, 2), out=out)
    assert "besides: an array is copied" in str(found)
    assert (storage == 7).all()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (
            (np.zeros((64, 4096), np.float16),),
            ["rms_norm_vector on 64 blocks of 256", "vector: 16 bytes a lane", "once"],
        ),
        ((np.zeros((64, 64), np.float16),), ["on 4 blocks of 128", "8 lanes, 1 access each", "16 rows a block"]),
        ((np.zeros((64, 4097), np.float16),), ["strided: D = 4097 is odd", "x twice"]),
        ((layer_norm, np.zeros((64, 4097), np.float16)), ["strided: D = 4097 is odd", "x three times"]),
        ((np.zeros((2, 100_000), np.float16),), ["stream:", "100000 is more than", "x twice"]),
        ((add_rms_norm, *[np.zeros((4, 8), np.float16)] * 2), ["update 64", "written h 64, y 64"]),
    ],
)
def test_what_it_says(args, words):
    text = str(explain(*args))
    assert all(word in text for word in words), text


def test_across():
    assert "across: 32 neighbouring tokens" in str(explain(rms_norm, np.zeros((64, 100), np.float16), axis=0))


def test_every_launch_is_told():
    found = explain(batch_norm, np.zeros((8, 4), np.float32), None, None, training=True)
    assert [launch.kernel.__name__ for launch in found.launches] == ["batch_norm_statistics", "batch_norm"]


def test_least_bytes_of_a_broadcast_array():
    text = str(explain(np.broadcast_to(np.zeros(64, np.float32), (1000, 64))))
    assert "read x 256;" in text


def test_no_rows():
    assert str(explain(np.zeros((0, 8), np.float32))) == "rms_norm: nothing to launch"


def test_registers_as_compiled():
    (registers,) = explain(np.zeros((4, 64), np.float16), capability=(9, 0)).registers
    assert 16 <= registers <= 64


@pytest.mark.parametrize("given", [print, np.zeros(4).fill, plan(rms_norm, np.ones((2, 4), np.float32))])
def test_what_is_no_operation_is_not_run(given):
    with pytest.raises(TypeError, match="operations of numba_norms"):
        explain(given, np.zeros((2, 4), np.float32))


def test_a_capability_is_a_pair():
    with pytest.raises(TypeError, match=r"capability is '9\.0'"):
        explain(np.zeros((2, 4), np.float32), capability="9.0")


def test_what_the_operation_refuses():
    with pytest.raises(TypeError, match="dtype int64"):
        explain(np.zeros((4, 64), np.int64))
