"""Launches without a GPU: the real bindings of CUDA's driver, and a double of the driver that notes what it is asked.

The double (``driver_double.c``) would be taken for a GPU by everything else in the process, so it works in one of its
own, once for all tests; each test looks at a part of what was noted there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import numba_norms.gpu.device
from numba_norms.arrays.places import Place
from numba_norms.gpu.parameters import Block, flat, words_of
from numba_norms.launch import Launch

HERE = Path(__file__).parent
PRIMARY = {0: "100", 1: "101"}
"""What the double calls the primary contexts of its two devices."""


def scenarios(library: str) -> dict[str, list[str]]:
    """What the driver was asked, scenario by scenario; runs in the process of the double."""
    import ctypes
    import threading

    double = ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
    double.double_log.restype = ctypes.c_char_p
    from cuda.bindings import driver
    from numba import cuda

    from numba_norms.gpu import compiled, device

    @cuda.jit
    def kernel(matrix, nothing, vector, flag, eps):
        matrix[0, 0] = vector[0] + eps if flag else eps

    def arguments(shift: int = 0) -> tuple[Any, ...]:
        matrix = np.ndarray((4, 3), np.float16, memory, shift * 64, (12, 2))
        return matrix, (), memory.view(np.float32)[:20][::-2], True, np.float32(0.5)

    memory = np.zeros(1 << 16, np.uint8)
    types = tuple(map(compiled.type_of, arguments()))
    code = compiled.kernel(kernel, types, (9, 0))
    double.double_expect((ctypes.c_int * len(code.parameters))(*code.parameters), len(code.parameters))
    noted: dict[str, list[str]] = {"words": [str(w) for w in flat(arguments())]}

    def note(name: str, grid: int = 7, block: int = 64, on: int = 1, stream: int = 0) -> None:
        double.double_clear()
        try:
            device.launch(kernel, grid, block, arguments(), on, stream)
        except (device.CUDAError, ValueError) as error:
            noted[f"{name} error"] = [type(error).__name__, str(error)]
        noted[name] = double.double_log().decode().splitlines()

    note("first")
    note("own stream", stream=0x7F00)
    note("no context")
    driver.cuCtxPushCurrent(driver.cuDevicePrimaryCtxRetain(driver.cuDeviceGet(0)[1])[1])
    note("other device current")
    note("other device current, own stream", stream=0x7F00)
    note("per thread", stream=2)
    note("other device", on=0)
    note("its device current", on=0)
    for grid, block in ((0, 64), (2**31, 64), (1, 0), (1, 1025)):
        note(f"{grid} x {block}", grid=grid, block=block)
    note("largest", grid=2**31 - 1, block=1024, on=0)
    double.double_fail(700)
    note("failure")
    double.double_fail(0)
    note("after failure", on=0)

    double.double_clear()
    launched = [[arguments(shift) for _ in range(40)] for shift in range(8)]
    threads = [
        threading.Thread(target=lambda several=several: [device.launch(kernel, 1, 32, a, 1, 0x7F00) for a in several])
        for several in launched
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    noted["threads"] = double.double_log().decode().splitlines()
    noted["threads expected"] = [" ".join(map(str, flat(a))) for several in launched for a in several]
    return noted


@pytest.fixture(scope="module")
def noted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return noted_in(tmp_path_factory.mktemp("driver"))


def noted_in(folder: Path, **variables: str) -> dict[str, list[str]]:
    """What is noted in a process with these environment variables."""
    library = folder / "libcuda.so.1"
    options = ["-shared", "-fPIC", "-pthread", "-Wl,-soname,libcuda.so.1"]
    subprocess.run(["cc", *options, "-o", library, HERE / "driver_double.c", "-ldl"], check=True)
    variables |= {"NUMBA_NORMS_CACHE_DIR": str(folder), "PYTHONPATH": str(HERE.parents[1])}
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [sys.executable, __file__, library], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def launched(noted: dict[str, list[str]], *, stream: int, context: str, grid: str = "7", block: str = "64") -> str:
    kernel = next(line for line in noted["first"] if line.startswith("kernel")).split()[-1]
    words = " ".join(noted["words"])
    return f"launch {int(kernel) + 1} [{grid},1,1][{block},1,1] 0 stream {stream} in {context}: {words}"


def test_a_kernel_is_loaded_as_a_whole_into_the_devices_own_context(noted: dict[str, list[str]]) -> None:
    assert noted["first"] == [
        "init", "retain 1", "push 101", "library ELF in 101", "kernel _Z of 7000", "function of 7001 in 101",
        "load 7101", "pop 101", "push 101", launched(noted, stream=1, context="101"), "pop 101",
    ]  # fmt: skip


def test_a_driver_that_cannot_load_at_once_is_asked_for_an_attribute(tmp_path: Path) -> None:
    noted = noted_in(tmp_path, DRIVER_DOUBLE_WITHOUT="cuFuncLoad")
    assert "attribute 4 of 7101" in noted["first"] and noted["first"][-2].startswith("launch 7001 ")


def test_a_warm_launch_is_one_call(noted: dict[str, list[str]]) -> None:
    assert noted["own stream"] == [launched(noted, stream=0x7F00, context="0")]
    name = "other device current, own stream"  # the stream knows its context
    assert noted[name] == [launched(noted, stream=0x7F00, context=PRIMARY[0])]
    assert noted["its device current"] == [launched(noted, stream=1, context=PRIMARY[0])]


@pytest.mark.parametrize(("name", "stream"), [("no context", 1), ("other device current", 1), ("per thread", 2)])
def test_a_default_stream_is_that_of_the_arrays_device(noted: dict[str, list[str]], name: str, stream: int) -> None:
    assert noted[name] == ["push 101", launched(noted, stream=stream, context=PRIMARY[1]), "pop 101"]


def test_each_device_loads_its_own(noted: dict[str, list[str]]) -> None:
    assert [line for line in noted["other device"] if line.startswith("library")] == ["library ELF in 100"]
    assert noted["other device"][-1] == launched(noted, stream=1, context=PRIMARY[0])


def test_the_shape_of_a_launch(noted: dict[str, list[str]]) -> None:
    for name in ("0 x 64", f"{2**31} x 64", "1 x 0", "1 x 1025"):
        assert noted[name] == [] and noted[f"{name} error"][0] == "ValueError"
    assert noted["largest"] == [launched(noted, stream=1, context=PRIMARY[0], grid=str(2**31 - 1), block="1024")]


def test_a_failure_says_what_failed_and_leaves_the_context_as_it_was(noted: dict[str, list[str]]) -> None:
    assert noted["failure error"] == ["CUDAError", "cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS (as the test asked)"]
    assert noted["failure"][-1] == "pop 101"
    assert noted["after failure"] == [launched(noted, stream=1, context=PRIMARY[0])]


def test_threads_do_not_mix_their_parameters(noted: dict[str, list[str]]) -> None:
    found = [line.partition(": ")[2] for line in noted["threads"] if line.startswith("launch")]
    assert len(found) == 320 and sorted(found) == sorted(noted["threads expected"])


# -- without the driver ----------------------------------------------------------------------------------------------


class Elsewhere(Place):
    """A place on a device that is not there."""

    name, device = "nowhere", 3

    def stream(self) -> int:
        return 0x7F00

    def view(self, native: Any) -> Any:
        return native

    new = copy = fill = lambda self, *_: None  # type: ignore[assignment]


def test_where_a_launch_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(numba_norms.gpu.device, "launch", lambda *arguments: asked.append(arguments))
    x = np.zeros(3, np.float32)
    Launch("kernel", 5, 32, (x,), ("x",)).run(Elsewhere())
    Launch("kernel", 0, 32, (x,), ("x",)).run(Elsewhere())  # no rows, nothing to do
    assert asked == [("kernel", 5, 32, (x,), 3, 0x7F00)]


def test_a_kernel_is_found_again_without_asking_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[Any, int]] = []
    monkeypatch.setattr(numba_norms.gpu.device, "_loaded", {})
    monkeypatch.setattr(numba_norms.gpu.device, "capability", lambda device: (9, 0))
    monkeypatch.setattr(numba_norms.gpu.device, "Loaded", lambda code, device: made.append((code, device)) or object())
    monkeypatch.setattr(numba_norms.gpu.device.compiled, "kernel", lambda function, types, capability: types)
    load, x = numba_norms.gpu.device.load, np.zeros((4, 4), np.float32)
    same = [
        load("k", (x, np.float32(1)), 0),
        load("k", (x[1:], np.float32(2)), 0),
        load("k", (x[1:3], np.float32(2)), 0),
    ]
    assert len(set(map(id, same))) == 1 == len(made)
    others = [
        load("k", args, device)
        for args, device in [
            ((x, np.float32(1)), 1), ((x.T, np.float32(1)), 0), ((x[0], np.float32(1)), 0), ((x, np.float64(1)), 0),
            ((x.astype(np.float16), np.float32(1)), 0), (((), np.float32(1)), 0),
        ]
    ]  # fmt: skip
    assert len({id(found) for found in [same[0], *others]}) == 7 == len(made)
    assert load("other", (x, np.float32(1)), 0) is not same[0]


def test_words() -> None:
    x = np.zeros((3, 4, 5), np.float16)[:, ::-1, 1]
    assert words_of(x) == (0, 0, 12, 2, x.ctypes.data, 3, 4, 40, 2**64 - 10)
    assert words_of(np.zeros(()))[:4] == (0, 0, 1, 8) and len(words_of(np.zeros(()))) == 5
    for number in (np.float16(1.5), np.float32(-2), np.float64(0.1), np.int32(-1), np.int64(-5), np.bool_(True)):
        (word,) = words_of(number)
        assert np.uint64(word).tobytes()[: number.itemsize] == number.tobytes() and word >> 8 * number.itemsize == 0
    assert words_of(0.1) == words_of(np.float64(0.1)) and words_of(-5) == words_of(np.int64(-5))


def test_block_is_what_the_driver_takes() -> None:
    import ctypes

    block = Block([1, 2**64 - 1, 3])
    pointers = (ctypes.c_void_p * 3).from_address(block.address)
    assert [ctypes.c_uint64.from_address(at).value for at in pointers] == [1, 2**64 - 1, 3]  # type: ignore[arg-type]
    block.words[1] = 7
    assert ctypes.c_uint64.from_address(pointers[1]).value == 7  # type: ignore[arg-type]


if __name__ == "__main__":
    print(json.dumps(scenarios(sys.argv[1])))
