"""The adapter for numba's own ``numba.cuda``, where numba-cuda is not installed (it has no wheel for macOS).

As in ``numba_ir``: the front half of the pipeline, nothing that needs a driver or NVVM, everything undone at once.
numba deprecates this target but keeps it; it types like numba-cuda, without bfloat16.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np
from numba import cuda
from numba.core import inline_closurecall, typing, utils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import LoweringPass, PassManager, register_pass
from numba.core.errors import NumbaError
from numba.core.target_extension import target_override
from numba.core.typing.typeof import Purpose, typeof
from numba.cuda import compiler, dispatcher, libdevice, ufuncs
from numba.cuda.descriptor import cuda_target
from numba.np.numpy_support import ufunc_find_matching_loop

from simulator.frontend.inference.front_end import FrontEnd, Half
from simulator.frontend.inference.inlining import marked
from simulator.frontend.inference.overloads import NO_CODE, Implementation

_BACK_END = frozenset({"CreateLibrary", "NativeLowering", "CUDABackend"})


@register_pass(mutates_CFG=False, analysis_only=True)
class _KeepTypedIR(LoweringPass):
    _name = "simulator_keep_typed_ir"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        state.cr = (state.func_ir, state.typemap, state.calltypes, state.return_type)
        return False


class _TypingCompiler(compiler.CUDACompiler):
    def define_pipelines(self) -> list[Any]:
        (complete,) = super().define_pipelines()
        half = PassManager("simulator_typed")
        half.passes.extend(entry for entry in complete.passes if entry[0].__name__ not in _BACK_END)
        half.add_pass(_KeepTypedIR, "keep the typed IR")
        half.finalize()
        return [half]


class PlainNumba(Half):
    """numba's half of the front end."""

    name = "numba"
    lock = global_compiler_lock
    errors = (NumbaError,)
    modules = MappingProxyType({"cuda": cuda, "libdevice": libdevice})

    @property
    def context(self) -> Any:
        return cuda_target.typing_context

    def typeof(self, value: Any) -> Any:
        return typeof(value, Purpose.argument)

    def scalar(self, code: str) -> Any:
        return typeof(np.bool_(0) if code == "b1" else np.dtype(code).type(0))

    def infer(self, function: Any, args: tuple[Any, ...], checked: bool, inline: Any) -> tuple[Any, Any, Any, Any]:
        flags = compiler.CUDAFlags()
        flags.no_compile = True
        flags.error_model = "python" if checked else "numpy"
        flags.compute_capability = (9, 0)
        run = _TypingCompiler(self.context, cuda_target.target_context, None, args, None, flags, {})
        func_ir, typemap, calltypes, result = run.compile_extra(function)
        return func_ir, typemap, calltypes, result

    def loop(self, ufunc: Any, args: tuple[Any, ...]) -> Any:
        table = ufuncs.ufunc_db().get(ufunc)
        found = None if table is None else ufunc_find_matching_loop(ufunc, args)
        return None if found is None or found.ufunc_sig not in table else found

    @contextmanager
    def device_functions(self, front: FrontEnd) -> Iterator[None]:
        owner = dispatcher.CUDADispatcher
        originals = owner.get_call_template, owner.get_overload
        calling_itself: list[tuple[Any, Any]] = []

        def get_call_template(self: Any, args: Any, kws: Any) -> Any:
            _, folded = self.fold_argument_types(args, kws)
            signatures = self.nopython_signatures
            if self._can_compile:  # else it has only the declared signatures, and a call casts to one of them
                signatures = [typing.signature(front.result_of(self, tuple(folded)), *folded)]
            if self.is_compiling and tuple(folded) not in self.overloads:  # Numba wants to see that code
                self.overloads[tuple(folded)] = NO_CODE
                calling_itself.append((self.overloads, tuple(folded)))
            name = self.py_func.__name__
            template = typing.make_concrete_template(f"CallTemplate({name})", key=name, signatures=signatures)
            return template, utils.pysignature(self.py_func), folded, {}

        owner.get_call_template = get_call_template
        owner.get_overload = lambda self, found: Implementation(self, tuple(getattr(found, "args", found) or ()))
        try:
            with marked(inline_closurecall), target_override("cuda"):
                yield
        finally:
            owner.get_call_template, owner.get_overload = originals
            for overloads, types in calling_itself:
                del overloads[types]


half = PlainNumba()
