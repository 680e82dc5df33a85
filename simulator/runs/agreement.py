"""Runs a program in several orders of execution, each from the same inputs, and says where they disagree.

Rules of this file: results and trace are those of the first order; the others add findings.  Orders are compared over
the same blocks: a sample with a sample.  One finding per pair of sites, whichever orders show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from simulator.catalogue.races import MOVED, explained, order_dependent
from simulator.findings import Finding, Launch, Site
from simulator.log import WRITES, warp_accesses
from simulator.machine.grids import grid_barrier
from simulator.machine.launch import resident
from simulator.program import Program
from simulator.runs.arguments import Arguments
from simulator.runs.orders import Order, Outcome, Settings, run, undefined_values
from simulator.runs.sampling import LANES, ORDER_STEPS, REQUESTS, sample
from simulator.trace import Trace

UNORDERED = ("race-shared", "race-global", "warp-sync", "partial-warp")
"""Findings of which what threads see may hang on the order of execution."""
UNDEFINED = ("partial-warp", "uninitialized-read")
"""Findings of a read, of which it matters whether the value is used."""


def run_all(
    program: Program,
    launch: Launch,
    args: Arguments,
    orders: Sequence[Order],
    settings: Settings,
    bounded: bool = False,
) -> list[Outcome]:
    """Run in every order from the same inputs; the first outcome's trace has the findings of all.

    The arrays end with the results of the first order.  ``bounded``: of a large grid the split scheduler runs a sample
    of blocks, unless it is the first.
    """
    twice = settings.check and _may_be_undefined(program, args)
    outcomes = [run(program, launch, args, orders[0], settings)] if len(orders) == 1 and not twice else []
    disagreements: dict[str, Finding] = {}
    if not outcomes:
        outcomes, disagreements = _run_each(program, launch, args, orders, settings, bounded)
    trace = outcomes[0].trace
    findings = merged([finding for outcome in outcomes for finding in outcome.trace.findings])
    trace.findings = (*findings, *_said_once(list(disagreements.values()), findings))
    trace.orders = tuple(map(str, outcomes))
    return outcomes


def _run_each(
    program: Program, launch: Launch, args: Arguments, orders: Sequence[Order], settings: Settings, bounded: bool
) -> tuple[list[Outcome], dict[str, Finding]]:
    """All outcomes, and the first disagreement about each array."""
    arrays = [array for _, array in _outputs(program, args)] + [flags for _, flags in args.written]
    before = [array.copy() for array in arrays]
    outcomes: list[Outcome] = []
    bases: dict[Any, tuple[Outcome, list[np.ndarray]]] = {}
    followed: set[tuple[str, str, int]] = set()
    disagreements: dict[str, Finding] = {}
    try:
        for order in orders:
            _restore(arrays, before)
            blocks = (
                _part(program, launch, outcomes[0]) if outcomes and bounded and order.schedule == "splits" else None
            )
            outcomes.append(run(program, launch, args, order, settings, blocks))
            if settings.check and (reads := _undefined(outcomes[-1].trace) - followed):
                followed |= reads
                _restore(arrays, before)
                used = undefined_values(program, launch, args, order, settings, blocks)
                outcomes[-1].trace.findings = _with_uses(outcomes[-1].trace.findings, used)
            if len(outcomes) == 1:
                settings = _of_the_others(program, settings, outcomes[0], bounded)
            if blocks not in bases:
                bases[blocks] = outcomes[-1], [array.copy() for array in arrays]
            else:
                _compare(outcomes, bases[blocks], _outputs(program, args), disagreements, _gives_places(program))
            if bounded and _hangs(outcomes[-1]):
                break
    finally:
        if None in bases:
            _restore(arrays, bases[None][1])
    return outcomes, disagreements


def _of_the_others(program: Program, settings: Settings, first: Outcome, bounded: bool) -> Settings:
    """What the orders after the first record, and for how long they run."""
    others_end = settings.check and first.fault is None
    most = settings.max_steps
    if others_end and bounded:
        most = ORDER_STEPS if most is None else min(most, ORDER_STEPS)
    plain = replace(settings, lineage=False, operations=False, prints=False, watch=(), records=not settings.check)
    return replace(plain, others_end=others_end, max_steps=most, ordered=others_end and _is_ordered(program, first))


def _is_ordered(program: Program, first: Outcome) -> bool:
    """Did a run find all that threads do to each other's data ordered, and by nothing that hangs on who comes first?

    Then threads see the same in every order, whenever they get their turns (data-race freedom; Adve and Hill 1990).
    """
    chance = any(op.kind in ("atom", "activemask") for op in program.ops())
    unordered = any(one.kind in UNORDERED for one in first.trace.findings)
    return not (chance or unordered or first.lost)


def _may_be_undefined(program: Program, args: Arguments) -> bool:
    """Can a thread read a value that nobody made?"""
    return bool(args.written or program.allocs) or any(op.kind == "shfl" for op in program.ops())


def _undefined(trace: Trace) -> set[tuple[str, str, int]]:
    """What in a run read values that nobody made, by kind of finding, file and line."""
    return {(one.kind, one.sites[0].file, one.sites[0].line) for one in trace.findings if one.kind in UNDEFINED}


def _with_uses(findings: Sequence[Finding], used: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings of a run, knowing which undefined values are used: no other read of unwritten memory is told."""
    kept = [one for one in findings if one.kind != "uninitialized-read"]
    first = next((k for k, one in enumerate(findings) if one.kind == "uninitialized-read"), len(kept))
    reads = [one for one in used if one.kind == "uninitialized-read"]
    return (*kept[:first], *reads, *kept[first:], *(one for one in used if one.kind != "uninitialized-read"))


