"""What makes an iterator of other values, and positions in arrays."""

from __future__ import annotations

from simulator.frontend import kernel_types as kt
from simulator.frontend.lowering.calls.table import Bound, meaning
from simulator.frontend.lowering.iteration import counter, iterator, next_item, positions
from simulator.frontend.lowering.values import Iteration, Tuple, Value
from simulator.frontend.lowering.views import transposed


def _iterator(bound: Bound, parameter: str) -> Value:
    found = iterator(bound.body, bound.body.present(bound.arguments[parameter]))
    if found is None:
        raise bound.refuse(f"of {bound.body.type(bound.arguments[parameter])}")
    return found


@meaning("builtins.iter", "x")
def _iter(bound: Bound) -> Value:
    return _iterator(bound, "x")


@meaning("builtins.next", "iterator")
def _next(bound: Bound) -> Value:
    """The next element; Numba raises StopIteration at the end."""
    item, there = next_item(bound.body, bound.arguments["iterator"]).items
    assert isinstance(there, int)
    bound.body.trap_if(bound.builder.op("not", "b1", there), StopIteration)
    return item


@meaning("builtins.zip", "*")
def _zip(bound: Bound) -> Value:
    return Iteration("zip", (), tuple(_iterator(bound, parameter) for parameter in bound.arguments))


@meaning("builtins.enumerate", "x start?")
def _enumerate(bound: Bound) -> Value:
    start = bound.number("start", "i8") if bound.given("start") else None
    return Iteration("enumerate", (counter(bound.body, start),), (_iterator(bound, "x"),))


@meaning("numpy.ndindex", "*")
def _ndindex(bound: Bound) -> Value:
    values = [bound.body.value(variable) for variable in bound.arguments.values()]
    items = values[0].items if len(values) == 1 and isinstance(values[0], Tuple) else tuple(values)
    return positions(bound.body, tuple(bound.integers(*items)))


@meaning("numpy.nditer", "op")
def _nditer(bound: Bound) -> Value:
    """Elements as 0-dimensional arrays, in the order in which they lie in memory."""
    array, kind = bound.array("op"), bound.body.type(bound.arguments["op"])
    if isinstance(kind, kt.ArrayType) and kind.layout == "F":
        array = transposed(array)
    return Iteration("nditer", (), (positions(bound.body, array.shape), array))


@meaning("numpy.ndenumerate", "arr")
def _ndenumerate(bound: Bound) -> Value:
    array = bound.array("arr")
    return Iteration("ndenumerate", (), (positions(bound.body, array.shape), array))
