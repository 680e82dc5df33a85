"""The one catalogue of messages: facts of the machine become sentences that a student can act on.

Rules of this file:

* The machine reports facts (``Fault``); sentences are made here and nowhere else.
* A message says where, which threads, which array and element, who is missing and where they wait.  The likely mend
  stands apart.
* Words are NVIDIA's: barrier, warp, lane, active mask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simulator.findings import Finding, Launch, Replay, Shape, Site, unravel
from simulator.machine.faults import Fault, Place
from simulator.program import Pos


@dataclass(frozen=True, slots=True)
class Words:
    """Names threads and blocks as the launch's shape suggests: a number in one dimension, a tuple in more."""

    launch: Launch

    def thread(self, number: int) -> str:
        return f"thread {_index(number, self.launch.block)}"

    def block(self, number: int) -> str:
        return f"block {_index(number, self.launch.grid)}"

    def place(self, place: Place) -> str:
        """``k.py:12: thread 4 of block 0``."""
        return f"{_at(place.pos)}: {self.thread(place.threads[0])} of {self.block(place.block)}"

    def threads(self, numbers: tuple[int, ...]) -> str:
        """``thread 3``, ``threads 32-63 (32 of them)`` or ``threads 1, 3, 5, … (16 of them)``."""
        if len(numbers) == 1:
            return self.thread(numbers[0])
        return "threads " + _listed(numbers, lambda k: _index(k, self.launch.block))


def _index(number: int, shape: Shape) -> str:
    if shape[1:] == (1, 1):
        return str(number)
    return str(unravel(number, shape)[: 3 if shape[2] > 1 else 2])


def _listed(numbers: tuple[int, ...], name: Callable[[int], str] = str) -> str:
    numbers = tuple(sorted(numbers))
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{name(numbers[0])} to {name(numbers[-1])} ({len(numbers)} of them)"
    shown = ", ".join(name(k) for k in numbers[:4])
    return shown if len(numbers) <= 4 else f"{shown}, … ({len(numbers)} of them)"


def _at(pos: Pos) -> str:
    via = f" (called from line {pos.via.line})" if pos.via is not None else ""
    return f"{pos.file}:{pos.line}{via}"


def _wait(elsewhere: Any, words: Words) -> str:
    """Where the others stand: ``elsewhere`` holds (pos, kind of operation[, block], threads)."""
    parts = []
    for pos, kind, *block, threads in tuple(elsewhere)[:4]:
        of = f" of {words.block(block[0])}" if block else ""
        verb = "waits" if len(threads) == 1 else "wait"
        parts.append(f"{words.threads(tuple(threads))}{of} {verb} at {kind} on line {pos.line}")
    more = len(tuple(elsewhere)) - len(parts)
    return "; ".join(parts) + (f"; and {more} more groups" if more > 0 else "")


# -- the catalogue ------------------------------------------------------------------------------------------------
# One function per kind of fault: facts -> (message, mend).

Said = tuple[str, str]


def _more_lanes(facts: dict[str, Any]) -> str:
    """How many lanes of the same operation do the same: the count is told here, in the sentence, and nowhere else."""
    more = facts.get("count", 1) - 1
    return f" ({more} more of these lanes do{'es' if more == 1 else ''} too)" if more else ""


