"""What a program on a GPU would catch where a launch is refused: the errors of cuda.core, with our findings.

Rules of this file: it names classes and error codes; why a launch is refused is said by the finding, and which limit
it is by its ``limit_of``.  cuda.core has ``CUDAError`` in a private module only (``cuda.core._utils.cuda_utils``), from
which a program that catches it has to import it, too.
"""

from __future__ import annotations

from cuda.core._utils.cuda_utils import CUDAError

from simulator.errors import SimulationError

CODES = {
    **dict.fromkeys(("grid", "block", "launch_bounds", "shared", "local"), "CUDA_ERROR_INVALID_VALUE"),
    "cooperative": "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
}
"""What ``cuLaunchKernelEx`` returns, by the limit that a launch exceeds."""


class LaunchRefused(SimulationError, CUDAError):
    """A launch that the driver refuses, which cuda.core raises as ``CUDAError``; the message has the driver's code."""


class EmptyLaunch(SimulationError, ValueError):
    """A launch without blocks or threads, which cuda.core refuses before it asks the driver."""


def as_on_a_gpu(error: SimulationError) -> SimulationError:
    """An error about a launch-limit of a card in the class that a GPU's user knows; any other as it is."""
    limits = [finding.limit_of for finding in error.findings]
    if limits == ["empty"]:
        return EmptyLaunch(str(error), findings=error.findings, trace=error.trace)
    if len(limits) == 1 and limits[0] in CODES:
        return LaunchRefused(f"{error} ({CODES[limits[0]]})", findings=error.findings, trace=error.trace)
    return error
