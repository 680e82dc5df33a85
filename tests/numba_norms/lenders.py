"""Objects that lend memory of the CPU as if it were a device's: by __cuda_array_interface__, and by DLPack."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from numba_norms.arrays.addresses import address_of

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class ByInterface:
    """Offers the interface; keywords replace its entries, None removes one."""

    def __init__(self, host: np.ndarray, **entries: Any) -> None:
        self.dtype = host.dtype
        contiguous = host.flags.c_contiguous
        interface = {
            "shape": host.shape,
            "typestr": "<V2" if host.dtype == BFLOAT16 else host.dtype.str,
            "data": (address_of(host) if host.size else 0, not host.flags.writeable),
            "strides": None if contiguous else host.strides,
            "version": 3,
        }
        self.__cuda_array_interface__ = {**interface, **entries}
        self.host = host


class ByDLPack:
    """Exports NumPy's capsules, relabelled; ``versioned`` as since DLPack 1.0."""

    def __init__(self, host: np.ndarray, device: tuple[int, int] = (2, 0), *, versioned: bool = True) -> None:
        self._host, self._device, self._versioned = host, device, versioned
        self.streams: list[int] = []
        """The consumers' streams, one per export"""

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, *, stream: int, **newer: Any) -> Any:
        if newer and not self._versioned:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        self.streams.append(stream)
        bits = self._host.view(np.uint16) if self._host.dtype == BFLOAT16 else self._host
        capsule = bits.__dlpack__(**newer)
        kind = b"dltensor_versioned" if newer else b"dltensor"
        tensor = _pointer(capsule, kind) + (32 if newer else 0)  # behind version, context, deleter and flags
        ctypes.c_int32.from_address(tensor + 8).value, ctypes.c_int32.from_address(tensor + 12).value = self._device
        if self._host.dtype == BFLOAT16:
            ctypes.c_uint8.from_address(tensor + 20).value = 4
        return capsule


def _pointer(capsule: Any, kind: bytes) -> int:
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    return get(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, kind)
