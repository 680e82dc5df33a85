"""Lowers the body of one typed function: blocks, variables, returns and the calls that are inlined.

Rules of this file:

* Every call is inlined; a return becomes a jump to the block after the call, so that an early return reconverges
  there like any branch.
* A variable assigned several times gets slots of its own, and moves.  One assigned once shares the slots of its
  value, unless it is needed where they change (``liveness``).
* Casts come from Numba's types and signatures alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from simulator.errors import Unsupported
from simulator.frontend import kernel_types as kt
from simulator.frontend import typed_ir as ir
from simulator.frontend.lowering.assignment import store
from simulator.frontend.lowering.attributes import attribute, special_register
from simulator.frontend.lowering.builder import Builder
from simulator.frontend.lowering.calls import call
from simulator.frontend.lowering.conversions import converted, storage
from simulator.frontend.lowering.globals import constant_value
from simulator.frontend.lowering.indexing import element
from simulator.frontend.lowering.iteration import exhaust, iterate, next_item
from simulator.frontend.lowering.liveness import Variables, user_name
from simulator.frontend.lowering.operators import binary, unary
from simulator.frontend.lowering.printing import print_line
from simulator.frontend.lowering.recursion import Recursion, family
from simulator.frontend.lowering.values import Complex, Known, Tuple, Value, leaves, rebuild, statics
from simulator.frontend.places import Place
from simulator.frontend.refusal import DoesNotCompile
from simulator.program import Pos


class Body:
    """One function being lowered, at one call site."""

    def __init__(
        self, builder: Builder, function: ir.Function, arguments: list[Value], site: Pos | None, library: bool = False
    ) -> None:
        self.builder = builder
        self.function = function
        self.arguments = arguments
        self.site = site
        self.library = library
        self.variables = Variables(function)
        self.values: dict[str, Value] = {}
        self.owner: dict[int, str] = {}
        self.recursion: Recursion | None = None
        self.here = (0, 0)  # block and index of the current statement
        self.target = ""  # the variable that is being assigned, and whether to an argument
        self.is_argument = False
        stem = "" if site is None else builder.label(function.name) + "."
        self.labels = {label: f"{stem}{label}" for label in function.blocks}
        self.after: str | None = None if site is None else builder.label(f"{function.name}.after")
        self.result: Value = Known(None)
        self.returns = sum(isinstance(block[-1], ir.Return) for block in function.blocks.values())

    # ------------------------------------------------------------------------------------------------ control

    def run(self) -> Value:
        """Lower every reachable block; the result is the function's."""
        if self.returns > 1 and self.site is not None and self.recursion is None:
            self.result = self.storage(self.function.result, "")
        if not self.library:
            self._note_uncalled()
        for label in self._reverse_postorder():
            self.builder.start(self.labels[label])
            for index, statement in enumerate(self.function.blocks[label]):
                self.here = (label, index)
                self.builder.position(self.at(statement.at))
                self.statement(statement, label, index)
        if self.after is not None:
            self.builder.start(self.after)
            self.builder.position(self.site or self.builder.pos)
        return self.result

    def _note_uncalled(self) -> None:
        noted = self.builder.program.uncalled
        found = ((name, replace(self.at(place), via=None)) for name, place in self.function.uncalled)
        noted += [barrier for barrier in found if barrier not in noted]

    def _reverse_postorder(self) -> list[int]:
        blocks = self.function.blocks
        order: list[int] = []
        entry = min(blocks)
        seen = {entry}
        stack = [(entry, iter(ir.successors(blocks[entry][-1])[::-1]))]
        while stack:
            label, follow = stack[-1]
            for to in follow:
                if to not in seen:
                    seen.add(to)
                    stack.append((to, iter(ir.successors(blocks[to][-1])[::-1])))
                    break
            else:
                order.append(label)
                stack.pop()
        return order[::-1]

    def at(self, place: Place) -> Pos:
        """The position of the operations of a statement."""
        if self.library:
            assert self.site is not None
            return self.site
        function = self.function
        return Pos(place.file or function.file, place.line, place.column, place.function or function.name, self.site)

    def refuse(self, construct: str, mend: str = "") -> Unsupported:
        """The error for something that cannot be lowered, at the current line."""
        return Unsupported(self.builder.pos, construct, mend)

    def statement(self, statement: ir.Statement, label: int, index: int) -> None:
        """Lower one statement."""
        match statement:
            case ir.Assign(target, value):
                self.assign(target, value, label, index)
            case ir.Store():
                store(self, statement)
            case ir.Jump(to):
                self.builder.jump(self.labels[to])
            case ir.Branch(condition, yes, no):
                self.builder.branch(self.number(condition, "b1"), self.labels[yes], self.labels[no])
            case ir.Return(value):
                self.leave(value)
            case ir.Raise(kind, args):
                self.builder.trap(kind, *args)
            case ir.Print():
                print_line(self, statement)
            case ir.Rejected(reason):
                raise DoesNotCompile(reason, self.builder.pos)
            case ir.Refused(construct):
                raise self.refuse(construct)

    def trap_if(self, condition: int, kind: type[BaseException], *args: Any) -> None:
        """Threads for which this holds have raised an exception; the others go on in a new block."""
        raised, on = self.builder.label("raise"), self.builder.label("on")
        self.builder.branch(condition, raised, on)
        self.builder.start(raised)
        self.builder.trap(kind, *args)
        self.builder.start(on)

    def leave(self, name: str) -> None:
        """A return statement."""
        if self.after is None:
            self.builder.exit()
            return
        value = self.coerce(self.value(name), self.function.result)
        if self.returns > 1 or self.recursion is not None:
            self.move(value, self.result)
        else:
            self.result = value
        self.builder.jump(self.after)

    def inline(self, callee: ir.Function, arguments: list[Value], library: bool = False) -> Value:
        """Lower a call of a typed function here."""
        if callee not in self.builder.families:
            self.builder.families[callee] = family(callee)
        if members := self.builder.families[callee]:
            if self.recursion is not None and callee in self.recursion.members:
                return self.recursion.call(self, callee, arguments, self._saved())
            return Recursion(self, members).enter(callee, arguments)
        body = Body(self.builder, callee, arguments, self.builder.pos, library or callee.of_numba)
        self.builder.jump(body.labels[min(callee.blocks)])
        return body.run()

    def of_family(self, recursion: Recursion, callee: ir.Function, arguments: list[Value]) -> Body:
        """The body of a function that calls itself: its result has slots of its own, and it returns by a stack."""
        body = Body(self.builder, callee, arguments, recursion.site, self.library or callee.of_numba)
        body.recursion = recursion
        body.result = body.storage(callee.result, "")
        return body

    def _saved(self) -> tuple[int, ...]:
        """The slots that are needed after the current statement and change."""
        for name in self.variables.liveness.after(*self.here) - {self.variables.canonical(self.target)}:
            if name not in self.values and name not in self.variables.reassigned:
                raise self.refuse(f"a variable ({user_name(name)}) of an earlier round of a loop")
            self.value(name)
        slots = self.builder.program.slots
        return tuple(sorted(slot for slot in self._slots_needed(*self.here) if slots[slot].init is None))

    # ---------------------------------------------------------------------------------------------- variables

    def assign(self, target: str, value: ir.Expression, label: int, index: int) -> None:
        """``target = value``."""
        if isinstance(value, ir.Use) and self.variables.canonical(value.name) == self.variables.canonical(target):
            return
        if isinstance(value, ir.Undefined):
            return
        self.target = target
        self.is_argument = isinstance(value, ir.Argument)
        if isinstance(value, ir.Foreign):
            raise self.refuse(value.construct)
        kind = self.function.types[target]
        if isinstance(kind, kt.ForeignType):
            if isinstance(value, ir.Call | ir.Iterate):  # they say better what is wrong
                self.expression(target, value)
            raise self.refuse(f"a value of type {kind}")
        self.bind(target, self.coerce(self.expression(target, value), kind), label, index)

    def bind(self, target: str, value: Value, label: int, index: int) -> None:
        """Give a variable its value: share the slots, or move into the variable's own."""
        variable = self.variables.canonical(target)
        if variable not in self.variables.reassigned:
            self.values[variable] = rebuild(value, lambda slot: self._share(variable, slot))
            self._name(value, self.variables.hint(target))
            self._show(target, value)
            return
        if isinstance(value, Known):
            if self.values.setdefault(variable, value) != value:
                name = user_name(target) or "value"
                raise self.refuse(f"a variable ({name}) that is {value.value} on some paths only")
            return
        if variable not in self.values:
            self.values[variable] = self._own(variable, self.function.types[target])
        store = self.values[variable]
        if isinstance(value, int) and isinstance(store, int) and value not in self._slots_needed(label, index):
            value = self.builder.into(value, store)
        self.move(value, store)

    def _slots_needed(self, label: int, index: int) -> set[int]:
        """Slots of variables that are needed after a statement."""
        live = self.variables.liveness.after(label, index)
        return {slot for name in live if name in self.values for slot in leaves(self.values[name])}

    def _share(self, variable: str, slot: int) -> int:
        """The slot itself, or a copy when it changes while the variable is still needed."""
        if self.builder.program.slots[slot].init is not None:
            return slot
        owner = self.owner.setdefault(slot, variable)
        if owner == variable or not self.variables.liveness.interferes(variable, owner):
            return slot
        copy = self.builder.op("mov", self.builder.dtype(slot), slot)
        self.builder.program.slots[copy].name = user_name(variable)
        self.owner[copy] = variable
        return copy

    def _name(self, value: Value, name: str) -> None:
        """Let temporaries bear the user's name for them."""
        if isinstance(value, Complex) and name:
            self._name(value.real, f"{name}.real")
            self._name(value.imag, f"{name}.imag")
        slot = self.builder.program.slots[value] if isinstance(value, int) else None
        if slot is not None and slot.init is None and not slot.name and not self.library:
            slot.name = name

    def _show(self, target: str, value: Value) -> None:
        """A user's variable that is a constant or a register gets a move that nothing reads, to be watched by."""
        name = user_name(target)
        if not name or self.library or self.is_argument or not isinstance(value, int):
            return
        if self.builder.program.slots[value].init is not None:
            self.builder.move(value, self.builder.new(self.builder.dtype(value), name))

    def _own(self, variable: str, kind: kt.Type) -> Value:
        value = self.storage(kind, "" if self.library else user_name(variable))
        for slot in leaves(value):
            self.owner[slot] = variable
        return value

    def move(self, value: Value, store: Value) -> None:
        """Move every leaf; where one is overwritten before it is read, by way of a temporary."""
        if list(statics(value)) != list(statics(store)):
            raise self.refuse("a value that comes from several paths and holds a text or a function")
        pairs = list(zip(leaves(value), leaves(store), strict=True))
        written = {to for _, to in pairs}
        if len(pairs) > 1:
            clash = {source for source, to in pairs if source in written and source != to}
            copies = {slot: self.builder.op("mov", self.builder.dtype(slot), slot) for slot in clash}
            pairs = [(copies.get(source, source), to) for source, to in pairs]
        for source, to in pairs:
            self.builder.move(source, to)

    def storage(self, kind: kt.Type, name: str) -> Value:
        """New slots for a value of this type."""
        return storage(self, kind, name)

    def value(self, name: str) -> Value:
        """What a variable holds."""
        variable = self.variables.canonical(name)
        if variable not in self.values:
            self.values[variable] = self._own(variable, self.function.types[name])
        return self.values[variable]

    def present(self, name: str) -> Value:
        """What a variable holds that may be None: where it is None, the thread has raised TypeError."""
        value, kind = self.value(name), self.type(name)
        return self.coerce(value, kt.present(kind)) if isinstance(kind, kt.OptionalType) else value

    def type(self, name: str) -> kt.Type:
        """The type of a variable."""
        return self.function.types[name]

    def number(self, name: str, code: str | None = None) -> int:
        """The slot of a variable that is a number, converted to a dtype if given."""
        value = self.present(name)
        if not isinstance(value, int):
            raise self.refuse(f"using a value of type {self.type(name)} as a number")
        return value if code is None else self.builder.cast(value, code)

    def coerce(self, value: Value, kind: kt.Type, source: kt.Type | None = None) -> Value:
        """A value (of type ``source``) converted to a type, as Numba's casts do."""
        return converted(self, value, kind, source)

    # -------------------------------------------------------------------------------------------- expressions

    def expression(self, target: str, value: ir.Expression) -> Value:
        """Lower the right-hand side of an assignment."""
        match value:
            case ir.Use(name):
                return self.value(name)
            case ir.Binary():
                return binary(self, value)
            case ir.Unary():
                return unary(self, value)
            case ir.Build(items):
                return Tuple(tuple(self.value(item) for item in items))
            case ir.Item():
                return element(self, value)
            case ir.Attribute():
                return attribute(self, value)
            case ir.Iterate(name):
                return iterate(self, name)
            case ir.Next(name):
                return next_item(self, name)
            case ir.Part(name, index):
                pair = self.value(name)
                assert isinstance(pair, Tuple)
                return pair.items[index]
            case ir.Exhaust(name, count):
                return exhaust(self, name, count)
            case ir.Call():
                return call(self, value, target)
        return self._given(target, value)

    def _given(self, target: str, value: ir.Expression) -> Value:
        """Arguments and what is known beforehand."""
        match value:
            case ir.Argument(index):
                return self._argument(index)
            case ir.Constant(constant, name):
                return constant_value(self, constant, self.type(target), name)
            case ir.Static(ir.Named(name)) if isinstance(self.type(target), kt.Scalar):
                return special_register(self, name)
            case ir.Static(static):
                return Known(static)
        raise self.refuse(f"the expression {value}")

    def _argument(self, index: int) -> Value:
        kind = self.function.arguments[index]
        if isinstance(kind, kt.Default):
            to = self.function.types.get(self.target, kt.Nothing())
            return constant_value(self, kind.value, to)
        return self.arguments[index]
