"""A function after Numba's type inference, in our own words: what an adapter hands to the lowering.

Rules of this file:

* It imports neither Numba nor NumPy.  Numba's classes end at the adapters (``numba_ir``, ``plain_numba``).
* Types say what the GPU gets; an expression that computes carries the signature that Numba chose for it.
* Functions, modules, classes and dtypes are ``Static``: known when the program is made, never at run time.
* What we have no word for becomes ``Foreign``: it may pass through unused, and is refused where it is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from simulator.frontend.kernel_types import Signature, Type
from simulator.frontend.places import Place

# -------------------------------------------------------------------------------------------- static values


@dataclass(frozen=True, slots=True)
class Named:
    """A function, class, module or special register by its qualified name, such as ``cuda.shfl_down_sync``."""

    name: str


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """A function of which Numba runs the typing only; what it does is registered (``simulator.intrinsics``)."""

    name: str
    handle: Any


@dataclass(frozen=True, slots=True)
class CastTo:
    """A number class (``float32``, ``np.int32``): calling it casts."""

    type: Type


@dataclass(frozen=True, slots=True)
class Ufunc:
    """A NumPy ufunc by NumPy's first name for it, and the types of the loop that Numba chose."""

    name: str
    inputs: tuple[Type, ...]
    outputs: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class External:
    """A function that is declared and linked in (``cuda.declare_device``): nobody here knows what it does."""

    name: str


@dataclass(frozen=True, slots=True)
class Method:
    """A method bound to a variable, such as ``x.reshape``."""

    name: str
    of: str


@dataclass(frozen=True, slots=True)
class Device:
    """A device function; a call of it carries the typed body."""

    name: str


# ---------------------------------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Argument:
    """The argument at this index."""

    index: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, None, a tuple of such or an array; ``name`` is that of a global (frozen now, as Numba does)."""

    value: Any
    name: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Static:
    """One of the static values above, or a plain Python object such as a string."""

    value: Any


@dataclass(frozen=True, slots=True)
class Use:
    """The value of another variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Binary:
    """``left fn right``; ``fn`` is a name of the operator module (``iadd`` arrives as ``add``)."""

    fn: str
    left: str
    right: str
    signature: Signature


@dataclass(frozen=True, slots=True)
class Unary:
    """``neg``, ``pos``, ``invert`` or ``not_`` of a variable."""

    fn: str
    value: str
    signature: Signature


@dataclass(frozen=True, slots=True)
class Build:
    """A tuple of variables."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """``value[index]``.  ``index`` is a variable; where there is none, ``static`` is the Python index."""

    value: str
    index: str | None
    static: Any = None


@dataclass(frozen=True, slots=True)
class Attribute:
    """``value.name``."""

    value: str
    name: str


@dataclass(frozen=True, slots=True)
class Iterate:
    """``iter(value)``."""

    value: str


@dataclass(frozen=True, slots=True)
class Next:
    """The next element of an iterator: a pair (element, whether there was one)."""

    value: str


@dataclass(frozen=True, slots=True)
class Part:
    """One half of such a pair."""

    value: str
    index: int


@dataclass(frozen=True, slots=True)
class Exhaust:
    """``value`` unpacked into ``count`` items."""

    value: str
    count: int


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a static target.

    ``callee`` is the typed body of a device function, or of the Python function that implements a ``Named`` target.
    """

    target: Named | CastTo | Method | Device | Intrinsic | Ufunc | External
    args: tuple[str, ...]
    keywords: tuple[tuple[str, str], ...]
    signature: Signature
    callee: Function | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Undefined:
    """No value yet: the variable is assigned on other paths only."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """An expression that the simulator has no word for."""

    construct: str


Expression = (
    Argument | Constant | Static | Use | Binary | Unary | Build | Item | Attribute | Iterate | Next | Part | Exhaust
    | Call | Undefined | Foreign
)  # fmt: skip

# ----------------------------------------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True)
class Assign:
    """``target = value``."""

    target: str
    value: Expression
    at: Place


@dataclass(frozen=True, slots=True)
class Store:
    """``target[index] = value``; ``static`` as in ``Item``, ``signature`` is (array, index, value) -> None."""

    target: str
    index: str | None
    static: Any
    value: str
    signature: Signature
    at: Place


@dataclass(frozen=True, slots=True)
class Jump:
    """Go to another block."""

    to: int
    at: Place


@dataclass(frozen=True, slots=True)
class Branch:
    """Go to one of two blocks."""

    condition: str
    yes: int
    no: int
    at: Place


@dataclass(frozen=True, slots=True)
class Return:
    """Leave the function."""

    value: str
    at: Place


@dataclass(frozen=True, slots=True)
class Raise:
    """A ``raise`` or a failed ``assert``: the exception's class and its arguments."""

    kind: type[BaseException]
    args: tuple[Any, ...]
    at: Place


