"""Fixtures of the simulator's tests."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture
def quiet() -> Iterator[None]:
    """No warnings for what lanes may hold, as in a launch."""
    with np.errstate(all="ignore"):
        yield
