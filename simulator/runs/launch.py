"""One launch, from a kernel and its arguments to a trace, or to the exception that tells what is wrong.

Rules of this file: what a fault becomes for the caller is decided here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulator.catalogue import CATALOGUE, finding_of
from simulator.errors import OutOfBounds, ReadOnly, SimulationError, UnknownName, Unsupported
from simulator.findings import Finding, Launch, Replay
from simulator.machine.faults import Fault, Place
from simulator.machine.launch import STEPS
from simulator.observers.steps import MAX_EVENTS, Steps
from simulator.observers.traffic import Traffic
from simulator.observers.traps import Traps
from simulator.program import Program
from simulator.runs.agreement import run_all
from simulator.runs.arguments import Arguments, take
from simulator.runs.orders import CHECKED, Order, Settings, execute, order_of
from simulator.runs.raised import host_exception
from simulator.runs.together import Again
from simulator.trace import Trace

if TYPE_CHECKING:
    from simulator.frontend.refusal import DoesNotCompile


@dataclass(frozen=True, slots=True)
class Options:
    """What ``simulate`` was asked for; see there."""

    check: bool = False
    orders: tuple[str | int, ...] | None = None
    seed: int = 0
    keep: str | tuple[int, ...] = "auto"
    watch: tuple[str, ...] = ()
    lineage: bool = False
    operations: bool = False
    max_events: int = MAX_EVENTS
    values: str = "affine"
    progress: Callable[[int, int], None] | None = None
    max_steps: int = STEPS


def run_observed(kernel: Any, launch: Launch, args: Sequence[Any], options: Options) -> Trace:
    """Run a kernel in the orders asked for; the first one's trace, with the findings of all."""
    try:
        program, given = _ready(kernel, args)
    except Fault as fault:
        return refused(fault, kernel, launch, options)
    _check_names(program, options)
    settings = Settings(
        _blocks(options.keep, launch),
        options.watch,
        options.max_events,
        options.values,
        options.lineage,
        options.progress,
        options.max_steps,
        operations=options.operations,
        check=options.check,
    )
    names = options.orders or (CHECKED if options.check else ("waves",))
    orders = [order_of(name, options.seed) for name in names]
    try:
        outcomes = run_all(program, launch, given, orders, settings, bounded=options.orders is None)
    finally:
        given.copy_out()
    for outcome in outcomes:
        if outcome.fault is not None and not (options.check and outcome.fault.kind in CATALOGUE):
            raise error_of(outcome.fault, program.name, launch, outcome.order.replay, outcome.trace) from None
    trace, raised = outcomes[0].trace, outcomes[0].raised
    if raised is not None:
        trace.exception = host_exception(raised, launch)
        if not options.check:
            raise trace.exception from error_of(raised, program.name, launch, outcomes[0].order.replay, trace)
    return trace


def refused(fault: Fault, kernel: Any, launch: Launch, options: Options) -> Trace:
    """A launch that does not begin (the kernel does not compile): an empty trace with the finding, or the exception."""
    name = getattr(kernel, "__name__", "kernel")
    trace = Trace(name, launch, "not run", Steps(), Traffic(), [finding_of(fault, name, launch)])
    if not options.check:
        raise error_of(fault, name, launch, None, trace) from fault.__cause__
    return trace


def error_of(fault: Fault, kernel: str, launch: Launch, replay: Replay | None, trace: Trace | None) -> SimulationError:
    """The exception that a fault is raised as."""
    pos = fault.places[0].pos if fault.places else None
    if fault.kind == "unsupported":
        return Unsupported(pos, fault.facts["construct"], fault.facts.get("mend", ""))
    if fault.kind == "read-only":
        facts = fault.facts
        return ReadOnly(f"{pos}: the kernel writes to {facts['array']}, which is read-only ({facts['space']} memory)")
    return told(finding_of(fault, kernel, launch, replay), trace)


def told(finding: Finding, trace: Trace | None) -> SimulationError:
    """The exception that tells of a finding."""
    kind = OutOfBounds if finding.kind == "out-of-bounds" else SimulationError
    mend = f"; likely mend: {finding.mend}" if finding.mend else ""
    return kind(f"{finding.message}{mend}", findings=(finding,), trace=trace)


def does_not_compile(error: DoesNotCompile) -> Fault:
    """What Numba's refusal of a kernel is as a fault."""
    return Fault("does-not-compile", (Place(error.pos, 0, ()),), reason=error.reason)


def lower(kernel: Any, args: Sequence[Any]) -> Program:
    """The program of a kernel for these arguments; a ``Fault`` if Numba refuses it."""
    from simulator.frontend import lower_kernel  # Numba's compiler takes half a second to import
    from simulator.frontend.refusal import DoesNotCompile

    try:
        program: Program = lower_kernel(kernel, tuple(args))
    except DoesNotCompile as error:
        raise does_not_compile(error) from error
    takes = len(program.arguments) - len(program.captured)
    if takes != len(args):
        raise TypeError(f"kernel {program.name} takes {takes} arguments, not {len(args)}")
    return program


def _ready(kernel: Any, args: Sequence[Any]) -> tuple[Program, Arguments]:
    """The program, and its arguments with the arrays that the kernel captures: they may share memory."""
    given = take(args)
    try:
        program = lower(kernel, given.values)
    except (Fault, Unsupported):
        given.count_as_written(None)
        raise
    if program.captured:
        own = getattr(kernel, "captured", None)  # a kernel of the stand-in device knows where its arrays are
        given = take((*args, *(own(array) if own else array for array in program.captured)))
    given.fit(program)
    given.copy_in()
    return program, given


def _check_names(program: Program, options: Options) -> None:
    known = {slot.name for slot in program.slots if slot.name.replace(".", "_").isidentifier()}
    if missing := [name for name in options.watch if name not in known]:
        raise UnknownName(f"the kernel has no variable {missing[0]!r} to watch; it has {', '.join(sorted(known))}")


def _blocks(keep: str | tuple[int, ...], launch: Launch) -> tuple[int, ...] | None:
    if isinstance(keep, str):  # "auto"
        return None
    count = launch.grid[0] * launch.grid[1] * launch.grid[2]
    if not count:
        return None  # the machine refuses the launch, and says why
    if outside := [block for block in keep if not 0 <= block < count]:
        raise IndexError(f"keep names block {outside[0]}, but the launch has blocks 0 to {count - 1}")
    return keep


def run_plain(kernel: Any, launch: Launch, args: Sequence[Any]) -> None:
    """Run a kernel for its results alone, in waves and with no observer."""
    try:
        program, given = _ready(kernel, args)
    except Fault as fault:
        raise error_of(fault, getattr(kernel, "__name__", "kernel"), launch, None, None) from fault.__cause__
    try:
        traps = Traps()
        observers = (traps,) if program.debug else ()
        again = Again(program, launch, given)
        stopped = execute(program, launch, given, Order(), Settings(max_steps=None), observers, again=again)
        if again.wanted(stopped):
            again.restore()
            stopped = execute(program, launch, given, Order(), Settings(max_steps=None, together=True), observers)
    finally:
        given.copy_out()
    if stopped is not None:
        raise error_of(stopped, program.name, launch, Replay(), None)
    if traps.raised is not None:
        raise host_exception(traps.raised, launch)
