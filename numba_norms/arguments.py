"""What a caller may hand in: one check per rule, each with a message that says what to do instead.

Rules of this file: a check looks at types, dtypes, shapes and addresses, never at elements, so it costs no transfer
and never waits for a device.  TypeError: the wrong kind of thing.  ValueError: the right kind, wrong shape or value.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from numba_norms.arrays import Array
from numba_norms.arrays.addresses import overlap, overlaps_itself, same_elements
from numba_norms.arrays.dtypes import NAMED, compute_dtype
from numba_norms.arrays.places import same_library


def check_array(name: str, array: Any) -> Array:
    """An array of float16, bfloat16, float32 or float64, of whatever kind the norms take."""
    return Array.of(array, name)


def check_dtype(name: str, dtype: Any) -> np.dtype[Any]:
    """One of the dtypes that the norms take, from its name, its scalar type or the dtype itself."""
    if isinstance(dtype, str) and dtype in NAMED:
        return NAMED[dtype]  # NumPy alone does not know the name bfloat16
    if str(dtype).startswith("torch.") and (given := NAMED.get(str(dtype).removeprefix("torch."))):
        return given
    try:
        found = None if dtype is None or isinstance(dtype, str) else np.dtype(dtype)  # for NumPy, None is float64
    except (TypeError, ValueError):
        found = None
    if found is None or found not in NAMED.values():
        raise TypeError(f"{name} is {dtype}; the kernels take {', '.join(NAMED)}")
    return found


def check_parameter(name: str, parameter: Any, x: Array, axes: tuple[int, ...], *, of: str = "x") -> Array | None:
    """A weight or bias: None, or an array where ``x`` lives with the shape of the normalised axes.

    Here and below, ``of`` is what the caller knows ``x`` as.
    """
    if parameter is None:
        return None
    if isinstance(parameter, (int, tuple)):
        raise TypeError(
            f"{name} is {parameter!r}, which looks like a normalized_shape; here `axis` says what is normalised,"
            f" an int or a tuple of ints (default -1), and {name} is an array or None"
        )
    array = check_array(name, parameter)
    check_place(name, array, x, of=of)
    shape = tuple(x.shape[axis] for axis in axes)
    if array.shape != shape:
        raise ValueError(
            f"{name} has shape {array.shape}; {of} of shape {x.shape} normalised over axis {_in_words(axes)}"
            f" needs {shape}"
        )
    return array


def check_channel_axis(axis: Any, x: Array) -> int:
    """The axis of the channels, not negative.  Raises as NumPy does (AxisError is a ValueError)."""
    try:
        given = operator.index(axis)
    except TypeError:
        raise TypeError(f"channel_axis is {axis!r}; it must be an int") from None
    if not -x.ndim <= given < x.ndim:
        raise np.exceptions.AxisError(given, x.ndim, "channel_axis of x")
    return given % x.ndim


def check_per_channel(name: str, given: Any, x: Array, axis: int) -> Array | None:
    """None, or an array where ``x`` lives with a number for each of its channels."""
    if given is None:
        return None
    array = check_array(name, given)
    check_place(name, array, x)
    if array.shape != (x.shape[axis],):
        raise ValueError(
            f"{name} has shape {array.shape}; x of shape {x.shape} has its channels along axis {axis}"
            f" and needs {(x.shape[axis],)}"
        )
    return array


def check_updated(name: str, array: Array, others: Mapping[str, Array | None]) -> None:
    """An array that a launch reads and writes: writable, each element at an address that nothing else has."""
    if not array.writeable:
        raise ValueError(f"{name} is read-only; training updates it in place")
    if overlaps_itself(array.memory):
        raise ValueError(f"{name} overlaps itself: strides {array.strides} map several elements to one address")
    for other_name, other in others.items():
        if other is not None and overlap(array.memory, other.memory):
            raise ValueError(f"{name}, which training updates in place, shares memory with {other_name}")


def check_momentum(momentum: Any) -> float:
    """A number from 0 to 1."""
    if momentum is None:
        raise TypeError(
            "momentum is None; a cumulative average has to know how many batches there were: pass 1 / number of"
            " batches, this one included"
        )
    if not _is_number(momentum):
        raise TypeError(f"momentum is {_shown(momentum)}; it must be a number")
    if not 0 <= momentum <= 1:
        raise ValueError(f"momentum is {momentum!r}; it must lie between 0 and 1")
    return float(momentum)


def check_place(name: str, array: Array, x: Array, *, of: str = "x") -> None:
    """``array`` lives where ``x`` lives: TypeError for two libraries, ValueError for two devices or streams."""
    here, there = x.place, array.place
    if here is there:
        return
    if not same_library(here, there):
        raise TypeError(
            f"{of} is a {here.name} array and {name} a {there.name} array; move one of them, nothing is copied between"
            " libraries, or between host and device, behind your back"
        )
    if here.device != there.device:
        raise ValueError(
            f"{of} is on CUDA device {here.device} and {name} on CUDA device {there.device}; a kernel runs on one"
        )
    if (here.stream() or 1) != (there.stream() or 1):  # 0 and 1 are both the default stream
        raise ValueError(
            f"{of} belongs to stream {here.stream():#x} and {name} to stream {there.stream():#x}, and nothing says"
            " which comes first; make one wait for the other and hand both over on one stream"
        )


def check_axes(axis: Any, x: Array, *, of: str = "x") -> tuple[int, ...]:
    """The normalised axes, sorted and not negative.  Raises as NumPy does (AxisError is a ValueError)."""
    try:
        given = tuple(operator.index(a) for a in axis) if isinstance(axis, tuple) else (operator.index(axis),)
    except TypeError:
        raise TypeError(f"axis is {axis!r}; it must be an int or a tuple of ints") from None
    if not given:
        raise ValueError("axis is (); name at least one axis to normalise")
    axes = []
    for a in given:
        if not -x.ndim <= a < x.ndim:
            raise np.exceptions.AxisError(a, x.ndim, f"axis of {of}")
        axes.append(a % x.ndim)
    if len(set(axes)) < len(axes):
        raise ValueError(f"axis {axis!r} names an axis twice")
    if any(x.shape[a] == 0 for a in axes):
        raise ValueError(f"{of} has shape {x.shape}: axis {_in_words(tuple(axes))} is empty, nothing can be averaged")
    return tuple(sorted(axes))


def check_eps(eps: Any, x: Array, compute: np.dtype[Any] | None = None) -> float:
    """A number, zero or more and finite, as the statistics of ``x`` (in ``compute``) round it: 1e300 is no float32."""
    return _check_number("eps", eps, compute or compute_dtype(x.dtype), negative=False)


def check_weight_offset(offset: Any, weight: Any, compute: np.dtype[Any]) -> float:
    """A finite number, as ``compute`` rounds it; without a weight there is nothing to add it to."""
    value = _check_number("weight_offset", offset, compute, negative=True)
    if weight is None and value:
        raise ValueError(f"weight_offset is {offset!r} but there is no weight to add it to; pass a weight")
    return value


def check_flag(name: str, value: Any) -> None:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is {_shown(value)}; it must be True or False")


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(repr, choices))}")


def check_same_shape(name: str, array: Array, x: Array, *, of: str) -> None:
    """An array that goes with ``x`` element by element; nothing is broadcast, lest a slip blow up the result."""
    check_place(name, array, x, of=of)
    if array.shape != x.shape:
        raise ValueError(f"{name} has shape {array.shape} and {of} {x.shape}; they are added element by element")


def check_out(
    out: Any,
    x: Array,
    others: Mapping[str, Array | None],
    name: str = "out",
    of: str = "x",
    dtype: np.dtype[Any] | None = None,
) -> Array:
    """An array that can take the result: writable, shape and dtype of ``x``, each element at an address of its own.

    ``dtype`` is that of the result where it differs from that of ``x``.  ``out`` shares no memory with ``others``, the
    other inputs by name, nor with ``x``; but it may be ``x`` itself (the same elements at the same addresses), since
    every thread reads what it overwrites.
    """
    dtype = dtype or x.dtype
    array = check_array(name, out)
    check_place(name, array, x, of=of)
    if array.dtype != dtype:
        raise TypeError(f"{name} has dtype {array.dtype}; the result of {of} has {dtype}")
    if array.shape != x.shape:
        raise ValueError(f"{name} has shape {array.shape}; the result of {of} has {x.shape}")
    if not array.writeable:
        raise ValueError(f"{name} is read-only")
    if overlaps_itself(array.memory):
        raise ValueError(
            f"{name} overlaps itself: strides {array.strides} map several elements of {array.shape} to one address"
        )
    if overlap(array.memory, x.memory) and not same_elements(array.memory, x.memory):
        raise ValueError(f"{name} overlaps {of} in part; it may be {of} itself, or must share no memory with it")
    for other_name, other in others.items():
        if other is not None and overlap(array.memory, other.memory):
            raise ValueError(f"{name} shares memory with {other_name}, which the kernel still reads")
    return array


def check_out_pair(out: Any) -> tuple[Array | None, Array | None]:
    """``(h_out, z_out)``, each for ``check_out`` or None, with no memory in common."""
    if not isinstance(out, tuple) or len(out) != 2:
        shown = f"a tuple of {len(out)}" if isinstance(out, tuple) else f"a {type(out).__name__}"
        raise TypeError(f"out is {shown}; it must be a pair (h_out, z_out), each an array or None")
    h, z = (None if given is None else check_array(f"out[{k}]", given) for k, given in enumerate(out))
    if h is not None and z is not None and overlap(h.memory, z.memory):
        raise ValueError("out[0] and out[1] share memory; h and z are both results")
    return h, z


def _check_number(name: str, given: Any, compute: np.dtype[Any], *, negative: bool) -> float:
    """``given`` rounded to ``compute``, in which it must be finite."""
    if not _is_number(given):
        raise TypeError(f"{name} is {_shown(given)}; it must be a number")
    rest = "" if negative else " and not negative"
    try:
        with np.errstate(all="ignore"):  # too large becomes inf, which is refused below
            value = float(compute.type(float(given)))
    except OverflowError:  # without its repr: Python may refuse to print so long an integer
        raise ValueError(f"{name} is an integer beyond float64; it must be finite{rest}") from None
    if not (math.isfinite(value) and (negative or given >= 0)):
        raise ValueError(f"{name} is {given!r}; it must be finite in {compute}{rest}")
    return value


def _is_number(value: Any) -> bool:
    """Whether ``value`` is a real number, not merely something that ``float`` takes, as it takes "1e-5" and True.

    A number on a device is none: to read it would be to wait for the device.
    """
    if isinstance(value, bool) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        return False
    if not hasattr(value, "dtype"):
        return True
    known = isinstance(value, np.generic | np.ndarray) and value.ndim == 0
    return known and (value.dtype.kind in "iuf" or value.dtype in NAMED.values())


def _shown(value: Any) -> str:
    """``value`` in a message.  What lies on a device is not printed: that would copy it to the CPU."""
    kind = type(value)
    return f"a {kind.__name__}" if hasattr(kind, "__cuda_array_interface__") else repr(value)


def _in_words(axes: tuple[int, ...]) -> str:
    return str(axes[0]) if len(axes) == 1 else str(axes)
