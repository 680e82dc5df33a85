"""NVIDIA's compiler and disassemblers, out of the wheels of the extra `test`: no toolkit, no driver, no GPU.

pyproject.toml pins their versions (`cuda-toolkit[...]`), so the same source gives the same machine code everywhere.
nvcc asks a C++ compiler to preprocess, `g++` of the machine; nothing of what that one generates is used.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import tempfile
from functools import cache
from pathlib import Path

WHEELS = {
    "nvcc": "nvidia-cuda-nvcc",
    "ptxas": "nvidia-cuda-nvcc",
    "nvdisasm": "nvidia-cuda-nvdisasm",
    "cuobjdump": "nvidia-cuda-cuobjdump",
}
"""Which wheel brings which program."""

COMPILERS = ("numba", "numba-cuda", "llvmlite", "nvidia-nvvm", "nvidia-nvjitlink", "nvidia-cuda-nvcc")
"""Packages whose version has a say in the machine code, theirs or ours."""


@cache
def tool(name: str) -> Path:
    """The program's path.  Raises PackageNotFoundError, which names the wheel, where it is not installed."""
    files = importlib.metadata.distribution(WHEELS[name]).files or []
    (found,) = (file for file in files if file.name == name and file.parent.name == "bin")
    return Path(str(found.locate()))


def versions() -> dict[str, str]:
    """Of everything that has a say in the machine code.  Python writes the byte code that Numba reads."""
    return {"python": platform.python_version().rpartition(".")[0]} | {
        package: importlib.metadata.version(package) for package in COMPILERS
    }


def run(name: str, *arguments: str | Path) -> str:
    """What a program prints.  Its complaints, if it fails, are the error."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NVCC_")}
    command = [str(tool(name)), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(f"{name} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def compile_cuda(source: str, capability: tuple[int, int], include: Path) -> bytes:
    """CUDA C++ to a cubin, the way anybody would: `nvcc -O3 -std=c++17`."""
    with tempfile.TemporaryDirectory() as folder:
        text, cubin = Path(folder) / "twins.cu", Path(folder) / "twins.cubin"
        text.write_text(source, encoding="utf-8")
        major, minor = capability
        run("nvcc", "-cubin", "-O3", "-std=c++17", f"-arch=sm_{major}{minor}", f"-I{include}", "-o", cubin, text)
        return cubin.read_bytes()
