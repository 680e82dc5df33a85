"""Which variables of a typed function are still needed where, and which of them are one.

Numba splits a reassigned variable into versions (``x``, ``x.1``, ``x.2``).  Here they become one again where their
types agree and none is needed while another changes, so that a variable has one slot and can be watched.  A variable
that is assigned once may share the slots of another one unless it is needed where that one changes: ``interferes``.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping

from simulator.frontend import kernel_types as kt
from simulator.frontend import typed_ir as ir
from simulator.frontend.places import own_name

_VERSION = re.compile(r"(\.\d+)+$")


def user_name(variable: str) -> str:
    """The user's name of a variable, "" for one that Numba made.

    >>> user_name("acc.2"), user_name("$12binop.3"), user_name("@f$4@x.1")
    ('acc', '', 'x')
    """
    own = own_name(variable)
    return "" if own.startswith("$") else _VERSION.sub("", own)


class Liveness:
    """What is needed after each statement; ``names`` says which variables count as one."""

    def __init__(self, function: ir.Function, names: Mapping[str, str]) -> None:
        self.blocks = function.blocks
        self.names = names
        into = {label: self._backward(label, frozenset())[0] for label in self.blocks}
        self.out: dict[int, frozenset[str]] = {}
        changed = True
        while changed:
            changed = False
            for label in reversed(list(self.blocks)):
                now = frozenset[str]().union(*(into[to] for to in ir.successors(self.blocks[label][-1])))
                if now != self.out.get(label):
                    self.out[label], changed = now, True
                    into[label] = self._backward(label, now)[0]
        self._definitions = self._find_definitions()

    def name(self, variable: str) -> str:
        """The variable that stands for this one."""
        return self.names.get(variable, variable)

    def after(self, label: int, index: int) -> frozenset[str]:
        """The variables still needed after a statement."""
        return self._backward(label, self.out[label])[index + 1]

    def interferes(self, variable: str, owner: str) -> bool:
        """Whether ``variable`` is needed at a place where ``owner`` gets a value other than a copy of it."""
        return any(variable in live and source != variable for live, source in self._definitions[owner])

    def vanishes(self, statement: ir.Statement) -> bool:
        """Whether an assignment does nothing: of a variable to itself, or of no value."""
        match statement:
            case ir.Assign(target, ir.Use(source)):
                return self.name(source) == self.name(target)
            case ir.Assign(_, ir.Undefined()):
                return True
        return False

    def _backward(self, label: int, live: frozenset[str]) -> list[frozenset[str]]:
        """What is live before each statement of a block, and at last after it."""
        found = [live]
        for statement in reversed(self.blocks[label]):
            if isinstance(statement, ir.Assign):
                live = live - {self.name(statement.target)}
            live = live | {self.name(name) for name in ir.uses(statement)}
            found.append(live)
        return found[::-1]

    def _find_definitions(self) -> dict[str, list[tuple[frozenset[str], str]]]:
        """Per variable and assignment of it: what is live afterwards, and the variable that it copies."""
        found: dict[str, list[tuple[frozenset[str], str]]] = defaultdict(list)
        for label, block in self.blocks.items():
            live = self._backward(label, self.out[label])
            for index, statement in enumerate(block):
                if isinstance(statement, ir.Assign) and not self.vanishes(statement):
                    source = statement.value.name if isinstance(statement.value, ir.Use) else ""
                    found[self.name(statement.target)].append((live[index + 1], self.name(source)))
        return found


class Variables:
    """The variables of one typed function."""

    def __init__(self, function: ir.Function) -> None:
        self.types = function.types
        self.liveness = Liveness(function, self._joined(function))
        assigned: Counter[str] = Counter()
        self.used: Counter[str] = Counter()
        self.hints: dict[str, str] = {}
        for block in function.blocks.values():
            for statement in block:
                self.used.update(map(self.canonical, ir.uses(statement)))
                if isinstance(statement, ir.Assign) and not self.liveness.vanishes(statement):
                    assigned[self.canonical(statement.target)] += 1
                match statement:
                    case ir.Assign(target, ir.Use(source)) | ir.Assign(target, ir.Part(source, 0)):
                        self.hints.setdefault(source, target)
                    case ir.Assign(target, ir.Call(ir.Named("cuda.const.array_like"), (source,))):
                        self.hints.setdefault(source, target)  # which gives what it is given
        self.reassigned = frozenset(name for name, count in assigned.items() if count > 1)

    def canonical(self, variable: str) -> str:
        """The variable that stands for all versions of this one."""
        return self.liveness.name(variable)

    def hint(self, variable: str) -> str:
        """The user's name for what this variable holds: its own, or that of the first variable it is assigned to."""
        seen: set[str] = set()
        while not user_name(variable) and variable in self.hints and variable not in seen:
            seen.add(variable)
            variable = self.hints[variable]
        return user_name(variable)

    def _joined(self, function: ir.Function) -> dict[str, str]:
        """Which variable stands for which: versions that are copied into each other are one."""
        apart = Liveness(function, {})
        groups: dict[str, list[str]] = {}

        def plain(name: str) -> tuple[str, kt.Type]:
            kind = function.types[name]
            return user_name(name), kt.Scalar(kind.code) if isinstance(kind, kt.Scalar) else kind

        for block in function.blocks.values():
            for statement in block:
                match statement:
                    case ir.Assign(target, ir.Use(source)) if user_name(target) and plain(target) == plain(source):
                        one, other = (groups.setdefault(name, [name]) for name in (target, source))
                        clash = any(apart.interferes(a, b) or apart.interferes(b, a) for a in one for b in other)
                        if one is not other and not clash and isinstance(plain(target)[1], _VALUES):
                            one += other
                            groups.update(dict.fromkeys(other, one))
        return {name: group[0] for name, group in groups.items()}


_VALUES = (kt.Scalar, kt.ArrayType, kt.TupleType)
