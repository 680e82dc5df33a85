"""The adapter for numba-cuda: the only file that touches its compiler's internals.

It runs the front half of numba-cuda's pipeline (bytecode to typed IR) and stops before code generation, so it needs
no driver, no NVVM and no toolkit.  Three interventions are necessary, each undone at once:

* a last pass that keeps the typed IR (the pipeline wants a ``LoweringPass`` that sets ``state.cr``);
* typing a call of a device function would compile the callee and ask the GPU for its capability: the callee is typed
  by this front end instead;
* ``numba_target_override`` makes the front end resolve names for the CUDA target.

Numba's own compiler lock is held meanwhile, so that no other thread compiles with the replacement.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np
from numba import cuda
from numba.core.errors import NumbaError as CoreError
from numba.cuda import bf16, compiler, dispatcher, fp16, libdevice, typing, utils
from numba.cuda.core.compiler_lock import global_compiler_lock
from numba.cuda.core.compiler_machinery import LoweringPass, register_pass
from numba.cuda.core.errors import NumbaError
from numba.cuda.descriptor import cuda_target
from numba.cuda.flags import CUDAFlags
from numba.cuda.typing.typeof import Purpose, typeof

from simulator.frontend.inference import FrontEnd, Half

_BACK_END = frozenset({"CreateLibrary", "CUDANativeLowering", "NativeLowering", "CUDABackend"})


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
        half = compiler.PassManager("simulator_typed")
        half.passes.extend(entry for entry in complete.passes if entry[0].__name__ not in _BACK_END)
        half.add_pass(_KeepTypedIR, "keep the typed IR")
        half.finalize()
        return [half]


class NumbaCuda(Half):
    """numba-cuda's half of the front end."""

    name = "numba-cuda"
    lock = global_compiler_lock
    errors = (NumbaError, CoreError)  # types of numba's own core raise the latter
    modules = MappingProxyType({"cuda": cuda, "libdevice": libdevice, "cuda.fp16": fp16, "cuda.bf16": bf16})

    def typeof(self, value: Any) -> Any:
        return typeof(value, Purpose.argument)

    def scalar(self, code: str) -> Any:
        return typeof(np.bool_(0) if code == "b1" else np.dtype(code).type(0))

    def infer(self, function: Any, args: tuple[Any, ...], checked: bool) -> tuple[Any, Any, Any, Any]:
        flags = CUDAFlags()
        flags.no_compile = True
        flags.error_model = "python" if checked else "numpy"
        flags.compute_capability = (9, 0)
        with utils.numba_target_override():
            run = _TypingCompiler(
                cuda_target.typing_context, cuda_target.target_context, None, args, None, flags, {}, None, None
            )
            func_ir, typemap, calltypes, result = run.compile_extra(function)
        return func_ir, typemap, calltypes, result

    @contextmanager
    def device_functions(self, front: FrontEnd) -> Iterator[None]:
        owner = dispatcher.CUDADispatcher
        originals = owner.get_call_template, owner.get_overload

        def get_call_template(self: Any, args: Any, kws: Any) -> Any:
            _, folded = self.fold_argument_types(args, kws)
            signature = typing.signature(front.result_of(self, tuple(folded)), *folded)
            name = self.py_func.__name__
            template = typing.make_concrete_template(f"CallTemplate({name})", key=name, signatures=[signature])
            return template, utils.pysignature(self.py_func), folded, {}

        owner.get_call_template = get_call_template
        owner.get_overload = lambda self, signature: id(self)  # asked for by @overload, whose code is never run
        try:
            yield
        finally:
            owner.get_call_template, owner.get_overload = originals


half = NumbaCuda()
