"""Accesses wider than the address allows."""

import numpy as np
from numba import cuda, float32, uint8

from numba_norms.kernels.lanes import vload, vstore
from tests.zoo.specimen import Specimen


@cuda.jit
def floats_out_of_a_packet(packet, y):
    t = cuda.threadIdx.x
    values = packet[1:129].view(np.float32)
    y[t] = values[t]  # zoo: misaligned-access


@cuda.jit
def floats_behind_a_padded_header(packet, y):
    t = cuda.threadIdx.x
    values = packet[4:132].view(np.float32)
    y[t] = values[t]


@cuda.jit
def wide_from_an_odd_start(x, y):
    t = cuda.threadIdx.x
    four = cuda.local.array(4, float32)
    vload(x, 1 + 4 * t, four, 0, 4)  # zoo: misaligned-access
    vstore(y, 4 * t, four, 0, 4)


@cuda.jit
def wide_from_a_multiple_of_four(x, y):
    t = cuda.threadIdx.x
    four = cuda.local.array(4, float32)
    vload(x, 4 + 4 * t, four, 0, 4)
    vstore(y, 4 * t, four, 0, 4)


@cuda.jit
def floats_behind_flags(x, y):
    window = cuda.shared.array(0, uint8)
    t = cuda.threadIdx.x
    flags = window[:34]
    values = window[34:162].view(np.float32)
    flags[t] = 1
    values[t] = x[t]  # zoo: misaligned-access
    cuda.syncthreads()
    y[t] = values[31 - t] * flags[t]  # zoo: misaligned-access


@cuda.jit
def flags_behind_floats(x, y):
    window = cuda.shared.array(0, uint8)
    t = cuda.threadIdx.x
    values = window[:128].view(np.float32)
    flags = window[128:162]
    flags[t] = 1
    values[t] = x[t]
    cuda.syncthreads()
    y[t] = values[31 - t] * flags[t]


ZOO = [
    Specimen(
        floats_out_of_a_packet,
        floats_behind_a_padded_header,
        1,
        32,
        lambda rng: (rng.integers(0, 60, 132, np.uint8), np.zeros(32, np.float32)),
        lambda packet, y: {1: packet[4:].view(np.float32)},
    ),
    Specimen(
        wide_from_an_odd_start,
        wide_from_a_multiple_of_four,
        1,
        32,
        lambda rng: (rng.standard_normal(132).astype(np.float32), np.zeros(128, np.float32)),
        lambda x, y: {1: x[4:]},
    ),
    Specimen(
        floats_behind_flags,
        flags_behind_floats,
        1,
        32,
        lambda rng: (rng.standard_normal(32).astype(np.float32), np.zeros(32, np.float32)),
        lambda x, y: {1: x[::-1]},
        dynamic_shared=164,
    ),
]
