"""A stand-in for torch whose CUDA tensors lie in the CPU's memory: as much of torch as the norms ask for.

torch itself is too large to be installed for this, and without a driver it has no CUDA tensors.  That the stand-in
answers as torch does is checked where torch is installed (test_hosts.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from numba_norms.arrays.addresses import address_of


class DType:
    """A dtype of torch: a name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}
NUMPY |= {"int64": np.int64, "uint8": np.uint8, "float8_e5m2": ml_dtypes.float8_e5m2}
DTYPES = {np.dtype(kind): DType(name) for name, kind in NUMPY.items()}


@dataclass(frozen=True)
class Device:
    """A CUDA device."""

    index: int | None

    def __str__(self) -> str:
        return f"cuda:{self.index}"


class Tensor:
    """A tensor over the very elements of a NumPy array."""

    is_cuda = True
    requires_grad = False
    negated = False

    def __init__(self, host: np.ndarray, device: int | None = 0) -> None:
        self.host = host
        self.device = Device(device)
        self.dtype = DTYPES[host.dtype]
        self.layout = Torch.strided

    @property
    def shape(self) -> tuple[int, ...]:
        return self.host.shape

    @property
    def ndim(self) -> int:
        return self.host.ndim

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.host.itemsize for step in self.host.strides)

    def data_ptr(self) -> int:
        return address_of(self.host) if self.host.size else 0

    def is_neg(self) -> bool:
        return self.negated

    def permute(self, *order: int) -> Tensor:
        return Tensor(self.host.transpose(order), self.device.index)

    def reshape(self, shape: tuple[int, ...]) -> Tensor:
        return Tensor(self.host.reshape(shape), self.device.index)

    def copy_(self, source: Tensor) -> Tensor:
        np.copyto(self.host, source.host)
        return self

    def to(self, dtype: DType) -> Tensor:
        return Tensor(self.host.astype(NUMPY[dtype.name]), self.device.index)

    def __mul__(self, other: Any) -> Tensor:
        return Tensor(self.host * _host(other), self.device.index)

    def __add__(self, other: Any) -> Tensor:
        return Tensor(self.host + _host(other), self.device.index)

    def __sub__(self, other: Any) -> Tensor:
        return Tensor(self.host - _host(other), self.device.index)

    def __pow__(self, power: int) -> Tensor:
        return Tensor(self.host**power, self.device.index)

    __rmul__ = __mul__

    def __getitem__(self, key: tuple[()]) -> Tensor:
        assert key == ()
        return self

    @property
    def __cuda_array_interface__(self) -> Any:
        raise AssertionError("torch's interface has been wrong about bfloat16; nobody needs it")

    def fill_(self, value: float) -> Tensor:
        self.host.fill(value)
        return self


class Torch(ModuleType):
    """The module."""

    strided = object()

    def __init__(self) -> None:
        super().__init__("torch")
        self.Tensor = Tensor
        self.streams = {0: 0, 1: 0}
        self.grad = True
        self.is_grad_enabled = lambda: self.grad
        self.cuda = SimpleNamespace(current_stream=lambda d: SimpleNamespace(cuda_stream=self.streams[d]))
        for dtype in DTYPES.values():
            setattr(self, str(dtype).removeprefix("torch."), dtype)

    def empty(self, shape: tuple[int, ...], *, dtype: DType, device: str) -> Tensor:
        kind, _, index = device.partition(":")
        assert kind == "cuda"
        host = np.empty(shape, next(known for known, name in DTYPES.items() if name is dtype))
        host.view(np.uint8).fill(0xAB) if host.ndim else None
        return Tensor(host, int(index))


def _host(value: Any) -> Any:
    return value.host if isinstance(value, Tensor) else value


def array(host: np.ndarray, device: int = 0, **attributes: Any) -> Tensor:
    """A tensor over ``host``, with attributes of its own."""
    tensor = Tensor(host, device)
    for name, value in attributes.items():
        setattr(tensor, name, value)
    return tensor
