"""``plan``: an operation bound to arrays of one look, for callers who want nothing but the launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from numba_norms.binding.bound import Binding, Operation, Unlike
from numba_norms.binding.looks import PLAIN, library_of


def plan(operation: Callable[..., Any], *args: Any, **named: Any) -> Plan:
    """Bind an operation of this package to arrays that look like these: checks and choices are done here, once.

    Parameters
    ----------
    operation
        One of this package's functions, such as ``rms_norm``.
    args, named
        What it is called with.  Nothing is computed, and no array changes.  A kernel is compiled and loaded where it
        has not been yet, so that calls of a plan may be captured in a CUDA graph.  What a captured call returns has to
        be kept as long as the graph; so ask ``batch_norm`` in training for its statistics, which it computes anyway:
        CuPy's pool would give their memory to others, and a replay writes there again.

    Returns
    -------
    Plan
        A callable: ``plan(rms_norm, x, weight, eps=1e-5)(x2, weight2)`` is ``rms_norm(x2, weight2, eps=1e-5)`` for
        arrays with the dtype, shape, strides, device and alignment (up to 16 bytes) of ``x`` and ``weight``.

    Raises
    ------
    TypeError
        ``operation`` is no operation of this package, or an argument is no array of NumPy or CuPy and no torch tensor;
        and what the operation raises.
    ValueError
        The operation has to copy one of these arrays, for want of a view that its kernels can read; and what the
        operation raises.

    Examples
    --------
    >>> import numpy as np
    >>> from numba_norms import rms_norm
    >>> normalise = plan(rms_norm, np.ones((2, 3), np.float32), eps=0)
    >>> normalise(np.full((2, 3), 5, np.float32))
    array([[1., 1., 1.],
           [1., 1., 1.]], dtype=float32)
    >>> normalise(np.ones((2, 4), np.float32))
    Traceback (most recent call last):
    ValueError: this plan of rms_norm is for x of shape (2, 3), not (2, 4); make another plan, or call rms_norm
    """
    bound = getattr(operation, "operation", None)
    if not isinstance(bound, Operation):
        raise TypeError(f"plan binds operations of numba_norms, not {operation!r}")
    return Plan(bound, args, named)


class _Form(NamedTuple):
    """One way to call a plan: what its arguments have to look like."""

    names: tuple[str, ...]
    """Of the arguments, a tuple of arrays counting as several"""
    looks: tuple[tuple[type, Callable[[Any, Any], int], Any], ...]
    """Of each: its type, how to tell whether it fits, and what it has to look like"""
    nested: bool
    """Whether there is a tuple of arrays"""
    written: list[int]
    """Which of the arrays are written"""
    aliases: list[int]
    """Of each of these, the first array at the same address: itself, or the one that is overwritten"""
    binding: Binding | None
    """None for NumPy's arrays, for which the simulator takes longer than any check"""


