"""Kernels as machine code: Numba and NVVM make PTX, nvJitLink makes a cubin of it, memory and disk keep it.

Nothing here needs a GPU or a driver; the wheels of the extra ``compile`` (or a CUDA toolkit) are enough.  Numba's own
dispatcher takes no part: a launch passes pointers (``device.py``), and the array types are those of ``numba_type``.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba.cuda import compiler, dispatcher
from numba.types import Array, Tuple, boolean, float64, int64, void

from numba_norms.arrays.dtypes import FLOATS, numba_type
from numba_norms.gpu import disk
from numba_norms.gpu.fingerprint import Unidentifiable, fingerprint

try:
    from numba.cuda.core import config
    from numba.cuda.core.compiler_lock import global_compiler_lock
    from numba.cuda.np.numpy_support import from_dtype
except ImportError:  # Numba without numba-cuda, on macOS: kernels are simulated, never compiled
    from numba.core import config
    from numba.core.compiler_lock import global_compiler_lock
    from numba.np.numpy_support import from_dtype

_FORMAT = 1
"""Part of every key: raised when this file makes different code of the same kernel."""


@dataclass(frozen=True)
class Compiled:
    """The machine code of a kernel for one architecture, and what it takes."""

    cubin: bytes
    entry: str
    """The name under which the cubin holds the kernel."""
    parameters: tuple[int, ...]
    """Bytes of each parameter, in order."""
    registers: int
    shared: int
    """Bytes of shared memory of a block."""
    stack: int
    """Bytes of local memory of a thread: arrays that are indexed by variables, and spilled registers."""
    spills: int
    """Bytes of spilled registers that a thread stores and loads."""


_kept: dict[Any, Compiled] = {}
_lock = threading.Lock()


def kernel(function: Any, types: tuple[Any, ...], capability: tuple[int, int]) -> Compiled:
    """A ``cuda.jit`` function for arguments of these Numba types and a compute capability, compiled at most once.

    Raises RuntimeError where the compilers are missing or too old for the device, and what Numba raises for a kernel
    that it cannot compile.
    """
    key = function, types, capability
    found = _kept.get(key)
    if found is None:
        with _lock:
            found = _kept.get(key)
            if found is None:
                found = _kept[key] = _from_disk_or_compiled(function, types, capability)
    return found


def type_of(argument: Any) -> Any:
    """The Numba type under which a kernel gets an argument: an array or scalar of NumPy, a Python number, or ``()``.

    Arrays are C-contiguous or anything: fewer forms of a kernel are compiled than Numba itself would.

    >>> type_of(np.zeros((4, 3), np.float32)), type_of(np.zeros((4, 3), np.float32).T), type_of(np.float64(1))
    (Array(float32, 2, 'C', False, aligned=True), Array(float32, 2, 'A', False, aligned=True), float64)
    """
    if isinstance(argument, np.ndarray):
        return Array(_element(argument.dtype), argument.ndim, "C" if argument.flags.c_contiguous else "A")
    if isinstance(argument, np.generic):
        return _element(argument.dtype)
    if isinstance(argument, tuple) and not argument:
        return Tuple(())
    for kind, type_ in ((bool, boolean), (int, int64), (float, float64)):
        if isinstance(argument, kind):
            return type_
    raise TypeError(f"a kernel takes arrays, numbers and (), not a {type(argument).__name__}")


def _element(dtype: np.dtype[Any]) -> Any:
    return numba_type(dtype) if dtype in FLOATS else from_dtype(dtype)


LEAST = (8, 0)
"""The first compute capability that knows bfloat16 and packs two halves in one instruction, which the kernels use."""


def ptx(function: Any, types: tuple[Any, ...], capability: tuple[int, int]) -> str:
    """The PTX of a kernel, compiled each time."""
    if capability < LEAST:
        raise RuntimeError(
            f"a device of compute capability {capability[0]}.{capability[1]} cannot run these kernels, which need"
            f" {LEAST[0]}.{LEAST[1]} (Ampere) or newer"
        )
    options = {name: function.targetoptions[name] for name in ("fastmath", "opt", "launch_bounds")}
    left_out = ("lineinfo", "link", "extensions", "max_registers", "shared_memory_carveout")
    if ignored := [name for name in left_out if function.targetoptions.get(name)]:
        raise NotImplementedError(f"{function.__name__}: the option {ignored[0]} of cuda.jit is not supported here")
    with _advice(), _compiling_for(capability):
        text, returned = compiler.compile_ptx(function.py_func, types, cc=capability, debug=False, **options)
    if returned != void and str(returned) != "none":
        raise TypeError(f"{function.__name__} returns {returned}; a kernel returns nothing")
    if external := re.search(r"\.extern\s+\.func[^;]*?(\w+)\s*(?:\(|;)", text):
        raise NotImplementedError(f"{function.__name__} calls {external[1]}, a function outside Numba's code")
    return str(text)


@contextmanager
def _compiling_for(capability: tuple[int, int]) -> Iterator[None]:
    """Numba compiles device functions for the GPU that is current: in this thread, let that be one of ``capability``.

    Numba's lock keeps other threads from compiling meanwhile; one that asks for its GPU for another reason gets it.
    """
    device, thread = SimpleNamespace(compute_capability=capability), threading.get_ident()
    with global_compiler_lock:
        original = dispatcher.get_current_device
        dispatcher.get_current_device = lambda: device if threading.get_ident() == thread else original()
        try:
            yield
        finally:
            dispatcher.get_current_device = original


def _from_disk_or_compiled(function: Any, types: tuple[Any, ...], capability: tuple[int, int]) -> Compiled:
    try:
        key = _key(function, types, capability)
    except Unidentifiable:  # correct in this process, and no other would find it
        return _compile(function, types, capability)
    if found := disk.read(key):
        facts, cubin = found
        return Compiled(cubin, **{**facts, "parameters": tuple(facts["parameters"])})
    compiled = _compile(function, types, capability)
    facts = asdict(compiled)
    disk.write(key, facts, facts.pop("cubin"))
    return compiled


def _key(function: Any, types: tuple[Any, ...], capability: tuple[int, int]) -> str:
    form = f"format {_FORMAT}: {[field.name for field in fields(Compiled)]}"
    parts = [form, fingerprint(function), *map(str, types), str(capability), *_versions()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@cache
def _versions() -> tuple[str, ...]:
    """Of all that has a say in the code.  NVVM tells no version of use, so its file stands for it."""
    from cuda.bindings import nvjitlink
    from cuda.pathfinder import load_nvidia_dynamic_lib

    with _advice():
        library = os.stat(str(load_nvidia_dynamic_lib("nvvm").abs_path))
        tools = [f"nvvm {library.st_size} {library.st_mtime_ns}", f"nvjitlink {nvjitlink.version()}"]
    packages = ("numba-norms", "numba", "numba-cuda", "llvmlite", "cuda-core", "cuda-bindings")
    settings = [f"{name} {getattr(config, name, None)}" for name in ("FORCE_CUDA_CC", "OPT")]
    return *(f"{package} {_version(package)}" for package in packages), *tools, *settings


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # run from a folder that is not installed
        return "unknown"


@contextmanager
def _advice() -> Iterator[None]:
    """Say what to install where a compiler is missing."""
    from cuda.pathfinder import DynamicLibNotFoundError

    try:
        yield
    except (ImportError, DynamicLibNotFoundError) as error:
        raise RuntimeError(
            "kernels for a GPU are compiled with NVVM, NVRTC and nvJitLink, and one of them is missing:"
            f" pip install 'numba-norms[compile]' ({error})"
        ) from error


def _compile(function: Any, types: tuple[Any, ...], capability: tuple[int, int]) -> Compiled:
    text = ptx(function, types, capability)
    cubin, log = _link(text, capability)
    ((entry, parameters),) = re.findall(r"\.visible\s+\.entry\s+(\w+)\s*\(([^)]*)\)", text)
    widths = re.findall(r"\.param\s+\.[a-z](\d+)\s", parameters)  # all of them numbers

    def total(pattern: str, text: str = log) -> int:
        return sum(map(int, re.findall(pattern, text)))

    return Compiled(
        cubin,
        entry,
        tuple(int(bits) // 8 for bits in widths),
        registers=total(r"Used (\d+) registers"),
        shared=total(r"\.shared\s+\.align\s+\d+\s+\.b8\s+\w+\[(\d+)\]", text),
        stack=total(r"(\d+) bytes stack frame"),
        spills=total(r"(\d+) bytes spill (?:stores|loads)"),
    )


def _link(text: str, capability: tuple[int, int]) -> tuple[bytes, str]:
    """Machine code for the PTX, and what the assembler says of it."""
    from cuda.core import Linker, LinkerOptions, ObjectCode

    # A device newer than the compilers gets the code of the nearest architecture that they know: the same generation's
    # runs on it, an older one's does not.
    ((major, minor),) = re.findall(r"^\.target\s+sm_(\d+)(\d)", text, re.MULTILINE)
    if int(major) != capability[0]:
        raise RuntimeError(
            f"the CUDA compilers at hand know no device of compute capability {capability[0]}.{capability[1]}, the"
            f" nearest is {major}.{minor}; install newer ones: pip install -U 'numba-norms[compile]'"
        )
    options = LinkerOptions(arch=f"sm_{major}{minor}", ptxas_options=["-v"])
    with _advice():
        linker = Linker(ObjectCode.from_ptx(text.encode()), options=options)
        return bytes(linker.link("cubin").code), str(linker.get_info_log())
