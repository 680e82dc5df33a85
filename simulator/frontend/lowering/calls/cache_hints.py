"""Loads and stores with a cache hint (``cuda.ldcg``, ``cuda.stwt`` ...).

A hint changes where the hardware keeps the data, never what is loaded: the access bears it (``hint``), and nothing else
depends on it.
"""

from __future__ import annotations

from simulator.frontend import kernel_types as kt
from simulator.frontend.lowering.calls.table import Bound, Meaning, meaning
from simulator.frontend.lowering.indexing import address, indices
from simulator.frontend.lowering.values import Array, Known, Value


def _place(bound: Bound) -> tuple[Array, int]:
    """The array and the address of the element."""
    array = bound.array("array")
    if not isinstance(array.element, kt.Scalar):
        raise bound.refuse(f"on {bound.type('array')}")
    index = [part for part in indices(bound.body, bound.arguments["i"], None) if isinstance(part, int)]
    return array, address(bound.body, array, index)


def _load(hint: str) -> Meaning:
    def load(bound: Bound) -> Value:
        array, place = _place(bound)
        return bound.builder.op("ld", array.code, place, name=array.name, hint=hint)

    return load


def _store(hint: str) -> Meaning:
    def store(bound: Bound) -> Value:
        array, place = _place(bound)
        value = bound.body.number(bound.arguments["value"], array.code)
        bound.builder.do("st", array.code, place, value, name=array.name, hint=hint)
        return Known(None)

    return store


for _hint in ("ca", "cg", "cs", "lu", "cv"):
    meaning(f"cuda.ld{_hint}", "array i")(_load(_hint))
for _hint in ("cg", "cs", "wb", "wt"):
    meaning(f"cuda.st{_hint}", "array i value")(_store(_hint))
