"""Pictures of a run, drawn by matplotlib from a trace alone.

``coalescing`` (one request of a warp over sectors and cache lines), ``indices`` (which thread reads which element) and
``tree`` (how a row is reduced) each return matplotlib Axes.  Behind each stands a layout, ``Strip``, ``IndexMap`` and
``TreePlan``: made by ``.of(trace, …)``, drawn by ``.draw(ax)``, told in words by ``.describe()``.
"""

from simulator.draw.coalescing import Strip, coalescing
from simulator.draw.indices import IndexMap, indices
from simulator.draw.selection import NothingToDraw
from simulator.draw.tree import TreePlan, tree

__all__ = ["IndexMap", "NothingToDraw", "Strip", "TreePlan", "coalescing", "indices", "tree"]
