"""``device``: opens the stand-in device, and collects what the launches on it show.

Rules of this file: it knows no array library and nothing of Numba; ``numba_host`` patches and calls ``Device.run``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Lock
from typing import Any

import numpy as np

from simulator.cost.cards import DEFAULT, Card
from simulator.cost.cards import card as card_of
from simulator.device.memory import DeviceMemory
from simulator.errors import NotRecorded, called, flag
from simulator.findings import NOT_BEGUN, Finding, Launch
from simulator.machine.faults import Fault
from simulator.runs.arguments import Pointed
from simulator.runs.launch import Options, refused, run_observed, run_plain, told
from simulator.simulate import simulate
from simulator.trace import Trace

_opening = Lock()
_open: Device | None = None


class Device:
    """The stand-in device while its ``with`` block is open, and what it saw afterwards.

    ``launches`` counts the kernels that were launched, ``findings`` is what is wrong, in the order in which it was
    found; a launch that repeats a finding of an earlier one does not add it again.  ``traces`` has one trace a launch.
    """

    def __init__(
        self, card: Card, options: Options, observed: bool, record: bool, on_trace: Callable[[Trace], None] | None
    ) -> None:
        self.card = card
        self.memory = DeviceMemory(card.memory, tracked=options.check)
        self.options = options
        self.launches = 0
        self._observed = observed
        self._record = record
        self._on_trace = on_trace
        self._traces: list[Trace] = []
        self._findings: dict[Any, Finding] = {}
        self._lock = Lock()

    @property
    def open(self) -> bool:
        """Is its ``with`` block open?"""
        return _open is self

    @property
    def check(self) -> bool:
        """Are errors of launches collected instead of raised?"""
        return self.options.check

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong, over all launches."""
        return tuple(self._findings.values())

    @property
    def traces(self) -> list[Trace]:
        """One trace per launch, in the order in which they ended.

        Raises
        ------
        NotRecorded
            The device was opened without ``record=True``.
        """
        if not self._record and self.launches:
            raise NotRecorded("these launches were not recorded; use simulator.device(record=True)")
        return self._traces

    # -- what stands in for Numba calls

    def array(self, address: int, shape: Sequence[int], strides: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """The array at an address of the device, as a launch takes it."""
        viewed = self.memory.view(address, shape, strides, dtype)
        return viewed.array if viewed.written is None else viewed

    def pointer(self, address: int, dtype: np.dtype[Any]) -> Pointed:
        """An address of the device as a launch takes it for a pointer.  Raises ``NotOurs``."""
        viewed, offset = self.memory.elements(address, dtype)
        return Pointed(viewed.array if viewed.written is None else viewed, offset)

    def run(self, kernel: Any, launch: Launch, args: Sequence[Any]) -> None:
        """Run one launch."""
        self._count()
        if self._observed:
            trace = run_observed(kernel, launch, args, self.options)
            self._keep(trace)
            _raise_refusal(trace)
            if trace.exception is not None:  # what the kernel raises is the program's own business
                raise trace.exception
        else:
            run_plain(kernel, launch, args)

    def refuse(self, fault: Fault, kernel: Any, launch: Launch) -> None:
        """A launch that this card does not take: the exception, and in a check a finding."""
        self._count()
        trace = refused(fault, kernel, launch, self.options)
        self._keep(trace)
        _raise_refusal(trace)

    def _count(self) -> None:
        with self._lock:
            self.launches += 1

    def _keep(self, trace: Trace) -> None:
        with self._lock:
            for finding in trace.findings:
                self._findings.setdefault(finding.key, finding)
            if self._record:
                self._traces.append(trace)
        if self._on_trace is not None:
            self._on_trace(trace)


def _raise_refusal(trace: Trace) -> None:
    """Raise for a launch that is refused, in a check too: so does a GPU, at once, and programs may wait for it."""
    for finding in trace.findings:
        if finding.kind in NOT_BEGUN:
            raise told(finding, trace)


def is_open() -> bool:
    """Is a stand-in device open in this process?"""
    return _open is not None


@contextmanager
def device(
    *,
    check: bool = False,
    orders: Sequence[str | int] | None = None,
    seed: int = 0,
    card: str = DEFAULT,
    record: bool | None = None,
    on_trace: Callable[[Trace], None] | None = None,
    **simulate_options: Any,
) -> Iterator[Device]:
    """Let numba.cuda's host side run on the CPU, for the whole process, while the ``with`` block is open.

    Parameters
    ----------
    check, orders, seed
        As for ``simulate``: collect errors in ``.findings`` instead of raising them; orders of execution.
    card
        Which card the device says it is: "h200" and the others of ``simulator.cost.cards``.
    record
        Keep a trace of each launch in ``.traces``; a trace can be large.  By default where ``check``, ``orders`` or one
        of the options below is given.  Without record, check and ``on_trace``, launches run for their results alone,
        which is faster.
    on_trace
        Called with the trace after each launch.
    simulate_options
        Other options of ``simulate``, such as ``keep`` or ``max_steps``.

    Raises
    ------
    RuntimeError
        A device is open already, NUMBA_ENABLE_CUDASIM is set, or numba-cuda is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from numba import cuda
    >>> @cuda.jit
    ... def double(x):
    ...     i = cuda.grid(1)
    ...     if i < x.size:
    ...         x[i] *= 2
    >>> with device() as gpu:
    ...     x = cuda.to_device(np.arange(4.0))
    ...     double[4, 32](x)
    ...     x[1:].copy_to_host().tolist(), gpu.launches
    ([2.0, 4.0, 6.0], 1)
    """
    options = simulate(device, check=check, orders=orders, seed=seed, **simulate_options).options
    asked = check or orders is not None or bool(simulate_options)
    keep = asked if record is None else flag("record", record)
    made = Device(card_of(card), options, asked or keep or on_trace is not None, keep, called("on_trace", on_trace))
    _refuse_other_simulators()
    with _alone(made):
        from simulator.device.numba_host import standing_in

        with standing_in(made):
            yield made


@contextmanager
def _alone(made: Device) -> Iterator[None]:
    global _open  # noqa: PLW0603 - there is one numba.cuda in a process, hence one device
    with _opening:
        if _open is not None:
            raise RuntimeError("a stand-in device is open already: it is one for the whole process and does not nest")
        _open = made
    try:
        yield
    finally:
        _open = None


def _refuse_other_simulators() -> None:
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0"):
        raise RuntimeError("NUMBA_ENABLE_CUDASIM is set: numba.cuda is Numba's own simulator; unset it to use this one")
    if find_spec("numba_cuda") is None:
        raise RuntimeError("the stand-in device needs numba-cuda, which is not installed (it has no wheels for macOS)")
