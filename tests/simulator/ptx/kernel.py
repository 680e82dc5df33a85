"""The kernel of the gate: a tree reduction over shared memory, and how ``tree_sum.ptx`` was made from it.

The PTX names lines of this file: after a change here, run ``python tests/simulator/ptx/kernel.py`` (it needs the
compiler wheels, no GPU) and commit both.
"""

from __future__ import annotations

from pathlib import Path

from numba import cuda, float32

THREADS = 256
PTX = Path(__file__).with_name("tree_sum.ptx")


def tree_sum(x, out):
    partial = cuda.shared.array(THREADS, float32)
    thread = cuda.threadIdx.x
    i = cuda.grid(1)
    total = float32(0)
    while i < x.size:
        total += x[i]
        i += cuda.gridsize(1)
    partial[thread] = total
    cuda.syncthreads()
    half = cuda.blockDim.x >> 1
    while half > 0:
        if thread < half:
            partial[thread] += partial[thread + half]
        cuda.syncthreads()
        half >>= 1
    if thread == 0:
        out[cuda.blockIdx.x] = partial[0]


def compiled() -> str:
    """The kernel as NVVM compiles it for compute capability 9.0, with line numbers, without the mangled names."""
    text, _ = cuda.compile_ptx(tree_sum, (float32[::1], float32[::1]), cc=(9, 0), lineinfo=True)
    kept = [line for line in text.splitlines() if not line.startswith((".common", "\t// .globl"))]
    entry = next(line for line in kept if ".entry" in line).split()[-1].rstrip("(")
    shared = next(line for line in kept if line.startswith(".visible .shared")).split()[-1].partition("[")[0]
    text = "\n".join(kept).replace(entry, "tree_sum").replace(shared, "_cudapy_smem_1") + "\n"
    return text.replace(str(Path(__file__).resolve()), Path(__file__).name)


if __name__ == "__main__":
    PTX.write_text(compiled(), encoding="utf-8")
