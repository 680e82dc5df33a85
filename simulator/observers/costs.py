"""Which source lines pay much more for memory than they have to: uncoalesced requests, bank conflicts.

Rules of this file: it judges the counts of ``observers.traffic`` and counts nothing itself.  A line is told of when

* it takes at least so many times what its bytes need (``SECTORS``, ``WAVEFRONTS``),
* in enough requests, with enough lanes in them, to matter: a launch of a few warps costs nothing whatever it does,
* the excess is a tenth of all that the launch moves, and
* its lanes are evenly apart, so that an order of threads or an index would mend it.  Scattered reads (``x[index[i]]``)
  and atomics cost what they cost.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulator.machine.faults import Fault, Place
from simulator.observers.banks import BANKS, WORD
from simulator.observers.traffic import COSTLY, Counter, RowKey, Traffic
from simulator.program import Pos

SECTORS = COSTLY
"""Sectors against ideal from which on a line is uncoalesced.  Neighbours that begin askew take 5 for 4."""
WAVEFRONTS = 2
"""Wavefronts against ideal from which on a line has bank conflicts."""
REQUESTS = 64
"""Requests that a line makes before it counts."""
LANES = 8
"""Lanes that are active in its requests, on average."""
SHARE = 0.1
"""Part of the launch's sectors (wavefronts) that the excess has to be."""


def costly(traffic: Traffic) -> list[Fault]:
    """``uncoalesced`` and ``bank-conflict`` faults of a launch, in program order."""
    sectors = sum(counter.sectors for counter in traffic.rows.values())
    wavefronts = sum(counter.wavefronts for counter in traffic.rows.values())
    return list(_faults(traffic, sectors, wavefronts))


def _faults(traffic: Traffic, sectors: int, wavefronts: int) -> Iterator[Fault]:
    for key, counter in traffic.rows.items():
        if not counter.apart or counter.requests < REQUESTS or counter.lanes < LANES * counter.requests:
            continue
        _, _, _, operation, space = key
        excess = counter.sectors - counter.ideal
        if space == "global" and operation != "atomic" and counter.sectors >= SECTORS * counter.ideal:
            if excess >= SHARE * sectors:
                yield _fault("uncoalesced", key, counter, counter.sectors, counter.ideal)
        excess = counter.wavefronts - counter.ideal_wavefronts
        if space == "shared" and operation != "atomic" and counter.wavefronts >= WAVEFRONTS * counter.ideal_wavefronts:
            if excess >= SHARE * wavefronts:
                yield _fault("bank-conflict", key, counter, counter.wavefronts, counter.ideal_wavefronts)


def _fault(kind: str, key: RowKey, counter: Counter, taken: int, ideal: int) -> Fault:
    file, line, array, operation, _ = key
    shape, strides = counter.parts
    axes = [axis for axis, stride in enumerate(strides) if abs(stride) == abs(counter.apart or 0) and shape[axis] > 1]
    return Fault(
        kind,
        (Place(Pos(file, line), 0, (), operation),),
        array=array,
        operation=operation,
        requests=counter.requests,
        taken=taken,
        ideal=ideal,
        apart=counter.apart,
        shape=shape,
        walked=axes[0] if axes else None,
        banks=abs(counter.apart or 0) % (BANKS * WORD) == 0,
    )