def _outputs(program: Program, args: Arguments) -> list[tuple[str, np.ndarray]]:
    return [(name, array) for name, array in args.arrays(program.arguments) if array.flags.writeable]


def _part(program: Program, launch: Launch, first: Outcome) -> tuple[range, ...] | None:
    """The blocks that the split scheduler runs, None for all; blocks that meet at a barrier of the grid all run."""
    if grid_barrier(program) is not None or not first.trace.ran:
        return None
    blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
    padded = -(-launch.block[0] * launch.block[1] * launch.block[2] // 32) * 32
    counted = first.order.schedule == "waves" and first.fault is None
    warps = blocks * padded // 32  # each is started and ended, whatever it accesses
    part = REQUESTS / (first.trace.total().requests + warps) if counted else LANES / (blocks * padded)
    return sample(blocks, resident(padded), part)


def _hangs(outcome: Outcome) -> bool:
    """Did the run spend its budget of steps, as nobody before it?  The other orders would, too, and take as long."""
    fault = outcome.fault
    return fault is not None and fault.kind == "step-limit" and not fault.facts["spins"] and not outcome.cut_short


def _compare(
    outcomes: list[Outcome],
    base: tuple[Outcome, list[np.ndarray]],
    arrays: list[tuple[str, np.ndarray]],
    disagreements: dict[str, Finding],
    gives_places: bool,
) -> None:
    """Note the arrays whose results differ from the base's, unless one of the runs did not reach its end or has lost
    accesses on its way.

    Elements in other places are no fault where atomics give the places: then it is a note.
    """
    (first, results), last = base, outcomes[-1]
    if any(outcome.fault is not None or outcome.lost for outcome in (first, last)):
        return
    for (name, array), expected in zip(arrays, results, strict=False):
        if name not in disagreements and (found := _difference(outcomes[0].trace, first, last, name, expected, array)):
            moved = gives_places and np.array_equal(np.sort(expected, axis=None), np.sort(array, axis=None))
            disagreements[name] = replace(found, severity="note", mend=MOVED) if moved else found


def _gives_places(program: Program) -> bool:
    """Does some thread use what an atomic found, such as a ticket?"""
    return any(op.kind == "atom" and op.dst for op in program.ops())


def _said_once(disagreements: list[Finding], findings: Sequence[Finding]) -> list[Finding]:
    """Where a race explains that orders disagree, one array is told, and the race."""
    races = [finding for finding in findings if finding.kind.startswith("race-")]
    if not races or not disagreements:
        return disagreements
    names = {race.array for race in races}
    told = next((found for found in disagreements if found.array in names), disagreements[0])
    return [replace(told, mend=explained(next((race for race in races if race.array == told.array), races[0])))]


def merged(findings: Sequence[Finding]) -> list[Finding]:
    """Each finding once: the first stands, with the most that any order counted.

    Where a shuffle reads a lane that takes no part, it is an error or a note: the error stands.  A launch has one
    deadlock at most, and shows it wherever an order happens to leave the threads.
    """
    found: dict[Any, Finding] = {}
    for finding in findings:
        key = "deadlock" if finding.kind == "deadlock" else finding.key
        known = found.get(key)
        found[key] = finding if known is None else replace(known, count=max(known.count, finding.count))
    used = {finding.sites[0].line for finding in found.values() if finding.kind == "warp-sync"}
    return [one for one in found.values() if one.kind != "partial-warp" or one.sites[0].line not in used]


def _restore(arrays: Sequence[np.ndarray], saved: Sequence[np.ndarray]) -> None:
    for array, values in zip(arrays, saved, strict=True):
        array[...] = values


def _difference(
    recorded: Trace, first: Outcome, last: Outcome, name: str, expected: np.ndarray, found: np.ndarray
) -> Finding | None:
    """The finding that tells where an array's result differs between two orders, if it does."""
    a, b = (np.ascontiguousarray(array).reshape(-1) for array in (expected, found))
    differ = np.flatnonzero(_differing(a, b))
    if not differ.size:
        return None
    element = int(differ[0])
    index = tuple(int(k) for k in np.unravel_index(element, expected.shape))
    values = (str(first.order), a[element], str(last.order), b[element])
    site = _last_writer(recorded, name, element)
    message, mend = order_dependent(name, index, values, differ.size, site)
    return Finding(
        kind="order-dependent",
        message=message,
        sites=() if site is None else (site,),
        kernel=recorded.kernel,
        launch=recorded.launch,
        array=name,
        element=index,
        count=int(differ.size),
        mend=mend,
        replay=last.order.replay,
    )


def _differing(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Which elements of two flat arrays have different bits; what lies between the fields of a record is left out."""
    if a.dtype.names:
        fields = [_differing(np.ascontiguousarray(a[name]), np.ascontiguousarray(b[name])) for name in a.dtype.names]
        return np.any(fields, axis=0)
    x, y = (array.view(np.uint8).reshape(len(a), array.nbytes // max(len(a), 1)) for array in (a, b))
    return np.asarray((x != y).any(axis=1))


def _last_writer(trace: Trace, array: str, element: int) -> Site | None:
    """Where the element got its final value in the recorded run, if the log knows."""
    if trace.truncated:
        return None
    chosen = warp_accesses(trace._steps, lambda r: r.access.kind in WRITES and r.target.view.name == array, None, None)
    last = None
    for access in chosen:
        span = max(1, access.nbytes // access.itemsize)
        lanes = np.flatnonzero(access.mask & (access.elements <= element) & (element < access.elements + span))
        if lanes.size:
            thread = 32 * access.warp + int(lanes[-1])
            last = Site(access.file, access.line, "", access.block, thread, access.operation)
    return last
