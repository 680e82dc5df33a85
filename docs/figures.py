"""Draws the pictures that are committed, each from a run: `python docs/figures.py [FOLDER]`.

Everything else in the docs is drawn while the page is built.  A test draws these again and compares them with the
committed copies in docs/_static.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")

from matplotlib import pyplot as plt

from numba_norms import builtin
from simulator import draw, simulate

STATIC = Path(__file__).parent / "_static"


def readme(path: Path) -> None:
    """A coalesced load of 256 threads, and the reduction tree of 4: the RMSNorm kernel twice."""
    wide = builtin.rms_norm((1, 4096), "float32", threads=256)
    small = builtin.rms_norm((1, 16), "float32", threads=4)
    load = simulate(wide.kernel)[wide.grid, wide.block](*wide.args)
    tree = simulate(small.kernel, lineage=True)[small.grid, small.block](*small.args)
    stack(path, draw.Strip.of(load, "x"), draw.TreePlan.of(tree, "y"))


def stack(path: Path, *layouts: draw.Strip | draw.TreePlan) -> None:
    """Layouts above each other, each at its own size."""
    width, height = max(layout.size[0] for layout in layouts), sum(layout.size[1] for layout in layouts)
    figure, top = plt.figure(figsize=(width, height)), height
    for layout in layouts:
        top -= layout.size[1]
        layout.draw(figure.add_axes((0, top / height, layout.size[0] / width, layout.size[1] / height)))
    figure.savefig(path, dpi=144, metadata={"Software": None})
    plt.close(figure)


FIGURES = {"readme.png": readme}


def main(folder: Path) -> None:
    """Draws every figure into ``folder``."""
    for name, figure in FIGURES.items():
        figure(folder / name)
        print(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else STATIC)
