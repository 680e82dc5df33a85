"""The first contact with a card: facts about it, then one launch by our own route, a step at a time.

`python tests/gpu/probe.py` goes on until a step fails, and prints that error in full: everything after it would fail
for the same reason.  Exit status 1 then.  Every step is written to $OUT/results.jsonl.
"""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.gpu import driver
from tests.gpu.record import note

PACKAGES = (
    "numba", "numba-cuda", "cuda-core", "cuda-bindings", "numpy", "ml_dtypes", "cupy-cuda12x", "cupy-cuda13x", "torch",
    "triton", "pytest", "hypothesis",
)  # fmt: skip


def facts() -> dict[str, Any]:
    """What runs here."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return {**driver.find(), "python": sys.version.split()[0], "system": platform.platform(), "packages": versions}


class Probe:
    """A chain of steps; each leaves what the next one needs."""

    def __init__(self) -> None:
        rows, columns = 33, 1000
        draw = np.random.default_rng(0).standard_normal
        self.x, self.weight = (draw(shape).astype(np.float16) for shape in ((rows, columns), columns))
        self.steps: tuple[Callable[[], Any], ...] = (
            self.compute_capability, self.array_of_cupy, self.place, self.compiled, self.loaded, self.launched,
            self.right, self.on_a_stream, self.public_function,
        )  # fmt: skip

    def compute_capability(self) -> Any:
        from numba_norms.gpu import device

        self.device = device
        return device.capability(0)

    def array_of_cupy(self) -> Any:
        from tests.gpu.card import get, put

        self.get, self.arrays = get, {"x": put(self.x), "weight": put(self.weight), "y": put(np.zeros_like(self.x))}
        self.arrays["rstd"] = put(np.zeros(len(self.x), np.float32))
        return str(self.arrays["x"].data)

    def place(self) -> Any:
        from numba_norms.arrays import Array

        self.memory = {name: Array.of(array, name).memory for name, array in self.arrays.items()}
        self.home = Array.of(self.arrays["x"]).place
        return f"{self.home!r}, stream {self.home.stream():#x}, {self.memory['x']!r}"

    def compiled(self) -> Any:
        from importlib import import_module

        from numba_norms.gpu import compiled

        memory = self.memory
        launch = import_module("numba_norms.rms_norm").launch
        self.launch = launch(memory["x"], memory["weight"], memory["y"], memory["rstd"], 1e-6)
        types = tuple(map(compiled.type_of, self.launch.args))
        code = compiled.kernel(self.launch.kernel, types, self.device.capability(0))
        return f"{code.entry}: {len(code.cubin)} bytes, {code.registers} registers, {code.spills} bytes spilled"

    def loaded(self) -> Any:
        return str(self.device.load(self.launch.kernel, self.launch.args, 0))

    def launched(self) -> Any:
        import cupy

        self.launch.run(self.home)
        cupy.cuda.Device(0).synchronize()
        return f"{self.launch.grid} blocks of {self.launch.block}"

    def right(self) -> Any:
        return self._error(self.arrays["y"])

    def on_a_stream(self) -> Any:
        import cupy

        self.arrays["y"].data.memset(0xFF, self.arrays["y"].nbytes)
        cupy.cuda.Device(0).synchronize()  # the stream below does not wait for it by itself
        with cupy.cuda.Stream(non_blocking=True) as stream:
            self.launch.run(self.home)
            stream.synchronize()
        return self._error(self.arrays["y"])

    def public_function(self) -> Any:
        from numba_norms import rms_norm

        twice = [rms_norm(self.arrays["x"], self.arrays["weight"]) for _ in range(2)]  # in full, then by its binding
        return [self._error(y) for y in twice]

    def _error(self, y: Any) -> float:
        from numba_norms import reference

        expected = reference.rms_norm(self.x, self.weight)
        error = float(np.max(np.abs(self.get(y).astype(np.float64) - expected) / (np.abs(expected) + 1e-3)))
        if not error < 2e-3:
            raise AssertionError(f"the result is wrong: relative error {error}")
        return error


def main() -> int:
    note("fact", **facts())
    probe = Probe()
    for step in probe.steps:
        name, begin = step.__name__, time.monotonic()
        try:
            said = step()
        except BaseException:  # noqa: BLE001  # whatever it is, it is the finding
            error = traceback.format_exc()
            note("probe", step=name, ok=False, error=error)
            print(f"probe: {name} FAILED\n{error}", flush=True)
            return 1
        note("probe", step=name, ok=True, said=said, seconds=round(time.monotonic() - begin, 3))
        print(f"probe: {name}: {said}", flush=True)
    kernels_of_cupy(probe.arrays["x"])
    return 0


def kernels_of_cupy(x: Any) -> None:
    """A few tests and benchmarks need CuPy's own kernels, for which it needs the CUDA headers; ours need none."""
    try:
        print(f"probe: kernels of CuPy: {float((x[:1] * 0 + 1).sum())}")
    except Exception as error:  # noqa: BLE001
        note("skipped", what="CuPy's own kernels", why=f"{type(error).__name__}: {error}"[:2000])
        print(f"probe: CuPy's own kernels do not run: {error}")


if __name__ == "__main__":
    sys.exit(main())
