"""``explain``: what an operation would launch for these arrays, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from numba_norms.binding import recording
from numba_norms.binding.bound import Operation
from numba_norms.launch import Launch
from numba_norms.rms_norm import rms_norm

RESULTS = frozenset({"y", "h", "z", "mean", "rstd", "m2", "running_mean", "running_var"})
"""The arguments of kernels that they write."""


@dataclass(frozen=True)
class Explanation:
    """The launches of one call.  Printed, it is a text to read."""

    operation: str
    launches: tuple[Launch, ...]
    registers: tuple[int | None, ...]
    """Of a thread, as compiled for each launch; None where nothing was compiled"""
    besides: str
    """What happens besides the launches, such as a copy; empty if nothing does"""

    def __str__(self) -> str:
        if not self.launches:
            return f"{self.operation}: nothing to launch"
        pairs = zip(self.launches, self.registers, strict=True)
        texts = [_described(self.operation, launch, registers) for launch, registers in pairs]
        return "\n\n".join([*texts, *([f"besides: {self.besides}"] if self.besides else [])])

    __repr__ = __str__


def explain(*args: Any, capability: tuple[int, int] | None = None, **options: Any) -> Explanation:
    """Path, threads, registers and bytes of what an operation would launch.  Nothing is computed.

    Parameters
    ----------
    args, options
        An operation of this package and what it is called with, as in ``explain(layer_norm, x, weight)``; without an
        operation, ``rms_norm``, as in ``explain(x, weight)``.
    capability
        A compute capability, as in ``(9, 0)``: the kernel is compiled for it, which tells how many registers the
        machine code takes.  Arrays on a device are explained for that device.

    Raises TypeError for what is no operation of this package, what the operation raises, and RuntimeError where it is
    to be compiled and there are no compilers.

    >>> explain(np.zeros((64, 4096), np.float16))
    rms_norm: kernel rms_norm_vector on 64 blocks of 256 threads
      path       vector: 16 bytes a lane: D, strides and addresses are multiples of that
      row        256 lanes, 2 accesses each, 16 elements in registers
      bytes      1,048,576 at least: read x 524,288; written y 524,288
      readings   x once
    """
    operation, args = (args[0], args[1:]) if args and callable(args[0]) else (rms_norm, args)
    if not isinstance(getattr(operation, "operation", None), Operation):
        raise TypeError(f"explain tells of operations of numba_norms, not of {operation!r}")
    if capability is not None and not (isinstance(capability, tuple) and len(capability) == 2):
        raise TypeError(f"capability is {capability!r}; it is a pair like (9, 0)")
    with recording.record(rehearsal=True, to_repeat=False) as written:
        operation(*args, **options)
    if capability is None and getattr(written.place, "device", None) is not None:
        from numba_norms.gpu import device

        capability = device.capability(written.place.device)
    launches = tuple(written.launches)
    name = getattr(operation, "__name__", str(operation))
    registers = tuple(_registers(launch, capability) for launch in launches)
    return Explanation(name, launches, registers, written.obstacle)


def _registers(launch: Launch, capability: tuple[int, int] | None) -> int | None:
    if capability is None:
        return None
    from numba_norms.gpu import compiled  # only here: it needs compilers

    return compiled.kernel(launch.kernel, tuple(map(compiled.type_of, launch.args)), capability).registers


def _described(operation: str, launch: Launch, registers: int | None) -> str:
    kernel, blocks = launch.kernel.__name__, "block" if launch.grid == 1 else "blocks"
    lines = [f"{operation}: kernel {kernel} on {launch.grid:,} {blocks} of {launch.block} threads"]
    form = launch.form
    if form is not None:
        lines.append(f"  path       {form.path}: {form.why}")
        if form.tile is not None:
            lines.append(f"  row        {_dealt(form.tile)}")
    if registers is not None:
        lines.append(f"  registers  {registers} a thread")
    lines.append(f"  bytes      {_bytes(launch)}")
    if form is not None:
        lines.append(f"  readings   {launch.names[0]} {('', 'once', 'twice', 'three times')[form.reads]}")
    return "\n".join(lines)


def _dealt(tile: Any) -> str:
    accesses = "1 access" if tile.rounds == 1 else f"{tile.rounds} accesses"
    shared = f"; {tile.rows} rows a block" if tile.rows > 1 else ""
    return f"{tile.lanes} lanes, {accesses} each, {tile.size} elements in registers{shared}"


def _bytes(launch: Launch) -> str:
    """The least that has to cross the bus: each array once."""
    arrays = [(n, a) for n, a in zip(launch.names, launch.args, strict=True) if isinstance(a, np.ndarray)]
    read = [f"{name} {_distinct(array):,}" for name, array in arrays if name not in RESULTS]
    written = [f"{name} {_distinct(array):,}" for name, array in arrays if name in RESULTS]
    least = sum(_distinct(array) for _, array in arrays)
    return f"{least:,} at least: read {', '.join(read)}; written {', '.join(written)}"


def _distinct(array: np.ndarray) -> int:
    """Bytes of the elements, those along broadcast axes once."""
    extents = (n for n, stride in zip(array.shape, array.strides, strict=True) if stride)
    return int(np.prod([*extents], dtype=np.int64)) * array.itemsize
