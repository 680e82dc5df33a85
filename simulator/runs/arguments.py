"""The arguments of a launch as the machine takes them: NumPy arrays, scalars and tuples of these.

NumPy arrays pass through and are updated in place.  Arrays on a device (CuPy, Numba, anything with
``__cuda_array_interface__`` and a way to copy) are copied in before the run and out after it; the copies keep strides,
the address modulo 256 bytes and shared memory, so that counts are those of the device.  No array library is imported.

Arrays of the stand-in device say ``__simulator_array__``: a pair of the NumPy array that holds them and flags, a bool
per byte from its first to its last, False where nobody has written yet (None: all is written).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from simulator.errors import Unsupported
from simulator.log import WRITES
from simulator.program import Program, c_strides

ALIGNMENT = 256


@dataclass(slots=True)
class Arguments:
    """``values`` go to the machine; ``devices`` pairs each array that they hold a copy of with the copy.

    ``written`` pairs arrays that came without contents with their flags; a run that observes writes keeps them.
    """

    values: tuple[Any, ...]
    devices: list[tuple[Any, np.ndarray]] = field(default_factory=list)
    written: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    def copy_in(self) -> None:
        """Read the devices' arrays into the host copies."""
        for device, host in self.devices:
            if not isinstance(device, np.ndarray):
                host[...] = _read(device)

    def arrays(self, names: Sequence[str]) -> list[tuple[str, np.ndarray]]:
        """All host arrays with their names (``names`` of the arguments; items of a tuple ``t`` are ``t[0]`` …)."""
        return [found for name, value in zip(names, self.values, strict=True) for found in _named(name, value)]

    def copy_out(self) -> None:
        """Write the host copies back to their devices."""
        for device, host in self.devices:
            _write_back(device, host)

    def count_as_written(self, program: Program | None) -> None:
        """A launch has not written all that it could have: nobody knows the rest, so all of it counts as written.

        None: nobody knows the program, either.
        """
        stored = () if program is None else (op.attr.get("name", "") for op in program.ops() if op.kind in WRITES)
        names = {name.partition("@")[0] for name in stored}
        arrays = dict(self.arrays(program.arguments)) if program is not None else {}
        known = program is not None and names <= arrays.keys() | {name.partition("@")[0] for name in program.allocs}
        for array, flags in self.written:
            if not known or any(array is arrays.get(name) for name in names):
                flags[...] = True

    def fit(self, program: Program) -> None:
        """Give each pointer of the kernel the array that it points to.

        Raises
        ------
        Unsupported
            It is given an address.
        """
        pointers = {param.path[0] for param in program.params if param.role == "address" and len(param.path) > 1}
        values = list(self.values)
        for index in pointers:
            if isinstance(values[index], np.ndarray):
                values[index] = Pointed(values[index])
            elif not isinstance(values[index], tuple):
                what = f"an address as the argument {program.arguments[index]}"
                raise Unsupported(program.pos, what, "pass the array, or launch inside simulator.device()")
        self.values = tuple(values)


class Pointed(NamedTuple):
    """A pointer as an argument: an array of its elements, and how many bytes behind the first of them it points."""

    memory: Any
    offset: int = 0


def take(args: Sequence[Any]) -> Arguments:
    """Arguments of a launch, with memory on the host for device arrays; ``copy_in`` reads their contents."""
    leaves = _leaves(args)
    stand_ins = {id(leaf): leaf.__simulator_array__ for leaf in leaves if hasattr(leaf, "__simulator_array__")}
    devices = [leaf for leaf in leaves if id(leaf) not in stand_ins and is_device_array(leaf)]
    askew = [leaf for leaf in leaves if isinstance(leaf, np.ndarray) and not leaf.flags.aligned]
    if not devices and not stand_ins and not askew:
        return Arguments(tuple(args))
    hosts = _host_copies(devices) | {id(leaf): _aligned(leaf) for leaf in askew}
    pairs = [(leaf, hosts[id(leaf)]) for leaf in (*devices, *(leaf for leaf in askew if leaf.flags.writeable))]
    arrays = {which: array for which, (array, _) in stand_ins.items()}
    written = [(array, flags) for array, flags in stand_ins.values() if flags is not None]
    return Arguments(_replaced(tuple(args), hosts | arrays), pairs, written)