def _out_of_bounds(fault: Fault, words: Words) -> Said:
    facts, place = fault.facts, fault.places[0]
    verb = {"ld": "reads", "st": "writes", "atom": "updates"}[place.access]
    others = _more_lanes(facts)
    if "axis" not in facts:
        name = f" of array {facts['array']!r}" if facts.get("array") else ""
        what = (
            f"{verb} {facts['nbytes']} bytes at address {facts['address']:#x}, outside every allocation{name}{others}"
        )
        return f"{words.place(place)} {what}", "check the address arithmetic"
    index, extent, axis = facts["index"], facts["extent"], facts["axis"]
    if (run := facts.get("run", 1)) > 1:
        what = f"{verb} {run} elements of {facts['array']} from index {facts['first']} on"
        mend = f"guard the access with `if index + {run} <= {facts['array']}.shape[{axis}]:`"
    else:
        what = f"{verb} {facts['array']} at index {index}"
        mend = f"guard the access with `if index < {facts['array']}.shape[{axis}]:`"
    what = f"{what} along axis {axis}, which has {extent} elements{others}"
    if index < 0 and "run" in facts:
        return f"{words.place(place)} {what}", "this access takes no index from the end; check the subtraction"
    if index < 0:
        return f"{words.place(place)} {what}", "a negative index wraps only once; check the subtraction that made it"
    return f"{words.place(place)} {what}", mend


def _misaligned(fault: Fault, words: Words) -> Said:
    facts = fault.facts
    message = (
        f"{words.place(fault.places[0])} accesses {facts['nbytes']} bytes of {facts['array']} at address "
        f"{facts['address']:#x}, which is not a multiple of {facts['nbytes']}{_more_lanes(facts)}"
    )
    return message, "a wide access needs an aligned address: handle the first elements one by one, or load narrower"


def _barrier_divergence(fault: Fault, words: Words) -> Said:
    facts, place = fault.facts, fault.places[0]
    waiting, missing = tuple(facts["waiting"]), tuple(facts["missing"])
    barrier = place.access or "a barrier"
    verb = "waits" if len(waiting) == 1 else "wait"
    head = f"{_at(place.pos)}: {words.threads(waiting)} of {words.block(place.block)} {verb} at {barrier}"
    if facts.get("exited"):
        rest = f"{words.threads(tuple(facts['exited']))} went past it and returned"
    else:
        where = _wait(facts.get("elsewhere", ()), words)
        rest = f"{words.threads(missing)} do{'es' if len(missing) == 1 else ''} not arrive" + (
            f": {where}" if where else ""
        )
    return (
        f"{head}, but {rest}",
        "move the barrier out of the branch or loop, so that all threads of the block reach it",
    )


def _warp_sync(fault: Fault, words: Words) -> Said:
    facts, place = fault.facts, fault.places[0]
    head = f"{words.place(place)}: {facts['operation']} in warp {facts['warp']}"
    if facts.get("unnamed"):
        return (
            f"{head}: lane {facts['lane']} runs it, but the mask it passes does not name lane {facts['lane']}",
            "a lane must be in its own mask: 0xffffffff for a full warp, or cuda.activemask() before the branch",
        )
    missing = tuple(facts["missing"])
    lanes = f"lanes {_listed(missing)}, which do" if len(missing) != 1 else f"lane {missing[0]}, which does"
    where = f": {waits}" if (waits := _wait(facts.get("elsewhere", ()), words)) else ""
    return (
        f"{head}: the mask names {lanes} not arrive{where}",
        "name only lanes that run this line, or move the operation out of the branch",
    )


def _partial_warp(fault: Fault, words: Words) -> Said:
    facts, place = fault.facts, fault.places[0]
    others = f" ({facts['count'] - 1} more such reads)" if facts["count"] > 1 else ""
    return (
        f"{words.place(place)}: {facts['operation']} in warp {facts['warp']}: lane {facts['lane']} reads from lane"
        f" {facts['source']}, which does not take part: the value is undefined, and shows here as NaN or -1{others}",
        "do not use that value, or let every lane that is read from run the operation with a mask that names it",
    )


def _deadlock(fault: Fault, words: Words) -> Said:
    where = _wait(fault.facts.get("elsewhere", ()), words)
    head = f"{_at(fault.places[0].pos)}: " if fault.places else ""
    message = f"{head}nobody can go on: {where or 'every thread waits'}"
    return (
        message,
        "threads wait for others that wait themselves, or that have returned: check what each group waits for",
    )


