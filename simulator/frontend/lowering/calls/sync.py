"""Barriers, fences and waiting."""

from __future__ import annotations

from simulator.frontend.lowering.calls.table import Bound, Meaning, meaning
from simulator.frontend.lowering.values import Known, Value

_NOTHING = Known(None)


@meaning("cuda.syncthreads")
def _syncthreads(bound: Bound) -> Value:
    bound.builder.do("bar", "i4", reduce=None)
    return _NOTHING


def _reducing(reduce: str) -> Meaning:
    def barrier(bound: Bound) -> Value:
        holds = bound.number("predicate", "b1")
        return bound.builder.op("bar", "i4", holds, result="i4", reduce=reduce)

    return barrier


for _reduce in ("count", "and", "or"):
    meaning(f"cuda.syncthreads_{_reduce}", "predicate")(_reducing(_reduce))


@meaning("cuda.syncwarp", "mask?")
def _syncwarp(bound: Bound) -> Value:
    every = bound.builder.const("u4", 0xFFFFFFFF)
    bound.builder.do("syncwarp", "u4", bound.number("mask", "u4") if bound.arguments else every)
    return _NOTHING


@meaning("cuda.cg.this_grid")
def _this_grid(bound: Bound) -> Value:
    bound.builder.program.cooperative = True
    return Known("the grid")


@meaning("method sync")
def _sync(bound: Bound) -> Value:
    """``cuda.cg.this_grid().sync()``: a barrier of all threads of the grid."""
    if bound.of != Known("the grid"):
        raise bound.refuse(f"of {bound.of_type}")
    bound.builder.do("bar", "i4", reduce=None, scope="grid")
    return bound.builder.const("i4", 0)


def _fence(scope: str) -> Meaning:
    def fence(bound: Bound) -> Value:
        bound.builder.do("fence", "u4", scope=scope)
        return _NOTHING

    return fence


for _name, _scope in (("", "device"), ("_block", "block"), ("_system", "system")):
    meaning(f"cuda.threadfence{_name}")(_fence(_scope))


@meaning("cuda.nanosleep", "ns")
def _nanosleep(bound: Bound) -> Value:
    """Waiting has no effect on results: the scheduler decides who goes next."""
    return _NOTHING