def _aligned(array: np.ndarray) -> np.ndarray:
    """A copy of an array whose elements lie at no multiple of their size: on a device they would."""
    copy = np.array(array)
    copy.flags.writeable = array.flags.writeable
    return copy


def is_device_array(value: Any) -> bool:
    """Does it live on a CUDA device?"""
    return not isinstance(value, np.ndarray | np.generic) and hasattr(value, "__cuda_array_interface__")


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


def _named(name: str, value: Any) -> list[tuple[str, np.ndarray]]:
    if isinstance(value, tuple):
        labels = [f".{field}" for field in getattr(value, "_fields", ())] or [f"[{k}]" for k in range(len(value))]
        return [found for label, item in zip(labels, value, strict=True) for found in _named(name + label, item)]
    if isinstance(value, np.void):  # a record is passed by reference
        value = np.asarray(value)
    return [(name, value)] if isinstance(value, np.ndarray) else []


def _replaced(value: Any, hosts: dict[int, np.ndarray]) -> Any:
    if isinstance(value, tuple):
        items = [_replaced(item, hosts) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return hosts.get(id(value), value)


def _host_copies(devices: list[Any]) -> dict[int, np.ndarray]:
    """A host array per device array (by id); those that overlap on the device overlap on the host."""
    spans = sorted(((*_span(device), device) for device in devices), key=lambda span: span[:2])
    hosts: dict[int, np.ndarray] = {}
    at = 0
    while at < len(spans):
        end, stop = spans[at][1], at + 1
        while stop < len(spans) and spans[stop][0] < end:
            end, stop = max(end, spans[stop][1]), stop + 1
        low = spans[at][0]
        start = low - low % ALIGNMENT
        memory = np.zeros(max(end - start, 1), np.uint8)
        for first, _, device in spans[at:stop]:
            interface = device.__cuda_array_interface__
            offset = first - start + _before(interface)
            hosts[id(device)] = np.ndarray(
                interface["shape"], interface["typestr"], memory, offset, _strides(interface)
            )
        at = stop
    return hosts


def _strides(interface: dict[str, Any]) -> tuple[int, ...]:
    if interface.get("strides") is not None:
        return tuple(interface["strides"])
    return c_strides(interface["shape"], np.dtype(interface["typestr"]).itemsize)


def _before(interface: dict[str, Any]) -> int:
    """Bytes of the array that lie before its first element (negative strides)."""
    pairs = zip(interface["shape"], _strides(interface), strict=True)
    return sum(-stride * (extent - 1) for extent, stride in pairs if stride < 0 < extent)


def _span(device: Any) -> tuple[int, int]:
    """First and past-the-last address of its elements."""
    interface = device.__cuda_array_interface__
    address, shape = interface["data"][0] or 0, interface["shape"]
    if 0 in shape:
        return address, address
    reach = sum(stride * (extent - 1) for extent, stride in zip(shape, _strides(interface), strict=True) if stride > 0)
    return address - _before(interface), address + reach + np.dtype(interface["typestr"]).itemsize


def _read(device: Any) -> np.ndarray:
    """The contents of a device array.  Raises ``TypeError`` where it offers no way to copy them."""
    for name in ("get", "copy_to_host"):
        if callable(method := getattr(device, name, None)):
            return np.asarray(method())
    raise TypeError(
        f"an argument of type {type(device).__module__}.{type(device).__qualname__} lives on a device and has neither "
        ".get() nor .copy_to_host(); pass a NumPy array"
    )


def _write_back(device: Any, host: np.ndarray) -> None:
    if isinstance(device, np.ndarray):
        device[...] = host
        return
    if not callable(getattr(device, "set", None)):
        device.copy_to_device(np.ascontiguousarray(host))
        return
    library = sys.modules.get(type(device).__module__.partition(".")[0])
    if library is not None and hasattr(library, "asarray"):
        device[...] = library.asarray(host)  # CuPy's set() refuses arrays that are not contiguous
    else:
        device.set(np.ascontiguousarray(host))
