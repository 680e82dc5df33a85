"""The adapter for numba-cuda: the only file that touches its compiler's internals.

It runs the front half of numba-cuda's pipeline (bytecode to typed IR) and stops before code generation, so it needs
no driver, no NVVM and no toolkit.  Four interventions are necessary, each undone at once:

* a last pass that keeps the typed IR (the pipeline wants a ``LoweringPass`` that sets ``state.cr``);
* typing a call of a device function would compile the callee and ask the GPU for its capability: the callee is typed
  by this front end instead;
* ``numba_target_override`` makes the front end resolve names for the CUDA target;
* variables of functions that Numba inlines get names that tell whose they are (``inlining``).

Numba's own compiler lock is held meanwhile, so that no other thread compiles with the replacement.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from threading import get_ident
from types import MappingProxyType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numba import cuda
from numba.core.errors import NumbaError as CoreError
from numba.cuda import bf16, compiler, dispatcher, fp16, libdevice, lowering, typing, ufuncs, utils
from numba.cuda.core import inline_closurecall
from numba.cuda.core.compiler_lock import global_compiler_lock
from numba.cuda.core.compiler_machinery import LoweringPass, register_pass
from numba.cuda.core.errors import NumbaError
from numba.cuda.core.ir import Loc
from numba.cuda.cudadrv import error as failures
from numba.cuda.descriptor import cuda_target
from numba.cuda.flags import CUDAFlags
from numba.cuda.np.numpy_support import ufunc_find_matching_loop
from numba.cuda.typing.typeof import Purpose, typeof

from simulator.compiled import MachineCode, NotCompiled
from simulator.frontend.inference.front_end import FrontEnd, Half
from simulator.frontend.inference.inlining import Places, folder_of, marked
from simulator.frontend.inference.overloads import NO_CODE, Implementation
from simulator.frontend.places import Place

_BACK_END = frozenset({"CreateLibrary", "CUDANativeLowering", "NativeLowering", "CUDABackend"})
_COMPILER = folder_of(cuda)


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

    @property
    def context(self) -> Any:
        return cuda_target.typing_context

    def typeof(self, value: Any) -> Any:
        return typeof(value, Purpose.argument)

    def scalar(self, code: str) -> Any:
        return typeof(np.bool_(0) if code == "b1" else np.dtype(code).type(0))

    def infer(self, function: Any, args: tuple[Any, ...], checked: bool, inline: Any) -> tuple[Any, Any, Any, Any]:
        flags = CUDAFlags()
        flags.inline = inline  # what always is may return an array that it makes
        flags.no_compile = True
        flags.error_model = "python" if checked else "numpy"
        flags.compute_capability = (9, 0)
        run = _TypingCompiler(self.context, cuda_target.target_context, None, args, None, flags, {}, None, None)
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
            with marked(inline_closurecall), utils.numba_target_override():
                yield
        finally:
            owner.get_call_template, owner.get_overload = originals
            for overloads, types in calling_itself:
                del overloads[types]

    def machine_code(self, kernel: Any, types: tuple[Any, ...], capability: tuple[int, int]) -> MachineCode:
        given = getattr(kernel, "targetoptions", {})
        options = {name: given[name] for name in ("fastmath", "opt", "launch_bounds") if given.get(name) is not None}
        function = getattr(kernel, "py_func", kernel)
        with _refusals(), _compiling_for(capability), _lines_of_inlined(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as of lines that it does not know; nobody asked for this compilation
            text, _ = compiler.compile_ptx(function, types, cc=capability, debug=False, lineinfo=True, **options)
        return MachineCode(str(text), partial(_assemble, registers=given.get("max_registers")))


@contextmanager
def _compiling_for(capability: tuple[int, int]) -> Iterator[None]:
    """Device functions are compiled for the GPU that is current: in this thread, let that be one of ``capability``."""
    device, thread = SimpleNamespace(compute_capability=capability), get_ident()
    with global_compiler_lock:
        original = dispatcher.get_current_device
        dispatcher.get_current_device = lambda: device if get_ident() == thread else original()
        try:
            yield
        finally:
            dispatcher.get_current_device = original


@contextmanager
def _lines_of_inlined() -> Iterator[None]:
    """Let the code of a function that Numba inlines bear the file and line of that function, as its operations do."""
    owner = lowering.CUDALower
    originals = owner.lower_inst, owner.notify_loc
    found: WeakKeyDictionary[Any, dict[int, Place]] = WeakKeyDictionary()

    def lower_inst(self: Any, statement: Any) -> None:
        if self not in found:
            found[self] = _places(self.func_ir)
        if (place := found[self].get(id(statement))) is not None:
            self.loc = Loc(place.file or self.func_ir.loc.filename, place.line)
        originals[0](self, statement)

    def notify_loc(self: Any, loc: Any) -> None:
        originals[1](self, loc)
        debug, own = self.debuginfo, self.func_ir.loc
        if (loc.filename != own.filename or loc.line < own.line) and hasattr(debug, "subprograms"):
            folder, name = os.path.split(os.path.abspath(loc.filename))
            file = debug.module.add_debug_info("DIFile", {"directory": folder, "filename": name})
            block = {"scope": debug.subprograms[-1], "file": file, "discriminator": 0}
            scope = debug.module.add_debug_info("DILexicalBlockFile", block)
            at = {"line": loc.line, "column": 1, "scope": scope}
            self.builder.debug_metadata = debug.module.add_debug_info("DILocation", at)

    owner.lower_inst, owner.notify_loc = lower_inst, notify_loc
    try:
        yield
    finally:
        owner.lower_inst, owner.notify_loc = originals


def _places(func_ir: Any) -> dict[int, Place]:
    """The places of the statements of a function, by their ids."""
    found: dict[int, Place] = {}
    places = Places(func_ir.func_id.func, func_ir.blocks, _COMPILER)
    for label, block in sorted(func_ir.blocks.items()):
        places.enter(label)
        found |= {id(statement): places.of(statement.loc) for statement in block.body}
        places.leave(block.terminator.get_targets())
    return found


def _assemble(ptx: str, registers: int | None) -> str:
    """What the assembler says of a PTX text."""
    with _refusals():
        from cuda.bindings.nvjitlink import nvJitLinkError
        from cuda.core import Linker, LinkerOptions, ObjectCode

        ((major, minor),) = re.findall(r"^\.target\s+sm_(\d+)(\d)", ptx, re.MULTILINE)
        options = LinkerOptions(arch=f"sm_{major}{minor}", ptxas_options=["-v"], max_register_count=registers)
        linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=options)
        try:
            linker.link("cubin")
        except nvJitLinkError as error:  # a part is missing, such as CUDA's device runtime for barriers of the grid
            raise NotCompiled(f"no machine code: {linker.get_error_log() or error}") from error
        return str(linker.get_info_log())


@contextmanager
def _refusals() -> Iterator[None]:
    """Say that there is no machine code, where compilers are missing or refuse the kernel."""
    try:
        yield
    except (ImportError, OSError, RuntimeError, NotImplementedError, NumbaError, CoreError, *_COMPILER_ERRORS) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise NotCompiled(f"no machine code: {reason}") from error


_COMPILER_ERRORS = (failures.NvvmError, failures.NvvmSupportError, failures.NvrtcError, failures.CCSupportError)

half = NumbaCuda()
