"""Orders of execution, and one run of a program in one of them.

Rules of this file: a fault is data here (an ``Outcome`` carries it); what it becomes for the caller is decided in
``simulator.runs.launch``.  What several orders make of each other is told in ``simulator.runs.agreement``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from simulator.catalogue import finding_of
from simulator.errors import integer
from simulator.findings import Finding, Launch, Replay
from simulator.machine.faults import Fault
from simulator.machine.launch import STEPS
from simulator.machine.launch import launch as launch_on_machine
from simulator.machine.observer import Observer
from simulator.observers.checks import verdicts
from simulator.observers.costs import costly
from simulator.observers.definedness import Definedness
from simulator.observers.initialisation import Initialisation
from simulator.observers.lineage import Lineage
from simulator.observers.lost import Lost
from simulator.observers.operations import Operations
from simulator.observers.printout import Printout, prints
from simulator.observers.steps import Steps
from simulator.observers.traffic import Traffic
from simulator.observers.traps import Traps
from simulator.program import Program
from simulator.runs.arguments import Arguments
from simulator.runs.sampling import in_words
from simulator.runs.together import Again
from simulator.trace import Trace

NAMES = ("waves", "first", "last", "round-robin", "random")
"""Orders by name.  An int is "random" with that seed."""
FOLLOW = ("deadlock", "step-limit", "barrier-divergence", "warp-sync")
"""What ends a run and may be a mere consequence of an access that did not happen."""
CHECKED = NAMES
"""What a check runs unless it is told otherwise."""


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
    """What a run records, and how it computes; ``check`` attaches verdicts, without ``records`` nothing is logged.

    ``others_end``: another order has run to the end, so one that spends its budget of steps is cut short, and no
    deadlock.  ``together``: all blocks are alive at once.  ``ordered``: another order has told that threads see the
    same in every one, so they get turns only where they wait, and nobody looks for races.
    """

    keep: tuple[int, ...] | None = None
    watch: tuple[str, ...] = ()
    max_events: int = 0
    values: str = "affine"
    lineage: bool = False
    progress: Callable[[int, int], None] | None = None
    max_steps: int | None = STEPS
    prints: bool = True
    operations: bool = False
    check: bool = False
    records: bool = True
    others_end: bool = False
    together: bool = False
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: what was recorded, if it did not reach its end, why, and what it raises on the host.

    ``blocks`` are the parts of the grid that ran, None for all of it; ``lost`` says that accesses did not happen, for
    their address was wrong, ``cut_short`` that the budget of steps was spent, or that all wait for blocks which do not
    run together with these, and nothing is known of the rest.
    """

    order: Order
    trace: Trace
    fault: Fault | None = None
    raised: Fault | None = None
    blocks: tuple[range, ...] | None = None
    lost: bool = False
    cut_short: bool = False

    def __str__(self) -> str:
        x, y, z = self.trace.grid
        part = f" ({in_words(self.blocks, x * y * z)})" if self.blocks is not None else ""
        if self.cut_short and self.fault is not None:
            steps = f"after {self.fault.facts['budget']:,} steps"
            part += f", stopped {'where it waits for blocks that do not run' if self.fault.facts['spins'] else steps}"
        return f"{self.order}{part}"


def run(
    program: Program,
    launch: Launch,
    args: Arguments,
    order: Order,
    settings: Settings,
    blocks: tuple[range, ...] | None = None,
) -> Outcome:
    """Run once and record.

    Blocks that turn out to wait for blocks which do not run with them run again, all of them together.
    """
    again = Again(program, launch, args) if blocks is None else None
    outcome = _run(program, launch, args, order, settings, blocks, again)
    if again is not None and again.wanted(outcome.fault):
        again.restore()
        return _run(program, launch, args, order, replace(settings, together=True))
    return outcome


