"""Functions that call themselves, or each other: lowered once, with a stack in each thread's local memory.

Everything else is inlined.  A call from outside starts with an empty stack.  A call from inside pushes what the caller
needs afterwards and a number that says where to go on; a return goes where the number on top of the stack says.  The
stack is an array of its own (``call stack``): a recursion that is too deep is out of its bounds, and in a trace it is
seen that recursion costs memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from simulator.frontend import kernel_types as kt
from simulator.frontend import typed_ir as ir
from simulator.frontend.lowering.indexing import address
from simulator.frontend.lowering.memory import declare
from simulator.frontend.lowering.values import Known, Value, rebuild
from simulator.program import CALL_STACK

if TYPE_CHECKING:
    from simulator.frontend.lowering.body import Body

WORDS = 4096
"""Words of 8 bytes that the stack of a thread has: about a thousand calls.  (A GPU has 1 KiB unless told otherwise.)"""


def family(function: ir.Function) -> frozenset[ir.Function]:
    """The functions that a function calls and that call it, by way of others too: empty unless it is recursive."""
    return frozenset(other for other in _reached(function) if function in _reached(other))


def _reached(function: ir.Function) -> set[ir.Function]:
    found: set[ir.Function] = set()
    waiting = [function]
    while waiting:
        new = set(_callees(waiting.pop())) - found
        found |= new
        waiting += new
    return found


def _callees(function: ir.Function) -> Iterator[ir.Function]:
    for block in function.blocks.values():
        for statement in block:
            match statement:
                case ir.Assign(_, ir.Call(callee=callee)) if callee is not None:
                    yield callee


class Recursion:
    """One call from outside of a family of functions."""

    def __init__(self, outside: Body, members: frozenset[ir.Function]) -> None:
        self.members = members
        self.outside = outside
        self.site = outside.builder.pos
        self.builder = outside.builder
        word, name = kt.Scalar("i8"), CALL_STACK
        self.stack = declare(outside, name, (self, name), "local", word, (WORDS,))
        self.top = self.builder.new("i8")
        self.bodies: dict[ir.Function, Body] = {}
        self.waiting: list[Body] = []
        self.returns: list[tuple[ir.Function, str]] = []

    def enter(self, callee: ir.Function, arguments: list[Value]) -> Value:
        """The call from outside: lowers the whole family."""
        builder = self.builder
        builder.move(builder.const("i8", 0), self.top)
        result = self.call(self.outside, callee, arguments, ())
        pos, block = builder.pos, builder.block
        while self.waiting:
            self.waiting.pop(0).run()
        for function in self.bodies:
            self._return(function)
        builder.block = block
        builder.position(pos)
        return result

    def call(self, body: Body, callee: ir.Function, arguments: list[Value], live: tuple[int, ...]) -> Value:
        """A call of a member, from ``body``, which needs the slots ``live`` afterwards."""
        builder, member = self.builder, self._member(body, callee, arguments)
        after = builder.label(f"{callee.name}.back")
        number = builder.const("i8", len(self.returns))
        self.returns.append((callee, after))
        for position, slot in enumerate((*live, number)):
            self._push(slot, position)
        self._move_top(len(live) + 1)
        for value, slots in zip(arguments, member.arguments, strict=True):
            body.move(value, slots)
        builder.jump(member.labels[min(callee.blocks)])
        builder.start(after)
        self._move_top(-len(live) - 1)
        for position, slot in enumerate(live):
            self._pop(slot, position)
        return rebuild(member.result, lambda slot: builder.op("mov", builder.dtype(slot), slot))

    def _member(self, body: Body, callee: ir.Function, arguments: list[Value]) -> Body:
        """The body of a member; the first call of it decides what its static arguments are."""
        if callee not in self.bodies:
            slots = [rebuild(value, lambda slot: self.builder.new(self.builder.dtype(slot))) for value in arguments]
            made = self.bodies[callee] = body.of_family(self, callee, slots)
            self.waiting.append(made)
        member = self.bodies[callee]
        for value, slots_of in zip(arguments, member.arguments, strict=True):
            if isinstance(value, Known) and value != slots_of:
                raise body.refuse("recursion with another function or text as an argument")
        return member

    def _return(self, function: ir.Function) -> None:
        """Where a member returns to: the place that the number on top of the stack names."""
        builder = self.builder
        after = self.bodies[function].after
        assert after is not None
        builder.start(after)
        number = builder.new("i8")
        self._pop(number, -1)
        places = [(k, label) for k, (callee, label) in enumerate(self.returns) if callee is function]
        for k, label in places[:-1]:
            here = builder.op("cmp", "i8", number, builder.const("i8", k), result="b1", how="eq", unordered=False)
            on = builder.label("return")
            builder.branch(here, label, on)
            builder.start(on)
        builder.jump(places[-1][1])

    # --------------------------------------------------------------------------------------------- the stack

    def _place(self, position: int) -> int:
        builder = self.builder
        index = self.top if not position else builder.op("add", "i8", self.top, builder.const("i8", position))
        return address(self.outside, self.stack, [index])

    def _push(self, slot: int, position: int) -> None:
        self.builder.do("st", self.builder.dtype(slot), self._place(position), slot, name=self.stack.name)

    def _pop(self, slot: int, position: int) -> None:
        place = self._place(position)
        found = self.builder.op("ld", self.builder.dtype(slot), place, name=self.stack.name)
        self.builder.retarget(found, slot)

    def _move_top(self, words: int) -> None:
        following = self.builder.op("add", "i8", self.top, self.builder.const("i8", words))
        self.builder.retarget(following, self.top)
