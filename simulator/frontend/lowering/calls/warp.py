"""Warp operations: shuffles, votes and matches.

Masks are truncated to 32 bits as the hardware sees them; a shuffle keeps the dtype of its value (64-bit values are
one operation here, two on the GPU).
"""

from __future__ import annotations

from simulator.frontend.lowering.calls.table import Bound, Meaning, meaning
from simulator.frontend.lowering.values import Tuple, Value
from simulator.program import FromRegister


def _shuffle(mode: str, lane: str) -> Meaning:
    def shuffle(bound: Bound) -> Value:
        code = bound.result
        clamp = bound.builder.const("i4", 0 if mode == "up" else 31)
        sources = (bound.number("value", code), bound.number(lane, "i4"), clamp, bound.number("mask", "u4"))
        return bound.builder.op("shfl", code, *sources, mode=mode)

    return shuffle


for _name, _mode, _lane in (
    ("shfl_sync", "idx", "src_lane"),
    ("shfl_up_sync", "up", "delta"),
    ("shfl_down_sync", "down", "delta"),
    ("shfl_xor_sync", "bfly", "lane_mask"),
):
    meaning(f"cuda.{_name}", f"mask value {_lane}")(_shuffle(_mode, _lane))


def _vote(mode: str) -> Meaning:
    def vote(bound: Bound) -> Value:
        sources = (bound.number("predicate", "b1"), bound.number("mask", "u4"))
        code = "u4" if mode == "ballot" else "b1"
        return bound.builder.cast(bound.builder.op("vote", "b1", *sources, result=code, mode=mode), bound.result)

    return vote


for _mode in ("all", "any", "eq", "ballot"):
    meaning(f"cuda.{_mode}_sync", "mask predicate")(_vote(_mode))


@meaning("cuda.match_any_sync", "mask value")
def _match_any(bound: Bound) -> Value:
    value, mask = bound.number("value"), bound.number("mask", "u4")
    found = bound.builder.op("match", bound.builder.dtype(value), value, mask, result="u4", mode="any")
    return bound.builder.cast(found, bound.result)


@meaning("cuda.match_all_sync", "mask value")
def _match_all(bound: Bound) -> Value:
    value, mask = bound.number("value"), bound.number("mask", "u4")
    code = bound.builder.dtype(value)
    found, same = bound.builder.ops("match", code, value, mask, results=("u4", "b1"), mode="all")
    return Tuple((bound.builder.cast(found, "i4"), same))


@meaning("cuda.activemask")
def _activemask(bound: Bound) -> Value:
    return bound.builder.op("activemask", "u4")


@meaning("cuda.lanemask_lt")
def _lanemask_lt(bound: Bound) -> Value:
    return bound.builder.program.slot("u4", "", FromRegister("lanemask_lt"))
