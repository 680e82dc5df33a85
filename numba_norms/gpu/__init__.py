"""The GPU's route: a kernel compiled once, kept in memory and on disk, and launched by pointer on the caller's stream.

``fingerprint`` says what a kernel is, ``compiled`` makes machine code of it, ``disk`` keeps that, ``parameters`` lays
out arguments as Numba's kernels take them, and ``device`` launches.  Nothing here synchronises, and nothing allocates
on a device.
"""
