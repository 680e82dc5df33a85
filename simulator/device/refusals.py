"""What a program on a GPU would catch where a launch is refused: the errors of cuda.core, with our findings.

Rules of this file: it names classes and error codes; why a launch is refused is said by the finding.
"""

from __future__ import annotations

from collections.abc import Callable

from cuda.core._utils.cuda_utils import CUDAError

from simulator.errors import SimulationError
from simulator.findings import Launch
from simulator.machine.faults import Fault
from simulator.machine.limits import check_limits
from simulator.program import Program


class LaunchRefused(SimulationError, CUDAError):
    """A launch that the driver refuses, which cuda.core raises as ``CUDAError``; the message has the driver's code."""


class EmptyLaunch(SimulationError, ValueError):
    """A launch without blocks or threads, which cuda.core refuses before it asks the driver."""


def as_on_a_gpu(
    error: SimulationError, launch: Launch, program: Callable[[], Program], refusal: BaseException | None
) -> BaseException:
    """An error about a launch that does not begin in the class that a GPU's user knows; any other as it is.

    ``refusal`` is what Numba's compiler has said of the kernel.
    """
    kinds = [finding.kind for finding in error.findings]
    if kinds == ["does-not-compile"] and refusal is not None:
        return refusal
    if kinds != ["launch-limit"]:
        return error
    if min(*launch.grid, *launch.block) < 1:
        return EmptyLaunch(str(error), findings=error.findings, trace=error.trace)
    return LaunchRefused(f"{error} ({_code(launch, program)})", findings=error.findings, trace=error.trace)


def _code(launch: Launch, program: Callable[[], Program]) -> str:
    """What ``cuLaunchKernelEx`` would return."""
    try:
        found = program()
        check_limits(found, launch.grid, launch.block, launch.dynamic_shared)
    except (Fault, SimulationError):
        return "CUDA_ERROR_INVALID_VALUE"
    return "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE" if found.cooperative else "CUDA_ERROR_INVALID_VALUE"
