"""Anything at all for the stand-in device: Numba or we refuse it, no accident inside, and nothing stays patched."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numba import cuda
from numba.core.errors import NumbaError as CoreError
from numba.cuda.core.errors import NumbaError
from numba.cuda.cudadrv.driver import CudaAPIError

from simulator import device
from tests.fuzz.junk import HOMES, answer, anything, arrays, fuzz, numbers, origin, texts

OPTIONS = "check orders seed card record on_trace keep watch lineage max_events max_steps values precision operations"
likely = st.one_of(numbers, anything, texts, st.lists(st.one_of(numbers, texts), max_size=3))


@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


REFUSALS = (TypeError, ValueError, LookupError, AttributeError, NotImplementedError, RuntimeError, OverflowError,
            MemoryError, NumbaError, CoreError, SystemError)  # fmt: skip
"""What Numba's host side, which stands in front of us, raises for what it cannot take; its C code, too."""


def hosted(call: Any) -> None:
    """A call that is carried out or refused: by us, by Numba or, where the driver is asked, in the driver's words."""
    try:
        answer(call)
    except CudaAPIError:
        return
    except REFUSALS as error:
        if origin(error)[0].startswith(HOMES):
            raise


@fuzz(40, st.dictionaries(st.sampled_from(OPTIONS.split()), likely, max_size=2))
def test_options(options: dict[str, Any]) -> None:
    public = cuda.to_device, cuda.current_context

    def call() -> None:
        with device(**options):
            x = cuda.to_device(np.ones(4, np.float32))
            double[1, 4](x)
            assert x.copy_to_host().tolist() == [2, 2, 2, 2]

    answer(call)
    assert public == (cuda.to_device, cuda.current_context)


@fuzz(40, st.lists(st.tuples(st.integers(0, 8), likely, likely, st.one_of(arrays(), anything)), max_size=5))
def test_host_calls(calls: list[Any]) -> None:
    with device(max_steps=1000):
        for which, first, second, array in calls:
            held = cuda.to_device(np.arange(12, dtype=np.float32).reshape(3, 4))
            attempts = (
                lambda: cuda.to_device(array),
                lambda: cuda.device_array(first, second),
                lambda: cuda.pinned_array(first, second),
                lambda: held[first].copy_to_host(),
                lambda: held.__setitem__(first, second),
                lambda: held.copy_to_host(array),
                lambda: held.reshape(first),
                lambda: double[first, second](held),
                lambda: double[1, 4](array),
            )
            hosted(attempts[which])
        again = cuda.to_device(np.ones(4, np.float32))
        double[1, 4](again)
        assert again.copy_to_host().tolist() == [2, 2, 2, 2], "the device still works"
