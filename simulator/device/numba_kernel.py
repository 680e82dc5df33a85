"""What stands in for numba-cuda's compiled kernel: one signature of a kernel, launched on the simulator.

Rules of this file: Numba's dispatcher makes it for a signature, chooses it by Numba's rules and launches it with the
arguments that the user gave.  Host arrays are copied to the device and back by Numba's own ``In``, ``Out`` and
``InOut``; scalars are cast to the signature here, as Numba's launch does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cached_property
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba.cuda import dispatcher, types, typing
from numba.cuda.args import wrap_arg
from numba.cuda.typing.typeof import Purpose, typeof

from simulator.compiled import NotCompiled, Resources
from simulator.cost.occupancy import occupancy
from simulator.device.session import Device
from simulator.errors import Unsupported
from simulator.findings import Launch
from simulator.frontend import DoesNotCompile, front_end, lower_kernel
from simulator.machine.faults import Fault, Place
from simulator.machine.limits import STATIC_SHARED, THREADS, static_shared
from simulator.program import Pos, Program

NumbaKernel = dispatcher._Kernel
COMPILED = frozenset((
    "inspect_llvm", "inspect_asm", "inspect_lto_ptx", "inspect_sass", "inspect_sass_cfg", "inspect_types", "library",
    "codegen", "entry_name", "fndesc", "target_context", "call_helper", "environment", "type_annotation",
))  # fmt: skip
"""Attributes that are answered by Numba's own kernel; asking for one compiles it."""


class StandInKernel:
    """A kernel for one signature.

    The simulator takes it for a kernel: ``py_func``, ``targetoptions`` and ``argument_types`` say what to type.
    """

    objectmode = False
    entry_point = None
    launch_config_sensitive = False

    def __init__(self, made: Device, py_func: Any, argtypes: Sequence[Any], **options: Any) -> None:
        if options.get("device"):
            raise RuntimeError(f"Cannot compile a device function as a kernel: {py_func.__name__} has device=True")
        self.device = made
        self.py_func = py_func
        self.__name__ = py_func.__name__
        self.argtypes = self.argument_types = tuple(argtypes)
        self.signature = typing.signature(types.void, *self.argument_types)
        self.targetoptions = options
        self.extensions = options.get("extensions") or []
        self.bounds = _bounds(options.get("launch_bounds"))
        self._infer()

    def _infer(self) -> None:
        """What Numba refuses, it refuses now, as its compiler does.

        A check collects it when the kernel is launched; what the simulator does not model is said then, too.
        """
        try:
            front_end().typed(self, self.argument_types)
        except Unsupported:
            return
        except DoesNotCompile as error:
            if self.device.check:
                return
            if isinstance(error.__cause__, front_end().half.errors):
                raise error.__cause__ from None
            raise

    def bind(self) -> None:
        """Nothing to load."""

    # -- the launch

    def launch(self, args: Sequence[Any], griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> None:
        """Run it; arguments are cast to the signature, host arrays are copied there and back."""
        if not self.device.open:
            raise RuntimeError(
                f"{self.__name__} was compiled for the stand-in device, which is closed: launch it inside "
                "simulator.device(), or decorate it outside"
            )
        shape = Launch(tuple(griddim), tuple(blockdim), int(sharedmem))
        if (fault := self._too_large(shape)) is not None:
            self.device.refuse(fault, self, shape)
            return
        after: list[Callable[[], Any]] = []
        values = self._values(args, stream, after)
        try:
            self.device.run(self, shape, values)
        finally:
            for write_back in after:
                write_back()

    def _values(self, args: Sequence[Any], stream: Any, after: list[Callable[[], Any]]) -> list[Any]:
        names = self.py_func.__code__.co_varnames
        if len(args) != len(self.argument_types):
            raise TypeError(f"{self.__name__} takes {len(self.argument_types)} arguments, not {len(args)}")
        for name, kind, arg in zip(names, self.argument_types, args, strict=False):
            if isinstance(kind, types.Array) and not self.extensions:
                _check_array(name, kind, arg)
        return [self._value(kind, arg, stream, after) for kind, arg in zip(self.argument_types, args, strict=True)]

    def _value(self, kind: Any, arg: Any, stream: Any, after: list[Callable[[], Any]]) -> Any:
        for extension in reversed(self.extensions):
            kind, arg = extension.prepare_args(kind, arg, stream=stream, retr=after)
        if isinstance(kind, types.Array | types.Record):
            on_device = wrap_arg(arg).to_device(after, stream)
            strides = on_device._layout.strides_in_bytes
            return self.device.array(on_device.ptr, on_device.shape, strides, on_device.dtype)
        if isinstance(kind, types.BaseTuple):
            items = [self._value(part, item, stream, after) for part, item in zip(kind, arg, strict=True)]
            return type(arg)(*items) if hasattr(arg, "_fields") else tuple(items)
        if isinstance(kind, types.EnumMember):
            return self._value(kind.dtype, arg.value, stream, after)
        return _scalar(kind, arg)

    def captured(self, array: Any) -> Any:
        """An array of the device that the kernel names as a global, as the simulator takes it."""
        return self._value(typeof(array, Purpose.argument), array, 0, [])

    # -- what the simulator knows of it

    @property
    def program(self) -> Program:
        """The kernel as the simulator runs it.  Raises ``Unsupported`` where it cannot."""
        return lower_kernel(self, self.argument_types)

    @property
    def cooperative(self) -> bool:
        """Does it ask for the group of all threads of the grid?"""
        return self.program.cooperative

    @property
    def max_threads_per_block(self) -> int:
        """The most threads that a block may have: the launch bound, or what every card can."""
        return min((THREADS, *self.bounds[:1]))

    def _too_large(self, launch: Launch) -> Fault | None:
        """Why this card, or this kernel, does not take the launch; what no card takes the machine says."""
        threads = prod(launch.block)
        if threads > self.max_threads_per_block < THREADS:
            what, value = "the number of threads in a block", str(threads)
            limit = f"{self.max_threads_per_block} is the most by the kernel's launch_bounds"
        else:
            asked, most = launch.dynamic_shared, self.device.card.sm.shared_per_block
            if asked <= most - STATIC_SHARED:  # whatever the kernel declares with a fixed size
                return None
            asked += static_shared(self.program)
            if asked <= most:
                return None
            what, value, limit = "shared memory", f"{asked} bytes", f"a block has at most {most} on this card"
        code = self.py_func.__code__
        place = Place(Pos(code.co_filename, code.co_firstlineno, None, self.__name__), 0, ())
        return Fault("launch-limit", (place,), what=what, value=value, limit=limit, mend="use smaller blocks")

    # -- what only compilers know

    @cached_property
    def compiled(self) -> Any:
        """Numba's own kernel for the same signature; needs NVVM, not a GPU."""
        return NumbaKernel(self.py_func, self.argument_types, **self.targetoptions)

    @cached_property
    def resources(self) -> Resources:
        """Registers and memory by the assembler.  Raises ``Unsupported`` where there is none."""
        try:
            return front_end().half.machine_code(self, self.argument_types, self.device.card.capability).resources()
        except NotCompiled as error:
            what = f"what the assembler tells of {self.__name__} (registers, memory)"
            raise Unsupported(None, what, f"install the compilers, numba-norms[compile]: {error}") from error

    @property
    def regs_per_thread(self) -> int:
        """Registers of a thread."""
        return self.resources.registers

    @property
    def local_mem_per_thread(self) -> int:
        """Bytes of local memory of a thread."""
        return self.resources.local

    @property
    def shared_mem_per_block(self) -> int:
        """Bytes of shared memory that it declares with a fixed size."""
        return static_shared(self.program)

    @property
    def const_mem_size(self) -> int:
        """Bytes of constant memory that it declares."""
        return sum(alloc.size for alloc in self.program.allocs.values() if alloc.space == "const")

    def max_cooperative_grid_blocks(self, blockdim: Any, dynsmemsize: int = 0) -> int:
        """How many blocks the card holds at once; without compilers, as if registers were no limit."""
        threads = prod(blockdim) if isinstance(blockdim, tuple) else int(blockdim)
        card = self.device.card
        try:
            resources = self.resources
        except Unsupported:
            resources = Resources(registers=0, shared=self.shared_mem_per_block, local=0, spills=0)
        return occupancy(card, resources, threads, dynsmemsize).blocks * card.multiprocessors

    @property
    def _codelibrary(self) -> Any:
        return _Library(self)

    def __getattr__(self, name: str) -> Any:
        if name not in COMPILED:
            raise AttributeError(f"a kernel on the stand-in device has no attribute {name!r}")
        return getattr(self.compiled, name)


class StandInDeviceFunction:
    """A device function for one signature where there is no compiler: its types alone, which is all that is needed."""

    objectmode = False
    entry_point = None

    def __init__(self, found: Any, args: Sequence[Any], result: Any) -> None:
        front = front_end()
        if result is None:
            with front.half.lock, front.half.device_functions(front):
                result = front.result_of(found, tuple(args))
        self.signature = typing.signature(result, *args)


class _Library:
    """The code library of a kernel: the function that ``forall`` asks for its largest block, else Numba's."""

    def __init__(self, kernel: StandInKernel) -> None:
        self._kernel = kernel

    def get_cufunc(self) -> _Function:
        """What the driver would have loaded."""
        return _Function(self._kernel)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel.compiled._codelibrary, name)


