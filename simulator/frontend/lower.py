"""A kernel and its launch arguments become a program."""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from simulator.compiled import MachineCode, NotCompiled
from simulator.errors import Unsupported
from simulator.frontend import kernel_types as kt
from simulator.frontend.inference.front_end import FrontEnd, check_kernel, check_result, compiled_with, python_function
from simulator.frontend.inference.native_types import translate_type
from simulator.frontend.lowering.body import Body
from simulator.frontend.lowering.builder import Builder
from simulator.frontend.lowering.calls import meanings
from simulator.frontend.lowering.parameters import parameters
from simulator.frontend.lowering.tidy import tidy
from simulator.frontend.refusal import first_line
from simulator.intrinsics import changes
from simulator.program import Pos, Program, validate

_programs: WeakKeyDictionary[FunctionType, dict[Any, Program]] = WeakKeyDictionary()
_lock = Lock()


def lower_kernel(kernel: Any, args: tuple[Any, ...] | list[Any]) -> Program:
    """The program of a kernel for arguments of these types.

    ``kernel`` is a ``@cuda.jit`` function or a plain Python function, ``args`` are NumPy arrays and scalars, Python
    numbers and tuples of these.  Neither a GPU nor a CUDA toolkit is needed.  A program is made once per kernel and
    types, and kept as long as the kernel lives.  A kernel that says ``argument_types`` has been typed for these.

    Raises ``Unsupported`` for constructs that the simulator does not know, ``DoesNotCompile`` where Numba refuses.

    >>> import numpy as np
    >>> from numba import cuda
    >>> @cuda.jit
    ... def scale(x, by):
    ...     i = cuda.grid(1)
    ...     x[i] *= by
    >>> program = lower_kernel(scale, (np.zeros(4, np.float32), np.float32(2)))
    >>> program.arguments, [param.name for param in program.params]
    (('x', 'by'), ['x', 'x.shape0', 'x.stride0', 'by'])
    """
    function = check_kernel(kernel)
    front = front_end()
    place = first_line(function)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    if function.__code__.co_flags & 0x0C or len(names) != len(args):
        raise TypeError(f"{place}: {place.function} takes {len(names)} arguments ({', '.join(names)}), got {len(args)}")
    types = _compiled_for(kernel, place) or _argument_types(front, args, names, place)
    key = (types, *compiled_with(kernel), changes())
    with _lock:
        found = _programs.setdefault(function, {})
        program = found.get(key)
    if program is None:
        with front.half.lock, _lock:  # in this order: who compiles holds the first
            program = found.get(key) or found.setdefault(key, _lower(front, kernel, types, names, place))
    program.machine_code = partial(_compile, front, ref(kernel), types)
    return program


def forget(kernel: Any) -> None:
    """Lower a kernel anew when it is asked for next: globals that it reads may have changed."""
    function = python_function(kernel)
    with _lock:
        _programs.pop(function, None)
    front_end().forget(function)


def _compiled_for(kernel: Any, place: Pos) -> tuple[Any, ...] | None:
    """The signature that a kernel has been compiled for, by its decorator or by the stand-in device."""
    eager = () if getattr(kernel, "_can_compile", True) else getattr(kernel, "overloads", {}).values()
    signatures = [compiled.argument_types for compiled in (*eager, kernel) if hasattr(compiled, "argument_types")]
    if len(signatures) > 1:
        said = f"choosing one of the {len(signatures)} signatures of {place.function}"
        raise Unsupported(place, said, "launch it inside simulator.device(), where Numba chooses")
    return signatures[0] if signatures else None


def _compile(front: FrontEnd, kernel: ref[Any], types: tuple[Any, ...], capability: tuple[int, int]) -> MachineCode:
    """Machine code of a kernel that the program does not keep alive."""
    if (alive := kernel()) is None:
        raise NotCompiled("the kernel is gone")
    return front.half.machine_code(alive, types, capability)


@cache
def front_end() -> FrontEnd:
    """The front end of the installed compiler: numba-cuda's, or plain numba's where that is missing (macOS)."""
    adapter = "numba_ir" if find_spec("numba_cuda") is not None else "plain_numba"
    return FrontEnd(import_module(f"simulator.frontend.inference.{adapter}").half, frozenset(meanings()))


def _argument_types(front: FrontEnd, args: Any, names: tuple[str, ...], place: Pos) -> tuple[Any, ...]:
    types: list[Any] = []
    refusals: tuple[type[Exception], ...] = (
        ValueError, TypeError, AttributeError, NotImplementedError, *front.half.errors
    )  # fmt: skip
    for name, arg in zip(names, args, strict=True):
        try:
            types += front.argument_types((arg,))
            kind = translate_type(types[-1])
        except refusals as error:
            raise _refused(name, arg, place) from error
        if not _passes(kind):
            raise _refused(name, arg, place)
    return tuple(types)


def _passes(kind: kt.Type) -> bool:
    """Whether a launch takes arguments of this type: numbers, arrays and tuples of these (None is not passed)."""
    match kind:
        case kt.TupleType(items):
            return all(map(_passes, items))
        case kt.EnumType(_, of):
            return _passes(of)
    return isinstance(kind, _PASSED)


_PASSED = (kt.Scalar, kt.ComplexType, kt.TimeType, kt.RecordType, kt.ArrayType)


def _refused(name: str, arg: Any, place: Pos) -> Unsupported:
    return Unsupported(place, f"the argument {name} of type {_described(arg)}", "pass NumPy arrays and numbers")


def _described(arg: Any) -> str:
    """The type of a launch argument in the user's words."""
    if isinstance(arg, tuple):
        return f"tuple({', '.join(map(_described, arg))})"
    kind = "None" if arg is None else type(arg).__name__
    if not isinstance(arg, np.ndarray):
        return kind
    layout = "" if arg.flags.aligned else ", unaligned"
    kind = "array" if type(arg) is np.ndarray else kind
    return f"{kind}({arg.dtype if arg.dtype.isnative else arg.dtype.str}, {arg.ndim}d{layout})"


def _lower(front: FrontEnd, kernel: Any, types: tuple[Any, ...], names: tuple[str, ...], place: Pos) -> Program:
    function = front.typed(kernel, types)
    check_result(function)
    program = Program(function.name, "numba", place, arguments=names, debug=function.checked)
    builder = Builder(program, front.library)
    values = [
        parameters(program, name, kind, (index,), place)
        for index, (name, kind) in enumerate(zip(names, function.arguments, strict=True))
    ]
    body = Body(builder, function, values, None)
    program.entry = body.labels[min(function.blocks)]
    body.run()
    builder.finish(program.entry)
    tidy(program)
    return validate(program)
