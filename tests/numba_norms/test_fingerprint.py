"""What identifies a kernel: everything its machine code depends on, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import cuda, float32
from numba.cuda.extending import intrinsic

from numba_norms import builtin
from numba_norms.gpu.fingerprint import Unidentifiable, fingerprint


def scaling(factor: Any) -> Any:
    @cuda.jit
    def scale(x):
        x[cuda.threadIdx.x] *= factor

    return scale


SOURCE = """
from numba import cuda
LIMIT = 7

@cuda.jit(device=True)
def helper(value):
    return value + 1

@cuda.jit
def kernel(x):
    # a remark
    x[0] = helper(x[0]) + LIMIT
"""


def of_source(text: str) -> str:
    names: dict[str, Any] = {"__name__": "written_here"}
    exec(text, names)
    return fingerprint(names["kernel"])


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("# a remark", "# another", True),
        ("x[0] = helper", "x[1] = helper", False),
        ("value + 1", "value + 2", False),
        ("value + 1", "value - 1", False),
        ("LIMIT = 7", "LIMIT = 8", False),
        ("LIMIT = 7", "LIMIT = 7.0", False),
        ("LIMIT = 7", "LIMIT = True", False),
        ("@cuda.jit\n", "@cuda.jit(fastmath=True)\n", False),
    ],
)
def test_fingerprint_of_a_source(old: str, new: str, same: bool) -> None:
    assert old in SOURCE
    assert (of_source(SOURCE) == of_source(SOURCE.replace(old, new))) == same


def test_fingerprint_of_closures() -> None:
    kernels = [builtin.rms_norm((1, 64)).kernel, builtin.rms_norm((1, 4097)).kernel, builtin.layer_norm((1, 64)).kernel]
    values = [
        2, 3, 2.0, True, None, "2", b"2", np.float32(2), np.float64(2), np.int32(2), float32, (2,), [2], {2: 3},
        frozenset({"a", "b"}), np.dtype(np.float32), np.zeros(2), np.zeros(3), range(2), np.float32, max, np.add,
        *kernels,
    ]  # fmt: skip
    found = [fingerprint(scaling(value)) for value in values]
    assert len(set(found)) == len(values)
    assert found == [fingerprint(scaling(value)) for value in values]


def test_fingerprint_of_an_intrinsic() -> None:
    """An intrinsic is a different object in each process, and what it generates is decided by its helpers."""

    def made(helper_adds: int) -> Any:
        def helper(builder: Any, value: Any) -> Any:
            return builder.add(value, value.type(helper_adds))

        @intrinsic
        def more(typingctx, value):
            def codegen(context, builder, signature, args):
                return helper(builder, args[0])

            return value(value), codegen

        @cuda.jit
        def kernel(x):
            x[0] = more(x[0])

        return kernel

    assert fingerprint(made(1)) == fingerprint(made(1)) != fingerprint(made(2))


def test_functions_may_call_each_other() -> None:
    def pair(constant: int) -> Any:
        @cuda.jit(device=True)
        def even(n):
            return constant if n == 0 else odd(n - 1)

        @cuda.jit(device=True)
        def odd(n):
            return 0 if n == 0 else even(n - 1)

        return odd

    assert fingerprint(pair(1)) == fingerprint(pair(1)) != fingerprint(pair(2))


UNKNOWN = object()


def test_what_has_no_lasting_name_is_refused() -> None:
    @cuda.jit
    def of_a_global(x):
        x[0] = 1 if x.size else UNKNOWN

    for kernel in (of_a_global, scaling(object()), scaling(np.array([object()])), scaling(builtin)):
        with pytest.raises(Unidentifiable, match="a kernel reaches "):
            fingerprint(kernel)
