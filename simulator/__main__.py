"""Entry point of the console script ``numba-sim`` and of ``python -m simulator``."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(tokens: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 0 (clean), 1 (findings of severity error) or 2 (could not run)."""
    from simulator.cli.app import run

    return run(tokens)


if __name__ == "__main__":
    sys.exit(main())
