"""``pytest --cuda-simulator[=check]``: tests that launch Numba-CUDA kernels run on a machine without a GPU.

Rules of this file: pytest imports it in every run of everybody who has installed the package.  So it imports pytest
and nothing else; the option alone brings in ``session``, which does the work.
"""

from __future__ import annotations

import pytest

SESSION = "cuda-simulator-session"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Two options, not one with an optional value, which would swallow the path in ``--cuda-simulator tests``."""
    group = parser.getgroup("cuda-simulator", "Numba-CUDA kernels on the CPU")
    group.addoption(
        "--cuda-simulator",
        action="store_const",
        const="run",
        dest="cuda_simulator",
        help="launches of numba.cuda run on a stand-in device",
    )
    group.addoption(
        "--cuda-simulator=check",
        action="store_const",
        const="check",
        dest="cuda_simulator",
        help="the same in several orders of execution; races, missing barriers and other findings fail the test",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The mark, known with or without the option; and the device, where the plug-in was loaded after its hook."""
    config.addinivalue_line(
        "markers",
        "cuda_findings(expect=[...], ignore=[...]): kinds of findings that --cuda-simulator=check must see in the test,"
        " or tolerates there",
    )
    _open(config, config.getoption("cuda_simulator"))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Open the device before any conftest is imported, since they ask whether there is one."""
    _open(early_config, early_config.known_args_namespace.cuda_simulator)


def _open(config: pytest.Config, mode: str | None) -> None:
    if mode is not None and not config.pluginmanager.has_plugin(SESSION):
        from simulator.pytest_plugin.session import Session

        config.pluginmanager.register(Session(config, check=mode == "check"), SESSION)
