"""A trace as JSON, for machines: schema ``numba-sim/trace``, version 1.

Columnar: a table is an object of equally long lists.  Top level::

    schema, version      "numba-sim/trace", 1; a reader refuses a version that it does not know
    kernel, schedule     strings;  launch: {grid, block, dynamic_shared}
    orders               the orders of execution that were run, the recorded one first; of a sample of blocks, which
    truncated            does the log of the run lack accesses?  Counts are complete all the same
    arrays               table: name dtype shape strides space address        (strides and address in bytes)
    lines                table: file line source array operation space requests sectors ideal unique wavefronts
                         ideal_wavefronts lanes bytes                  (wavefronts: null outside shared memory)
    thread               {thread, block, steps, watched}: steps is a table: step operation array element index line
                         file; watched maps a variable to its values, "nan" and "inf" as strings
    accesses             {block, limit, complete, requests}: the requests of one block, a table: step round warp
                         operation file line array space nbytes mask offset stride offsets
                         (thread and accesses are null where the launch never began; findings say why)
    findings             list of {kind, severity, message, mend, array, element, count, sites}

In ``requests``, ``mask`` is the active mask (bit = lane); ``offset`` the byte of the first active lane, from the start
of the array; lane k asks for ``offset + (k - first active lane) * stride`` if ``stride`` is not null, else the active
lanes ask for ``offsets``.

Rules of this file: what is added later leaves what is here as it is; what changes it raises the version.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from simulator.log import WarpAccess
    from simulator.trace import Trace

SCHEMA, VERSION = "numba-sim/trace", 1
LIMIT = 50_000
"""Requests that ``accesses`` holds at most."""

Table = dict[str, list[Any]]
_ARRAY = ("name", "dtype", "shape", "strides", "space", "address")
_REQUEST = ("step", "round", "warp", "operation", "file", "line", "array", "space", "nbytes")


def document(
    trace: Trace, thread: int | tuple[int, ...] = 0, block: int | tuple[int, ...] = 0, watch: Sequence[str] = (),
    *, limit: int = LIMIT,
) -> dict[str, Any]:  # fmt: skip
    """The trace as one object that ``json.dumps`` takes, with ``thread`` and the requests of ``block``."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "kernel": trace.kernel,
        "launch": asdict(trace.launch),
        "schedule": trace.schedule,
        "orders": list(trace.orders),
        "truncated": trace.truncated,
        "arrays": _table(map(asdict, trace.arrays.values()), _ARRAY),
        "lines": _lines(trace),
        "thread": _thread(trace, thread, block, watch) if trace.ran else None,
        "accesses": _accesses(trace, block, limit) if trace.ran else None,
        "findings": [{**asdict(found), "launch": None} for found in trace.findings],
    }


def _table(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> Table:
    """Rows turned into columns."""
    listed = list(rows)
    return {column: [_plain(row[column]) for row in listed] for column in columns}


def _plain(value: Any) -> Any:
    """A value that JSON has: NumPy scalars become Python's, non-finite numbers strings."""
    if isinstance(value, np.generic):
        value = value.item() if value.dtype.kind in "biufc" else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return list(map(_plain, value)) if isinstance(value, tuple | list) else value


def _lines(trace: Trace) -> Table:
    rows = [{**asdict(row), "source": trace.source(row.file, row.line).strip()} for row in trace.lines]
    counts = ("requests", "sectors", "ideal", "unique", "wavefronts", "ideal_wavefronts", "lanes", "bytes")
    return _table(rows, ("file", "line", "source", "array", "operation", "space", *counts))


def _thread(
    trace: Trace, thread: int | tuple[int, ...], block: int | tuple[int, ...], watch: Sequence[str]
) -> dict[str, Any]:
    view = trace.thread(thread, block)
    columns = ("step", "operation", "array", "element", "index", "line", "file")
    return {
        "thread": view.thread,
        "block": view.block,
        "steps": _table((asdict(step) for step in view.table()), columns),
        "watched": {name: _plain(view.values(name)) for name in watch},
    }


def _accesses(trace: Trace, block: int | tuple[int, ...], limit: int) -> dict[str, Any]:
    found = list(islice(trace.accesses(block=block), limit + 1))
    rows = [_request(trace, access) for access in found[:limit]]
    return {
        "block": trace.thread(0, block).block,
        "limit": limit,
        "complete": len(found) <= limit,
        "requests": _table(rows, (*_REQUEST, "mask", "offset", "stride", "offsets")),
    }


def _request(trace: Trace, access: WarpAccess) -> dict[str, Any]:
    lanes = np.flatnonzero(access.mask)
    offsets = access.addresses[lanes] - (trace.arrays[access.array].address or 0)
    stride = int(offsets[1] - offsets[0]) // int(lanes[1] - lanes[0]) if lanes.size > 1 else 0
    even = lanes.size > 0 and bool(np.all(offsets == offsets[0] + (lanes - lanes[0]) * stride))
    return {
        **{name: getattr(access, name) for name in _REQUEST},
        "mask": int(sum(1 << int(lane) for lane in lanes)),
        "offset": int(offsets[0]) if lanes.size else None,
        "stride": stride if even else None,
        "offsets": None if even else offsets.tolist(),
    }
