"""A specimen of the zoo: a faulty kernel, its repaired twin, one launch for both, and what is expected of each.

Rules of this folder:

* One module per kind of finding, named after it; its specimens stand in ``ZOO``.
* A line that a finding must name ends in ``# zoo: KIND`` (several kinds with commas).  A kernel's labels are all the
  errors and warnings that it may cause, but for ``order-dependent`` beside a race, which goes without saying; a note
  is asked for only where it is labelled.
* The twin takes the same launch, computes ``expected`` in every order of execution, and causes no finding of severity
  error or warning.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator import simulate
from simulator.findings import SEVERITIES, Finding

LABEL = re.compile(r"#\s*zoo:\s*([a-z0-9-]+(?:\s*,\s*[a-z0-9-]+)*)\s*$")

ORDERS: tuple[str | int, ...] = ("waves", "first", "last", "round-robin", *range(1, 17))
"""The twenty orders of execution that every specimen runs in."""

STEPS = 20_000
"""Segments of code after which a run counts as hanging."""

Extent = int | tuple[int, ...]


@dataclass(frozen=True)
class Specimen:
    """One bug.  ``args(rng)`` makes the launch arguments, ``expected(*args)`` maps their indices to right results;
    ``steps`` is the budget of a run of the faulty one."""

    faulty: Any
    mended: Any
    grid: Extent
    block: Extent
    args: Callable[[np.random.Generator], tuple[Any, ...]]
    expected: Callable[..., Mapping[int, Any]]
    dynamic_shared: int = 0
    mended_launch: tuple[Extent, Extent, int] | None = None
    rtol: float = 1e-5
    steps: int = STEPS

    @property
    def name(self) -> str:
        return str(self.faulty.__name__)

    def run(self, kernel: Any) -> tuple[tuple[Finding, ...], tuple[Any, ...]]:
        """Findings of a check over all orders, and the arguments after it."""
        args = self.args(np.random.default_rng(0))
        grid, block, shared = self.grid, self.block, self.dynamic_shared
        if kernel is self.mended and self.mended_launch is not None:
            grid, block, shared = self.mended_launch
        steps = self.steps if kernel is self.faulty else STEPS
        trace = simulate(kernel, check=True, orders=ORDERS, max_steps=steps)[grid, block, 0, shared](*args)
        return trace.findings, args

    def right(self, args: tuple[Any, ...]) -> bool:
        """Do the arguments after a run hold what is expected?"""
        expected = self.expected(*self.args(np.random.default_rng(0)))
        return all(np.allclose(args[k], right, rtol=self.rtol, equal_nan=True) for k, right in expected.items())


def labels(kernel: Any) -> set[tuple[str, int]]:
    """(kind, line) of every label in a kernel's source and in the helpers that it names in its module."""
    found = set()
    function = getattr(kernel, "py_func", kernel)
    functions = [function]
    for name in function.__code__.co_names:
        helper = getattr(function.__globals__.get(name), "py_func", None)
        if helper is not None:
            functions.append(helper)
    for one in functions:
        lines, first = inspect.getsourcelines(one)
        for offset, text in enumerate(lines):
            if (label := LABEL.search(text)) is not None:
                found |= {(kind.strip(), first + offset) for kind in label[1].split(",")}
    if unknown := {kind for kind, _ in found} - set(SEVERITIES):
        raise ValueError(f"{function.__name__}: no such kind of finding: {unknown}")
    return found


def named(findings: tuple[Finding, ...], severities: tuple[str, ...]) -> set[tuple[str, int]]:
    """(kind, line) of every site of the findings of some severities."""
    return {(found.kind, line) for found in findings if found.severity in severities for line in found.lines}
