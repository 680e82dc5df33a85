"""Operations whose checks are done once: a call is recorded, and repeated for other arrays that look the same.

An operation checks its arguments, allocates results, chooses kernels and launches them.  All of this but the
addresses follows from what the arguments look like (``looks.py``) and from whether those that are written overlap
others.  So the first call with arguments of some look is written down (``recording.py``): what it allocated, which
launches it made, and for each address among their parameters, from which argument or new array it came, and how far
behind its start.  Later calls allocate the same, put the new addresses into the parameters, and launch.  That is what a
binding does.

* A binding serves a call only if each pair of arrays of which one is written either lies apart then and now, or lies
  exactly as far apart as it did.  Any other call takes the full way, with all checks.
* A call that copied an array, for want of a view that a kernel can read, has no binding: it takes the full way always.
* Bindings keep no array alive.  Parameters lie in blocks that one launch at a time has for itself, so threads may share
  a binding.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from numba_norms.arrays.addresses import address_of
from numba_norms.arrays.places import Wanted
from numba_norms.binding import recording
from numba_norms.binding.looks import BELOW, PLAIN, Glance, library_of
from numba_norms.binding.recording import NotBindable, Recording
from numba_norms.gpu.parameters import POINTER, Block, words_of

MAX_BINDINGS = 1024
"""An operation forgets its bindings when there are so many: ragged batches would pile them up without end."""


class Unlike(Exception):
    """A binding does not serve a call, though its arguments look right."""


class Binding:
    """A recorded call, to be repeated for arrays at other addresses."""

    __slots__ = ("_pairs", "_place", "_result", "_steps", "_turned", "_wanted")

    def __init__(self, seen: Glance, written: Recording, result: Any) -> None:
        if written.obstacle:
            raise NotBindable(written.obstacle)
        self._place = written.place
        self._pairs = _pairs(seen, written)
        views = [written.place.view(native) for native in written.made]
        self._wanted: list[Wanted] = [(view.shape, view.dtype, view.nbytes) for view in views]
        self._turned: list[tuple[int, list[int]]] = []
        """Of new arrays that are returned with their axes in another order: the number, and that order"""
        if any(address_of(view) & BELOW for view in views):
            raise NotBindable("memory is allocated at addresses that are no multiples of 16")
        self._result = self._find(result, seen, written, views)
        returned = set(_numbers(self._result))
        for number, (_, dtype, size) in enumerate(self._wanted):
            if len(seen.arrays) + number not in returned:
                self._wanted[number] = None, dtype, size
        self._steps = [_Step(launch, written.place, seen, views) for launch in written.launches]

    def run(self, given: Sequence[Any], addresses: list[int]) -> Any:
        """Repeat the call for these arrays, which look as the recorded ones did.  ``Unlike`` if they lie otherwise.

        The list of addresses is the binding's to extend.
        """
        for i, j, nearest, farthest, recorded in self._pairs:
            apart = addresses[j] - addresses[i]
            if nearest < apart < farthest and apart != recorded:
                raise Unlike
        arrays, place = [*given], self._place
        if place is not None and place.allocate(self._wanted, arrays, addresses) & BELOW:
            raise Unlike  # a kernel was chosen for addresses that had none of these bits
        if self._steps:
            stream = place.stream()
            for step in self._steps:
                step.start(addresses, stream)
        for number, order in self._turned:
            arrays[number] = place.transpose(arrays[number], order)
        result = self._result
        return arrays[result] if type(result) is int else _assembled(result, arrays)

    def _find(self, result: Any, seen: Glance, written: Recording, views: list[np.ndarray]) -> Any:
        """Where each array of a result comes from: its number among the arguments and new arrays."""
        if isinstance(result, tuple):
            make = getattr(result, "_make", tuple)
            return make, [self._find(part, seen, written, views) for part in result]
        for number, array in enumerate((*seen.arrays, *written.made)):
            if result is array:
                return number
        if library_of(type(result)) is PLAIN:
            return _Constant(result)
        return self._reshaped(written.place.view(result), views, len(seen.arrays))

    def _reshaped(self, view: np.ndarray, views: list[np.ndarray], first: int) -> int:
        """Which new array a result is a reshaped or transposed view of; from now on that is made in such a shape."""
        natural = list(range(view.ndim))
        order = natural if view.flags.c_contiguous else sorted(natural, key=lambda axis: -abs(view.strides[axis]))
        dense = view.transpose(order)
        for number, made in enumerate(views):
            same = made.dtype == view.dtype and made.size == view.size and address_of(made) == address_of(view)
            if same and dense.flags.c_contiguous:
                self._wanted[number] = dense.shape, view.dtype, view.nbytes
                if order != natural:
                    self._turned.append((first + number, [order.index(axis) for axis in natural]))
                return first + number
        raise NotBindable("a result is neither an argument nor a new array")


class _Constant(NamedTuple):
    """A part of a result that is the same in every call."""

    value: Any


class _Step:
    """One launch of a binding."""

    __slots__ = ("_block", "_grid", "_patches", "_spare", "_start", "_words")

    def __init__(self, launch: Any, place: Any, seen: Glance, made: list[np.ndarray]) -> None:
        from numba_norms.gpu import device

        device.check_shape(launch.grid, launch.block)
        self._start = device.load(launch.kernel, launch.args, place.device).start
        self._grid, self._block = launch.grid, launch.block
        self._spare: list[Block] = []
        self._words: list[int] = []
        self._patches: list[tuple[int, int, int]] = []
        """For each address: its word, the number of the array, and how far behind the start of that it points"""
        for argument in launch.args:
            if isinstance(argument, np.ndarray) and argument.size:
                number, start = _origin(argument, seen, made)
                self._patches.append((len(self._words) + POINTER, number, address_of(argument) - start))
            self._words += words_of(argument)

    def start(self, addresses: list[int], stream: int) -> None:
        try:
            block = self._spare.pop()
        except IndexError:  # as many as launches at once
            block = Block(self._words)
        words = block.words
        for word, number, offset in self._patches:
            words[word] = addresses[number] + offset
        self._start(self._grid, self._block, stream, block.address)
        self._spare.append(block)


def _origin(argument: np.ndarray, seen: Glance, made: list[np.ndarray]) -> tuple[int, int]:
    """Which array an argument of a launch is a view of, and its address.  An argument of the call is known by itself,
    since arguments may overlap; new arrays do not.
    """
    base: Any = argument
    while isinstance(base, np.ndarray):
        base = base.base
    owner = getattr(base, "owner", None)
    for number, array in enumerate(seen.arrays):
        if array is owner:
            return number, seen.addresses[number]
    for number, view in enumerate(made):
        start = address_of(view)
        if start <= address_of(argument) < start + view.nbytes:
            return len(seen.arrays) + number, start
    raise NotBindable("a launch works on memory that is neither an argument's nor new")


def _pairs(seen: Glance, written: Recording) -> list[tuple[int, int, int, int, int]]:
    """For each array that is written and each other one: how far apart their addresses are when they might overlap."""
    spans = [_span(written.place.view(array)) for array in seen.arrays] if seen.written and written.launches else []
    return [
        (
            w,
            other,
            spans[w][0] - spans[other][1],
            spans[w][1] - spans[other][0],
            seen.addresses[other] - seen.addresses[w],
        )
        for w in seen.written
        for other in range(len(spans))
        if other != w
    ]


def _span(view: np.ndarray) -> tuple[int, int]:
    """From which byte to which an array reaches, counted from its address."""
    if not view.size:
        return 0, 0
    steps = [(n - 1) * stride for n, stride in zip(view.shape, view.strides, strict=True)]
    return sum(min(step, 0) for step in steps), sum(max(step, 0) for step in steps) + view.itemsize


def _numbers(result: Any) -> Iterator[int]:
    """The arrays that a result is made of."""
    if isinstance(result, int):
        yield result
    elif not isinstance(result, _Constant):
        for part in result[1]:
            yield from _numbers(part)


def _assembled(result: Any, arrays: list[Any]) -> Any:
    if isinstance(result, int):
        return arrays[result]
    if isinstance(result, _Constant):
        return result.value
    make, parts = result
    return make([_assembled(part, arrays) for part in parts])


class Operation:
    """A public function and its bindings."""

    def __init__(self, function: Callable[..., Any], writes: frozenset[str]) -> None:
        self.function, self.writes = function, writes
        self.names = tuple(inspect.signature(function).parameters)
        self._bindings: dict[Any, Binding | None] = {}

    def glance(self, args: tuple[Any, ...], named: dict[str, Any]) -> Glance:
        """The arguments of a call at a glance."""
        return Glance(self.names, self.writes, args, named)

    def bind(self, args: tuple[Any, ...], named: dict[str, Any]) -> Binding | None:
        """The binding of a call, which is checked and rehearsed: nothing is launched, no argument changes.

        None for NumPy's arrays, which have no fixed address to launch by.  ``NotBindable`` where the call does more
        than launch; and what the function raises.
        """
        seen = self.glance(args, named)
        if seen.doubled:
            raise NotBindable("one array stands for two arguments; pass a view of it for the second")
        with recording.record(rehearsal=True) as written:
            result = self.function(*args, **named)
        return Binding(seen, written, result) if seen.library.on_device else None

    def call(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call the function: by a binding if there is one, otherwise in full, and bind it if possible."""
        try:
            seen = self.glance(args, named)
            binding = self._bindings.get(seen.key, self)
        except (TypeError, RuntimeError):  # what cannot be looked at is for the checks to judge
            return self.function(*args, **named)
        if binding is None or not seen.library.on_device or seen.library is PLAIN or recording.current() is not None:
            return self.function(*args, **named)
        if isinstance(binding, Binding):
            try:
                return binding.run(seen.arrays, seen.addresses)
            except Unlike:
                return self.function(*args, **named)
        if seen.doubled:
            return self.function(*args, **named)
        with recording.record(rehearsal=False) as written:
            result = self.function(*args, **named)
        if len(self._bindings) >= MAX_BINDINGS:
            self._bindings.clear()
        self._bindings[seen.key] = self._bound(seen, written, result)
        return result

    @staticmethod
    def _bound(seen: Glance, written: Recording, result: Any) -> Binding | None:
        try:
            return Binding(seen, written, result)
        except NotBindable:
            return None


F = TypeVar("F", bound=Callable[..., Any])


def bindable(*writes: str) -> Callable[[F], F]:
    """Decorate an operation: its warm calls repeat a recorded one.  ``writes`` names the arguments that it writes."""

    def decorate(function: F) -> F:
        operation = Operation(function, frozenset(writes))
        call = operation.call

        @functools.wraps(function)
        def bound(*args: Any, **named: Any) -> Any:
            return call(args, named)

        bound.operation = operation  # type: ignore[attr-defined]
        return cast("F", bound)

    return decorate