class _Function:
    """What the driver makes of a kernel: its largest block; how a card shares out its cache changes nothing here."""

    def __init__(self, kernel: StandInKernel) -> None:
        self.name = kernel.__name__
        self.kernel = SimpleNamespace(attributes=SimpleNamespace(max_threads_per_block=kernel.max_threads_per_block))

    def cache_config(self, prefer_equal: bool = False, prefer_cache: bool = False, prefer_shared: bool = False) -> None:
        """Nothing to divide."""

    def set_shared_memory_carveout(self, carveout: int) -> None:
        """Nothing to divide; what a driver would refuse is refused."""
        if not -1 <= carveout <= 100:
            raise ValueError("Carveout must be between -1 and 100")


def _bounds(given: Any) -> tuple[int, ...]:
    """The launch bounds of a kernel: threads of a block, blocks of an SM, blocks of a cluster."""
    bounds = () if given is None else tuple(given) if isinstance(given, tuple | list) else (int(given),)
    if len(bounds) > 3:
        raise ValueError(f"Got {len(bounds)} launch bounds: at most three are taken")
    return bounds


def _check_array(name: str, kind: Any, arg: Any) -> None:
    """A kernel of one signature takes what it is given without a look: on a GPU it would read other bytes."""
    given = typeof(arg, Purpose.argument)
    if given != kind and given.can_convert_to(None, kind) is None:
        raise TypeError(f"the argument {name} is {given}, the signature says {kind}")


def _scalar(kind: Any, value: Any) -> Any:
    """A scalar as the GPU gets it: integers wrap, floats are rounded to the type of the signature."""
    if isinstance(kind, types.Boolean):
        return np.bool_(value)
    if isinstance(kind, types.Integer):
        return np.dtype(str(kind)).type(getattr(ctypes, f"c_{kind}")(value).value)
    if isinstance(kind, types.Float | types.Complex):
        with np.errstate(over="ignore"):
            return np.dtype(str(kind)).type(value)
    return value
