"""Which CUDA devices there are, by the driver alone: runs before anything is installed (`python tests/gpu/driver.py`).

Prints one JSON object: `cuda` (what the driver supports, as in 13000), `devices`, and `error`, "" if all is well.
Exit status 1 without a device.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

LIBRARIES = ("libcuda.so.1", "libcuda.so", "nvcuda.dll")

# Numbers of CUdevice_attribute, cuda.h
PROCESSORS, MEMORY_CLOCK, L2, MAJOR, MINOR = 16, 36, 38, 75, 76


def find() -> dict[str, Any]:
    """What the driver says."""
    driver = _library()
    if driver is None:
        return {"cuda": 0, "devices": [], "error": "no CUDA driver is installed"}
    if status := driver.cuInit(0):
        return {"cuda": 0, "devices": [], "error": f"cuInit failed with CUDA error {status}"}
    version, count = ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    driver.cuDeviceGetCount(ctypes.byref(count))
    devices = [_device(driver, ordinal) for ordinal in range(count.value)]
    return {"cuda": version.value, "devices": devices, "error": "" if devices else "the driver has no device"}


def _library() -> Any:
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _device(driver: Any, ordinal: int) -> dict[str, Any]:
    name, size, device = ctypes.create_string_buffer(256), ctypes.c_size_t(), ctypes.c_int()
    driver.cuDeviceGet(ctypes.byref(device), ordinal)
    driver.cuDeviceGetName(name, len(name), device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(size), device)

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        return value.value

    return {
        "name": name.value.decode(), "memory": size.value, "capability": f"{attribute(MAJOR)}.{attribute(MINOR)}",
        "processors": attribute(PROCESSORS), "l2": attribute(L2), "memory_clock_khz": attribute(MEMORY_CLOCK),
    }  # fmt: skip


if __name__ == "__main__":
    found = find()
    print(json.dumps(found))
    sys.exit(not found["devices"])