def _run(
    program: Program,
    launch: Launch,
    args: Arguments,
    order: Order,
    settings: Settings,
    blocks: tuple[range, ...] | None = None,
    again: Again | None = None,
) -> Outcome:
    steps, traffic, traps = Steps(settings.keep, settings.max_events, settings.watch), Traffic(), Traps()
    lineage = Lineage() if settings.lineage else None
    operations = Operations() if settings.operations else None
    judges = verdicts(settings.records, settings.ordered) if settings.check else []
    records: list[Observer] = [steps, traffic] if settings.records else []
    records += [operations] if operations is not None else []
    fault = execute(program, launch, args, order, settings, (*records, traps, *judges), lineage, blocks, again)
    found = [one for verdict in (traps, *judges) for one in verdict.faults()]
    lost = any(isinstance(one, Lost) and one.faults() for one in judges)
    spent = fault is not None and fault.kind == "step-limit" and fault.facts["spins"] != "forever"
    cut_short = settings.others_end and spent
    if fault is not None:  # who stopped halfway has not written all, and may have counted little
        found = [one for one in found if one.kind != "unwritten-output"]
        follows = lost and fault.kind in FOLLOW
        found += [fault] if not (cut_short or follows) and fault.kind not in ("unsupported", "read-only") else []
    elif settings.check and settings.records:
        found += costly(traffic)
    findings = [finding_of(one, program.name, launch, order.replay) for one in found]
    many = f"{traps.handed_over} block{'s' if traps.handed_over > 1 else ''}"
    schedule = f"{order}, {many} finished as splits" if traps.handed_over else str(order)
    if not steps.launched:
        schedule = "not run"
    trace = Trace(program.name, launch, schedule, steps, traffic, findings, lineage, operations)
    trace.machine_code = program.machine_code
    return Outcome(order, trace, fault, traps.raised, blocks, lost, cut_short)


def execute(
    program: Program,
    launch: Launch,
    args: Arguments,
    order: Order,
    settings: Settings,
    observers: Sequence[Observer] = (),
    shadow: Any = None,
    blocks: tuple[range, ...] | None = None,
    again: Again | None = None,
) -> Fault | None:
    """Run once; the fault that ended it, if one did.

    What the kernel prints goes to standard output at the end, unless ``again`` wants the run repeated.
    """
    printout = Printout()
    if settings.prints and prints(program):
        observers = (*observers, printout)
    flags = next((observer for observer in observers if isinstance(observer, Initialisation)), None)
    if args.written and flags is None:
        flags = Initialisation()  # it keeps the flags of arrays that came without contents
        observers = (*observers, flags)
    stopped: Fault | None = None
    try:
        launch_on_machine(
            program,
            launch.grid,
            launch.block,
            args.values,
            written=args.written,
            dynamic_shared=launch.dynamic_shared,
            schedule=order.schedule,
            order=order.name if order.schedule == "splits" else "first",
            seed=order.seed,
            values=settings.values,
            observers=observers,
            shadow=shadow,
            forgiving=settings.check,
            watch=settings.watch,
            progress=settings.progress,
            step_budget=settings.max_steps,
            blocks=blocks,
            together=settings.together,
            uncut=settings.ordered,
        )
    except Fault as fault:
        stopped = fault
    finally:
        if (text := str(printout)) and (again is None or not again.wanted(stopped)):
            sys.stdout.write(text)  # only then: a program may have closed it
    if stopped is not None or (flags is not None and flags.astray):
        args.count_as_written(program)
    return stopped


def undefined_values(
    program: Program,
    launch: Launch,
    args: Arguments,
    order: Order,
    settings: Settings,
    blocks: tuple[range, ...] | None = None,
) -> list[Finding]:
    """Run once more and follow undefined values; findings where one is used.

    Undefined is what shuffles read from lanes that take no part, and in the run that ``records`` what was read of
    memory that nobody has written, too.
    """
    definedness = Definedness()
    observers = (Initialisation(definedness.unwritten),) if settings.records else ()
    quiet = replace(settings, prints=False, progress=None)
    execute(program, launch, args, order, quiet, observers, definedness, blocks)
    return [finding_of(one, program.name, launch, order.replay) for one in definedness.faults()]
