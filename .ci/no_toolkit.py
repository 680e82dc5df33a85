"""Fails when a simulated launch needs anything of CUDA that did not come with `pip install`.

Runs the main job in this process and looks at which shared libraries it has loaded (Linux: /proc/self/maps): no NVVM,
NVRTC, nvJitLink or driver, and whatever else has CUDA in its name lies inside this environment.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path

COMPILERS = re.compile(r"lib(nvvm|nvrtc|nvJitLink|cuda)\.so")


def loaded() -> set[Path]:
    """The files that are mapped into this process."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return {Path(fields[5]) for fields in (line.split(maxsplit=5) for line in lines) if len(fields) == 6}


def main() -> int:
    """Traces a kernel, then lists what should not be there; exit status 1 if there is anything."""
    from simulator.__main__ import main as numba_sim

    sys.argv = ["numba-sim", "trace", "rms_norm", "--shape", "1x64", "--threads", "32"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        numba_sim()
    environment = Path(sys.prefix).resolve()
    cuda = sorted(path for path in loaded() if ".so" in path.name and "cuda" in str(path).lower())
    foreign = [path for path in cuda if environment not in path.resolve().parents]
    foreign += [path for path in loaded() if COMPILERS.search(path.name)]
    for path in foreign:
        print(f"loaded, but should not be: {path}")
    if not foreign:
        print(f"{len(cuda)} files of CUDA's Python bindings and runtime loaded, all of this environment; no compiler")
    return int(bool(foreign))


if __name__ == "__main__":
    sys.exit(main())
