"""Sphinx: the course and the reference.  Pages are MyST text; code cells run at every build and may not fail."""

from __future__ import annotations

import importlib.metadata

project = "numba-norms"
author = "the numba-norms contributors"
copyright = f"2026, {author}"
release = importlib.metadata.version("numba-norms")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build", "jupyter_execute"]

html_theme = "furo"
html_title = "numba-norms"
html_static_path = ["_static"]
html_show_sphinx = False

myst_enable_extensions = ["deflist", "dollarmath", "colon_fence"]
myst_heading_anchors = 3

nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = True
napoleon_google_docstring = True
napoleon_use_rtype = False
