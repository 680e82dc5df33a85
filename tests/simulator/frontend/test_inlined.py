"""Functions that Numba writes into their callers: their operations bear their own file, line and names."""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import cuda

import simulator
from simulator import simulate
from simulator.compiled import MachineCode, NotCompiled
from simulator.errors import SimulationError
from simulator.frontend import front_end, lower_kernel
from simulator.program import Program

Run = Callable[..., Any]


def first_of(function: Any) -> int:
    """The line of the decorator."""
    return getattr(function, "py_func", function).__code__.co_firstlineno


def named(program: Program) -> set[str]:
    """The names that slots have."""
    return {slot.name for slot in program.slots if slot.name}


@cuda.jit(device=True, inline="always")
def shifted(x, i):
    j = i + 1
    if j < x.shape[0]:
        return x[j]
    return x[0]


def test_operations_are_those_of_the_function(run: Run) -> None:
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        shifted_v4_x = x[i] * 2
        out[i] = shifted(x, i) + shifted_v4_x

    x = np.arange(3.0)
    assert run(kernel, 1, 3, x, np.zeros(3)).tolist() == [1, 4, 4]
    program = lower_kernel(kernel, (x, x))
    places = {(op.kind, op.pos.file, op.pos.line, op.pos.function) for op in program.ops() if op.kind in ("ld", "st")}
    own, other = first_of(kernel), first_of(shifted)
    assert places == {
        ("ld", __file__, own + 3, "kernel"),
        ("st", __file__, own + 4, "kernel"),
        ("ld", __file__, other + 4, "shifted"),
        ("ld", __file__, other + 5, "shifted"),
    }
    assert named(program) >= {"shifted_v4_x", "j", "i"}  # the first is the kernel's own
    assert not [name for name in named(program) if "$" in name or "@" in name or "_v4_j" in name]


def test_columns_are_those_of_the_kernel_alone() -> None:
    @cuda.jit
    def kernel(x, out):
        out[0] = x[1] + (lambda k: x[k + 2])(0)

    loads = [op for op in lower_kernel(kernel, (np.zeros(3), np.zeros(3))).ops() if op.kind == "ld"]
    assert [(op.pos.function, op.pos.column) for op in loads] == [("kernel", 18), ("<lambda>", None)]


def test_closures_keep_their_names(run: Run) -> None:
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)

        def twice(value):
            double = value + value
            return double * x[i]

        out[i] = twice(x[i])

    x = np.arange(3.0)
    assert run(kernel, 1, 3, x, np.zeros(3)).tolist() == [0, 2, 8]
    program = lower_kernel(kernel, (x, x))
    assert "double" in named(program)
    assert {(op.pos.line - first_of(kernel), op.pos.function) for op in program.ops() if op.kind == "mul"} >= {
        (6, "twice")
    }


def in_another_file(source: str, name: str, **names: Any) -> Any:
    """A function of a file that there is not."""
    linecache.cache[f"/tmp/{name}.py"] = (len(source), None, source.splitlines(True), f"/tmp/{name}.py")
    exec(compile(source, f"/tmp/{name}.py", "exec"), names)
    return names[name]


@pytest.mark.parametrize("values", ["affine", "vector"])
def test_findings_name_the_other_file(values: str) -> None:
    outer = in_another_file("def outer(x, i):\n    k = i * 8\n    return x[k]\n", "outer")
    outer = cuda.jit(outer, device=True, inline="always")
    inner = in_another_file("\n\ndef inner(x, i):\n    return outer(x, i) + x[0]\n", "inner", outer=outer)
    inner = cuda.jit(inner, device=True, inline="always")

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        out[i] = inner(x, i)

    trace = simulate(kernel, check=True, values=values)[1, 2](np.zeros(4), np.zeros(2))
    (finding,) = (finding for finding in trace.findings if finding.kind == "out-of-bounds")
    assert [(site.file, site.line, site.function) for site in finding.sites] == [("/tmp/outer.py", 3, "outer")]
    assert {(row.file, row.line) for row in trace.lines if row.operation == "load"} == {
        ("/tmp/outer.py", 3),
        ("/tmp/inner.py", 4),
    }


def test_raises_and_barriers_of_inlined_functions() -> None:
    @cuda.jit(device=True, inline="always")
    def guarded(x):
        cuda.syncthreads
        if x < 0:
            raise ValueError("negative")
        return x

    @cuda.jit(debug=True, opt=False)
    def kernel(x):
        x[0] = guarded(x[0])

    findings = {
        finding.kind: finding.sites[0] for finding in simulate(kernel, check=True)[1, 1](np.full(1, -1.0)).findings
    }
    line = first_of(guarded)
    assert (findings["kernel-exception"].line, findings["kernel-exception"].function) == (line + 4, "guarded")
    assert findings["barrier-not-called"].line == line + 2


def test_numbas_own_functions_bear_the_line_of_their_call() -> None:
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if x[i]:  # Numba inlines bool()
            out[i] = 1

    line = first_of(kernel)
    program = lower_kernel(kernel, (np.zeros(4), np.zeros(4)))
    assert {op.pos.file for op in program.ops()} == {__file__}
    assert {op.pos.line - line for op in program.ops()} <= {2, 3, 4}


def test_a_refusal_names_the_variable() -> None:
    @cuda.jit(device=True, inline="always")
    def torn(x):
        y = x + 1
        if x > 3:
            y = (1, 2)
        return y

    @cuda.jit
    def kernel(out):
        out[0] = torn(out[0])

    with pytest.raises(SimulationError, match=r"Cannot unify .* for 'y\.\d'"):
        simulate(kernel)[1, 1](np.zeros(1))


def machine_code(kernel: Any, *args: Any) -> MachineCode:
    half = front_end().half
    try:
        return half.machine_code(kernel, tuple(map(half.typeof, args)), (8, 0))
    except NotCompiled as error:
        pytest.skip(str(error))


def test_compiled_code_stands_where_the_operations_do() -> None:
    density = in_another_file("def density(x):\n    y = x\n    return 0.3 * y\n", "density")
    density = cuda.jit(density, device=True, inline="always")

    @cuda.jit
    def kernel(x):
        i = cuda.grid(1)
        if x[i] > 3:
            x[i] = density(x[i])
        x[i] = math.sqrt(x[i])

    code = machine_code(kernel, np.zeros(3, np.float32))
    assert {line for line, _ in code.float64_instructions()} == {("density.py", 3)}


@pytest.mark.filterwarnings("ignore:Grid size")
def test_vectorize_names_the_users_file() -> None:
    with simulator.device(check=True) as gpu:
        from numba import vectorize

        @vectorize(["float32(float32, float32)"], target="cuda")
        def gaussian(x, sigma):
            scaled = x / sigma
            return math.exp(-0.5 * scaled**2)

        gaussian(np.ones(64, np.float32), np.float32(1))
    found = [finding for finding in gpu.findings if finding.kind == "float64"]
    assert {(site.file, site.line) for finding in found for site in finding.sites} == {
        (__file__, test_vectorize_names_the_users_file.__code__.co_firstlineno + 8)
    }
    assert "the literal -0.5 is float64" in str(found[0])
