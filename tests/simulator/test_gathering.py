"""Lanes that have parted meet again in orders that bring them together, and nobody starves for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, float64

from simulator.frontend import lower_kernel
from simulator.machine import launch
from simulator.machine.flow import flow_of
from simulator.machine.observer import Observer
from tests.simulator.running import shape

TOGETHER = ("round-robin", "random")


@cuda.jit
def sorted_prefixes(x, out):
    """Each lane keeps what passes its own test, sorts that, and adds it up: its loops are as long as it likes."""
    i = cuda.grid(1)
    total = 0.0
    for j in range(x.shape[0]):
        kept = cuda.local.array(8, float64)
        n = 0
        for q in range(8):
            if x[(i + j * q) % x.shape[0]] > 0.5:
                kept[n] = x[j] * q
                n += 1
        for q in range(1, n):
            value = kept[q]
            p = q
            while p > 0 and kept[p - 1] > value:
                kept[p] = kept[p - 1]
                p -= 1
            kept[p] = value
        for q in range(n):
            total += kept[q] * (q + 1)
    out[i] = total


class Requests(Observer):
    """Counts accesses of warps, or of the parts that warps fall into."""

    def __init__(self) -> None:
        self.count = 0

    def access(self, split: Any, access: Any, allocation: Any, address: Any) -> None:
        self.count += split.lanes.nb * split.lanes.P // 32


def run(order: str, **options: Any) -> tuple[int, np.ndarray]:
    """Requests of one warp of the kernel, and its result."""
    x, out, seen = np.random.default_rng(0).random(24), np.zeros(32), Requests()
    way = {"schedule": "waves"} if order == "waves" else {"schedule": "splits", "order": order, **options}
    launch(lower_kernel(sorted_prefixes, (x, out)), shape(1), shape(32), (x, out), observers=(seen,), **way)
    return seen.count, out


def test_lanes_meet_again_behind_a_branch() -> None:
    least, expected = run("waves")
    for order in TOGETHER:
        for seed in range(3):
            requests, out = run(order, seed=seed)
            assert out.tolist() == expected.tolist()
            assert requests < 2 * least
    alone, out = run("last")  # is there to keep lanes apart
    assert out.tolist() == expected.tolist()
    assert alone > 3 * least


def test_blocks_are_numbered_as_lanes_come_to_them() -> None:
    flow = flow_of(lower_kernel(sorted_prefixes, (np.zeros(4), np.zeros(4))))
    assert sorted(flow.sequence.values()) == list(range(len(flow.sequence)))
    for head, body in flow.loops.items():
        back = {outer for outer, inside in flow.loops.items() if head in inside}
        outside = {to for label in body for to in flow.successors[label]} - body - back
        assert flow.sequence[head] == min(flow.sequence[label] for label in body)
        assert all(flow.sequence[label] > max(flow.sequence[inner] for inner in body) for label in outside)
