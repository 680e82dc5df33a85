"""Methods of arrays: views of the same memory, and single elements.

Those that would copy (``copy``, ``flatten``, ``astype``) need memory that a kernel does not have: Numba refuses them.
"""

from __future__ import annotations

from simulator.frontend import kernel_types as kt
from simulator.frontend.lowering.calls.table import Bound, meaning, spelled
from simulator.frontend.lowering.conversions import zero
from simulator.frontend.lowering.indexing import fetch
from simulator.frontend.lowering.nest import loop_nest
from simulator.frontend.lowering.values import Array, Complex, Tuple, Value, leaves
from simulator.frontend.lowering.views import reshaped, transposed, viewed
from simulator.frontend.refusal import DoesNotCompile


def _array(bound: Bound) -> Array:
    if not isinstance(bound.of, Array):
        raise bound.refuse(f"of {bound.of_type}")
    return bound.of


@meaning("method reshape", "*")
def _reshape(bound: Bound) -> Value:
    array, kind = _array(bound), bound.of_type
    assert isinstance(kind, kt.ArrayType)
    if kind.layout != "C" and kind.ndim > 1:
        raise bound.refuse("of an array that is not in C order")
    values = [bound.body.value(variable) for variable in bound.arguments.values()]
    items = values[0].items if len(values) == 1 and isinstance(values[0], Tuple) else tuple(values)
    return reshaped(bound.body, array, bound.integers(*items))


@meaning("method ravel")
def _ravel(bound: Bound) -> Value:
    array, kind = _array(bound), bound.of_type
    if not isinstance(kind, kt.ArrayType) or kind.layout != "C":
        raise _allocates(bound)
    return reshaped(bound.body, array, [bound.builder.const("i8", -1)])


def _allocates(bound: Bound) -> Exception:
    mend = "copy the elements in a loop, to an array of cuda.local.array()"
    return bound.body.refuse(f"{spelled(bound.call.target)}, which allocates memory", mend)


def _copying(bound: Bound) -> Value:
    raise _allocates(bound)


for _name in ("copy", "flatten", "astype"):
    meaning(f"method {_name}", "*")(_copying)


@meaning("method transpose", "*")
def _transpose(bound: Bound) -> Value:
    array = _array(bound)
    if bound.arguments:
        raise DoesNotCompile("Numba has no transpose() with axes in a kernel", bound.builder.pos)
    return transposed(array)


@meaning("method view", "dtype")
def _view(bound: Bound) -> Value:
    array = _array(bound)
    if not isinstance(bound.kind, kt.ArrayType):
        raise bound.refuse(f"giving {bound.kind}")
    return viewed(bound.body, array, bound.kind.element)


@meaning("numpy.sum", "a")
def _sum_of(bound: Bound) -> Value:
    return _total(bound, bound.array("a"), bound.body.type(bound.arguments["a"]))


@meaning("method sum")
def _sum(bound: Bound) -> Value:
    return _total(bound, _array(bound), bound.of_type)


def _total(bound: Bound, array: Array, kind: kt.Type) -> Value:
    """The sum of all elements in the order in which they lie in memory, in the dtype of the result."""
    body, builder = bound.body, bound.builder
    if not isinstance(bound.kind, kt.Scalar | kt.ComplexType):
        raise bound.refuse(f"of {kind}")
    if isinstance(kind, kt.ArrayType) and kind.layout == "F":
        array = transposed(array)
    total = body.storage(bound.kind, "")
    body.move(zero(body, bound.kind), total)
    with loop_nest(body, array.shape) as index:
        element = body.coerce(fetch(body, array, index), bound.kind)
        for slot, other in zip(leaves(total), leaves(element), strict=True):
            builder.retarget(builder.op("add", builder.dtype(slot), slot, other), slot)
    return total


@meaning("method item")
def _item(bound: Bound) -> Value:
    """The only element; Numba raises ValueError if there are others.  A number is its own."""
    if isinstance(bound.of, int | Complex):
        return bound.of
    array, builder = _array(bound), bound.builder
    one = builder.const("i8", 1)
    for extent in array.shape:
        other = builder.op("cmp", "i8", extent, one, result="b1", how="ne", unordered=False)
        bound.body.trap_if(other, ValueError, "item(): cannot convert array to Python scalar")
    return fetch(bound.body, array, [builder.const("i8", 0)] * len(array.shape))
