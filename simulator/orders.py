"""Runs a program in one order of execution or in several, each from the same inputs, and compares.

Rules of this file: the results and the trace are those of the first order.  A fault is data here (an ``Outcome``
carries it); what it becomes for the caller is decided in ``simulator.runs``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from simulator.arguments import Arguments
from simulator.catalogue import finding_of, order_dependent
from simulator.errors import integer
from simulator.findings import Finding, Launch, Replay, Site
from simulator.log import WRITES, warp_accesses
from simulator.machine.faults import Fault
from simulator.machine.launch import STEPS
from simulator.machine.launch import launch as launch_on_machine
from simulator.machine.observer import Observer
from simulator.observers.lineage import Lineage
from simulator.observers.steps import Steps
from simulator.observers.traffic import Traffic
from simulator.observers.traps import Traps
from simulator.program import Program
from simulator.trace import Trace

NAMES = ("waves", "first", "last", "random")
"""Orders by name.  An int is "random" with that seed."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order of execution: "waves", or one of the split scheduler's."""

    name: str = "waves"
    seed: int = 0

    @property
    def schedule(self) -> str:
        """Which scheduler runs it."""
        return "waves" if self.name == "waves" else "splits"

    @property
    def replay(self) -> Replay:
        """What to pass to ``simulate`` to see the same run again."""
        return Replay(self.name, self.seed)

    def __str__(self) -> str:
        return f"random (seed {self.seed})" if self.name == "random" else self.name


def order_of(name: str | int, seed: int) -> Order:
    """The order that a name or a seed asks for.

    >>> str(order_of("last", 0)), str(order_of(7, 0))
    ('last', 'random (seed 7)')
    """
    if isinstance(name, str):
        if name not in NAMES:
            raise ValueError(f"an order is one of {', '.join(NAMES)} or a seed (an int), not {name!r}")
        return Order(name, seed if name == "random" else 0)
    return Order("random", integer("an order that is not a name is a seed: it", name, least=0))


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run records, and how it computes."""

    keep: tuple[int, ...] | None = None
    watch: tuple[str, ...] = ()
    max_events: int = 0
    values: str = "affine"
    lineage: bool = False
    progress: Callable[[int, int], None] | None = None
    max_steps: int | None = STEPS


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: what was recorded and, if it did not reach its end, why."""

    order: Order
    trace: Trace
    fault: Fault | None = None


def run(program: Program, launch: Launch, args: Arguments, order: Order, settings: Settings) -> Outcome:
    """Run once and record."""
    steps, traffic, traps = Steps(settings.keep, settings.max_events, settings.watch), Traffic(), Traps()
    lineage = Lineage() if settings.lineage else None
    fault = execute(program, launch, args, order, settings, (steps, traffic, traps), lineage)
    findings = [finding_of(found, program.name, launch, order.replay) for found in traps.faults()]
    if fault is not None and fault.kind not in ("unsupported", "read-only"):
        findings.append(finding_of(fault, program.name, launch, order.replay))
    blocks = f"{traps.handed_over} block{'s' if traps.handed_over > 1 else ''}"
    schedule = f"{order}, {blocks} finished as splits" if traps.handed_over else str(order)
    if not steps.launched:
        schedule = "not run"
    return Outcome(order, Trace(program.name, launch, schedule, steps, traffic, findings, lineage), fault)


def execute(
    program: Program,
    launch: Launch,
    args: Arguments,
    order: Order,
    settings: Settings,
    observers: Sequence[Observer] = (),
    shadow: Any = None,
) -> Fault | None:
    """Run once; the fault that ended it, if one did."""
    try:
        launch_on_machine(
            program,
            launch.grid,
            launch.block,
            args.values,
            dynamic_shared=launch.dynamic_shared,
            schedule=order.schedule,
            order=order.name if order.schedule == "splits" else "first",
            seed=order.seed,
            values=settings.values,
            observers=observers,
            shadow=shadow,
            watch=settings.watch,
            progress=settings.progress,
            step_budget=settings.max_steps,
        )
    except Fault as fault:
        return fault
    return None


def run_all(
    program: Program, launch: Launch, args: Arguments, orders: Sequence[Order], settings: Settings
) -> list[Outcome]:
    """Run in every order from the same inputs; the first outcome's trace tells where the others disagree.

    The arrays end with the results of the first order.
    """
    arrays = [(name, array) for name, array in args.arrays(program.arguments) if array.flags.writeable]
    before = [array.copy() for _, array in arrays] if len(orders) > 1 else []
    outcomes = [run(program, launch, args, orders[0], settings)]
    results = [array.copy() for _, array in arrays] if len(orders) > 1 else []
    disagreements: dict[str, Finding] = {}
    for order in orders[1:]:
        _restore(arrays, before)
        outcome = run(program, launch, args, order, replace(settings, lineage=False))
        outcomes.append(outcome)
        if outcome.fault is None and outcomes[0].fault is None:
            for (name, array), expected in zip(arrays, results, strict=True):
                if name not in disagreements and (found := _difference(outcomes[0], order, name, expected, array)):
                    disagreements[name] = found
    if len(orders) > 1:
        _restore(arrays, results)
    findings = merged([finding for outcome in outcomes for finding in outcome.trace.findings])
    outcomes[0].trace.findings = (*findings, *disagreements.values())
    return outcomes


def merged(findings: Sequence[Finding]) -> list[Finding]:
    """One finding per kind and sites' lines: the first stands, with the most that any order counted."""
    found: dict[Any, Finding] = {}
    for finding in findings:
        key = (finding.kind, tuple((site.file, site.line) for site in finding.sites), finding.array)
        known = found.get(key)
        found[key] = finding if known is None else replace(known, count=max(known.count, finding.count))
    return list(found.values())


def _restore(arrays: Sequence[tuple[str, np.ndarray]], saved: Sequence[np.ndarray]) -> None:
    for (_, array), values in zip(arrays, saved, strict=True):
        array[...] = values


def _difference(first: Outcome, order: Order, name: str, expected: np.ndarray, found: np.ndarray) -> Finding | None:
    """The finding that tells where an array's result differs in this order, if it does."""
    a, b = (np.ascontiguousarray(array).reshape(-1) for array in (expected, found))
    size = a.dtype.itemsize
    differ = np.flatnonzero((a.view(np.uint8).reshape(-1, size) != b.view(np.uint8).reshape(-1, size)).any(axis=1))
    if not differ.size:
        return None
    element = int(differ[0])
    index = tuple(int(k) for k in np.unravel_index(element, expected.shape))
    values = (str(first.order), a[element], str(order), b[element])
    site = _last_writer(first.trace, name, element)
    message, mend = order_dependent(name, index, values, differ.size, site)
    return Finding(
        kind="order-dependent",
        message=message,
        sites=() if site is None else (site,),
        kernel=first.trace.kernel,
        launch=first.trace.launch,
        array=name,
        element=index,
        count=int(differ.size),
        mend=mend,
        replay=order.replay,
    )


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
