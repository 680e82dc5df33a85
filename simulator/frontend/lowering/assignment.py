"""``x[i, j] = value``: to an element, a field of a record, or a part of an array."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.frontend import kernel_types as kt
from simulator.frontend import typed_ir as ir
from simulator.frontend.lowering.choice import chosen
from simulator.frontend.lowering.elements import store as store_element
from simulator.frontend.lowering.indexing import Index, address, fetch, index_array, indices, place, the_element
from simulator.frontend.lowering.nest import loop_nest
from simulator.frontend.lowering.pointers import element_at
from simulator.frontend.lowering.records import set_field
from simulator.frontend.lowering.values import Array, Pointer, Record, Tuple, Value
from simulator.frontend.refusal import DoesNotCompile

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body


def store(body: Body, statement: ir.Store) -> None:
    """``target[index] = value``."""
    array = body.present(statement.target)
    if isinstance(array, Record) and isinstance(statement.static, str | int):
        set_field(body, array, statement.static, body.value(statement.value), body.type(statement.value))
        return
    if isinstance(array, Pointer):
        (index,) = indices(body, statement.index, statement.static)
        _store_element(body, array, element_at(body, array, index), statement)
        return
    if not isinstance(array, Array):
        raise body.refuse(f"storing into a value of type {body.type(statement.target)}")
    if (by := index_array(body, statement.index)) is not None:
        axis, picks = by
        with loop_nest(body, picks.shape) as position:
            pick = fetch(body, picks, position)
            assert isinstance(pick, int)
            _store_at(body, array, indices(body, statement.index, None, {axis: pick}), statement)
        return
    _store_at(body, array, indices(body, statement.index, statement.static), statement)


def _store_at(body: Body, array: Array, index: list[Index], statement: ir.Store) -> None:
    place_ = place(body, array, index)
    if isinstance(place_, Array):
        _assign_part(body, place_, statement)
    else:
        _store_element(body, array, place_, statement)


def _store_element(body: Body, array: Array | Pointer, place_: int, statement: ir.Store) -> None:
    value, source = the_element(body, body.value(statement.value)), body.type(statement.value)
    if isinstance(value, Array):
        raise _copies(body)
    if len(statement.signature.args) == 3:
        value, source = body.coerce(value, statement.signature.args[2], source), statement.signature.args[2]
    store_element(body, array.element, place_, body.coerce(value, array.element, source), array.name)


def _assign_part(body: Body, part: Array, statement: ir.Store) -> None:
    """``part[...] = value``: a number goes to every element, a tuple item by item; each thread stores them all."""
    value, source = body.value(statement.value), body.type(statement.value)
    if isinstance(value, Array):
        raise _copies(body)
    if isinstance(value, Tuple) and not isinstance(part.element, kt.TupleType | kt.TextType):
        _assign_items(body, part, value)
        return
    item = body.coerce(value, part.element, source)
    with loop_nest(body, part.shape) as index:
        store_element(body, part.element, address(body, part, list(index)), item, part.name)


def _copies(body: Body) -> DoesNotCompile:
    """Numba keeps a copy, lest the two overlap."""
    reason = "assigning an array to a slice copies by way of memory that a kernel does not have (NRT)"
    return DoesNotCompile(reason, body.builder.pos)


def _assign_items(body: Body, part: Array, value: Tuple) -> None:
    builder, count = body.builder, len(value.items)
    if len(part.shape) != 1 or not count:
        raise body.refuse("assigning a tuple to a part of more axes than one")
    length = builder.const("i8", count)
    other = builder.op("cmp", "i8", part.shape[0], length, result="b1", how="ne", unordered=False)
    body.trap_if(other, ValueError, f"cannot assign slice of shape ({count},) from input of another shape")
    with loop_nest(body, (length,)) as index:
        item: Value = body.coerce(chosen(body, value.items, index[0]), part.element)
        store_element(body, part.element, address(body, part, list(index)), item, part.name)
