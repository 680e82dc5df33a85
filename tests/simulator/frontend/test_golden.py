"""Tells when Numba's front end moves: typed IR and programs of known kernels against text files.

After checking that a difference is meant, write the files anew with

    GOLDEN=write python -m pytest tests/simulator/frontend/test_golden.py

The texts hold for Python 3.11, whose bytecode made them; other versions must do the same operations.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numba import cuda, float32
from numba.cuda import libdevice

from simulator.frontend import front_end, lower_kernel, typed_ir
from simulator.program import Program


@cuda.jit(device=True)
def warp_sum(v):
    offset = 16
    while offset > 0:
        v += cuda.shfl_xor_sync(0xFFFFFFFF, v, offset)
        offset //= 2
    return v


@cuda.jit
def rms_norm(x, weight, y, eps):
    row = cuda.blockIdx.x
    partial = cuda.shared.array(32, float32)
    acc = float32(0)
    for j in range(cuda.threadIdx.x, x.shape[1], cuda.blockDim.x):
        v = float32(x[row, j])
        acc += v * v
    acc = warp_sum(acc)
    if cuda.laneid == 0:
        partial[cuda.threadIdx.x // 32] = acc
    cuda.syncthreads()
    total = partial[cuda.laneid] if cuda.laneid < cuda.blockDim.x // 32 else float32(0)
    scale = libdevice.rsqrtf(warp_sum(total) / float32(x.shape[1]) + eps)
    for j in range(cuda.threadIdx.x, x.shape[1], cuda.blockDim.x):
        y[row, j] = float32(x[row, j]) * scale * weight[j]


@cuda.jit(device=True)
def first_above(x, limit=0.5):
    for k in range(len(x)):
        if x[k] > limit:
            return k, x[k]
    return -1, 0.0


@cuda.jit
def search(x, y, count):
    i = cuda.grid(1)
    if i >= x.shape[0]:
        return
    k, v = first_above(x[i], limit=0.25)
    y[i] = math.sqrt(v) ** 2 if k >= 0 and v < 2 else -(i << 1)
    cuda.atomic.add(count, 0, 1)


EXAMPLES = {
    "rms_norm": (
        rms_norm,
        (np.zeros((2, 8), np.float16), np.zeros(8, np.float32), np.zeros((2, 8), np.float16), np.float32(0)),
    ),
    "search": (search, (np.zeros((4, 3)), np.zeros(4, np.float32), np.zeros(1, np.int32))),
}

GOLDEN = Path(__file__).parent / "golden"
MOVED = "numba's front end moved (or ours did): see the docstring of this test"


def normalised(text: str) -> str:
    """Short types, and Numba's own variables by number: their names hold bytecode offsets."""
    text = re.sub(r"StaticType\(name=(\"[^\"]*\"|'[^']*')\)", "static", text)
    text = re.sub(r"Scalar\(code='(\w+)', literal=None\)", r"\1", text)
    text = re.sub(r"Scalar\(code='(\w+)', literal=(\w+)\)", r"\1=\2", text)
    text = re.sub(r"ArrayType\(element=(\w+), ndim=(\d), layout='\w'\)", r"\1[\2d]", text)
    text = text.replace(", names=(), name='tuple')", ")")
    seen: dict[str, str] = {}
    return re.sub(r"\$[\w.]+", lambda found: seen.setdefault(found[0], f"${len(seen)}"), text)


def typed_text(function: typed_ir.Function, done: set[str]) -> str:
    """A typed function and the device functions it calls, one statement per line."""
    lines = [f"function {function.name}{function.arguments} -> {function.result!r}"]
    callees: list[typed_ir.Function] = []
    labels = {label: f"block {k}" for k, label in enumerate(function.blocks)}
    for label, block in function.blocks.items():
        lines.append(f" {labels[label]}:")
        for statement in block:
            match statement:
                case typed_ir.Jump(to):
                    lines.append(f"  jump {labels[to]}")
                case typed_ir.Branch(condition, yes, no):
                    lines.append(f"  branch {condition} {labels[yes]} {labels[no]}")
                case typed_ir.Assign(target, typed_ir.Call(callee=typed_ir.Function() as callee) as call):
                    lines.append(f"  {target}: {function.types[target]!r} = {call.target} {call.args} {call.signature}")
                    callees.append(callee)
                case typed_ir.Assign(target, value):
                    lines.append(f"  {target}: {function.types[target]!r} = {value}")
                case _:
                    lines.append(f"  {statement}")
    done.add(function.name)
    return "\n".join([*lines, *(typed_text(callee, done) for callee in callees if callee.name not in done)])


def essence(text: str) -> Counter[str]:
    """The operations in a text, without variables, labels and order."""
    words = r"^ +\d+ .*= \w+\.\w+ |Binary\(fn='\w+'|Named\(name='(?!builtins.bool)[\w.]+'\), args"
    return Counter(re.sub(r" .*= ", " ", found) for found in re.findall(words, text, re.M))


def printed(program: Program) -> str:
    """A program, its blocks by number: their labels hold bytecode offsets too."""
    numbers = {label: f"<{k}>" for k, label in enumerate(program.blocks)}

    def renamed(line: str) -> str:
        if re.match(r" block |        (jump|branch) ", line):
            return re.sub(r"[^ :]+", lambda found: numbers.get(found[0], found[0]), line)
        return line

    return "\n".join(map(renamed, str(program).splitlines()))


def compare(name: str, found: str) -> None:
    path = GOLDEN / name
    if os.environ.get("GOLDEN") == "write":
        path.write_text(found + "\n")
    kept = path.read_text().removesuffix("\n")
    if sys.version_info[:2] == (3, 11):
        assert found == kept, MOVED
    else:
        assert essence(found) == essence(kept), MOVED


@pytest.mark.parametrize("name", EXAMPLES)
def test_program(name):
    kernel, args = EXAMPLES[name]
    compare(f"{name}.program.txt", printed(lower_kernel(kernel, args)))


@pytest.mark.parametrize("name", EXAMPLES)
def test_typed_ir(name):
    kernel, args = EXAMPLES[name]
    front = front_end()
    compare(f"{name}.typed.txt", normalised(typed_text(front.typed(kernel, front.argument_types(args)), set())))


def test_the_texts_depend_on_no_path_and_no_process():
    for path in GOLDEN.iterdir():
        assert not re.search(r"/\w+/|0x[0-9a-f]{6}|\.py", path.read_text())
