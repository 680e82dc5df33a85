"""What stands in for numba-cuda's compiled kernel: one signature of a kernel, launched on the simulator.

Rules of this file: Numba's dispatcher makes it for a signature, chooses it by Numba's rules and launches it with the
arguments that the user gave.  Host arrays are copied to the device and back by Numba's own ``In``, ``Out`` and
``InOut``; scalars are cast to the signature here, as Numba's launch does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from math import prod
from pickle import PicklingError
from types import FunctionType
from typing import Any
from weakref import WeakSet

import numpy as np
from numba.cuda import dispatcher, launchconfig, types, typing
from numba.cuda.args import wrap_arg
from numba.cuda.np.numpy_support import as_dtype
from numba.cuda.typing.typeof import Purpose, typeof

from simulator.compiled import NotCompiled, Resources
from simulator.cost.occupancy import occupancy
from simulator.device.library import Library, launch_bounds
from simulator.device.refusals import as_on_a_gpu
from simulator.device.session import Device
from simulator.errors import SimulationError, Unsupported
from simulator.findings import Launch
from simulator.frontend import DoesNotCompile, front_end, lower_kernel
from simulator.machine.faults import Fault, Place
from simulator.machine.limits import STATIC_SHARED, THREADS, static_shared
from simulator.program import Pos, Program
from simulator.runs.launch import does_not_compile

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
        self.py_func = _of_this_launch(py_func)
        self.__name__ = py_func.__name__
        self.argtypes = self.argument_types = tuple(argtypes)
        self.signature = typing.signature(types.void, *self.argument_types)
        self.targetoptions = options
        self.extensions = options.get("extensions") or []
        self.bounds = launch_bounds(options.get("launch_bounds"))
        self._compile()
        config = launchconfig.current_launch_config()
        if config is not None and config._is_kernel_launch_config_sensitive():
            self.launch_config_sensitive = True
            _SENSITIVE.add(py_func)

    def _compile(self) -> None:
        """What Numba refuses, it refuses now, and with the error that its compiler raises.

        A check notes the launch for which it was compiled; what the simulator does not model is said at the launch.
        """
        with suppress(Unsupported):
            try:
                _ = self.program
            except DoesNotCompile as error:
                config = launchconfig.current_launch_config()
                if error.__cause__ is None or not str(error.__cause__):
                    return
                if self.device.check and config is not None:
                    shape = Launch(tuple(config.griddim), tuple(config.blockdim), int(config.sharedmem))
                    with suppress(SimulationError):
                        self.device.refuse(does_not_compile(error), self, shape)
                raise error.__cause__ from None

    def bind(self) -> None:
        """Nothing to load."""

    def check_cachable(self) -> None:
        """Raise as Numba does where a kernel with ``cache=True`` has arrays of the device for globals."""
        with suppress(Unsupported, DoesNotCompile):
            if self.program.captured:
                names = ", ".join(self.program.arguments[len(self.argument_types) :])
                raise PicklingError(
                    f"{self.__name__} has cache=True and refers to global device arrays ({names}), which no other "
                    "process has: pass them as arguments"
                )

    # -- the launch

    def launch(self, args: Sequence[Any], griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> None:
        """Run it; arguments are cast to the signature, host arrays are copied there and back."""
        if not self.device.open:
            raise RuntimeError(
                f"{self.__name__} was compiled for the stand-in device, which is closed: launch it inside "
                "simulator.device(), or decorate it outside"
            )
        shape = Launch(tuple(griddim), tuple(blockdim), int(sharedmem))
        try:
            if (fault := self._too_large(shape)) is not None:
                self.device.refuse(fault, self, shape)
            else:
                self._run(shape, args, stream)
        except SimulationError as error:
            known = as_on_a_gpu(error)
            if known is error:
                raise
            raise known from None

    def _run(self, shape: Launch, args: Sequence[Any], stream: Any) -> None:
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
            dtype = on_device.dtype
            if isinstance(kind, types.Array) and isinstance(kind.dtype, types.Integer) and dtype.kind in "iu":
                dtype = np.dtype(f"{'i' if kind.dtype.signed else 'u'}{dtype.itemsize}")
            return self.device.array(on_device.ptr, on_device.shape, strides, dtype)
        if isinstance(kind, types.CPointer):
            return self._pointed(kind, arg)
        if isinstance(kind, types.BaseTuple):
            items = [self._value(part, item, stream, after) for part, item in zip(kind, arg, strict=True)]
            return type(arg)(*items) if hasattr(arg, "_fields") else tuple(items)
        if isinstance(kind, types.EnumMember):
            return self._value(kind.dtype, arg.value, stream, after)
        return _scalar(kind, arg)

    def _pointed(self, kind: Any, arg: Any) -> Any:
        """The memory that an address leads to: a token of the stand-in device, as an int or a driver's pointer."""
        try:
            return self.device.pointer(int(arg), as_dtype(kind.dtype))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{self.__name__} takes a pointer ({kind}), but {arg!r} is no address of the stand-in device's memory; "
                "x.__cuda_array_interface__['data'][0] of a device array x is one"
            ) from error

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
            limit_of, what, value = "launch_bounds", "the number of threads in a block", str(threads)
            limit = f"{self.max_threads_per_block} is the most by the kernel's launch_bounds"
        else:
            asked, most = launch.dynamic_shared, self.device.card.sm.shared_per_block
            if asked <= most - STATIC_SHARED:  # whatever the kernel declares with a fixed size
                return None
            asked += static_shared(self.program)
            if asked <= most:
                return None
            limit_of, what, value = "shared", "shared memory", f"{asked} bytes"
            limit = f"a block has at most {most} on this card"
        code = self.py_func.__code__
        place = Place(Pos(code.co_filename, code.co_firstlineno, None, self.__name__), 0, ())
        mend = "use smaller blocks"
        return Fault("launch-limit", (place,), limit_of=limit_of, what=what, value=value, limit=limit, mend=mend)

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
        return Library(self)

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


_SENSITIVE: WeakSet[FunctionType] = WeakSet()
"""Functions of kernels that some rewrite of Numba's IR compiles for one shape of launch."""


def _of_this_launch(function: FunctionType) -> FunctionType:
    """The function to type: a copy, which nobody has typed, where the result depends on the launch at hand."""
    if function not in _SENSITIVE:
        return function
    copy = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__module__, copy.__kwdefaults__ = function.__module__, function.__kwdefaults__
    return copy


def _check_array(name: str, kind: Any, arg: Any) -> None:
    """A kernel of one signature takes what it is given without a look: on a GPU it would read other bytes."""
    given = typeof(arg, Purpose.argument)
    if isinstance(kind.dtype, types.Integer) and isinstance(given.dtype, types.Integer):
        if given.dtype.bitwidth == kind.dtype.bitwidth:  # the same bytes, signed or not
            given = given.copy(dtype=kind.dtype)
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
