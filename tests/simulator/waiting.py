"""Kernels whose threads wait for each other in loops: what tests of it run, and the benchmark."""

from __future__ import annotations

from numba import cuda


@cuda.jit
def cas_lock(lock, count):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    count[0] += 1
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


@cuda.jit
def ticket_lock(tickets, count):
    mine = cuda.atomic.add(tickets, 0, 1)
    while cuda.atomic.add(tickets, 1, 0) != mine:
        pass
    count[0] += 1
    cuda.threadfence()
    cuda.atomic.add(tickets, 1, 1)


@cuda.jit
def look_back(flags, total):
    """Each block adds its number to its predecessor's total."""
    block = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        before = 0
        if block > 0:
            while cuda.atomic.add(flags, block - 1, 0) == 0:
                pass
            cuda.threadfence()
            before = total[block - 1]
        total[block] = before + block
        cuda.threadfence()
        cuda.atomic.exch(flags, block, 1)
    cuda.syncthreads()


@cuda.jit
def grid_barrier(arrived, x, y):
    """A barrier of the grid made by hand; behind it each block reads what the next one wrote."""
    i = cuda.grid(1)
    x[i] = i
    cuda.threadfence()
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(arrived, 0, 1)
        while cuda.atomic.add(arrived, 0, 0) < cuda.gridDim.x:
            pass
        cuda.threadfence()
    cuda.syncthreads()
    y[i] = x[(i + cuda.blockDim.x) % x.size]
