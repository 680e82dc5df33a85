"""What numba-cuda asks of a kernel's code library, answered without code.

Rules of this file: what is not here is asked of Numba's own kernel (``compiled``), which needs a compiler.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class Library:
    """The code library of a kernel: the function that ``forall`` asks for its largest block, else Numba's."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def get_cufunc(self) -> Function:
        """What the driver would have loaded."""
        return Function(self._kernel)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel.compiled._codelibrary, name)


class Function:
    """What the driver makes of a kernel: its largest block; how a card shares out its cache changes nothing here."""

    def __init__(self, kernel: Any) -> None:
        self.name = kernel.__name__
        self.kernel = SimpleNamespace(attributes=SimpleNamespace(max_threads_per_block=kernel.max_threads_per_block))

    def cache_config(self, prefer_equal: bool = False, prefer_cache: bool = False, prefer_shared: bool = False) -> None:
        """Nothing to divide."""

    def set_shared_memory_carveout(self, carveout: int) -> None:
        """Nothing to divide; what a driver would refuse is refused."""
        if not -1 <= carveout <= 100:
            raise ValueError("Carveout must be between -1 and 100")


def launch_bounds(given: Any) -> tuple[int, ...]:
    """The launch bounds of a kernel: threads of a block, blocks of an SM, blocks of a cluster."""
    bounds = () if given is None else tuple(given) if isinstance(given, tuple | list) else (int(given),)
    if len(bounds) > 3:
        raise ValueError(f"Got {len(bounds)} launch bounds: at most three are taken")
    return bounds
