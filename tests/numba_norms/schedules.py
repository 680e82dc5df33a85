"""Launches of the norms on every schedule, and with a barrier taken out."""

import dataclasses

import numpy as np

from simulator.machine import launch as run_on_machine
from simulator.program import Block

ORDERS = [("first", 0), ("last", 0), *(("random", seed) for seed in range(20))]
INPUTS = ("x", "residual", "update", "weight", "bias", "inverse", "eps")


def results(program, launch, **schedule):
    """What the arrays hold after a run: fresh copies each time, outputs filled with a mark."""
    args = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in launch.args]
    for arg, name in zip(args, launch.names, strict=True):
        if name not in INPUTS and isinstance(arg, np.ndarray):
            arg.fill(-7)
    run_on_machine(program, (launch.grid, 1, 1), (launch.block, 1, 1), args, **schedule)
    return [arg for arg in args if isinstance(arg, np.ndarray)]


def without_barrier(program, number):
    """A copy of the program that lacks its barrier of this number."""
    barrier = [op for op in program.ops() if op.kind == "bar"][number]
    blocks = {
        label: Block([op for op in block.ops if op is not barrier], block.term)
        for label, block in program.blocks.items()
    }
    return dataclasses.replace(program, blocks=blocks, derived={})  # derived holds code generated from other blocks