def _step_limit(fault: Fault, words: Words) -> Said:
    where = _wait(fault.facts.get("elsewhere", ()), words)
    head = f"{_at(fault.places[0].pos)}: " if fault.places else ""
    message = f"{head}still running after the budget of {fault.facts['budget']} steps" + (f": {where}" if where else "")
    return (
        message,
        "a loop may never end, for example one that waits for another thread; else simulate a smaller launch, or raise "
        "the budget with max_steps= of simulate() (numba-sim: --max-steps)",
    )


def _launch_limit(fault: Fault, words: Words) -> Said:
    facts = fault.facts
    head = f"{_at(fault.places[0].pos)}: " if fault.places else ""
    return f"{head}{facts['what']} is {facts['value']}, but {facts['limit']}", facts.get("mend", "")


def _does_not_compile(fault: Fault, words: Words) -> Said:
    head = f"{_at(fault.places[0].pos)}: " if fault.places else ""
    return f"{head}Numba cannot compile the kernel: {fault.facts['reason']}", fault.facts.get("mend", "")


def _kernel_exception(fault: Fault, words: Words) -> Said:
    said, more = fault.facts.get("message", ""), fault.facts.get("count", 1) - 1
    others = f" (as do {more} more threads)" if more else ""
    return f"{words.place(fault.places[0])} reaches a `raise`" + (f": {said}" if said else "") + others, ""


def order_dependent(
    array: str, index: tuple[int, ...], values: tuple[str, Any, str, Any], count: int, site: Site | None
) -> Said:
    """Two orders of execution leave different results; ``values`` are order, value, order, value."""
    element = f"{array}[{', '.join(map(str, index))}]"
    where = f"{site}: " if site is not None else ""
    more = f" ({count} elements of {array} differ)" if count > 1 else ""
    message = f"{where}{element} is {values[1]} in order {values[0]} and {values[3]} in order {values[2]}{more}"
    return message, "threads meet at this element without a barrier between them, or add floats atomically"


CATALOGUE: dict[str, Callable[[Fault, Words], Said]] = {
    "out-of-bounds": _out_of_bounds,
    "misaligned-access": _misaligned,
    "barrier-divergence": _barrier_divergence,
    "warp-sync": _warp_sync,
    "partial-warp": _partial_warp,
    "deadlock": _deadlock,
    "step-limit": _step_limit,
    "launch-limit": _launch_limit,
    "does-not-compile": _does_not_compile,
    "kernel-exception": _kernel_exception,
}
"""How each fault is told.  ``step-limit`` is told as a ``deadlock``: nobody has shown that the kernel would end."""


def finding_of(fault: Fault, kernel: str, launch: Launch, replay: Replay | None = None) -> Finding:
    """The finding that tells a fault of the machine."""
    message, mend = CATALOGUE[fault.kind](fault, Words(launch))
    facts = fault.facts
    index = facts.get("index")
    return Finding(
        kind="deadlock" if fault.kind == "step-limit" else fault.kind,
        message=message,
        sites=_sites(fault),
        kernel=kernel,
        launch=launch,
        array=facts.get("array", ""),
        element=(index,) if index is not None and facts.get("axis") == 0 else None,
        count=facts.get("count", 1),
        mend=mend,
        replay=replay,
    )


def _sites(fault: Fault) -> tuple[Site, ...]:
    """The fault's places, and where those stand that it waits for."""
    sites = [_site(place.pos, place.block, tuple(place.threads), place.access) for place in fault.places]
    for pos, kind, *block, threads in fault.facts.get("elsewhere", ()):
        number = block[0] if block else fault.places[0].block if fault.places else None
        sites.append(_site(pos, number, tuple(threads), kind))
    return tuple(sites)


def _site(pos: Pos, block: int | None, threads: tuple[int, ...], access: str) -> Site:
    return Site(pos.file, pos.line, pos.function, block, threads[0] if threads else None, access)
