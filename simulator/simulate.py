"""``simulate``: a kernel, a launch shape and arguments in, a trace out.

Rules of this file: it checks how people call it and explains their slips; ``simulator.runs.launch`` does the work.  Its
only state is the list of the ``record`` block that is open in the current context.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from simulator.errors import called, flag, integer
from simulator.findings import Launch, Shape
from simulator.machine.launch import STEPS
from simulator.observers.steps import MAX_EVENTS
from simulator.runs.launch import Options, run_observed, run_plain
from simulator.runs.orders import order_of
from simulator.trace import Trace


def simulate(
    kernel: Any,
    *,
    check: bool = False,
    orders: Sequence[str | int] | None = None,
    seed: int = 0,
    keep: str | Sequence[int] = "auto",
    watch: Sequence[str] = (),
    lineage: bool = False,
    precision: bool = False,
    operations: bool = False,
    max_events: int = MAX_EVENTS,
    values: str = "affine",
    progress: Callable[[int, int], None] | None = None,
    max_steps: int = STEPS,
) -> Simulation:
    """Prepare ``kernel`` for the simulator; launch it with Numba's syntax.

    Parameters
    ----------
    kernel
        A ``@cuda.jit`` function, or the plain function.
    check
        Look for everything that is wrong, and collect it in ``trace.findings`` instead of raising the first error.
        Unless ``orders`` says otherwise, the kernel runs in waves, which give the counts, and in the orders "first",
        "last", "round-robin" and "random" of the split scheduler; of a large grid those run a sample of blocks.
        ``trace.orders`` says what ran.  Past an access that is out of bounds or misaligned a run goes on: lanes whose
        address is wrong write nothing and read 0.  Results and trace are then those of a machine that drops such
        accesses.
    orders
        Orders of execution, each run from the same inputs: "waves" (whole blocks in lock step), "first", "last",
        "round-robin", "random" (with ``seed``), or an int (random, with that seed).  Results and trace are those of
        the first; orders that disagree are a finding.  Without it there is one run, in waves: right for numbers and
        counts, but lock step hides missing barriers.
    keep
        Block numbers whose accesses are logged, or "auto": all until ``max_events`` requests are logged, then block 0
        alone for as many again.
    watch
        Names of variables whose values are logged.
    lineage
        Carry along which input elements went into each value (``trace.lineage``, ``trace.sources``); small launches.
    precision
        Refused: no domain follows rounding errors.
    operations
        Count operations by kind and width on each source line (``trace.operations``).
    max_events
        How many requests (accesses of one warp) the log may hold.  It limits what is logged, never what runs.
    values
        "vector" switches the fast representation of addresses off: the same results and counts, slower.
    progress
        Called as progress(blocks done, blocks in all) while the launch runs.
    max_steps
        How many pieces of straight-line code may run, over all blocks, before the launch counts as hanging.

    Returns
    -------
    Simulation
        ``simulation[grid, block, stream, dynamic_shared](*args)`` runs the kernel and returns a ``Trace``.  Arrays in
        ``args`` are updated in place, on an error with what was written up to it.

    Raises
    ------
    SimulationError
        By the launch, unless ``check``: something is wrong (``OutOfBounds`` for an index).
    Unsupported
        By the launch: the kernel uses something that the simulator does not model.

    Examples
    --------
    >>> import numpy as np
    >>> from numba import cuda
    >>> @cuda.jit
    ... def double(x):
    ...     i = cuda.grid(1)
    ...     if i < x.size:
    ...         x[i] *= 2
    >>> x = np.arange(100, dtype=np.float32)
    >>> trace = simulate(double)[4, 32](x)
    >>> float(x[99]), trace.thread(3, block=1).reads("x"), trace.total("x", operation="load").sectors
    (198.0, [35], 13)
    """
    if hasattr(kernel, "griddim") and hasattr(kernel, "dispatcher"):
        raise TypeError("simulate() takes the kernel itself: write simulate(kernel)[grid, block](…), not kernel[…]")
    if not callable(kernel):
        raise TypeError(f"simulate() takes a @cuda.jit function or a plain function, not {type(kernel).__name__}")
    seed = integer("seed", seed, least=0)
    if flag("precision", precision):
        raise ValueError("precision=True is refused: the simulator has no domain that follows rounding errors")
    return Simulation(
        kernel,
        Options(
            check=flag("check", check),
            orders=_names(orders, seed),
            seed=seed,
            keep=_keep(keep),
            watch=_watch(watch),
            lineage=flag("lineage", lineage),
            operations=flag("operations", operations),
            max_events=integer("max_events", max_events, least=0),
            values=_values(values),
            progress=called("progress", progress),
            max_steps=integer("max_steps", max_steps, least=1),
        ),
    )


def _names(orders: Sequence[str | int] | None, seed: int) -> tuple[str | int, ...] | None:
    """The orders as a tuple, each known."""
    if orders is None:
        return None
    names = (orders,) if isinstance(orders, str | int) else _items(orders)
    if names is None:
        raise TypeError(f"orders is a list of names and seeds, not {orders!r}")
    for name in names:
        order_of(name, seed)
    return names or None


def _items(values: Any) -> tuple[Any, ...] | None:
    """What can be gone through, as a tuple; None if it cannot (an array without axes says that it can)."""
    try:
        return tuple(values)
    except TypeError:
        return None


def _keep(keep: str | Sequence[int]) -> str | tuple[int, ...]:
    """Blocks to keep: "auto", or their numbers."""
    if isinstance(keep, str):
        if keep != "auto":
            raise ValueError(f'keep is "auto" or a list of block numbers, not {keep!r}')
        return keep
    blocks = _items(keep)
    if blocks is None:
        raise TypeError(f'keep is "auto" or a list of block numbers, not {keep!r}')
    return tuple(integer("a block number in keep", block) for block in blocks)


def _values(values: str) -> str:
    """How values are kept: "affine" or "vector"."""
    if not isinstance(values, str) or values not in ("affine", "vector"):
        raise ValueError(f'values is "affine" or "vector", not {values!r}')
    return values


def _watch(watch: str | Sequence[str]) -> tuple[str, ...]:
    """Names to watch."""
    names = (watch,) if isinstance(watch, str) else _items(watch)
    if names is None:
        names = (watch,)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"watch is a list of names of variables; {name!r} is not a name")
    return names


def extent(what: str, given: Any) -> Shape:
    """A grid or block as a 3-tuple, from an int or up to three of them."""
    items = given if isinstance(given, tuple | list) else (given,)
    try:
        numbers = [operator.index(item) for item in items]
    except TypeError:
        raise TypeError(f"the {what} is an int or a tuple of up to three, not {given!r}") from None
    if not 1 <= len(numbers) <= 3:
        raise ValueError(f"the {what} is an int or a tuple of up to three, not {given!r}")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


class Simulation:
    """A kernel that runs on the simulator: ``simulation[grid, block, stream, dynamic_shared](*args)``."""

    def __init__(self, kernel: Any, options: Options) -> None:
        self.kernel = kernel
        self.options = options

    def __getitem__(self, shape: Any) -> Configured:
        given = shape if isinstance(shape, tuple) else (shape,)
        if not 2 <= len(given) <= 4:
            raise ValueError(
                "a launch is [grid, block], [grid, block, stream] or [grid, block, stream, dynamic_shared]"
            )
        dynamic = integer("the dynamic shared memory (in bytes)", given[3]) if len(given) == 4 else 0
        return Configured(self, Launch(extent("grid", given[0]), extent("block", given[1]), dynamic))

    def __call__(self, *args: Any, **named: Any) -> Trace:
        raise TypeError("a kernel needs a launch shape: write simulate(kernel)[grid, block](…)")


class Configured:
    """A simulation with its launch shape; calling it runs the kernel."""

    def __init__(self, simulation: Simulation, launch: Launch) -> None:
        self.simulation = simulation
        self.launch = launch

    def __call__(self, *args: Any, **named: Any) -> Trace:
        if named:
            raise TypeError(f"a kernel takes its arguments by position: {next(iter(named))}=… cannot be passed by name")
        trace = run_observed(self.simulation.kernel, self.launch, args, self.simulation.options)
        if (recording := _recording.get()) is not None:
            recording.traces.append(trace)
        return trace


# -- libraries: launches inside somebody else's call ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Recording:
    traces: list[Trace]
    options: Options


_recording: ContextVar[_Recording | None] = ContextVar("simulator recording", default=None)


@contextmanager
def record(**options: Any) -> Iterator[list[Trace]]:
    """Collect a trace of every launch on the simulator inside the ``with`` block, in order.

    ``options`` are those of ``simulate``; they hold for launches that a library makes with ``run``.  Blocks nest: the
    innermost collects.  A block sees the launches of its own thread (its context), not those of others.

    >>> with record() as traces:
    ...     pass
    >>> traces
    []
    """
    recording = _Recording([], simulate(record, **options).options)
    token = _recording.set(recording)
    try:
        yield recording.traces
    finally:
        _recording.reset(token)


def run(kernel: Any, launch: Launch, args: Sequence[Any]) -> None:
    """Run a kernel for its results, as a library does: nothing is observed unless a ``record`` block is open.

    Raises
    ------
    SimulationError
        As by ``simulate``.
    """
    recording = _recording.get()
    if recording is None:
        run_plain(kernel, launch, args)
    else:
        recording.traces.append(run_observed(kernel, launch, args, recording.options))
