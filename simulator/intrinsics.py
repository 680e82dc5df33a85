"""The meanings of intrinsics: how a library teaches the simulator what its own instructions do.

An ``@intrinsic`` of Numba has two halves: a typing function, and a generator of machine code.  The simulator runs the
first and cannot run the second, so somebody has to say what the intrinsic does.  A *meaning* says it: a Python function
that is called once for each call in a kernel's source, while the kernel is lowered, and writes down operations.  Its
parameters are a ``simulator.frontend.lowering.emission.Code``, then those of the intrinsic::

    def vload(code, array, index, registers, j, n):
        for k, value in enumerate(code.load(array, index, code.constant(n))):
            code.store(registers, j + k, code.convert(value, registers.dtype))

There are two ways to register one.  A program that has the simulator at hand decorates it with ``intrinsic``.  A
library that should not import the simulator names it in its metadata, under the intrinsic's qualified name; such a
meaning is imported when a kernel that needs it is lowered::

    [project.entry-points."simulator.intrinsics"]
    "my_library.lanes.vload" = "my_library.meanings:vload"

What a program registers itself goes before what a library declares.

Rules of this file: it is the table alone, and imports neither Numba nor the front end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from simulator.errors import MeaningError

GROUP = "simulator.intrinsics"
"""The group of entry points."""

Meaning = Callable[..., Any]
_M = TypeVar("_M", bound=Meaning)


class _Table:
    """The meanings: those that a program registered by name and by object, those that entry points declared."""

    def __init__(self) -> None:
        self.by_name: dict[str, Meaning] = {}
        self.by_object: WeakKeyDictionary[Any, Meaning] = WeakKeyDictionary()
        self.declared: dict[str, Meaning] = {}
        self.lock = Lock()
        self.changes = 0


_table = _Table()


def intrinsic(target: Any) -> Callable[[_M], _M]:
    """Decorator: the function is the meaning of an intrinsic.

    Parameters
    ----------
    target
        The intrinsic (what Numba's ``@intrinsic`` made), or its qualified name such as ``"my_library.lanes.vload"``.
        One that is made inside a function has no name of its own and is registered as an object.

    Returns
    -------
    A decorator that registers the function and returns it as it is: one function may be the meaning of several
    intrinsics.  The same function defined anew, as when the cell of a notebook runs again, takes the place of the old.

    Raises
    ------
    TypeError
        ``target`` is neither, or what is decorated cannot be called.
    ValueError
        The name is not qualified, or the intrinsic has another meaning already.

    >>> import numpy as np
    >>> from numba import cuda, types
    >>> from numba.extending import intrinsic as numba_intrinsic
    >>> from simulator import intrinsic, simulate
    >>> @numba_intrinsic
    ... def pair_sum(typingctx, array, index):
    ...     return array.dtype(array, index), None  # the second half, machine code, is left out here
    >>> @intrinsic(pair_sum)
    ... def pair_sum_meaning(code, array, index):
    ...     first, second = code.load(array, index, 2)
    ...     return first + second
    >>> @cuda.jit
    ... def halve(x, y):
    ...     i = cuda.grid(1)
    ...     y[i] = pair_sum(x, 2 * i)
    >>> x, y = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    >>> trace = simulate(halve)[1, 4](x, y)
    >>> y.tolist(), trace.total("x").requests, trace.thread(1).reads("x")
    ([1.0, 5.0, 9.0, 13.0], 1, [2, 3])
    """
    if isinstance(target, str):
        if not all(part.isidentifier() for part in target.split(".")) or "." not in target:
            raise ValueError(f"an intrinsic is named package.module.name, not {target!r}")
    elif not is_intrinsic(target):
        raise TypeError(
            f"intrinsic() takes an intrinsic or its qualified name, not {target!r}: write @intrinsic(target)"
            " above the function that says what it does"
        )

    def register(function: _M) -> _M:
        if not callable(function):
            raise TypeError(f"the meaning of an intrinsic is a function, not {function!r}")
        _enter(target, function)
        return function

    return register


def _enter(target: Any, function: Meaning) -> None:
    with _table.lock:
        entries: Any = _table.by_name if isinstance(target, str) else _table.by_object
        known = entries.get(target)
        if known is function:
            return
        if known is not None and qualified_name(known) != qualified_name(function):
            name = target if isinstance(target, str) else qualified_name(target)
            raise ValueError(f"the intrinsic {name} has a meaning already: {described(known)}")
        entries[target] = function
        _table.changes += 1


def meaning_of(handle: Any, name: str) -> Meaning | None:
    """The meaning of an intrinsic, None if nobody has given it one.

    Raises ``MeaningError`` where the entry point of this name cannot be loaded, or where there are several.
    """
    found = _table.by_object.get(handle) or _table.by_name.get(name) or _table.declared.get(name)
    if found is None:
        found = _load(name)
        if found is not None:
            _table.declared[name] = found
    return found


def _load(name: str) -> Meaning | None:
    entries = {entry.value: entry for entry in entry_points(group=GROUP, name=name)}
    if len(entries) > 1:
        raise MeaningError(f"several packages declare a meaning of {name}: {', '.join(sorted(entries))}")
    for value, entry in entries.items():
        where = f"the meaning of {name}, entry point {value} of the group {GROUP},"
        try:
            found = entry.load()
        except Exception as error:  # an import may fail in any way
            raise MeaningError(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
        if not callable(found):
            raise MeaningError(f"{where} is not a function but {found!r}")
        meaning: Meaning = found
        return meaning
    return None


def changes() -> int:
    """How often the table has changed: what was lowered with an older one may have another meaning now."""
    return _table.changes


def is_intrinsic(value: Any) -> bool:
    """Whether this is what ``@intrinsic`` made, of numba-cuda or of Numba: their classes share the name alone."""
    return type(value).__name__ == "_Intrinsic"


def qualified_name(value: Any) -> str:
    """``package.module.name`` of a function.

    An intrinsic that a factory made is called what its module calls it.
    """
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or str(value)
    module = getattr(value, "__module__", None)
    if is_intrinsic(value) and not name.isidentifier():
        held = vars(sys.modules[module]) if module in sys.modules else {}
        name = next((key for key, held_value in held.items() if held_value is value), name)
    return f"{module}.{name}" if module else str(name)


def described(function: Meaning) -> str:
    """A meaning and where it stands, for messages."""
    code = getattr(function, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return qualified_name(function) + where
