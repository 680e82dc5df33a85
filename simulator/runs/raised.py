"""Exceptions that a kernel raises: what the host sees of them under ``debug=True``, as Numba does it.

The launch runs to its end, and then the exception of the first thread that raised one is raised on the host: the
kernel's own class, with the place and the thread before its message.  Without ``debug=True`` the thread just ends.
"""

from __future__ import annotations

import os

from simulator.findings import Launch, unravel
from simulator.machine.faults import Fault


def host_exception(fault: Fault, launch: Launch) -> BaseException:
    """The exception of a ``kernel-exception`` fault.  Thread and block are [z, y, x], as Numba prints them."""
    place = fault.places[0]
    kind, args = fault.facts["raised"]
    thread, block = (
        list(unravel(number, shape))[::-1]
        for number, shape in ((place.threads[0], launch.block), (place.block, launch.grid))
    )
    where = f"In function {place.pos.function!r}, file {os.path.abspath(place.pos.file)}, line {place.pos.line}, "
    prefix = f"{where}tid={thread} ctaid={block}"
    said = (f"{prefix}: {args[0]}", *args[1:]) if args else (prefix,)
    found: BaseException = kind(*said)
    return found