@dataclass(frozen=True, slots=True)
class Print:
    """``print(...)`` of variables, and of the items of a tuple ``rest``."""

    args: tuple[str, ...]
    rest: str | None
    at: Place


@dataclass(frozen=True, slots=True)
class Rejected:
    """A statement that Numba types and has no code for."""

    reason: str
    at: Place


@dataclass(frozen=True, slots=True)
class Refused:
    """A statement that the simulator has no word for."""

    construct: str
    at: Place


Statement = Assign | Store | Jump | Branch | Return | Raise | Print | Rejected | Refused


@dataclass(slots=True, eq=False)
class Function:
    """A typed function: its blocks by label, and the type of every variable.

    There is one object per function and argument types (shared arrays belong to it, not to a call).  ``defaults``
    and ``variadic`` (the name of ``*args``) help to bind a call; ``checked`` says that an integer division by zero
    raises (``debug=True``), ``fast`` that ``fastmath=True``; ``of_numba`` that it is a part of Numba, whose operations
    bear the line of the call.
    """

    name: str
    file: str
    line: int
    parameters: tuple[str, ...]
    arguments: tuple[Type, ...]
    result: Type
    types: dict[str, Type]
    blocks: dict[int, list[Statement]]
    defaults: dict[str, Any] = field(default_factory=dict)
    variadic: str | None = None
    checked: bool = False
    fast: bool = False
    of_numba: bool = False
    uncalled: tuple[tuple[str, Place], ...] = ()
    """Barriers that the source names and does nothing with: name and place."""


def uses(statement: Statement) -> tuple[str, ...]:
    """The variables that a statement reads.

    >>> uses(Assign("z", Build(("x", "y")), Place(1)))
    ('x', 'y')
    """
    match statement:
        case Assign(value=value):
            return _operands(value)
        case Store(target=target, index=index, value=value):
            return (target, value) if index is None else (target, index, value)
        case Branch(condition=name) | Return(value=name):
            return (name,)
        case Print(args=args, rest=rest):
            return args if rest is None else (*args, rest)
    return ()


def _operands(value: Expression) -> tuple[str, ...]:
    match value:
        case Use(name):
            return (name,)
        case Binary(left=left, right=right):
            return (left, right)
        case Build(items):
            return items
        case Item(value=name, index=index):
            return (name,) if index is None else (name, index)
        case Unary(value=name) | Attribute(value=name) | Iterate(name) | Next(name) | Part(value=name):
            return (name,)
        case Exhaust(value=name):
            return (name,)
        case Call(target=target, args=args, keywords=keywords):
            bound = (target.of,) if isinstance(target, Method) else ()
            return (*bound, *args, *(name for _, name in keywords))
    return ()


def successors(statement: Statement) -> tuple[int, ...]:
    """The blocks that a terminator leads to."""
    match statement:
        case Jump(to=to):
            return (to,)
        case Branch(yes=yes, no=no):
            return (yes, no)
    return ()
