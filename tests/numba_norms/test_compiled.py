"""Kernels as machine code, without a GPU: every built-in one compiles, and the caches neither lie nor stand in the way.

What identifies a kernel, a test of its own, is in test_fingerprint.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numba import cuda, float32
from numba.cuda import dispatcher

from numba_norms import builtin
from numba_norms.gpu import compiled, disk
from numba_norms.gpu.compiled import type_of
from numba_norms.gpu.parameters import words_of

NINE = (9, 0)
KERNELS = ("rms_norm", "layer_norm", "layer_norm_welford", "add_rms_norm", "add_layer_norm", "batch_norm")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of our own, on disk and in memory."""
    monkeypatch.setenv("NUMBA_NORMS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compiled, "_kept", {})
    monkeypatch.setattr(disk, "_refused", set())
    return tmp_path / "cache"


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The kernels compiled so far."""
    done: list[Any] = []
    compile_ = compiled._compile

    def noted(kernel: Any, *rest: Any) -> Any:
        done.append(kernel)
        return compile_(kernel, *rest)

    monkeypatch.setattr(compiled, "_compile", noted)
    return done


def scaling(factor: Any) -> Any:
    @cuda.jit
    def scale(x):
        x[cuda.threadIdx.x] *= factor

    return scale


VECTOR = (type_of(np.zeros(4, np.float32)),)


def forget() -> None:
    """What a new process starts from."""
    compiled._kept.clear()


# -- compilation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "capability"),
    [
        ("float16", (8, 0)),
        ("float16", NINE),
        ("float16", (10, 0)),
        *((d, NINE) for d in ("bfloat16", "float32", "float64")),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_compiles(name: str, dtype: str, capability: tuple[int, int]) -> None:
    launch = getattr(builtin, name)((4, 1000), dtype)
    code = compiled.kernel(launch.kernel, tuple(map(type_of, launch.args)), capability)
    assert code.cubin.startswith(b"\x7fELF") and launch.kernel.__name__ in code.entry
    assert len(code.parameters) == sum(len(words_of(argument)) for argument in launch.args)
    assert 0 < code.registers < 256 and code.stack == code.spills == 0


def test_figures_of_the_assembler() -> None:
    @cuda.jit
    def reversing(x):
        shared = cuda.shared.array(64, float32)
        local = cuda.local.array(40, float32)
        for k in range(40):
            local[k] = x[k]
        shared[cuda.threadIdx.x] = local[int(x[cuda.threadIdx.x])]  # an index known late: local lies in memory
        cuda.syncthreads()
        x[cuda.threadIdx.x] = shared[63 - cuda.threadIdx.x]

    code = compiled.kernel(reversing, VECTOR, NINE)
    assert (code.shared, code.stack, code.spills) == (256, 160, 0) and code.registers > 8


def taking(value: Callable[..., Any]) -> Any:
    """The kernel that stores one value of its arguments."""
    function = cuda.jit(device=True)(value)

    @cuda.jit
    def store(cube, nothing, plane, flag, single, double, small, large, line, result):
        result[0] = function(cube, plane, flag, single, double, small, large, line)

    return store


PLACES: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (lambda c, p, f, s, d, i, j, v: c.shape[0], lambda c, p, f, s, d, i, j, v: c.shape[0]),
    (lambda c, p, f, s, d, i, j, v: c.shape[2], lambda c, p, f, s, d, i, j, v: c.shape[2]),
    (lambda c, p, f, s, d, i, j, v: c.strides[1], lambda c, p, f, s, d, i, j, v: c.strides[1]),
    (lambda c, p, f, s, d, i, j, v: c.size, lambda c, p, f, s, d, i, j, v: c.size),
    (lambda c, p, f, s, d, i, j, v: p.shape[1], lambda c, p, f, s, d, i, j, v: p.shape[1]),
    (lambda c, p, f, s, d, i, j, v: p.strides[0], lambda c, p, f, s, d, i, j, v: p.strides[0]),
    (lambda c, p, f, s, d, i, j, v: f, lambda c, p, f, s, d, i, j, v: int(f)),
    (lambda c, p, f, s, d, i, j, v: s, lambda c, p, f, s, d, i, j, v: int(s.view(np.uint32))),
    (lambda c, p, f, s, d, i, j, v: d, lambda c, p, f, s, d, i, j, v: int(d.view(np.uint64))),
    (lambda c, p, f, s, d, i, j, v: i, lambda c, p, f, s, d, i, j, v: int(i)),
    (lambda c, p, f, s, d, i, j, v: j, lambda c, p, f, s, d, i, j, v: int(j)),
    (lambda c, p, f, s, d, i, j, v: v[0], lambda c, p, f, s, d, i, j, v: v.ctypes.data),
    (lambda c, p, f, s, d, i, j, v: v.strides[0], lambda c, p, f, s, d, i, j, v: v.strides[0]),
]
"""What a kernel reads, and the word that stands for it."""


@pytest.mark.parametrize(("read", "word"), PLACES)
def test_each_parameter_stands_where_the_kernel_reads_it(read: Callable[..., Any], word: Callable[..., Any]) -> None:
    """The kernel loads two parameters: the address of its result, and what it reads; PTX says which."""
    cube = np.zeros((4, 5, 6, 7), np.float32)[:, ::2, :, 0]
    plane, line, result = np.zeros((8, 9), np.float16).T, np.zeros(20, np.int64)[::2], np.zeros(1)
    scalars = True, np.float32(0.1), np.float64(0.2), np.int32(11), np.int64(12)
    args = (cube, (), plane, *scalars, line, result)
    text = compiled.ptx(taking(read), tuple(map(type_of, args)), NINE)
    head, _, body = text.partition(".visible .entry")[2].partition(")")
    loaded = {int(line.rpartition("_param_")[2].partition("]")[0]) for line in body.splitlines() if "ld.param" in line}
    words = [w for argument in args for w in words_of(argument)]
    assert head.count(".param") == len(words)
    (position,) = loaded - {len(words) - 3}
    assert words[position] == word(cube, plane, *scalars, line)


def test_sizes_of_parameters() -> None:
    args = (np.zeros((1, 1, 1), np.float32), (), True, np.float32(1), 1.0, np.int32(1), 1, np.zeros(1))
    args = (args[0], (), np.zeros((2, 2), np.float16), *args[2:], np.zeros(1))
    code = compiled.kernel(taking(lambda c, p, f, s, d, i, j, v: c.size), tuple(map(type_of, args)), NINE)
    assert code.parameters == (8,) * 11 + (8,) * 9 + (1, 4, 8, 4, 8) + (8,) * 7 * 2


def test_the_target_is_ours_and_not_numbas_current_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba's device is another, and other threads go on seeing it while device functions are compiled for ours."""
    current = SimpleNamespace(compute_capability=(7, 5))

    def get_current_device() -> Any:
        return current

    monkeypatch.setattr(dispatcher, "get_current_device", get_current_device)
    seen: list[Any] = []
    compile_ptx = compiled.compiler.compile_ptx

    def spying(*args: Any, **kwargs: Any) -> Any:
        seen.append(dispatcher.get_current_device().compute_capability)
        other = threading.Thread(target=lambda: seen.append(dispatcher.get_current_device().compute_capability))
        other.start()
        other.join()
        return compile_ptx(*args, **kwargs)

    monkeypatch.setattr(compiled.compiler, "compile_ptx", spying)
    launch = builtin.rms_norm((1, 64))
    text = compiled.ptx(launch.kernel, tuple(map(type_of, launch.args)), NINE)
    assert ".target sm_90" in text and seen == [(9, 0), (7, 5)]
    assert dispatcher.get_current_device is get_current_device

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(compiled.compiler, "compile_ptx", broken)
    with pytest.raises(ZeroDivisionError):
        compiled.ptx(launch.kernel, tuple(map(type_of, launch.args)), NINE)
    assert dispatcher.get_current_device is get_current_device


def test_what_is_not_compiled_says_so() -> None:
    with pytest.raises(RuntimeError, match=r"no device of compute capability 99\.0.*pip install"):
        compiled.kernel(scaling(np.float32(2)), VECTOR, (99, 0))

    @cuda.jit(lineinfo=True)
    def with_lines(x):
        x[0] = 1

    with pytest.raises(NotImplementedError, match="with_lines: the option lineinfo"):
        compiled.kernel(with_lines, VECTOR, NINE)

    @cuda.jit
    def with_calls(x):
        x[0] = float32(x[0] + x[1])  # arithmetic of bfloat16 is a function of its own

    with pytest.raises(NotImplementedError, match="with_calls calls "):
        compiled.kernel(with_calls, (type_of(np.zeros(4, ml_dtypes.bfloat16)),), NINE)
    with pytest.raises(TypeError, match="not a str"):
        type_of("x")


# -- caches ----------------------------------------------------------------------------------------------------------


def test_keys_are_the_same_in_every_process(folder: Path) -> None:
    script = """
        import json, numpy as np
        from numba_norms import builtin
        from numba_norms.gpu import compiled
        keys = {}
        for name in %r:
            launch = getattr(builtin, name)((4, 1000), "float16")
            keys[name] = compiled._key(launch.kernel, tuple(map(compiled.type_of, launch.args)), (9, 0))
        print(json.dumps(keys))
    """
    found = [json.loads(run(script % (KERNELS,), PYTHONHASHSEED=seed)) for seed in ("1", "2")]
    assert found[0] == found[1]
    assert len(set(found[0].values())) == len(KERNELS)


def run(script: str, **environment: str) -> str:
    return finished(start(script, **environment))


def start(script: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
    return subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finished(process: subprocess.Popen[str]) -> str:
    out, complaints = process.communicate(timeout=240)
    assert process.returncode == 0, complaints
    return out


def test_memory_and_disk(compilations: list[Any], folder: Path) -> None:
    kernel = scaling(np.float32(2))
    first = compiled.kernel(kernel, VECTOR, NINE)
    assert compiled.kernel(kernel, VECTOR, NINE) is first
    forget()
    again = compiled.kernel(scaling(np.float32(2)), VECTOR, NINE)
    assert again == first and again is not first
    assert len(compilations) == 1 == len(list(folder.iterdir()))


@pytest.mark.parametrize("other", ["constant", "types", "capability", "versions"])
def test_another_kernel_is_another_entry(
    other: str, compilations: list[Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled.kernel(scaling(np.float32(2)), VECTOR, NINE)
    if other == "versions":
        monkeypatch.setattr(compiled, "_versions", lambda: ("numba 1.0",))
    factor = np.float32(3 if other == "constant" else 2)
    types = (type_of(np.zeros((4, 4), np.float32).T[0]),) if other == "types" else VECTOR
    compiled.kernel(scaling(factor), types, (8, 0) if other == "capability" else NINE)
    assert len(compilations) == 2 == len(list(folder.iterdir()))


def broken_entries(entry: bytes) -> Iterator[bytes]:
    yield b""
    yield b"something else entirely"
    yield from (entry[:length] for length in (10, 40, 60, 100, len(entry) // 2, len(entry) - 1))
    yield entry + b"\0"
    for position in (3, 30, 55, 80, 200, len(entry) // 2, len(entry) - 1):
        yield entry[:position] + bytes([entry[position] ^ 1]) + entry[position + 1 :]


def test_a_damaged_entry_is_rebuilt(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = scaling(np.float32(2))
    good = compiled.kernel(kernel, VECTOR, NINE)
    (path,) = folder.iterdir()
    entry = path.read_bytes()
    monkeypatch.setattr(compiled, "_compile", lambda *_: good)
    for damaged in broken_entries(entry):
        path.write_bytes(damaged)
        assert disk.read(path.stem) is None
        forget()
        assert compiled.kernel(kernel, VECTOR, NINE) is good
        assert path.read_bytes() == entry
    disk.write("0" * 64, {}, b"")
    path.write_bytes((folder / f"{'0' * 64}.kernel").read_bytes())  # whole, and of another kernel
    assert disk.read(path.stem) is None
    path.unlink()
    path.mkdir()
    assert disk.read(path.stem) is None


def test_a_kernel_without_a_lasting_name_is_not_kept_on_disk(compilations: list[Any], folder: Path) -> None:
    unknown = object()

    @cuda.jit
    def kernel(x):
        x[0] = 1 if x.size else unknown

    with pytest.raises(Exception, match="unknown"):  # Numba does not know it either, but we got as far as asking
        compiled.kernel(kernel, VECTOR, NINE)
    assert len(compilations) == 1 and not folder.exists()


def test_threads_compile_once(compilations: list[Any]) -> None:
    kernel, found, together = scaling(np.float32(2)), [], threading.Barrier(4)

    def ask() -> None:
        together.wait()
        found.append(compiled.kernel(kernel, VECTOR, NINE))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compilations) == 1 and len(found) == 4 and len({id(code) for code in found}) == 1


def test_processes_at_once(folder: Path) -> None:
    """Four compile the same kernel; then each writes one entry over and over, and reads only whole ones."""
    script = """
        import numpy as np
        from numba import cuda
        from numba_norms.gpu import compiled, disk

        @cuda.jit
        def kernel(x):
            x[0] = 1

        code = compiled.kernel(kernel, (compiled.type_of(np.zeros(4)),), (9, 0))
        assert code.cubin.startswith(b"\\x7fELF")
        numbers, found = np.random.default_rng(), 0
        for _ in range(100):
            byte = int(numbers.integers(256))
            disk.write("f" * 64, {"byte": byte}, bytes([byte]) * int(numbers.integers(1, 100_000)))
            facts, blob = disk.read("f" * 64)
            assert set(blob) == {facts["byte"]}
        print("fine")
    """
    assert [finished(process) for process in [start(script) for _ in range(4)]] == ["fine\n"] * 4
    assert len(list(folder.iterdir())) == 2  # no left-overs


def test_without_a_folder_to_write_to(tmp_path: Path, compilations: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("NUMBA_NORMS_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.warns(disk.NoKernelCache, match=r"cannot be kept in .*NUMBA_NORMS_CACHE_DIR"):
        compiled.kernel(scaling(np.float32(2)), VECTOR, NINE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        compiled.kernel(scaling(np.float32(3)), VECTOR, NINE)
    assert len(compilations) == 2


def test_no_folder_at_all(tmp_path: Path, compilations: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_NORMS_CACHE_DIR", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for _ in range(2):
        compiled.kernel(scaling(np.float32(2)), VECTOR, NINE)
        forget()
    assert len(compilations) == 2 and not (tmp_path / "home").exists()


def test_the_folder_of_the_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_NORMS_CACHE_DIR")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert disk.folder() == tmp_path / "numba_norms"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert disk.folder() == Path.home() / ".cache" / "numba_norms"


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NUMBA_NORMS_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert disk.folder() is None
    assert disk.read("0" * 64) is None


def test_a_device_that_is_too_old() -> None:
    with pytest.raises(RuntimeError, match=r"compute capability 7\.5 cannot run these kernels, which need 8\.0"):
        compiled.ptx(builtin.rms_norm((1, 8)).kernel, (), (7, 5))


def test_debugging_other_kernels_leaves_ours_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = builtin.rms_norm((1, 8))
    monkeypatch.setitem(launch.kernel.targetoptions, "debug", True)  # as NUMBA_CUDA_DEBUGINFO=1 does
    text = compiled.ptx(launch.kernel, tuple(map(type_of, launch.args)), (9, 0))
    assert ".section" not in text


def test_the_longest_unused_make_room(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "MAX_BYTES", 10_000)
    for number in range(6):
        disk.write(str(number), {}, bytes(2000))
        os.utime(folder / f"{number}.kernel", (number, number))
        if number == 2:
            assert disk.read("0") is not None  # used just now
    assert disk.read("1") is None and disk.read("0") is not None and disk.read("5") is not None
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 10_000