class Plan:
    """An operation for arrays of one look; ``plan`` makes it and says how it is called.  Threads may share it."""

    __slots__ = ("_always", "_first", "_forms", "_operation", "_options", "_positions", "_run", "_usual")

    def __init__(self, operation: Operation, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        self._operation, self._positions = operation, len(args)
        self._options = {name: value for name, value in named.items() if not _has_arrays(value)}
        arrays = {name: value for name, value in named.items() if name not in self._options}
        self._always = frozenset(arrays) - operation.writes
        self._first = self._form(args, arrays)
        self._forms: dict[tuple[Any, ...], _Form] = {(len(args), *arrays): self._first}  # if nested, of any types
        bare = not arrays and all(map(_is_array, args)) and not self._first.written
        self._usual, self._run = self._first.looks, self._first.binding.run if bare and self._first.binding else None

    def __call__(self, *args: Any, **named: Any) -> Any:
        """What the operation returns.  Called like it, without the options; arrays that it writes may come and go.

        ValueError for arrays that do not look like those of the plan, or that overlap where those did not.
        """
        run = self._run
        if named or run is None or len(args) != self._positions:
            return self._call(args, named)
        addresses = []  # from here on as ``_call``, without what most calls do not need
        for value, (kind, fits, wanted) in zip(args, self._usual):  # noqa: B905  # strict takes its time
            address = fits(value, wanted) if type(value) is kind else -1
            if address < 0:
                raise self._unlike(self._first, args)
            addresses.append(address)
        try:
            return run(args, addresses)
        except Unlike:
            raise self._otherwise() from None

    def _call(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """A call with arrays to be written, with tuples, with None, or of NumPy's arrays."""
        form = self._forms.get((len(args), *named)) or self._another(args, named)
        values: tuple[Any, ...] = (*args, *named.values())
        if form.nested:  # any of a pair may be left out
            values = tuple(_flat(values))
            form = self._forms.get((len(args), *named, *map(type, values))) or self._another(args, named)
        arrays, addresses, no_array = [], [], PLAIN.fits
        for value, (kind, fits, wanted) in zip(values, form.looks):  # noqa: B905
            address = fits(value, wanted) if type(value) is kind else -1
            if address < 0:
                raise self._unlike(form, values)
            if fits is not no_array:
                arrays.append(value)
                addresses.append(address)
        aliases = [addresses.index(addresses[written]) for written in form.written]
        if aliases != form.aliases:  # in place or not: two bindings, of which the first may be missing
            key = (len(args), *named, *aliases)
            form = self._forms.get(key) or self._forms.setdefault(key, self._form(args, named))
        if form.binding is None:
            return self._operation.function(*args, **{**self._options, **named})
        try:
            return form.binding.run(arrays, addresses)
        except Unlike:
            raise self._otherwise() from None

    def _form(self, args: tuple[Any, ...], named: dict[str, Any]) -> _Form:
        """What calls like this one have to look like, and their binding."""
        binding = self._operation.bind(args, {**self._options, **named})
        seen = self._operation.glance(args, named)
        given = zip((*self._operation.names[: len(args)], *named), (*args, *named.values()), strict=True)
        parts = [(name, value) for name, argument in given for value in _flat((argument,))]
        looks = [(type(value), library_of(type(value)) or PLAIN, value) for _, value in parts]
        return _Form(
            tuple(name for name, _ in parts),
            tuple((kind, library.fits, library.look(value)[0]) for kind, library, value in looks),
            len(parts) > len(args) + len(named),
            seen.written,
            [seen.addresses.index(seen.addresses[written]) for written in seen.written],
            binding,
        )

    def _another(self, args: tuple[Any, ...], named: dict[str, Any]) -> _Form:
        """The form for another set of arrays to be written."""
        writes = self._operation.writes
        if len(args) != self._positions or not self._always <= named.keys() <= self._always | writes:
            names = (f"{name}=" for name in sorted(self._always))
            takes = ", ".join([f"{self._positions} positional arguments", *names])
            raise TypeError(
                f"this plan of {self._name} takes {takes} and perhaps {', '.join(sorted(writes))}=, no others"
            )
        form, first = self._form(args, named), self._first
        given = dict(zip((*self._operation.names[: len(args)], *named), (*args, *named.values()), strict=True))
        read = [(name, look) for name, look in zip(first.names, first.looks, strict=True) if name not in writes]
        seen = dict(zip(form.names, form.looks, strict=True))
        if any(seen[name] != look for name, look in read):
            names, looks = zip(*read, strict=True)
            raise self._unlike(first._replace(names=names, looks=looks), tuple(given[name] for name in names))
        self._forms[len(args), *named] = form
        if form.nested:
            self._forms[len(args), *named, *(kind for kind, _, _ in form.looks)] = form
        return form

    def _unlike(self, form: _Form, values: tuple[Any, ...]) -> ValueError:
        """The complaint about the first argument that looks otherwise."""
        was, found = f"{len(form.looks)} arrays", str(len(values))
        for name, (kind, fits, wanted), value in zip(form.names, form.looks, values, strict=False):
            library = library_of(kind) or PLAIN
            if type(value) is not kind:
                was, found = f"{_noun(kind)} as {name}", _noun(type(value))
                break
            if fits(value, wanted) < 0:
                seen = library.look(value)[0]
                parts = zip(library.facts, wanted, seen, strict=True) if library.facts else [("value", wanted, seen)]
                fact, was, found = next((fact, a, str(b)) for fact, a, b in parts if a != b)
                was = f"{name} of {fact} {was}"
                break
        return ValueError(
            f"this plan of {self._name} is for {was}, not {found}; make another plan, or call {self._name}"
        )

    @property
    def _name(self) -> str:
        return self._operation.function.__name__

    def _otherwise(self) -> ValueError:
        """The complaint about arrays that lie otherwise in memory."""
        how = "arrays that overlap each other, or do not, as the first ones did"
        return ValueError(f"this plan of {self._name} is for {how}; make another plan, or call {self._name}")


def _noun(kind: type) -> str:
    library = library_of(kind) or PLAIN
    return f"a {kind.__name__}" if library is PLAIN else f"a {library.name} array"


def _is_array(value: Any) -> bool:
    return library_of(type(value)) is not PLAIN


def _has_arrays(value: Any) -> bool:
    return any(map(_is_array, _flat((value,))))


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    """The values, and those within tuples."""
    for value in values:
        if type(value) is tuple:
            yield from _flat(value)
        else:
            yield value
